"""A cluster of munged, MariaDB, slurmdbd, slurmctld and slurmds on loopback, below one folder, with RAD or without.

Touches the cluster's folder, processes it started, and, where they are missing, makes the users alice, bob and rad.
Leaves /etc/slurm and the system's own daemons alone. Needs root: slurmd starts jobs as their users.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from scripts.devcluster import ground, processes, settings
from scripts.devcluster.ground import USERS
from scripts.devcluster.interpreter import for_everybody
from scripts.devcluster.layout import ClusterError, Layout, Rad
from scripts.devcluster.processes import Daemon, wait_for
from slurm_hooks import config as configuration
from slurm_hooks.node import mps, mps_slots

ACCOUNTS = {"alice": "research", "bob": "teaching"}
START_DEADLINE_S = 60.0
COMMAND_DEADLINE_S = 120.0
CANCEL_DEADLINE_S = 20.0
RADD_NICE = -10  # as etc/systemd/radd.service: slurmctld waits for it with its locks held
SETTLING_S = 1.0  # what radd decided so shortly before a look counts beside what that look saw
LEFTOVERS_DEADLINE_S = 2.0  # job steps do not end when asked politely, nor a slurmd that slurmctld does not answer
ENDED = frozenset(
    ("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT")
)

__all__ = ["Cluster", "ClusterError", "CommandResult"]


@dataclass(frozen=True)
class CommandResult:
    """What a command said."""

    code: int
    out: str
    err: str

    def require(self) -> CommandResult:
        """This result.

        Raises:
            ClusterError: if the command failed.
        """
        if self.code:
            raise ClusterError(f"exit status {self.code}: {self.out}{self.err}")
        return self

    @property
    def job_id(self) -> int:
        """Number of the batch job that sbatch submitted.

        Raises:
            ClusterError: if it submitted none.
        """
        found = re.search(r"Submitted batch job (\d+)", self.out)
        if self.code or not found:
            raise ClusterError(f"nothing was submitted (exit status {self.code}): {self.out}{self.err}")
        return int(found.group(1))


@dataclass
class Cluster:
    """One development cluster.

    Attributes:
        layout: where it lies and how large it is.
        rad: how RAD takes part, or None for plain Slurm.
        say: gets one line for each step.
    """

    layout: Layout
    rad: Rad | None = None
    say: Callable[[str], None] = field(default=lambda line: None)

    # Bringing up and down

    def up(self) -> None:
        """Bring up what does not run yet; returns when jobs can be submitted.

        Raises:
            ClusterError: if a daemon does not come up; the message ends with its log.
        """
        if os.geteuid() != 0:
            raise ClusterError("a cluster needs root: slurmd starts jobs as their users")
        ground.make_users()
        ground.make_folders(self.layout)
        ground.write_settings(self.layout, self.rad)
        self.layout.save()
        self.start("munged")
        self.start("mariadbd")
        self.start("slurmdbd")
        self._make_accounts()
        if self.rad is not None:
            self.start("radd")
        self.start("slurmctld")
        for name in self.layout.slurmds:
            self.start(name, wait=False)
        if self.rad is not None and self.rad.monitor:
            self.start("rad-monitor", wait=False)
        wait_for("nodes idle", self._nodes_ready, START_DEADLINE_S, self.layout.logs / "slurmd-node0.log")
        if self.rad is not None:
            self._wait_for_a_look(time.time())  # before, jobs go through as written
        self.say(f"{self.layout.nodes} node(s) with {self.layout.gpus} GPU(s) each are ready")

    def down(self) -> None:
        """End every process of the cluster, jobs too; its files stay."""
        directory = self.layout.directory
        if processes.running(directory, "slurmctld") is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):  # it may hang, and goes all the same
                for user in USERS:
                    argv = ["scancel", "--quiet", "--state=PENDING", f"--user={user}"]
                    self.run(argv, timeout=CANCEL_DEADLINE_S)
        for name in ("rad-monitor", "radd"):
            self.stop(name)
        slurmds = [pid for name in self.layout.slurmds if (pid := processes.running(directory, name)) is not None]
        processes.stop(directory, slurmds, LEFTOVERS_DEADLINE_S)
        for name in ("slurmctld", "slurmdbd", "mariadbd", "munged"):
            self.stop(name)
        processes.stop(directory, processes.members(directory), LEFTOVERS_DEADLINE_S)
        self._end_mps()
        self.say("nothing of the cluster runs any more")

    def _end_mps(self) -> None:
        """MPS daemons, where the machine has them, and the mounts of their logs: Prolog starts them without a mark."""
        if not self.layout.rad_toml.exists():
            return
        try:
            limits = replace(configuration.load(self.layout.rad_toml).mps, grace_s=0.0)
        except configuration.ConfigError as error:
            self.say(f"MPS daemons are left as they are: {error}")
            return
        for slot in mps_slots.slots(limits):
            for job in slot.residents():
                mps.leave(limits, job)
        mps.reap(limits, time.time() + 1)

    def destroy(self) -> None:
        """`down`, and remove the cluster's folder."""
        self.down()
        shutil.rmtree(self.layout.directory, ignore_errors=True)

    def is_up(self, name: str) -> bool:
        """Whether a daemon runs."""
        return processes.running(self.layout.directory, name) is not None

    def daemons(self) -> list[str]:
        """Names of the daemons, in the order in which they start."""
        rad = ["radd"] if self.rad is not None else []
        monitor = ["rad-monitor"] if self.rad is not None and self.rad.monitor else []
        return ["munged", "mariadbd", "slurmdbd", *rad, "slurmctld", *self.layout.slurmds, *monitor]

    def start(self, name: str, *, wait: bool = True) -> None:
        """Start a daemon where it does not run, and wait until it answers."""
        if self.is_up(name):
            return
        if name == "mariadbd" and not (self.layout.directory / "db" / "mysql").is_dir():
            self.say("making an empty database")
            ground.make_database_folder(self.layout)
        daemon, ready = self._daemon(name)
        self.say(f"starting {name}")
        processes.start(daemon, self.layout.directory)
        if not wait:
            return

        def answers() -> bool:
            if not self.is_up(name):
                raise ClusterError(f"{name} ended at once{processes.tail(self._log(name))}")
            return ready()

        wait_for(f"{name} answers", answers, START_DEADLINE_S, self._log(name))

    def stop(self, name: str) -> None:
        """End a daemon."""
        pid = processes.running(self.layout.directory, name)
        if pid is not None:
            self.say(f"ending {name}")
            processes.stop(self.layout.directory, [pid])

    def signal(self, name: str, number: int) -> None:
        """Send a signal to a daemon, for example SIGSTOP to make it hang."""
        pid = processes.running(self.layout.directory, name)
        if pid is None:
            raise ClusterError(f"{name} does not run")
        os.kill(pid, number)

    # Using it

    def rad_python(self) -> str:
        """The interpreter that runs RAD, which every user of the cluster can start."""
        if self.rad is None:
            raise ClusterError("RAD takes no part in this cluster")
        return str(for_everybody(self.rad.python).python)

    def env(self) -> dict[str, str]:
        """What a user's environment holds so that Slurm's commands talk to this cluster."""
        made = {
            "SLURM_CONF": str(self.layout.slurm_conf),
            "PATH": f"{self.layout.bin}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "LANG": "C.UTF-8",
        }
        if self.rad is not None:
            made["RAD_CONFIG"] = str(self.layout.rad_toml)
            made["RAD_KEPT"] = str(self.layout.kept)
        return made

    def home(self, user: str) -> Path:
        """A user's folder for job scripts and logs."""
        return self.layout.directory / "home" / user

    def run(
        self,
        argv: Sequence[str],
        *,
        user: str | None = None,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes | None = None,
        timeout: float = COMMAND_DEADLINE_S,
    ) -> CommandResult:
        """Run a command as `user` (root where None) with the cluster's environment."""
        home = self.home(user) if user else self.layout.directory
        identity = {"HOME": str(home), "USER": user or "root", "LOGNAME": user or "root"}
        done = subprocess.run(
            list(argv),
            env={**self.env(), **identity, **(env or {})},
            cwd=cwd or home,
            input=stdin if stdin is not None else b"",
            capture_output=True,
            timeout=timeout,
            check=False,
            user=user,
            group=pwd.getpwnam(user).pw_gid if user else None,
            extra_groups=[] if user else None,
        )
        return CommandResult(
            done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
        )

    def submit(
        self,
        script: str | bytes,
        *args: str,
        user: str = "alice",
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> CommandResult:
        """`sbatch ARGS` of a script text, from the user's folder; the script is kept there as job.sh."""
        folder = cwd or self.home(user)
        path = folder / "job.sh"
        path.write_bytes(script.encode() if isinstance(script, str) else script)
        return self.run(["sbatch", *args, str(path)], user=user, cwd=folder, env=env)

    def job(self, job_id: int | str) -> dict[str, str]:
        """A job as `scontrol show job` tells it; empty where Slurm has forgotten it.

        `TRES` is what it holds or, while it holds nothing, what it asks for: so says 22.05, later versions tell both.
        """
        shown = self.run(["scontrol", "--oneliner", "show", "job", str(job_id)])
        if shown.code:
            return {}
        line = shown.out.partition("\nJobId=")[0]  # which may go over several: SubmitLine holds what its user wrote
        pairs = re.finditer(r"(\S+?)=(.*?)(?= [A-Za-z][\w/:]*=|\s*\Z)", line, re.DOTALL)
        told = {pair.group(1): pair.group(2) for pair in pairs}
        allocated = told.get("AllocTRES", "(null)")
        told.setdefault("TRES", told.get("ReqTRES", "") if allocated == "(null)" else allocated)
        return told

    def state(self, job_id: int | str) -> str:
        """State of a job, for example RUNNING."""
        return self.job(job_id).get("JobState", "")

    def wait_state(self, job_id: int | str, *states: str, deadline_s: float = 60.0) -> str:
        """Wait until a job is in one of `states` (where none is named: has ended), and return which."""
        wanted = frozenset(states) or ENDED
        seen = ""

        def reached() -> bool:
            nonlocal seen
            seen = self.state(job_id)
            return seen in wanted

        try:
            wait_for(f"job {job_id} is {' or '.join(sorted(wanted))}", reached, deadline_s)
        except ClusterError as error:
            shown = self.run(["scontrol", "show", "job", str(job_id)]).out
            log = processes.tail(self._log("slurmctld"))
            raise ClusterError(f"{error}; it is {seen}\n{shown}{log}") from None
        return seen

    def sacct(self, job_id: int | str, *fields: str, duplicates: bool = False) -> list[dict[str, str]]:
        """Rows of a job in slurmdbd, without its steps."""
        names = fields or ("JobID", "State", "ExitCode", "AllocTRES", "AdminComment")
        argv = ["sacct", "-j", str(job_id), "-X", "-n", "--parsable2", "-o", ",".join(names)]
        shown = self.run([*argv, *(["-D"] if duplicates else [])]).require()
        return [dict(zip(names, line.split("|"), strict=True)) for line in shown.out.splitlines()]

    def cancel_all(self) -> None:
        """Cancel all jobs and wait until nothing holds a GPU any more."""
        for user in USERS:
            self.run(["scancel", "--quiet", "--full", "--signal=KILL", "--state=RUNNING", f"--user={user}"])
            self.run(["scancel", "--quiet", f"--user={user}"])
        self.wait_for("the queue is empty", lambda: not self.run(["squeue", "-h"]).out.strip())

    def wait_for(self, what: str, condition: Callable[[], bool], deadline_s: float = 120.0) -> None:
        """Wait until a condition holds, else raise with the end of slurmctld's log."""
        wait_for(what, condition, deadline_s, self._log("slurmctld"))

    def wait_until_radd_sees(self) -> None:
        """Wait until radd has looked at Slurm anew: then its view holds all that was submitted before, once."""
        self._wait_for_a_look(time.time() + SETTLING_S)

    def _wait_for_a_look(self, since: float) -> None:
        self.wait_for("radd looks at Slurm", lambda: self._looked() >= since)

    def _looked(self) -> float:
        """When radd's latest view of Slurm was taken, in Unix seconds, as its log says."""
        try:
            text = (self.layout.logs / "radd.log").read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return 0.0
        return max((float(found) for found in re.findall(r"Slurm as it was at (\d+\.\d+)", text)), default=0.0)

    # The parts

    def _log(self, name: str) -> Path:
        """The log that a daemon wrote last: its own, or what it said on standard error before it opened that."""
        logs = (self.layout.logs / f"{name}.log", self.layout.logs / name / f"{name}.log")
        return max((log for log in logs if log.exists()), key=lambda log: log.stat().st_mtime, default=logs[0])

    def _daemon(self, name: str) -> tuple[Daemon, Callable[[], bool]]:
        layout = self.layout
        slurm = {"SLURM_CONF": str(layout.slurm_conf)}
        if name == "munged":
            return Daemon(name, _munged(layout)), lambda: self._quiet(
                ["munge", "-n", f"--socket={layout.munge_socket}"]
            )
        if name == "mariadbd":
            return Daemon(name, _mariadbd(layout)), lambda: self._quiet([*self._mariadb(), "-e", "SELECT 1"])
        if name == "slurmdbd":
            self._make_database()
            return Daemon(name, ["slurmdbd", "-D"], "slurm", slurm), lambda: self._quiet(
                ["sacctmgr", "-n", "list", "cluster"]
            )
        if name == "radd" and self.rad is not None:
            argv, env = self._part("slurm_hooks.radd.main", self.rad)
            argv.append("--verbose")  # its looks at Slurm are waited for
            there = layout.run / "rad" / "radd.sock"
            return Daemon(
                name, argv, "rad", {**slurm, **env}, ("slurm",), RADD_NICE
            ), lambda: _listener(there) == processes.running(layout.directory, name)
        if name == "rad-monitor" and self.rad is not None:
            argv, env = self._part("slurm_hooks.monitor.main", self.rad)
            return Daemon(name, argv, None, {**slurm, **env}), lambda: self.is_up(name)
        if name == "slurmctld":
            argv = ["slurmctld", "-D", "-f", str(layout.slurm_conf)]
            return Daemon(name, argv, "slurm", slurm), self._controller_answers
        if name.startswith("slurmd-"):
            node = name.removeprefix("slurmd-")
            argv = ["slurmd", "-D", "-N", node, "-f", str(layout.slurm_conf)]
            return Daemon(name, argv, None, slurm), lambda: self._ready_nodes().get(node, False)
        raise ClusterError(f"no such daemon: {name}; known are {', '.join(self.daemons())}")

    def _part(self, module: str, rad: Rad) -> tuple[list[str], dict[str, str]]:
        """Command and environment of a daemon of RAD's."""
        chosen = for_everybody(rad.python)
        argv = [str(chosen.python), "-m", module, "--config", str(self.layout.rad_toml)]
        return argv, {"PYTHONPATH": ground.python_path(self.layout, rad, chosen), "PYTHONDONTWRITEBYTECODE": "1"}

    def _quiet(self, argv: Sequence[str]) -> bool:
        return self.run(argv, timeout=20).code == 0

    def _controller_answers(self) -> bool:
        shown = self.run(["scontrol", "ping"], timeout=20)
        return shown.code == 0 and " is UP" in shown.out

    def _ready_nodes(self) -> dict[str, bool]:
        shown = self.run(["sinfo", "-h", "-N", "-o", "%N %T"], timeout=20)
        states = dict(line.split() for line in shown.out.splitlines() if len(line.split()) == 2)
        return {name: state in ("idle", "mixed", "allocated", "completing") for name, state in states.items()}

    def _nodes_ready(self) -> bool:
        ended = [name for name in self.layout.slurmds if not self.is_up(name)]
        if ended:
            raise ClusterError(f"{ended[0]} ended at once{processes.tail(self._log(ended[0]))}")
        ready = self._ready_nodes()
        return len(ready) == self.layout.nodes and all(ready.values())

    def _mariadb(self) -> list[str]:
        return ["mariadb", "--no-defaults", f"--socket={self.layout.run}/db/mariadb.sock", "--user=root"]

    def _make_database(self) -> None:
        statements = (
            "CREATE DATABASE IF NOT EXISTS slurm_acct_db;"
            "CREATE USER IF NOT EXISTS slurm@'127.0.0.1' IDENTIFIED BY 'slurm';"
            "CREATE USER IF NOT EXISTS slurm@localhost IDENTIFIED BY 'slurm';"
            "GRANT ALL ON slurm_acct_db.* TO slurm@'127.0.0.1';"
            "GRANT ALL ON slurm_acct_db.* TO slurm@localhost;"
        )
        self.run([*self._mariadb(), "-e", statements]).require()

    def _make_accounts(self) -> None:
        have = self.run(["sacctmgr", "-n", "-P", "list", "assoc", "format=cluster,account,user"]).require().out
        wanted = {**ACCOUNTS, "rad": "rad"}
        if all(f"{settings.CLUSTER_NAME}|{account}|{user}" in have for user, account in wanted.items()):
            return
        # At once: each question to slurmdbd and each answer waits 40 ms for an acknowledgement.
        lines = [f"Cluster - '{settings.CLUSTER_NAME}'", "Parent - 'root'"]
        lines += [f"Account - '{account}'" for account in wanted.values()]
        for user, account in wanted.items():
            # radd takes back pins of waiting jobs, which belong to other users: it is an operator.
            rights = ":AdminLevel='Operator'" if user == "rad" else ""
            lines += [f"Parent - '{account}'", f"User - '{user}'{rights}"]
        path = self.layout.etc / "accounts.cfg"
        path.write_text("\n".join([*lines, ""]), encoding="utf-8")
        self.run(["sacctmgr", "-i", "load", f"file={path}"]).require()


def _munged(layout: Layout) -> list[str]:
    folder = layout.munge_socket.parent
    return [
        "munged",
        "--foreground",
        "--force",
        f"--socket={layout.munge_socket}",
        f"--key-file={layout.etc}/munge.key",
        f"--pid-file={folder}/munged.pid",
        f"--seed-file={folder}/munged.seed",
        "--num-threads=4",
    ]


def _mariadbd(layout: Layout) -> list[str]:
    return [
        "mariadbd",
        "--no-defaults",
        "--user=mysql",
        f"--datadir={layout.directory}/db",
        f"--tmpdir={layout.run}/db",
        f"--socket={layout.run}/db/mariadb.sock",
        f"--pid-file={layout.run}/db/mariadb.pid",
        "--bind-address=127.0.0.1",
        f"--port={layout.db_port}",
        "--skip-log-bin",
        "--innodb-buffer-pool-size=64M",
        "--innodb-flush-log-at-trx-commit=0",
        "--innodb-lock-wait-timeout=900",
        "--loose-innodb-snapshot-isolation=OFF",  # else slurmdbd may end; MariaDB has it since 11.6
        "--max-allowed-packet=16M",
    ]


def _listener(path: Path) -> int:
    """The process that listens on a Unix socket, 0 where nobody does: one that was killed may still for a moment."""
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(path))
            return int(struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0])
        except OSError:
            return 0
