"""Stand-ins for programs that a test machine lacks: Slurm's commands and NVIDIA's MPS control program.

`install` puts them into a folder as executables. The Slurm commands answer from files in the folder that
RAD_STANDIN names and write down how they were called; the MPS control program starts a real daemon process.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import time
from pathlib import Path

SLURM = ("scontrol", "sacct", "sacctmgr", "squeue")
CONTROL = "nvidia-cuda-mps-control"


def install(folder: Path) -> Path:
    """Make the programs; returns their folder, for PATH."""
    for name in (*SLURM, CONTROL):
        path = folder / name
        path.write_text(
            f"#!{sys.executable} -IS\nimport sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\n"
            f"import standins\nstandins.main({name!r}, sys.argv[1:])\n"
        )
        path.chmod(0o755)
    return folder


def main(name: str, argv: list[str]) -> None:
    """Be one of the programs."""
    sys.exit(control(argv) if name == CONTROL else slurm(name, argv))


def slurm(name: str, argv: list[str]) -> int:
    """Be one of Slurm's commands."""
    folder = Path(os.environ["RAD_STANDIN"])
    with (folder / "calls").open("a") as calls:
        calls.write(json.dumps([name, *argv]) + "\n")
    verb = {"scontrol": argv[0] if argv else "", "squeue": "show" if "-j" in argv else name}.get(name, name)
    trouble = folder / f"trouble-{verb}"
    if trouble.exists():
        code, text = json.loads(trouble.read_text())
        if code == "hang":
            time.sleep(60)
        sys.stderr.write(text)
        return int(code)
    if name == "sacctmgr" and "modify" in argv:
        return _modify(folder, argv)
    answer = folder / (f"job-{argv[-1]}" if verb == "show" else f"answer-{verb}")
    if not answer.exists():
        if verb == "show":
            sys.stderr.write("slurm_load_jobs error: Invalid job id specified\n")
            return 1
        return 0
    sys.stdout.buffer.write(answer.read_bytes())
    return 0


def _modify(folder: Path, argv: list[str]) -> int:
    """Change the comment of the last run of a job, as Slurm 22.05 does: small letters, no quotes."""
    wanted = argv[argv.index("where") + 1].removeprefix("jobid=")
    text = argv[argv.index("set") + 1].removeprefix("AdminComment=")
    if (folder / "small-letters").exists():
        text = text.lower().replace('"', "`").replace("'", "`")
    file = folder / "answer-sacct"
    rows = [row.split("|", 5) for row in file.read_text().splitlines()]
    mine = [row for row in rows if row[1] == wanted]
    if not mine:
        return 1
    mine[-1][5] = text
    file.write_text("".join("|".join(row) + "\n" for row in rows))
    return 0


def control(argv: list[str]) -> int:
    """Be the MPS control program: its daemon with -d, else one that hands commands to the daemon."""
    place = Path(os.environ["CUDA_MPS_PIPE_DIRECTORY"]) / "control"
    if "-d" not in argv:
        return _ask(place, sys.stdin.read())
    if os.environ.get("CUDA_VISIBLE_DEVICES") == "broken":
        sys.stderr.write("no such device\n")
        return 1
    if _ask(place, "get_server_list") == 0:
        sys.stderr.write("An instance of this daemon is already running\n")
        return 1
    place.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(place))
    listener.listen(16)
    if os.fork():
        return 0
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for file in (0, 1, 2):
        os.dup2(nothing, file)
    (place.parent / "facts").write_text(json.dumps([argv, os.environ["CUDA_VISIBLE_DEVICES"]]))
    while True:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):
            words = connection.recv(4096).decode().split()
            if words[:1] == ["quit"]:
                place.unlink(missing_ok=True)
                connection.sendall(b"bye\n")
                os._exit(0)
            with (place.parent / "asked").open("a") as asked:
                asked.write(" ".join(words) + "\n")
            servers = place.parent / "servers"  # what get_server_list and get_server_status are to say
            known = dict(line.split() for line in servers.read_text().splitlines()) if servers.exists() else {}
            told = {"get_server_list": "\n".join(known), "get_server_status": known.get(words[-1], "unknown")}
            connection.sendall((told.get(words[0], "") + "\n").encode())


def _ask(place: Path, command: str) -> int:
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(str(place))
        except OSError:
            print("Cannot find MPS control daemon process")
            return 1
        connection.sendall(command.encode())
        print(connection.recv(4096).decode(), end="")
    return 0
