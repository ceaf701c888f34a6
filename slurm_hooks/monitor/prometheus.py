"""What the monitor shows, in Prometheus's text format. Pure.

GPUs carry dcgm-exporter's names and labels, so its dashboards work. Labels hold numbers, UUIDs, the node's name and
the model's name and nothing that a user chose.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from slurm_hooks.monitor.metrics import METRICS
from slurm_hooks.monitor.views import JobView, View
from slurm_hooks.record_text import printable

MIB = 2**20
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SM_MEAN = "rad_gpu_sm_active_mean"
JOB_LABEL = "hpc_job"  # as dcgm-exporter calls it; a label "job" is Prometheus's own
JOB_SM = "rad_job_sm_active"
JOB_WINDOW = "rad_job_window_seconds"

_JOB_MEANS = (
    ("smact", JOB_SM, "The job's part of SM activity, mean over the window."),
    ("smocc", "rad_job_sm_occupancy", "The job's part of SM occupancy, mean over the window."),
    ("tensor", "rad_job_tensor_active", "The job's part of tensor pipe activity, mean over the window."),
    ("dram", "rad_job_dram_active", "The job's part of DRAM activity, mean over the window."),
    ("pcie_tx", "rad_job_pcie_tx_bytes_per_second", "The job's part of bytes sent over PCIe, mean over the window."),
    (
        "pcie_rx",
        "rad_job_pcie_rx_bytes_per_second",
        "The job's part of bytes received over PCIe, mean over the window.",
    ),
    ("power_w", "rad_job_power_watts", "The job's part of power, mean over the window."),
)

# Labels as they stand on the page, and the value.
Sample = tuple[str, float]


def render(view: View, host: str) -> str:
    """The whole page.

    Args:
        view: what there is.
        host: the node's name.
    """
    lines: list[str] = []
    devices = [
        (
            _labels(
                {"gpu": g.index, "UUID": g.uuid, "device": f"nvidia{g.index}", "modelName": g.name, "Hostname": host}
            ),
            g,
        )
        for g in view.gpus
    ]
    for metric in METRICS:
        samples = [(labels, gpu.values[metric.key]) for labels, gpu in devices if metric.key in gpu.values]
        _family(lines, metric.name, metric.kind, metric.about, samples)
    means = [(labels, gpu.means["smact"]) for labels, gpu in devices if "smact" in gpu.means]
    _family(lines, SM_MEAN, "gauge", "SM activity, mean over the window.", means)
    lost = [(labels, float(gpu.lost)) for labels, gpu in devices]
    _family(lines, "rad_gpu_lost", "gauge", "1 where the GPU does not answer.", lost)
    counted = [(labels, float(gpu.processes)) for labels, gpu in devices if gpu.processes is not None]
    _family(lines, "rad_gpu_processes", "gauge", "Compute processes on the GPU.", counted)
    jobs = [(labels, float(gpu.jobs)) for labels, gpu in devices]
    _family(lines, "rad_gpu_jobs", "gauge", "Jobs with processes on the GPU.", jobs)
    _jobs(lines, view.jobs, host)
    _family(lines, "rad_monitor_looks_total", "counter", "Looks at the GPUs.", [("", float(view.looks))])
    _family(
        lines,
        "rad_monitor_last_look_timestamp_seconds",
        "gauge",
        "Time of the last look.",
        [("", float(int(view.taken)))],
    )
    _family(lines, "rad_monitor_info", "gauge", "Who counts.", [(_labels({"backend": view.backend}), 1.0)])
    return "\n".join(lines) + "\n"


def _jobs(lines: list[str], jobs: Sequence[JobView], host: str) -> None:
    parts = [
        (_labels({JOB_LABEL: job.job, "gpu": part.gpu, "UUID": part.uuid, "Hostname": host}), part)
        for job in jobs
        for part in job.gpus
    ]
    for key, name, about in _JOB_MEANS:
        _family(lines, name, "gauge", about, [(labels, part.means[key]) for labels, part in parts if key in part.means])
    _family(lines, JOB_WINDOW, "gauge", "Time that the job's means cover.", [(at, part.window_s) for at, part in parts])
    used = [(labels, part.mib * MIB) for labels, part in parts if part.mib is not None]
    _family(lines, "rad_job_memory_used_bytes", "gauge", "GPU memory of the job's processes.", used)
    processes = [(labels, float(part.processes)) for labels, part in parts]
    _family(lines, "rad_job_processes", "gauge", "The job's processes on the GPU.", processes)
    whole = [(_labels({JOB_LABEL: job.job, "Hostname": host}), job) for job in jobs]
    peaks = [(labels, job.peak_mib * MIB) for labels, job in whole if job.peak_mib is not None]
    _family(lines, "rad_job_memory_peak_bytes", "gauge", "Peak of the job's GPU memory in this run.", peaks)
    caps = [(labels, job.cap_mib * MIB) for labels, job in whole if job.cap_mib is not None]
    _family(lines, "rad_job_memory_cap_bytes", "gauge", "GPU memory that the job was allotted.", caps)
    energy = [(labels, job.energy_j) for labels, job in whole if job.energy_j is not None]
    _family(lines, "rad_job_energy_joules_total", "counter", "The job's part of energy in this run.", energy)
    seen = [(labels, job.seconds) for labels, job in whole]
    _family(lines, "rad_job_seconds_total", "counter", "Time that the job was seen on a GPU in this run.", seen)
    over = [(labels, float(job.over)) for labels, job in whole]
    _family(lines, "rad_job_over_cap_total", "counter", "Times that the job was told of or ended over its cap.", over)


def _family(lines: list[str], name: str, kind: str, about: str, samples: Iterable[Sample]) -> None:
    """One metric with all its samples; one that nobody has is left out."""
    shown = [f"{name}{labels} {_value(value)}" for labels, value in samples]
    if shown:
        lines += [f"# HELP {name} {about}", f"# TYPE {name} {kind}", *shown]


def _labels(labels: Mapping[str, str | int]) -> str:
    return "{" + ",".join(f'{key}="{_escape(str(value))}"' for key, value in labels.items()) + "}"


def _escape(text: str) -> str:
    return printable(text).replace("\\", "\\\\").replace('"', '\\"')


def _value(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 2**53 else f"{value:.9g}"
