"""Stand-ins for programs that a test machine lacks: Slurm's commands and NVIDIA's MPS control program.

`install` puts them into a folder as executables. The Slurm commands answer from files in the folder that
RAD_STANDIN names and write down how they were called: in shell, as Python takes twenty times as long to start, and the
tests call them by the thousand. The MPS control program starts a real daemon process.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
from pathlib import Path

SLURM = ("scontrol", "sacct", "sacctmgr", "squeue")
CONTROL = "nvidia-cuda-mps-control"


ANSWER = """#!/bin/sh
# Each call: how many words, and the words, a NUL behind each.
name=${0##*/} verb=${0##*/}
printf '%s\\0' $(($# + 1)) "$name" "$@" >>"$RAD_STANDIN/calls"
for last; do
    [ "$name" = squeue ] && [ "$last" = -j ] && verb=show
done
[ "$name" = scontrol ] && verb=${1:-}
if [ -e "$RAD_STANDIN/trouble-$verb" ]; then
    { read -r code; cat >&2; } <"$RAD_STANDIN/trouble-$verb"
    [ "$code" = hang ] && exec sleep 60
    exit "$code"
fi
case "$name $*" in "sacctmgr "*modify*) exec MODIFY "$@" ;; esac
[ "$verb" = show ] && file=$RAD_STANDIN/job-$last || file=$RAD_STANDIN/answer-$verb
[ -e "$file" ] && exec cat "$file"
[ "$verb" != show ] && exit 0
echo 'slurm_load_jobs error: Invalid job id specified' >&2
exit 1
"""


def install(folder: Path) -> Path:
    """Make the programs; returns their folder, for PATH."""
    python = (
        f"#!{sys.executable} -IS\nimport sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import standins\nsys.exit(standins.{}(sys.argv[1:]))\n"
    )
    modify = folder / "modify"
    programs = {name: ANSWER.replace("MODIFY", f"'{modify}'") for name in SLURM}
    for name, text in {**programs, modify.name: python.format("modify"), CONTROL: python.format("control")}.items():
        path = folder / name
        path.write_text(text)
        path.chmod(0o755)
    return folder


def modify(argv: list[str]) -> int:
    """Be sacctmgr that changes the comment of a job's last run, as Slurm 22.05 does: small letters, no quotes."""
    folder = Path(os.environ["RAD_STANDIN"])
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
