"""Command line: `scripts/gpu-cluster fetch|up|down|run SCENARIO ...`."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
import traceback
import urllib.request
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from scripts.devcluster.ending import status
from scripts.gpucluster import machine, packages
from scripts.gpucluster.machine import Machine
from scripts.gpucluster.stage import ALICE, BOB

LOG_BYTES = 200_000
LAST_S = 10.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status."""
    parser = argparse.ArgumentParser(prog="scripts/gpu-cluster", description=__doc__)
    parser.add_argument("--packages", type=Path, default=machine.PACKAGES, help="package files (%(default)s)")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("fetch", help="download Slurm's package files, on a Debian 12 with a network")
    for name, text in (("up", "bring Slurm and RAD up"), ("run", "run a scenario")):
        command = commands.add_parser(name, help=text)
        command.add_argument("--users", choices=("single", "multi"), default="single", help="[mps] users")
        command.add_argument("--stand-ins", type=int, default=1, help="stand-in GPUs where there is none")
        command.add_argument("--mps-control", type=Path, help="program in the place of MPS's, for rehearsals")
        if name == "run":
            command.add_argument("scenarios", nargs="+", metavar="SCENARIO", help="their names, or all")
            command.add_argument("--out", type=Path, default=Path("gpu-results"), help="folder for results")
            command.add_argument("--limit", type=float, default=600, help="seconds after which none is begun")
    commands.add_parser("down", help="end it and remove its files")
    args = parser.parse_args(arguments)
    begin = time.monotonic()

    def say(line: str) -> None:
        print(f"{time.monotonic() - begin:6.1f} s  {line}", flush=True)

    return status(lambda: _do(args, say, begin), "scripts/gpu-cluster down ends what runs")


def _do(args: argparse.Namespace, say: Any, begin: float) -> int:
    if args.command == "run":
        return run(args, say, begin)
    if args.command == "fetch":
        files = packages.fetch(args.packages)
        say(f"{len(files)} package files, {sum(f.stat().st_size for f in files) / 2**20:.1f} MiB: {args.packages}")
    elif args.command == "down":
        machine.down(say)
    else:
        made = machine.up(say, args.users, args.packages, args.stand_ins, args.mps_control)
        say(f"export SLURM_CONF={made.cluster.layout.slurm_conf}")
    return 0


def run(args: argparse.Namespace, say: Any, begin: float) -> int:
    """Run scenarios; whatever one does, the next one is tried, and what is known is written at once."""
    from scripts.gpucluster.scenarios import SCENARIOS  # noqa: PLC0415  (needs what `up` unpacks)
    from scripts.gpucluster.stage import Stage  # noqa: PLC0415

    names = list(SCENARIOS) if args.scenarios == ["all"] else args.scenarios
    if unknown := [name for name in names if name not in SCENARIOS]:
        print(f"error: no scenario {unknown[0]}: known are {', '.join(SCENARIOS)}, all", file=sys.stderr)
        return 2
    machine.require_root()
    args.out.mkdir(parents=True, exist_ok=True)
    warm = subprocess.Popen(  # the machine reads PyTorch from its disk while Slurm comes up
        [sys.executable, "-c", "import torch, torchvision; torch.cuda.is_available()"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    made = machine.up(say, args.users, args.packages, args.stand_ins, args.mps_control)
    up_s = time.monotonic() - begin
    facts: dict[str, Any] = {"about": about(made, args.users), "up_s": up_s, "scenarios": {}}
    warm.wait(timeout=120)
    failed = 0
    try:
        stage = Stage(made)
        for name in names:
            if time.monotonic() - begin > args.limit - LAST_S:
                say(f"{name}: not begun, the time is over")
                facts["scenarios"][name] = {"not_begun": True}
                failed += 1
                continue
            what = (SCENARIOS[name].__doc__ or "").partition("\n")[0]
            say(f"== {name}: {what}")
            at = time.monotonic()
            try:
                result = SCENARIOS[name](stage)
            except Exception as error:  # the next scenario is to have its turn
                result = {"error": f"{type(error).__name__}: {error}"[:6000], "trace": traceback.format_exc()[-3000:]}
                made.cluster.cancel_all()
            result["took_s"] = time.monotonic() - at
            failed += "error" in result or not all(result["checks"].values())
            facts["scenarios"][name] = result
            show(name, result, say)
            write(args.out / "results.json", facts)
    finally:
        collect(made, args.out)
    say(f"{len(names) - failed} of {len(names)} scenarios held; results: {args.out}")
    return 1 if failed else 0


def about(made: Machine, users: str) -> dict[str, Any]:
    """What the results were measured on."""
    found: dict[str, Any] = {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "gpu": made.gpus.model if made.real else "stand-in: nothing here was measured on a GPU",
        "gpu_memory_mib": made.gpus.memory_mib,
        "gpus": made.cluster.layout.gpus,
        "mps_users": users,
        "slurm": made.cluster.run(["sinfo", "--version"]).out.strip(),
    }
    if made.real:
        import pynvml  # noqa: PLC0415

        pynvml.nvmlInit()
        driver, name = (
            pynvml.nvmlSystemGetDriverVersion(),
            pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(0)),
        )
        found |= {"driver": str(driver), "gpu": str(name)}
        asked = "import torch; print(torch.__version__, torch.version.cuda)"
        torch = subprocess.run(
            [sys.executable, "-c", asked], capture_output=True, text=True, check=False
        ).stdout.split()
        found |= dict(zip(("torch", "cuda"), torch, strict=False))
    return found


def show(name: str, result: dict[str, Any], say: Any) -> None:
    """Print a scenario's table and checks."""
    if "error" in result or "not_shown" in result:
        say(f"{name}: {result.get('error') or result['not_shown']}")
        return
    rows = result.get("table", [])
    if rows:
        keys = list(rows[0])
        cells = [keys, *[[f"{v:.2f}" if isinstance(v, float) else str(v) for v in row.values()] for row in rows]]
        widths = [max(len(line[i]) for line in cells) for i in range(len(keys))]
        for line in cells:
            print("    " + "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)), flush=True)
    for key, value in result.items():
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            print(f"    {key}: {value:.2f}", flush=True)
    for what, held in result["checks"].items():
        print(f"    {'yes' if held else 'NO '}  {what}", flush=True)


def write(path: Path, facts: dict[str, Any]) -> None:
    """Write results so that a cut leaves the old ones whole."""
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(facts, indent=1), encoding="utf-8")
    fresh.replace(path)


def collect(made: Machine, out: Path) -> None:
    """Keep logs, the monitor's page and the report beside the results."""
    cluster = made.cluster
    logs = sorted(path for path in cluster.layout.logs.rglob("*.log") if "maria" not in path.name)
    with (out / "logs.txt").open("w", encoding="utf-8") as all_logs:
        outputs = [path for user in (ALICE, BOB) for path in sorted(cluster.home(user).glob("*.out"))]
        for path in [*logs, *sorted(cluster.layout.run.glob("mps/g*/*/log/*.log")), *outputs]:
            text = path.read_text("utf-8", errors="replace")[-LOG_BYTES:]
            all_logs.write(f"\n===== {path}\n{text}")
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{machine.MONITOR_PORT}/metrics", timeout=3) as page:
            (out / "metrics.txt").write_bytes(page.read())
    except OSError as error:
        (out / "metrics.txt").write_text(f"not there: {error}\n", encoding="utf-8")
    told = cluster.run(["radctl", "report", "--html", str(cluster.layout.directory / "report.html")], timeout=20)
    if told.code == 0:
        shutil.copyfile(cluster.layout.directory / "report.html", out / "report.html")
    said = cluster.run(["radctl", "report"], timeout=20)
    (out / "report.txt").write_text(said.out + said.err + told.err, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
