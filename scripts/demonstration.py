"""What scripts/demo shows: RAD on a one-machine cluster, step by step, with real submissions.

Touches a development cluster of its own (scripts/devcluster) and what that one touches.
"""

from __future__ import annotations

import argparse
import contextlib
import shlex
import shutil
import sys
import textwrap
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.demo_data import bert_base, resnet50
from scripts.devcluster import Cluster, ClusterError, Layout, Rad, free_base_port, processes
from scripts.devcluster.ending import status

CHECKOUT = Path(__file__).resolve().parents[1]
DIRECTORY = Path("/tmp/rad-demo")  # noqa: S108  (a folder of root's, made with mode 0755)
GPUS = 4
STAND_IN_MODEL = "h200"
STAND_IN_MEMORY_MIB = 143771
USER = "alice"
SECONDS = 25
PAYLOAD = f"{DIRECTORY}/train.py"
CONFIG = """
[radd]
poll_s = 1

# mug packs: of the GPUs with room, the fullest. A job of which nothing is known counts little, so that memory decides.
[defaults]
placement = "mug"
default_smact = 0.05
gpu_memory_mib = {memory}
"""


@dataclass(frozen=True)
class Job:
    """One job of the demonstration.

    Attributes:
        name: its name and that of its script.
        story: what it is to show.
        head: `#SBATCH` and `#RAD` lines.
        command: what it runs.
    """

    name: str
    story: str
    head: Sequence[str]
    command: str

    def script(self) -> str:
        """The batch script."""
        return "\n".join(["#!/bin/bash", f"#SBATCH --job-name={self.name}", *self.head, self.command, ""])


@dataclass(frozen=True)
class Gpus:
    """GPUs of this machine, or stand-ins.

    Attributes:
        devices: device files; empty where there is no GPU.
        model: name of the feature that stands for the model.
        memory_mib: memory of one, in MiB.
    """

    devices: tuple[str, ...]
    model: str
    memory_mib: int


def jobs(python: str, memory_mib: int) -> tuple[Job, ...]:
    """The jobs, in the order in which they are submitted, for GPUs of `memory_mib`."""
    claim = max(2, memory_mib // 1024 // 10)
    needs = claim * 5 // 4 + 1  # more than its share, less than the share that it gets the second time
    one_gpu = "#SBATCH --gres=gpu:1"

    def run(name: str, gib: int, seconds: int = SECONDS) -> str:
        return f"{shlex.quote(python)} {PAYLOAD} {name} {seconds} {gib}"

    return (
        Job(
            "resnet50",
            "A training whose #RAD line names a model summary: RAD estimates its memory and asks for a share of a GPU.",
            (one_gpu, "#RAD model=resnet50.txt batch_size=128 optimizer=adam"),
            run("resnet50", 8),
        ),
        Job(
            "bert",
            "A second training. Both fit on one GPU, so both run on it at the same time.",
            (one_gpu, "#RAD model=bert.txt batch_size=32 seq_len=128 optimizer=adamw"),
            run("bert", 6),
        ),
        Job(
            "alone",
            "A job that wants its GPU for itself.",
            (one_gpu, "#RAD policy=exclusive"),
            run("alone", 4),
        ),
        Job(
            "plain",
            "A job without #RAD lines: RAD leaves it as it is, and it gets a whole GPU as ever.",
            (one_gpu,),
            run("plain", 4),
        ),
        Job(
            "misspelt",
            "A job with a slip in a #RAD line: refused at once, with the line and the cure.",
            (one_gpu, "#RAD model=resnet50.txt batch_sise=128"),
            run("misspelt", 4),
        ),
        Job(
            "greedy",
            "A job that claims less memory than it needs: it will run out of it in its first run.",
            (one_gpu, f"#RAD memory={claim}G"),
            run("greedy", needs, 5),
        ),
    )


def find_gpus(most: int | None = GPUS) -> Gpus:
    """GPUs that NVML finds, up to a number of them, else stand-ins."""
    try:
        import pynvml  # noqa: PLC0415  (not there before the virtual environment is)
    except ImportError:
        return Gpus((), STAND_IN_MODEL, STAND_IN_MEMORY_MIB)
    try:
        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(count if most is None else min(most, count))]
        devices = tuple(f"/dev/nvidia{pynvml.nvmlDeviceGetMinorNumber(handle)}" for handle in handles)
        memory = min(int(pynvml.nvmlDeviceGetMemoryInfo(handle).total) for handle in handles) // 2**20
        name = str(pynvml.nvmlDeviceGetName(handles[0])).lower().replace("nvidia ", "").replace(" ", "-")
    except (pynvml.NVMLError, ValueError, IndexError):
        return Gpus((), STAND_IN_MODEL, STAND_IN_MEMORY_MIB)
    return Gpus(devices, name, memory)


class Show:
    """Prints what happens, and does it."""

    def __init__(self, python: Path) -> None:
        self.begin = time.monotonic()
        self.python = python
        self.gpus = find_gpus()
        with contextlib.suppress(FileExistsError):
            DIRECTORY.mkdir(mode=0o755)
        layout = Layout.load(DIRECTORY)
        if layout is None or not processes.members(DIRECTORY):
            layout = Layout(
                DIRECTORY,
                free_base_port(DIRECTORY, 1),
                gpus=len(self.gpus.devices) or GPUS,
                gpu_model=self.gpus.model,
                real_gpus=self.gpus.devices,
            )
        config = DIRECTORY / "site.toml"
        config.write_text(CONFIG.format(memory=self.gpus.memory_mib), encoding="utf-8")
        self.cluster = Cluster(layout, Rad(CHECKOUT, python, config), self.note)
        self.ids: dict[str, int] = {}

    def note(self, line: str) -> None:
        """A line about the set-up."""
        print(f"  [{time.monotonic() - self.begin:4.0f} s] {line}", flush=True)

    def title(self, text: str) -> None:
        """The heading of a step."""
        bold, plain = ("\033[1m", "\033[0m") if sys.stdout is not None and sys.stdout.isatty() else ("", "")
        print(f"\n{bold}== {text}{plain}", flush=True)

    def command(self, *argv: str) -> None:
        """A command as the user types it, and what it says."""
        print(f"{USER}$ {' '.join(argv)}", flush=True)
        done = self.cluster.run(argv, user=USER, env={"COLUMNS": "116"})
        print(textwrap.indent(done.err + done.out, "  ").rstrip(), flush=True)

    def run(self) -> None:
        """All of it."""
        self.set_up()
        for number, job in enumerate(jobs(self.cluster.rad_python(), self.gpus.memory_mib), start=1):
            self.title(f"{number}. {job.story}")
            self.submit(job)
        self.title("Who holds which GPU now")
        for name in ("resnet50", "bert", "alone", "plain"):
            self.cluster.wait_state(self.ids[name], "RUNNING", "COMPLETED")
        self.command("radctl", "top", "--once")
        self.sharing()
        self.title("The greedy job ran out of memory: Epilog saw the framework's error in its log and requeued it")
        self.cluster.wait_for("it has been requeued", lambda: self.restarts("greedy") == 1, 60)
        self.cluster.wait_state(self.ids["greedy"], "COMPLETED", "FAILED", deadline_s=60)
        self.await_record("greedy")
        self.command("radctl", "explain", str(self.ids["greedy"]))
        self.title("The others end")
        for name, job_id in self.ids.items():
            print(f"  {name:9} {self.cluster.wait_state(job_id, deadline_s=90)}", flush=True)
        self.command("cat", f"slurm-{self.ids['resnet50']}.out")
        self.await_record("resnet50")
        self.command("radctl", "explain", str(self.ids["resnet50"]))
        self.title("What sharing did")
        self.command("radctl", "report")
        self.last_words()

    def set_up(self) -> None:
        """The cluster, the users' files."""
        self.title("A Slurm on this machine: munge, MariaDB, slurmdbd, slurmctld, slurmd, and radd")
        count = self.cluster.layout.gpus
        if self.gpus.devices:
            print(f"  {count} GPU(s) that NVML finds: {', '.join(self.gpus.devices)}")
        else:
            print(f"  NVML finds no GPU here: {count} stand-in device nodes, reckoned as {STAND_IN_MODEL}.")
            print("  Scheduling, shares and recovery are real; the jobs' payloads are stand-ins and train nothing.")
        self.cluster.stop("radd")  # one that runs already may have another configuration
        self.cluster.up()
        self.cluster.cancel_all()
        for name in ("slurm-*.out", "*.sh"):
            for old in self.cluster.home(USER).glob(name):
                old.unlink()
        for target, text in (
            (Path(PAYLOAD), (CHECKOUT / "scripts" / "demo_data" / "train.py").read_text(encoding="utf-8")),
            (self.cluster.home(USER) / "resnet50.txt", resnet50()),
            (self.cluster.home(USER) / "bert.txt", bert_base()),
        ):
            target.write_text(text, encoding="utf-8")

    def submit(self, job: Job) -> None:
        """Show a script and submit it."""
        path = self.cluster.home(USER) / f"{job.name}.sh"
        path.write_text(job.script(), encoding="utf-8")
        print(textwrap.indent(job.script().rstrip(), "  | "))
        print(f"{USER}$ sbatch {path.name}", flush=True)
        said = self.cluster.run(["sbatch", path.name], user=USER)
        print(textwrap.indent(said.err + said.out, "  ").rstrip(), flush=True)
        if said.code == 0:
            self.ids[job.name] = said.job_id
        elif job.name != "misspelt":
            raise ClusterError(f"{job.name} was not submitted: {said.err}")

    def sharing(self) -> None:
        """Say whether the two trainings share a GPU, from what Slurm allocated."""
        held = [self.cluster.job(self.ids[name]) for name in ("resnet50", "bert")]
        devices = [
            {item.partition("=")[0].rpartition(":")[2] for item in job["TRES"].split(",") if "gres/mps:" in item}
            for job in held
        ]
        if devices[0] and devices[0] == devices[1]:
            print(f"  resnet50 and bert share GPU {devices[0].pop()}; without RAD each would hold one alone.")
        else:
            raise ClusterError(f"resnet50 and bert do not share a GPU: {devices}")

    def restarts(self, name: str) -> int:
        """How often a job was requeued."""
        return int(self.cluster.job(self.ids[name]).get("Restarts", "0"))

    def await_record(self, name: str) -> None:
        """Wait until slurmdbd has a job's outcome."""
        argv = ["radctl", "explain", str(self.ids[name])]
        self.cluster.wait_for(
            "slurmdbd has the outcome", lambda: "; completed" in self.cluster.run(argv, user=USER).out, 60
        )

    def last_words(self) -> None:
        """What to try next."""
        self.title(f"That was it, in {time.monotonic() - self.begin:.0f} s. The cluster still runs; to try next:")
        for command, meaning in (
            (f"scripts/dev-cluster shell --dir {DIRECTORY}", f"a shell as {USER}; there:"),
            ("  sbatch resnet50.sh; radctl top --once", "submit another one"),
            ("  radctl estimate resnet50.txt --batch-size 256", "what would another batch size need?"),
            ("  radctl decide resnet50.sh", "what would become of the script now?"),
            (f"  radctl explain {self.ids['bert']}", "the story of any job"),
            ("scripts/demo --down", "end it all"),
        ):
            print(f"  {command:52}{meaning}")


def main(arguments: list[str] | None = None) -> int:
    """Run the demonstration, or end it; returns the exit status."""
    parser = argparse.ArgumentParser(prog="scripts/demo", description="RAD on a one-machine cluster, step by step.")
    parser.add_argument("--down", action="store_true", help="end the demonstration's cluster and remove its files")
    args = parser.parse_args(arguments)
    return status(end if args.down else show, "scripts/demo --down ends what runs")


def show() -> int:
    """All of it; returns the exit status."""
    Show(Path(sys.executable)).run()
    return 0


def end() -> int:
    """End what runs of the demonstration, and remove its folder; returns the exit status."""
    layout = Layout.load(DIRECTORY)
    if layout is not None:
        Cluster(layout, say=print).destroy()
        return 0
    # What a set-up that was broken off left, or a cluster whose folder somebody removed.
    left = processes.members(DIRECTORY)
    if not left and not DIRECTORY.exists():
        print("the demonstration does not run")
        return 0
    processes.stop(DIRECTORY, left)
    shutil.rmtree(DIRECTORY, ignore_errors=True)
    print("what was left of the demonstration is gone")
    return 0


if __name__ == "__main__":
    sys.exit(main())
