"""What is looked at on a machine, and what is found."""

from __future__ import annotations

import dataclasses
import os
import pwd
import shutil
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

import pynvml
import pytest

import slurm_hooks
from predictor import nvml
from slurm_hooks.config import Config, EstimatorSettings, Mps, Node, Radd
from slurm_hooks.doctor.examine import Role
from slurm_hooks.doctor.facts import NodeFact
from slurm_hooks.doctor.look import daemons, files, gpus, hooks, lua
from slurm_hooks.doctor.look import slurm as slurm_facts
from slurm_hooks.doctor.look.gather import gather
from slurm_hooks.slurm.commands import SlurmError
from tests.slurm_hooks.doctor.machine import (
    CONFIG_TEXT,
    GRES_CONF,
    HOOK,
    KEPT,
    NODE_TEXT,
    PARTITION_TEXT,
    SETTINGS,
    WELL,
    only,
    problems,
)


def test_what_systemd_says_of_the_timer(tmp_path: Path) -> None:
    def run(command: Sequence[str], timeout_s: float) -> str:
        assert (command[0], command[-1]) == ("systemctl", "rad-spool.timer")
        return "active\n"

    def fails(command: Sequence[str], timeout_s: float) -> str:
        raise SlurmError("systemctl: Failed to connect to bus")

    assert daemons.timer(run, tmp_path, 1.0) is None
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    assert daemons.timer(run, tmp_path, 1.0) == "active"
    assert daemons.timer(fails, tmp_path, 1.0) is None


def test_slurms_own_words() -> None:
    assert SETTINGS["AuthInfo"] == "socket=/srv/slurm/run/munge/munge.socket,cred_expire=5"
    assert slurm_facts.parse_settings(CONFIG_TEXT)["JobSubmitPlugins"] == ""
    (node,) = WELL.nodes
    assert (node.name, node.host, node.partitions, node.features) == (
        "node0",
        "vm",
        frozenset({"gpu"}),
        frozenset({"h200"}),
    )
    assert node.gres.startswith("gpu:g0:1,gpu:g1:1,")
    assert node.state == "IDLE"
    assert slurm_facts.parse_nodes("NodeName=x Gres=(null)\nNodeHostName=y\n") == [NodeFact("x")]
    text = "NodeName=x State=IDLE+DRAIN Reason=gres/gpu count low (3 < 4) [slurm@2026-11-28T01:00:00] Comment=a\n"
    assert slurm_facts.parse_nodes(text) == [NodeFact("x", state="IDLE+DRAIN", reason="gres/gpu count low (3 < 4)")]


def test_several_hooks() -> None:
    text = "Prolog[0]               = /opt/rad/prolog.sh\nProlog[1]  = /etc/site.sh\nSlurmctldHost[0] = vm(127.0.0.1)\n"
    settings = slurm_facts.parse_settings(text)
    assert settings == {"Prolog": "/opt/rad/prolog.sh,/etc/site.sh", "SlurmctldHost[0]": "vm(127.0.0.1)"}
    finding = only("node", settings={**SETTINGS, **settings})
    assert (finding.subject, finding.found) == ("Prolog", "/etc/site.sh: absent")


def _slurm_says(folder: Path) -> dict[str, str]:
    config = CONFIG_TEXT.replace("/srv/slurm/etc/slurm.conf", str(folder / "slurm.conf"))
    plugins = config.replace("/usr/lib/x86_64-linux-gnu/slurm-wlm", str(folder))
    return {"config": plugins, "partition": PARTITION_TEXT, "node": NODE_TEXT}


def _end_one(server: socket.socket) -> None:
    """What radd does with a connection that asks nothing."""
    peer, _ = server.accept()
    with peer:
        assert peer.recv(1) == b""


def test_facts_of_a_machine(tmp_path: Path) -> None:
    (tmp_path / "gres.conf").write_text(GRES_CONF)
    (tmp_path / "job_submit.lua").write_text(HOOK)
    (tmp_path / "job_submit_lua.so").write_bytes(b"\x7fELF\0liblua5.1.so.0\0")
    module = tmp_path / "usr/local/share/lua/5.1/rad.lua"
    module.parent.mkdir(parents=True)
    module.touch()
    for name in ("rad_submit", "rad_summary"):
        module.with_name(f"{name}.lua").touch()
    other = tmp_path / "usr/lib/x86_64-linux-gnu/lua/5.3/socket/unix.so"
    other.parent.mkdir(parents=True)
    other.touch()
    control = tmp_path / "fifo"
    os.mkfifo(control)
    moved = tmp_path / "mps"
    moved.symlink_to(tmp_path)
    says = _slurm_says(tmp_path)
    qos, assoc = "normal||gres/gpu=4|cpu=8,gres/gpu:g0=1||gres/gpu=1\n", "root|||\nml|gres/gpu=1||alice\n"
    sacctmgr_says = {"user": "Administrator\n", "cluster": "rad\n", "qos": qos, "assoc": assoc}

    def run(command: Sequence[str], timeout_s: float) -> str:
        if command[0] == "sacctmgr":
            if command[4] == "user":
                assert command[5] == "root"
            return sacctmgr_says[command[4]]
        return says[command[2]]

    path = str(tmp_path / "radd.sock")
    toml = tmp_path / "rad.toml"
    toml.touch()
    os.utime(toml, (1, 1))
    config = Config(
        radd=Radd(socket=path, slurm_user="nobody-of-that-name"),
        node=Node(state_dir=str(tmp_path), spool_dir=str(control)),
        mps=Mps(run_dir=str(moved), nvidia_smi="sh"),
    )
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        radd = threading.Thread(target=_end_one, args=(server,))
        radd.start()
        facts = gather(config, toml, KEPT, runner=run, root=tmp_path)
        radd.join()
    assert facts.slurm_error == facts.slurmdbd_error == ""
    assert not facts.changed
    os.utime(toml, (2**32, 2**32))
    assert gather(config, toml, KEPT, runner=run, root=tmp_path).changed
    assert facts.partitions == {"gpu", "cpu"}
    assert facts.preempted == {"gpu"}
    assert facts.whole == {"cpu"}
    assert facts.billing == {"gpu": "CPU=0,GRES/gpu=1.0", "cpu": ""}
    assert facts.limits["QOS normal"] == ("", "gres/gpu=4", "cpu=8,gres/gpu:g0=1", "")
    assert facts.least == {"normal": "gres/gpu=1"}
    assert set(facts.limits) == {"QOS normal", "account root", "user alice of ml"}
    assert facts.gres_conf == GRES_CONF
    assert facts.scripts == {"job_submit.lua": HOOK, "cli_filter.lua": None}
    assert facts.lua_version == "5.1"
    there = {name: str(module.with_name(f"{name}.lua")) for name in ("rad", "rad_submit", "rad_summary")}
    assert facts.lua_modules == {**there, "rad_script": "", "rad_step": "", "socket.unix": "", "posix": ""}
    assert facts.files[path].kind == "socket"
    assert facts.files[str(tmp_path)].kind == "directory"
    assert facts.files[str(control)].kind == "other"
    assert facts.files[str(moved)].kind == "link"
    assert facts.files["sh"].kind == "file"
    assert facts.users == {}
    assert facts.radd_error == ""
    assert (facts.radd_user, facts.radd_rights) == ("root", "Administrator")
    assert gather(config, toml, KEPT, runner=run, root=tmp_path).radd_error == f"{path}: Connection refused"


def test_a_slurmdbd_that_hangs_is_asked_once(tmp_path: Path) -> None:
    asked: list[str] = []

    def run(command: Sequence[str], timeout_s: float) -> str:
        if command[0] == "sacctmgr":
            asked.append(command[4])
            raise SlurmError(f"no answer within {timeout_s:g} s")
        return ""

    there = tmp_path / "radd.sock"
    there.touch()  # radd's user has rights to ask for
    facts = gather(Config(radd=Radd(socket=str(there))), tmp_path / "rad.toml", KEPT, runner=run, root=tmp_path)
    assert (facts.slurmdbd_error, asked) == ("no answer within 20 s", ["cluster"])
    assert (facts.radd_rights, facts.limits, facts.least) == (None, {}, {})


@pytest.mark.parametrize(
    ("file", "text", "path"),
    [
        ("rad.env", "RAD_PYTHON=/opt/rad/bin/python\nRAD_PATH=/opt/slurm/bin:/bin\n", "/opt/slurm/bin:/bin"),
        ("rad.env", "export RAD_CONFIG=/a/rad.toml RAD_PATH='/opt/slurm/bin' # ours\n", "/opt/slurm/bin"),
        ("rad.env", 'RAD_PATH="/opt/slurm/bin:$PATH"\n', f"/opt/slurm/bin:{hooks.OF_HOOKS}"),
        ("rad.env", "RAD_PATH=/opt/older/bin\nRAD_PATH=/opt/slurm/bin\n", "/opt/slurm/bin"),
        ("rad.env", "#RAD_PATH=/opt/slurm/bin\n", hooks.OF_HOOKS),
        ("prolog.sh", "#!/bin/sh\nRAD_PATH=/opt/slurm/bin\n", "/opt/slurm/bin"),
    ],
)
def test_where_the_hooks_look_for_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, text: str, path: str
) -> None:
    monkeypatch.setattr(sys, "prefix", "/nowhere")
    hook = (Path(__file__).parents[3] / "etc" / "prolog.sh").read_text()
    (tmp_path / "prolog.sh").write_text(hook)
    assert hooks.path_of_hooks({"Prolog": f"{tmp_path}/prolog.sh"}) == hooks.OF_HOOKS
    assert f"${{RAD_PATH:-{hooks.OF_HOOKS}}}" in hook
    (tmp_path / file).write_text(text)
    assert hooks.path_of_hooks({"Prolog": f"{tmp_path}/prolog.sh"}) == path


def test_which_configuration_the_hooks_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", "/nowhere")
    shutil.copy(Path(__file__).parents[3] / "etc" / "prolog.sh", tmp_path)
    toml, link = tmp_path / "rad.toml", tmp_path / "link.toml"
    link.symlink_to(toml)

    def run(command: Sequence[str], timeout_s: float) -> str:
        return f"Prolog = {tmp_path}/prolog.sh\n" if command[2] == "config" else ""

    assert gather(Config(), toml, KEPT, runner=run, root=tmp_path).read == ""
    (tmp_path / "rad.env").write_text(f"RAD_PYTHON=/a/python\nRAD_CONFIG={link}\n")
    assert gather(Config(), toml, KEPT, runner=run, root=tmp_path).read == ""
    assert gather(Config(), tmp_path / "other.toml", KEPT, runner=run, root=tmp_path).read == str(link)
    (tmp_path / "rad.env").write_text(f"OURS={tmp_path}\nRAD_CONFIG=$OURS/rad.toml\n")
    assert gather(Config(), toml, KEPT, runner=run, root=tmp_path).read == ""


def test_facts_without_slurm(tmp_path: Path) -> None:
    def run(command: Sequence[str], timeout_s: float) -> str:
        raise SlurmError("scontrol: Unable to contact slurm controller")

    config = Config(radd=Radd(socket=str(tmp_path / "none"), slurm_user="root"))
    facts = gather(config, tmp_path / "rad.toml", KEPT, runner=run, root=tmp_path)
    assert not facts.changed
    assert facts.slurm_error == facts.slurmdbd_error == "scontrol: Unable to contact slurm controller"
    assert (facts.settings, facts.nodes, facts.gres_conf, facts.lua_version) == ({}, (), None, "")
    assert facts.users == {"root": (0, 0)}
    assert (facts.radd_user, facts.radd_rights) == ("", None)
    assert slurm_facts.rights(run, "rad", 1.0) is None
    assert "No such file" in (facts.radd_error or "")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody can enter, which pytest's own are not."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def test_what_users_cannot_read(open_folder: Path) -> None:
    toml = open_folder / "rad.toml"
    toml.touch(0o644)
    assert files.closed(toml) == files.closed(open_folder / "absent") == ""
    open_folder.chmod(0o711)
    assert files.closed(toml) == files.closed(open_folder) == ""
    toml.chmod(0o640)
    assert files.closed(toml) == str(toml)
    assert files.closed(toml, os.geteuid()) == files.closed(toml, 7, [toml.stat().st_gid]) == ""
    toml.chmod(0o604)
    inner = open_folder / "inner"
    inner.mkdir(0o755)
    (inner / "link").symlink_to(toml)
    open_folder.chmod(0o700)
    assert files.closed(inner / "link") == str(open_folder)
    circle = open_folder / "circle"
    circle.symlink_to(circle)
    assert files.closed(circle, os.geteuid()) == ""
    finding = only("node", closed={"rad.toml": "/etc/rad"})
    assert (finding.subject, finding.found) == ("rad.toml", "/etc/rad: not for everybody to read")
    assert not finding.needed
    assert "chmod o+rX /etc/rad" in finding.cure


@pytest.mark.parametrize(
    ("room", "full"),
    [
        ({}, False),
        ({"f_bfree": 15}, True),
        ({"f_ffree": 0}, True),
        ({"f_ffree": 0, "f_files": 0}, False),
        ({"f_bfree": 0, "f_blocks": 0}, False),
    ],
)
def test_file_systems_that_are_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: dict[str, int], full: bool
) -> None:
    plenty = {"f_blocks": 99, "f_bfree": 16, "f_frsize": 4096, "f_files": 9, "f_ffree": 1}
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(**plenty | room))
    (tmp_path / "file").touch()
    assert files.fact_of(str(tmp_path), follow=False).full == full
    assert not files.fact_of(str(tmp_path / "file"), follow=False).full


def test_what_is_closed_to_whom(open_folder: Path, tmp_path: Path) -> None:
    for name in ("rad.toml", "job_submit.lua", "cli_filter.lua", "rad.lua", "radd.sock"):
        (open_folder / name).touch(0o600)
    user = pwd.getpwuid(os.geteuid())
    config = Config(
        radd=Radd(socket=str(open_folder / "radd.sock"), slurm_user=user.pw_name),
        node=Node(state_dir=str(tmp_path)),
        mps=Mps(run_dir=str(open_folder)),
    )
    users = {user.pw_name: (user.pw_uid, user.pw_gid)}
    toml, modules = open_folder / "rad.toml", [str(open_folder / "rad.lua"), ""]
    closed = files.all_closed(config, toml, open_folder, modules, users)
    assert set(closed) == {"rad.toml", "[node] state_dir", "Lua module rad", "cli_filter.lua"}
    assert Path(closed["[node] state_dir"]) in (tmp_path, *tmp_path.parents)
    (open_folder / "slurm.conf").touch(0o640)
    assert "cli_filter.lua" not in files.all_closed(config, toml, open_folder, modules, users)
    (open_folder / "slurm.conf").chmod(0o644)
    assert "cli_filter.lua" in files.all_closed(config, toml, open_folder, modules, users)
    open_folder.chmod(0o700)
    assert "cli_filter.lua" not in files.all_closed(config, toml, open_folder, modules, users)
    others = files.all_closed(config, toml, open_folder, modules, {user.pw_name: (4711, user.pw_gid)})
    assert (others["radd socket"], others["job_submit.lua"]) == (str(open_folder), str(open_folder))
    assert "job_submit.lua" not in files.all_closed(config, toml, None, modules, {})
    open_folder.chmod(0o600)
    for_root = files.all_closed(config, toml, open_folder, modules, {"root": (0, 0)})
    assert not {"radd socket", "job_submit.lua"} & set(for_root)
    open_folder.chmod(0o755)


def test_which_scripts_the_hooks_are(tmp_path: Path) -> None:
    ours, other = tmp_path / "ours.sh", tmp_path / "other.sh"
    ours.write_text("#!/bin/sh\n/opt/rad/etc/prolog.sh\n")
    other.write_text("#!/bin/sh\nscratch --gradual\n")
    assert hooks.scripts(f"{tmp_path}/*.sh,/no/such/*") == [str(other), str(ours), "/no/such/*"]
    assert hooks.name_rad([str(other), str(ours)])
    assert hooks.name_rad([str(tmp_path / "absent")])
    assert hooks.name_rad([])
    assert not hooks.name_rad([str(other)])
    for name in ("prolog.sh", "epilog.sh"):
        assert hooks.name_rad([str(Path(__file__).parents[3] / "etc" / name)])


def test_a_gres_conf_that_includes_others(tmp_path: Path) -> None:
    (tmp_path / "gres.conf").write_text("AutoDetect=off\n Include mps.conf # ours\ninclude absent.conf\n")
    (tmp_path / "mps.conf").write_text("Name=mps Count=100\ninclude mps.conf\n")
    text = files.with_included(tmp_path / "gres.conf") or ""
    assert text.startswith("AutoDetect=off\nName=mps Count=100\n")
    assert only("node", gres_conf=text).found == "Name=mps Count=100"


def test_models_that_cannot_be_used(tmp_path: Path) -> None:
    config = Config(estimator=EstimatorSettings(models_dir=str(tmp_path)))
    assert daemons.model(config) == ""
    (tmp_path / "rad").mkdir()
    (tmp_path / "rad" / "current").write_text("none\n")
    assert f"{tmp_path}/rad/current names no version" in daemons.model(config)


def test_a_node_without_a_slurm_conf_of_its_own(tmp_path: Path) -> None:
    conf, cache = tmp_path / "etc" / "slurm.conf", tmp_path / "run/slurm/conf"
    assert files.folder_of("", tmp_path) is None
    assert files.folder_of(str(conf), tmp_path) == conf.parent
    cache.mkdir(parents=True)
    (cache / "slurm.conf").touch()
    assert files.folder_of(str(conf), tmp_path) == cache
    closed = tmp_path / ("x" * 256) / "slurm.conf"  # cannot be looked at, as what lies in another's closed folder
    assert files.folder_of(str(closed), tmp_path) == cache
    conf.parent.mkdir()
    conf.touch()
    assert files.folder_of(str(conf), tmp_path) == conf.parent


def test_lua_modules_of_another_version(tmp_path: Path) -> None:
    other = tmp_path / "rad.lua"
    shutil.copy(Path(slurm_hooks.__file__).with_name("lua") / "rad.lua", other)
    assert lua.is_ours("rad", str(other))
    other.write_text("return {}\n")
    assert not lua.is_ours("rad", str(other))
    assert lua.is_ours("rad", str(tmp_path / "absent"))


@pytest.mark.parametrize("role", ["controller", "node"])
def test_no_configuration_at_all(role: Role, tmp_path: Path) -> None:
    finding = only(role, Config(), absent="/etc/rad/rad.toml")
    assert (finding.subject, finding.found, finding.needed) == ("rad.toml", "/etc/rad/rad.toml: absent", True)
    assert "Prolog and Epilog do nothing" in finding.cure

    def run(argv: Sequence[str], timeout_s: float) -> str:
        raise SlurmError(f"{argv[0]} {timeout_s}")

    toml = tmp_path / "rad.toml"
    assert gather(Config(), toml, KEPT, runner=run, root=tmp_path).absent == str(toml)
    toml.touch()
    assert gather(Config(), toml, KEPT, runner=run, root=tmp_path).absent == ""


def test_a_radd_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel takes connections for it all the same."""
    monkeypatch.setattr(daemons, "_CONNECT_TIMEOUT_S", 0.01)
    path = str(tmp_path / "radd.sock")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        assert daemons.connect(path) == f"{path}: timed out"


def test_a_socket_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: socket.socket, path: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert daemons.connect("/run/rad/radd.sock") is None


def test_the_monitor() -> None:
    finding = only("node", monitor_error="127.0.0.1:336: Connection refused")
    assert (finding.subject, finding.needed) == ("rad-monitor", False)
    assert problems("node", dataclasses.replace(WELL, monitor_error=None)) == []
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert daemons.reach("0.0.0.0", port) == ""
    assert daemons.reach("é..x", port) == "é..x: no address"
    assert daemons.reach("127.0.0.1", port) == f"127.0.0.1:{port}: Connection refused"


def test_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", fail)
    assert gpus.gpus() == (None, 0, (), "NVML Shared Library Not Found")
    ended: list[bool] = []
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", lambda: 4)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", lambda index: index)
    monkeypatch.setattr(nvml, "instances", lambda _, index: [("1g.18gb", 16_384)] if index else None)
    monkeypatch.setattr(pynvml, "nvmlShutdown", lambda: ended.append(True))
    assert gpus.gpus() == (1, 0, 3 * (("1g.18gb", 16_384),), "")
    monkeypatch.setattr(nvml, "instances", lambda *_: None)
    told = {0: 81_559, 1: 40_960, 2: 81_559}  # of the fourth the driver does not tell
    monkeypatch.setattr(
        nvml, "quiet", lambda *asked: told.get(asked[-1]) and SimpleNamespace(total=told[asked[-1]] << 20)
    )
    assert gpus.gpus() == (4, 40_960, (), "")
    assert ended == [True, True]
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert gpus.gpus() == (None, 0, (), "NVML's Python binding is missing: pip install nvidia-ml-py")
