"""What an admin copies: it names metrics, paths and settings that exist."""

from __future__ import annotations

import configparser
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from slurm_hooks.config import DEFAULT_PATH, Config, Monitor
from slurm_hooks.monitor.metrics import METRICS
from slurm_hooks.monitor.prometheus import render
from slurm_hooks.monitor.views import GpuView, JobGpuView, JobView, View
from slurm_hooks.search import take_path

ROOT = Path(__file__).parents[3]
ETC = ROOT / "etc"


def names() -> set[str]:
    """Every metric that a page can show."""
    values = {metric.key: 0.5 for metric in METRICS}
    gpu = GpuView(0, "GPU-a", "H200", False, values, values, 1, 1)
    job = JobView(1, (JobGpuView(0, "GPU-a", values, 90.0, 1.0, 1),), 1.0, 1.0, 1.0, 1.0, 0)
    page = render(View("gpm", (gpu,), (job,), 1, 1.0), "node")
    return set(re.findall(r"^# TYPE (\S+)", page, re.MULTILINE))


def test_the_dashboard_asks_for_metrics_that_there_are() -> None:
    board = json.loads((ETC / "grafana-dashboard.json").read_text())
    panels = board["panels"]
    asked = [target["expr"] for panel in panels for target in panel["targets"]]
    asked += [entry["query"]["query"] for entry in board["templating"]["list"] if entry["type"] == "query"]
    found = {name for text in asked for name in re.findall(r"\b(?:DCGM|rad)_\w+", text)}
    assert found and found <= names()
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = {(p["gridPos"]["x"], p["gridPos"]["y"]) for p in panels}
    assert len(places) == len(panels) and all(p["gridPos"]["x"] + p["gridPos"]["w"] <= 24 for p in panels)


def test_the_manual_names_every_metric_and_none_besides() -> None:
    text = (ROOT / "docs" / "monitor.md").read_text()
    assert names() == set(re.findall(r"`((?:DCGM_FI|rad_(?:gpu|job|monitor))_\w+)`", text))


def test_the_unit_starts_what_setup_cfg_installs() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(ETC / "systemd" / "rad-monitor.service")
    program, option, path = unit["Service"]["ExecStart"].split()
    assert Path(program).name in (ROOT / "setup.cfg").read_text()
    assert (option, path) == ("--config", str(DEFAULT_PATH))
    assert Path(Config().node.state_dir).is_relative_to(unit["Service"]["ReadWritePaths"])


@pytest.mark.parametrize("name", ["radd", "rad-monitor", "rad-spool"])
def test_units_know_where_slurms_commands_are(name: str) -> None:
    assert "EnvironmentFile=-/opt/rad/etc/rad.env\n" in (ETC / "systemd" / f"{name}.service").read_text()
    env = {"PATH": "/usr/bin", "RAD_PATH": "/opt/slurm/bin:/usr/bin"}
    take_path(env)
    assert env["PATH"] == "/opt/slurm/bin:/usr/bin"
    for word in ("$PATH", "${PATH}"):  # systemd hands it on as it is written
        take_path(more := {"PATH": "/usr/bin", "RAD_PATH": f"/opt/slurm/bin:{word}"})
        assert more["PATH"] == "/opt/slurm/bin:/usr/bin"
    take_path(unset := {"PATH": "/usr/bin"})
    assert unset == {"PATH": "/usr/bin"}


def test_the_scrape_example_names_the_port() -> None:
    targets = re.findall(r"- (node\d+):(\d+)", (ETC / "prometheus.yml.example").read_text())
    assert targets and {port for _, port in targets} == {str(Monitor().port)}
    assert Monitor().url.endswith(f":{Monitor().port}")


@pytest.mark.skipif(shutil.which("logrotate") is None, reason="no logrotate here")
def test_the_nodes_log_does_not_grow_for_ever(tmp_path: Path) -> None:
    rules, log = tmp_path / "rules", tmp_path / "node.log"
    text = (ETC / "logrotate.d" / "rad").read_text()
    assert Config().node.log in text
    rules.write_text(text.replace(Config().node.log, str(log)))
    rules.chmod(0o644)
    for size, rotated in ((1024, False), (51 * 1024 * 1024, True)):
        with log.open("ab") as file:
            file.truncate(size)
        done = subprocess.run(
            ["logrotate", "--state", str(tmp_path / "state"), str(rules)], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert (tmp_path / "node.log.1.gz").exists() == rotated
