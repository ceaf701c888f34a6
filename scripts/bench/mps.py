"""What MPS itself does on this machine's first GPU: `python -m scripts.bench.mps [--json FILE]`.

No Slurm and no RAD take part: what RAD does about a fault, a hung server or a cap rests on these answers. Each case
has a control daemon of its own in a temporary folder, and clients that step a small matrix product and tell of it.
Whoever runs it needs PyTorch and a GPU that nobody else uses; it takes about a minute.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

CONTROL = "nvidia-cuda-mps-control"
SERVER = "nvidia-cuda-mps-server"
WATCH_S = 7.0  # how long a case is looked at after what happens in it
READY_S = 90.0
END_S = 6.0
NOISE = re.compile(r"Accepting connection|valid credentials|UI closed|NEW UI")
CLIENT = r"""
import json, sys, time
what, amount = sys.argv[1], float(sys.argv[2])
def say(**facts): print(json.dumps({"t": time.time(), **facts}), flush=True)
try:
    import torch
    if what == "limit":
        free, total = torch.cuda.mem_get_info()
        say(ready=True, shown_free_mib=free >> 20, shown_total_mib=total >> 20)
        sys.stdin.readline() if amount else None
        held = []
        while len(held) < 32:
            held.append(torch.zeros(256 << 18, device="cuda"))
            torch.cuda.synchronize()
            say(held_mib=256 * len(held))
        sys.exit()
    a = torch.randn(2048, 2048, device="cuda")
    begin, told = time.time(), 0.0
    def step():
        (a @ a).sum().item()
    step()
    say(ready=True)
    while True:
        step()
        if time.time() - told > 0.1:
            told = time.time()
            say(step=True)
        if what != "steps" and time.time() - begin > amount:
            break
    say(fault=what)
    if what == "assert":
        torch.zeros(4, device="cuda")[torch.tensor([1 << 20], device="cuda")].cpu()
    if what.startswith("address"):
        import cupy
        kernel = cupy.RawKernel("extern \"C\" __global__ void f(long long p) { *(volatile int*)p = 1; }", "f")
        try:
            kernel((1,), (1,), (0x10,))
            cupy.cuda.runtime.deviceSynchronize()
        except Exception as error:
            if what == "address":
                raise
            say(error=type(error).__name__ + ": " + str(error).splitlines()[0])
            time.sleep(60)  # a program that catches the fault, and lives on
except Exception as error:
    say(error=type(error).__name__ + ": " + str(error).splitlines()[0])
    sys.exit(1)
"""
Facts = dict[str, Any]


class Process:
    """A Python program under the daemon of a folder, if one runs there, and what it says in lines of JSON."""

    def __init__(self, folder: Path, name: str, arguments: Sequence[str], env: Mapping[str, str] | None = None):
        self.said = folder / f"{name}.out"
        mine = {"CUDA_MPS_PIPE_DIRECTORY": str(folder / "pipe"), "CUDA_VISIBLE_DEVICES": "0", **(env or {})}
        with self.said.open("w") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-c", *arguments],
                env={**os.environ, **mine},
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

    def lines(self) -> list[Facts]:
        """What it has said."""
        return [json.loads(line) for line in self.said.read_text().splitlines() if line.endswith("}")]

    def kill(self) -> None:
        """End it and what it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Client(Process):
    """A process that steps on the GPU, or takes memory there."""

    def __init__(self, folder: Path, name: str, what: str, amount: float = 0, env: Mapping[str, str] | None = None):
        super().__init__(folder, name, (CLIENT, what, str(amount)), env)

    def last(self, key: str) -> Any:
        """The last thing of a kind that it said, or None."""
        return next((line[key] for line in reversed(self.lines()) if key in line), None)

    def when(self, key: str) -> float | None:
        """When it said that first."""
        return next((line["t"] for line in self.lines() if key in line), None)

    def ready(self) -> None:
        """Wait until it has said so, or ended."""
        end = time.monotonic() + READY_S
        while time.monotonic() < end and self.process.poll() is None and not self.last("ready"):
            time.sleep(0.05)

    def story(self, at: float) -> str:
        """What became of it after something happened at a time."""
        steps = [line["t"] for line in self.lines() if "step" in line]
        error, when = self.last("error"), self.when("error")
        if error and when is not None:
            return f"{when - at:.1f} s later: {error}"
        if self.process.poll() is not None:
            return f"ended with {self.process.returncode}"
        still = time.time() - steps[-1] if steps else 0.0
        return f"went on for {time.time() - at:.1f} s" if still < 1 else f"stood still {steps[-1] - at:.1f} s later"

    def end(self) -> str:
        """End it; how it ended."""
        if self.process.poll() is not None:
            return f"had ended with {self.process.returncode}"
        self.process.terminate()
        try:
            return f"ended by SIGTERM with {self.process.wait(END_S)}"
        except subprocess.TimeoutExpired:
            self.process.kill()
        try:
            return f"ended by SIGKILL with {self.process.wait(END_S)}"
        except subprocess.TimeoutExpired:
            return "could not be ended"


class Daemon:
    """A control daemon with its folder; the folder alone with `start` False, whose clients do without MPS."""

    def __init__(self, name: str, *, start: bool = True) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"mps-{name}-"))
        for part in ("pipe", "log"):
            (self.folder / part).mkdir()
        self.env = {
            **os.environ,
            "CUDA_MPS_PIPE_DIRECTORY": str(self.folder / "pipe"),
            "CUDA_MPS_LOG_DIRECTORY": str(self.folder / "log"),
            "CUDA_VISIBLE_DEVICES": "0",
        }
        if start:
            subprocess.run([CONTROL, "-d"], env=self.env, check=True, capture_output=True, timeout=20)
        self.clients: dict[str, Client] = {}

    def ask(self, command: str) -> str:
        """What the control program answers, or that it does not."""
        try:
            done = subprocess.run(
                [CONTROL], input=f"{command}\n", env=self.env, capture_output=True, text=True, timeout=3, check=False
            )
        except subprocess.TimeoutExpired:
            return "no answer"
        return (done.stdout + done.stderr).strip()

    def client(self, name: str, what: str = "steps", amount: float = 0, env: Mapping[str, str] | None = None) -> Client:
        """Start a client."""
        self.clients[name] = Client(self.folder, name, what, amount, env)
        return self.clients[name]

    def pids(self, program: str) -> list[int]:
        """Processes of the daemon's folder that run a program."""
        wanted, found = f"CUDA_MPS_PIPE_DIRECTORY={self.folder}/pipe".encode(), []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                runs = entry.name.isdigit() and program.encode() in (entry / "cmdline").read_bytes().split(b"\0")[0]
                if runs and wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
        return found

    def signal(self, program: str, number: int) -> None:
        """Send a signal to all of them."""
        for pid in self.pids(program):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def logs(self) -> dict[str, str]:
        """The ends of its logs, without the lines that tell nothing."""
        found = {}
        for path in (self.folder / "log").iterdir():
            lines = path.read_text(errors="replace").splitlines()
            found[path.name] = "\n".join(line for line in lines if not NOISE.search(line))[-9000:]
        return found

    def close(self) -> dict[str, str]:
        """End clients and daemon; how the clients ended."""
        ended = {name: client.end() for name, client in self.clients.items()}
        for program in (CONTROL, SERVER):
            self.signal(program, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)
        return ended


@contextlib.contextmanager
def daemons(*names: str) -> Iterator[dict[str, Daemon]]:
    """Daemons by name, ended afterwards."""
    made: dict[str, Daemon] = {}
    try:
        for name in names:
            made[name] = Daemon(name)
        yield made
    finally:
        for daemon in made.values():
            daemon.close()


def limits() -> list[Facts]:
    """What bounds a client's memory: its own variable, the daemon's default, the running server's limit."""
    cases: dict[str, tuple[str, dict[str, str]]] = {
        "variable not set, no default": ("plain", {}),
        "variable 1 GiB, no default": ("plain", {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=1G"}),
        "variable not set, default 3 GiB": ("default", {}),
        "variable 2 GiB, default 3 GiB": ("default", {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=2G"}),
        "variable 5 GiB, default 3 GiB": ("default", {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=5G"}),
    }
    rows = []
    with daemons("plain", "default") as made:
        answer = made["default"].ask("set_default_device_pinned_mem_limit 0 3G")
        keeper = made["default"].client("keeper", "limit", 1)  # allocates when it is told to
        clients = {
            name: made[where].client(re.sub(r"\W", "-", name), "limit", env=env) for name, (where, env) in cases.items()
        }
        for client in (keeper, *clients.values()):
            client.ready()
        for client in clients.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                client.process.wait(20)
        for pid in made["default"].pids(SERVER):
            answer += made["default"].ask(f"set_device_pinned_mem_limit {pid} 0 4G")
            answer += "; reads " + made["default"].ask(f"get_device_pinned_mem_limit {pid} 0")
        late = made["default"].client("late", "limit")
        if keeper.process.stdin is not None:
            keeper.process.stdin.write(b"\n")
            keeper.process.stdin.close()
        late.ready()
        for client in (late, keeper):
            with contextlib.suppress(subprocess.TimeoutExpired):
                client.process.wait(20)
        clients["variable not set, server's limit raised to 4 GiB"] = late
        clients["connected before that, variable not set"] = keeper
        for name, client in clients.items():
            held, shown = client.last("held_mib"), client.last("shown_free_mib")
            rows.append({"case": name, "held_mib": held, "shown_free_mib": shown, "error": client.last("error")})
    rows.append({"case": "what the control program said", "error": answer})
    return rows


def fault(kind: str) -> Facts:
    """A client's fault: what its neighbour sees, another daemon's client, a new client, the server's state and log."""
    with daemons("shared", "other") as made:
        shared = made["shared"]
        neighbour, other = shared.client("neighbour"), made["other"].client("other")
        for client in (neighbour, other):
            client.ready()
        culprit = shared.client("culprit", "steps" if kind == "kill" else kind, 1.0)
        culprit.ready()
        if kind == "kill":
            time.sleep(1)
            culprit.process.kill()
            at: float | None = time.time()
        else:
            end = time.monotonic() + 30
            while (at := culprit.when("fault") or culprit.when("error")) is None and time.monotonic() < end:
                time.sleep(0.02)
        time.sleep(0.5)
        status = {pid: shared.ask(f"get_server_status {pid}") for pid in shared.pids(SERVER)}
        new = shared.client("new")
        new.ready()
        time.sleep(2)
        at = at or time.time()
        facts = {
            "case": kind,
            "culprit": culprit.story(at),
            "neighbour": neighbour.story(at),
            "other_daemon": other.story(at),
            "new_client": new.last("error") or "steps",
            "server_status": status,
        }
        return facts | {"ended": {name: client.end() for name, client in shared.clients.items()}, "logs": shared.logs()}


HANGS = {
    "daemon stopped": ((CONTROL, signal.SIGSTOP),),
    "daemon stopped, then killed": ((CONTROL, signal.SIGSTOP), (CONTROL, signal.SIGKILL)),
    "daemon killed": ((CONTROL, signal.SIGKILL),),
    "server stopped": ((SERVER, signal.SIGSTOP),),
    "both stopped, then the daemon killed": (
        (CONTROL, signal.SIGSTOP),
        (SERVER, signal.SIGSTOP),
        (CONTROL, signal.SIGKILL),
    ),
    "server killed": ((SERVER, signal.SIGKILL),),
}


def hangs() -> list[Facts]:
    """What a running client sees when its daemon or its server stops or dies."""
    names = {name: str(place) for place, name in enumerate(HANGS)}
    with daemons(*names.values()) as made:
        clients = {name: made[short].client("client") for name, short in names.items()}
        for client in clients.values():
            client.ready()
        at = time.time()
        for name, steps in HANGS.items():
            for program, number in steps:
                made[names[name]].signal(program, number)
        time.sleep(WATCH_S)
        rows: list[Facts] = []
        for name, client in clients.items():
            daemon = made[names[name]]
            rows.append({"case": name, "client": client.story(at), "servers_left": len(daemon.pids(SERVER))})
        for row in rows:
            row["at_its_end"] = clients[row["case"]].end()
            row["log"] = made[names[row["case"]]].logs().get("server.log", "")[-500:]
        return rows


def main() -> int:
    """Measure and print; returns the exit status."""
    parser = argparse.ArgumentParser(description="What MPS does on this machine's first GPU")
    parser.add_argument("--json", type=Path, help="write all of it there")
    parser.add_argument("--only", default="", help="only the parts whose names hold this")
    options = parser.parse_args()
    found: Facts = {}
    parts: dict[str, Callable[[], Any]] = {"limits": limits, "hangs": hangs}
    parts |= {f"fault: {kind}": partial(fault, kind) for kind in ("assert", "address", "address and stay", "kill")}
    for name, part in parts.items():
        if options.only not in name:
            continue
        begin = time.monotonic()
        try:
            found[name] = part()
        except (OSError, subprocess.SubprocessError) as error:
            found[name] = {"error": f"{type(error).__name__}: {error}"}
        print(f"== {name} ({time.monotonic() - begin:.0f} s)\n{json.dumps(found[name], indent=1)}", flush=True)
        if options.json:
            options.json.write_text(json.dumps(found, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
