"""The development cluster itself: what the other tests stand on."""

from __future__ import annotations

import itertools
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from scripts.devcluster import Cluster, ClusterError, Layout, free_base_port, ground, processes, settings
from scripts.devcluster.__main__ import main
from scripts.devcluster.interpreter import for_everybody
from slurm_hooks.node import mps_slots
from tests.cluster.conftest import new_directory, output, whole

MPS_JOB = """#!/bin/bash
#SBATCH --gres=mps:g1:30
env | grep -E '^(CUDA|SLURM_JOB_USER)'
"""


def test_a_users_job_runs_on_the_gpu_that_it_names(plain_cluster: Cluster) -> None:
    job = plain_cluster.submit(MPS_JOB, user="bob").job_id
    assert plain_cluster.wait_state(job) == "COMPLETED"
    assert sorted(output(plain_cluster, job, "bob").split()) == [
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=30",
        "CUDA_VISIBLE_DEVICES=1",
        "SLURM_JOB_USER=bob",
    ]
    plain_cluster.wait_for("slurmdbd knows the end", lambda: _accounted(plain_cluster, job) == "COMPLETED")
    row = plain_cluster.sacct(job, "Account", "AllocTRES")[0]
    assert row["Account"] == "teaching"
    assert "gres/mps:g1=30" in row["AllocTRES"]


def _accounted(cluster: Cluster, job: int) -> str:
    rows = cluster.sacct(job, "State")
    return rows[0]["State"] if rows else ""


def test_up_is_safe_to_repeat_and_brings_back_what_died(plain_cluster: Cluster) -> None:
    directory = plain_cluster.layout.directory
    before = {name: processes.running(directory, name) for name in plain_cluster.daemons()}
    plain_cluster.signal("slurmd-node0", signal.SIGKILL)
    plain_cluster.wait_for("slurmd is dead", lambda: not plain_cluster.is_up("slurmd-node0"))
    plain_cluster.up()
    after = {name: processes.running(directory, name) for name in plain_cluster.daemons()}
    assert after.pop("slurmd-node0") not in (None, before.pop("slurmd-node0"))
    assert after == before


def _says(path: Path, text: str) -> bool:
    return path.exists() and path.read_text() == text


def test_shares_and_prolog_flags_come_and_go_without_a_drained_node(plain_cluster: Cluster) -> None:
    """In the order that README.md tells an admin, under a job that runs and one that starts afterwards.

    The types of GPUs stay: 23.11 and 24.11 kill and requeue a job whose GPU has lost its own.
    """
    conf, gres = plain_cluster.layout.slurm_conf, plain_cluster.layout.etc / "gres.conf"
    before = conf.read_text(), gres.read_text()
    with_shares = before[0] + "PrologFlags=Alloc\n", before[1]
    text = re.sub(r",mps:\S+", "", before[0]).replace("GresTypes=gpu,mps", "GresTypes=gpu")
    text = re.sub(r"AccountingStorageTRES=\S+", "AccountingStorageTRES=gres/gpu", text)
    types_stay = text, "".join(line for line in before[1].splitlines(keepends=True) if "mps" not in line)
    untyped = (
        re.sub(r"Gres=\S+", f"Gres=gpu:{plain_cluster.layout.gpus}", text),
        re.sub(r"Type=\S+ ", "", types_stay[1]),
    )

    def now(files: tuple[str, str]) -> str:
        for path, said in zip((conf, gres), files, strict=True):
            path.write_text(said)
        for stop in ("slurmctld", "slurmd-node0"):
            plain_cluster.stop(stop)
        plain_cluster.start("slurmd-node0", wait=False)
        plain_cluster.start("slurmctld")
        plain_cluster.wait_for("node0 is ready", plain_cluster._nodes_ready)
        return plain_cluster.run(["sinfo", "-h", "-o", "%T %E %G"]).out

    try:
        assert now(untyped).startswith(f"idle none gpu:{plain_cluster.layout.gpus}")
        for files in (with_shares, types_stay):
            running = plain_cluster.submit("#!/bin/bash\n#SBATCH --gres=gpu:1\necho runs\nsleep 60\n").job_id
            said = plain_cluster.home("alice") / f"slurm-{running}.out"
            # RUNNING is a job also before its node knows of it, and then a restart of slurmd queues it again.
            plain_cluster.wait_for("its script runs", partial(_says, said, "runs\n"))
            now(files)
            assert plain_cluster.state(running) == "RUNNING"
            after = plain_cluster.submit("#!/bin/bash\n#SBATCH --gres=gpu:1\ntrue\n").job_id
            assert plain_cluster.wait_state(after) == "COMPLETED"
            plain_cluster.run(["scancel", str(running)]).require()
            shown = plain_cluster.run(["sinfo", "-h", "-o", "%T %E %G"]).out
            assert shown.startswith(("idle none ", "mixed none ", "completing none ")), shown
            assert ("mps:g0:100" in shown) == (files is with_shares), shown
            plain_cluster.wait_state(running)
    finally:
        now(before)


def test_two_clusters_stand_side_by_side_and_down_leaves_nothing(plain_cluster: Cluster, cluster: Cluster) -> None:
    whole(plain_cluster)
    job = plain_cluster.submit("#!/bin/bash\nsleep 1000 & sleep 1000\n").job_id
    plain_cluster.wait_state(job, "RUNNING")
    members = processes.members(plain_cluster.layout.directory)
    assert len(members) > len(plain_cluster.daemons())
    assert plain_cluster.layout.base_port != cluster.layout.base_port
    plain_cluster.down()
    assert not processes.members(plain_cluster.layout.directory)
    assert not [pid for pid in members if processes.alive(pid)]
    assert all(cluster.is_up(name) for name in cluster.daemons())


def test_ports_that_were_given_away_are_given_to_nobody_else(tmp_path: Path) -> None:
    ports = [free_base_port(tmp_path, 1), free_base_port(tmp_path, 1)]
    ask = "import sys, pathlib, scripts.devcluster as d; print(d.free_base_port(pathlib.Path(sys.argv[1]), 1))"
    asked = subprocess.run([sys.executable, "-c", ask, tmp_path], capture_output=True, text=True, check=True)
    assert all(abs(one - two) > 11 for one, two in itertools.combinations((*ports, int(asked.stdout)), 2))


def test_down_ends_a_slurmctld_that_hangs(plain_cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    whole(plain_cluster).signal("slurmctld", signal.SIGSTOP)
    monkeypatch.setattr("scripts.devcluster.cluster.CANCEL_DEADLINE_S", 0.5)
    plain_cluster.down()
    assert not processes.members(plain_cluster.layout.directory)


def test_a_daemon_that_does_not_come_up_is_named_with_its_log(plain_cluster: Cluster) -> None:
    whole(plain_cluster).stop("slurmctld")
    conf = plain_cluster.layout.slurm_conf
    was = conf.read_text()
    conf.write_text(was + "NoSuchKey=1\n")
    try:
        with pytest.raises(ClusterError, match=r"(?s)slurmctld ended at once.*NoSuchKey"):
            plain_cluster.start("slurmctld")
    finally:
        conf.write_text(was)


def test_a_foreign_pid_in_a_pid_file_is_never_touched(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    processes.pid_file(tmp_path, "slurmctld").write_text(f"{os.getpid()}\n")
    assert processes.running(tmp_path, "slurmctld") is None
    Cluster(Layout(tmp_path, 1)).stop("slurmctld")


def test_down_ends_mps_daemons_though_they_do_not_bear_our_mark(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "c", 1)
    slot = mps_slots.Slot(0, "u1001", f"{layout.run}/mps/g0/u1001")
    Path(slot.jobs).mkdir(parents=True)
    (Path(slot.jobs) / "7").write_text("1001")
    layout.rad_toml.parent.mkdir()
    layout.rad_toml.write_text(f'[mps]\nrun_dir = "{layout.run}/mps"\n[partitions.gpu]\n')
    environment = {"CUDA_MPS_PIPE_DIRECTORY": slot.pipe}
    program = shutil.copy("/bin/sh", tmp_path / "nvidia-cuda-mps-control")  # Ubuntu's sleep minds its name
    daemon = subprocess.Popen([program, "-c", "read line"], env=environment, stdin=subprocess.PIPE)
    try:
        Cluster(layout).destroy()
        assert daemon.wait(10) == -signal.SIGKILL
    finally:
        daemon.kill()
        daemon.communicate()
    assert not layout.directory.exists()


def test_down_leaves_mps_alone_where_the_configuration_is_broken(tmp_path: Path) -> None:
    layout, said = Layout(tmp_path / "c", 1), list[str]()
    layout.rad_toml.parent.mkdir(parents=True)
    layout.rad_toml.write_text("[mps]\nno_such_key = 1\n")
    Cluster(layout, say=said.append).destroy()
    assert "no_such_key" in "".join(said)
    assert not layout.directory.exists()


def test_a_folder_that_users_cannot_enter_is_refused() -> None:
    open_to_all = new_directory()
    closed = open_to_all / "closed"
    closed.mkdir(mode=0o700)
    try:
        with pytest.raises(ClusterError, match=f"users cannot enter {closed}: choose another --dir"):
            Cluster(Layout(closed / "c", 1)).up()
    finally:
        shutil.rmtree(open_to_all)


@pytest.mark.parametrize("kind", ["another's", "open", "link"])
def test_a_folder_that_others_were_first_to_make_is_refused(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    place = new_directory()
    folder, roots = place / "c", place / "roots"
    for path in (folder, roots):
        path.mkdir()
    (folder / "db").symlink_to(roots)
    if kind == "another's":
        os.chown(folder, 40001, 40001)
    elif kind == "open":
        folder.chmod(0o777)
    else:
        folder.rename(place / "away")
        folder.symlink_to(place / "away")
    try:
        assert main(["up", "--dir", str(folder)]) == 1
        assert f"{folder}: is no folder into which only we can write" in capsys.readouterr().err
        with pytest.raises(ClusterError, match="is no folder into which only we can write"):
            Cluster(Layout(folder, 1)).up()
        assert roots.stat().st_uid == 0
    finally:
        shutil.rmtree(place)


def test_a_python_may_be_named_from_where_one_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/usr")
    assert for_everybody(Path("bin/python3")).python == Path("/usr/bin/python3")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("up", "--rad", "/nope"), "argument --rad: /nope: cannot be read: No such file or directory"),
        (("up", "--rad", __file__), f"argument --rad: {__file__}: not TOML"),
        (("up", "--nodes", "0"), "argument --nodes: '0' is no whole number from 1 on"),
        (("up", "--gpus", "-1"), "argument --gpus: '-1' is no whole number from 0 on"),
        (("shell", "--user", "carol"), "argument --user: invalid choice: 'carol'"),
    ],
)
def test_a_wrong_option_is_named_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], said: str
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([*options, "--dir", str(tmp_path / "c")])
    assert said in capsys.readouterr().err
    assert not (tmp_path / "c").exists()


def test_a_python_that_is_not_there_is_named() -> None:
    with pytest.raises(ClusterError, match="/nope/python: no such file"):
        for_everybody(Path("/nope/python"))


def test_one_cluster_after_the_other_makes_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = tmp_path / "made"
    useradd = tmp_path / "useradd"
    useradd.write_text(f'#!/bin/sh\nflock -n /etc true && exit 1\necho "$@" >>{made}\n')
    useradd.chmod(0o755)

    def nobody_is_here(name: str) -> None:
        raise KeyError(name)

    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(pwd, "getpwnam", nobody_is_here)
    ground.make_users()
    assert [line.split()[-1] for line in made.read_text().splitlines()] == ["alice", "bob", "rad"]


def test_every_gpu_has_a_type_of_its_own_in_both_kinds(tmp_path: Path) -> None:
    layout = Layout(tmp_path, 1, nodes=2, gpus=2)
    text = settings.gres_conf(layout)
    assert text.splitlines() == [
        "AutoDetect=off",
        f"NodeName=node[0-1] Name=gpu Type=g0 File={tmp_path}/dev/nvidia0",
        f"NodeName=node[0-1] Name=gpu Type=g1 File={tmp_path}/dev/nvidia1",
        f"NodeName=node[0-1] Name=mps Type=g0 Count=100 File={tmp_path}/dev/nvidia0 Flags=all_sharing",
        f"NodeName=node[0-1] Name=mps Type=g1 Count=100 File={tmp_path}/dev/nvidia1 Flags=all_sharing",
    ]
    assert "Gres=gpu:g0:1,gpu:g1:1,mps:g0:100,mps:g1:100" in settings.slurm_conf(layout, rad=False)


@pytest.mark.parametrize(
    ("version", "plugin"), [((22, 5), "cgroup/v1"), ((23, 11), "cgroup/v1"), ((24, 11), "disabled")]
)
def test_no_slurmd_needs_cgroups(version: tuple[int, int], plugin: str) -> None:
    assert settings.cgroup_conf(version) == f"CgroupPlugin={plugin}\n"
