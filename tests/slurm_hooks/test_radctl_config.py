"""`radctl config`, and that the committed reference page and example are what it prints."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from slurm_hooks import config, config_reference
from slurm_hooks.radctl.main import cli

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]


def _radctl(*args: str) -> Result:
    return CliRunner().invoke(cli, args)


@pytest.mark.parametrize(
    ("command", "path"), [("reference", "docs/configuration.md"), ("example", "etc/rad.toml.example")]
)
def test_committed_file_is_up_to_date(command: str, path: str) -> None:
    committed = (ROOT / path).read_text()
    assert _radctl("config", command).output == committed, f"run: radctl config {command} > {path}"


def test_example_names_every_key_with_its_default() -> None:
    uncommented = "\n".join(
        line.removeprefix("#") if line.startswith("#") and not line.startswith("# ") else line
        for line in config_reference.example().splitlines()
    )
    data = tomllib.loads(uncommented)
    partitions = data.pop("partitions")
    assert config.parse(data, "example") == config.Config()
    assert {name: set(section) for name, section in data.items()} == {
        name: set(vars(getattr(config.Config(), name))) for name in data
    }
    assert set(data) | {"partitions"} == set(vars(config.Config()))
    assert config.parse({"partitions": partitions}, "example").partitions.keys() == {"gpu"}


def test_check_names_partitions(tmp_path: Path) -> None:
    path = tmp_path / "rad.toml"
    path.write_text((ROOT / "etc/rad.toml.example").read_text())
    assert "ok, but it names no partition" in _radctl("config", "check", str(path)).output
    path.write_text(path.read_text() + "[partitions.gpu]\ngpu_model = 'h200'\n")
    result = _radctl("config", "check", str(path))
    assert result.exit_code == 0
    assert result.output.endswith("ok: partitions gpu (enforce, mps)\n")
    assert "empty" not in result.output
    path.write_text("\n")
    assert "is empty, which nodes take for damage" in _radctl("config", "check", str(path)).output


@pytest.mark.parametrize(
    ("monitor", "doubts"),
    [
        ("", []),
        ("source = 'monitors'\nlisten = '0.0.0.0'", []),
        (
            "source = 'monitors'",
            ["listen: '127.0.0.1' is the node's own: radd on another machine reads nothing"],
        ),
        ("source = 'monitors'\nlisten = '::'\nport = 9400", ["url: http://{node}:336 does not lead to port = 9400"]),
        (
            "source = 'monitors'\nlisten = '::'\nurl = 'http://gpu1:336/'",
            ["url: http://gpu1:336/ has no {node}: one monitor would be read for all nodes"],
        ),
        ("source = 'monitors'\nlisten = '::'\nurl = 'https://{node}'", []),
        ("source = 'prometheus'\nport = 9400", []),
    ],
)
def test_check_doubts_that_radd_reads_the_monitors(tmp_path: Path, monitor: str, doubts: list[str]) -> None:
    path = tmp_path / "rad.toml"
    path.write_text(f"[monitor]\n{monitor}\n[partitions.gpu]\ngpu_model = 'h200'\n")
    result = _radctl("config", "check", str(path))
    assert result.exit_code == 0
    assert result.output.splitlines()[:-1] == [f"{path}: [monitor] {doubt}" for doubt in doubts]


def test_check_takes_the_sites_configuration(tmp_path: Path) -> None:
    path = tmp_path / "rad.toml"
    path.write_text("")
    result = _radctl("--config", str(path), "config", "check")
    assert result.exit_code == 0
    assert "names no partition" in result.output


def test_check_tells_of_gpus_of_unknown_memory(tmp_path: Path) -> None:
    path = tmp_path / "rad.toml"
    path.write_text("[partitions.a]\n[partitions.b]\ngpu_model = 'h200'\n[partitions.c]\nmethod = 'off'\n")
    result = _radctl("config", "check", str(path))
    assert result.exit_code == 0
    assert "[partitions.a]: memory of its GPUs is not told: set gpu_model or gpu_memory_mib" in result.output
    assert "[partitions.b]" not in result.output
    assert "[partitions.c]" not in result.output
    path.write_text("[partitions.a]\ngpu_model = 'h2000'\n[partitions.b]\ngpu_memory_mib = 80\n")
    result = _radctl("config", "check", str(path))
    assert "[partitions.a]: gpu_model 'h2000' is not known: set gpu_memory_mib" in result.output
    assert "[partitions.b]: margin_mib = 2048 leaves nothing of a GPU's 80 MiB: lower it" in result.output
    path.write_text(
        "[partitions.a]\ngpu_model = 'h2000'\ngpu_memory_mib = 40000\n[partitions.b]\ngpu_model='rtx-2080ti'\n"
    )
    result = _radctl("config", "check", str(path))
    assert "[partitions.a]: gpu_model 'h2000' is not known: bounds are 20 % wider" in result.output
    assert "[partitions.b]" not in result.output


@pytest.mark.parametrize("name", ["*", "gpu*", "gpu,cpu", "gpu[1-2]", "gpu cpu"])
def test_check_tells_of_names_that_look_like_several_partitions(tmp_path: Path, name: str) -> None:
    path = tmp_path / "rad.toml"
    path.write_text(f'[partitions."{name}"]\ngpu_model = "h200"\n[partitions.gpu-1_a]\ngpu_model = "h200"\n')
    result = _radctl("config", "check", str(path))
    assert result.exit_code == 0
    assert result.output.splitlines()[1:] == [
        f"{path}: [partitions.{name}]: means a partition of just this name: write a section for each"
    ]


def test_check_tells_of_values_that_do_not_go_together(tmp_path: Path) -> None:
    path = tmp_path / "rad.toml"
    path.write_text(
        "[radd]\ndecide_s = 0.05\npoll_s = 30\nmax_request_kib = 900\n[monitor]\nread_s = 60\nsource = 'monitors'\n"
        "[estimator]\nmax_summary_kib = 513\n"
    )
    result = _radctl("config", "check", str(path))
    assert result.exit_code == 0
    assert [line.split(": ")[1] for line in result.output.splitlines()[:-1]] == [
        "[radd] max_request_kib",
        "[estimator] max_summary_kib",
        "[radd] decide_s",
        "[radd] poll_s",
        "[monitor] read_s",
        "[monitor] listen",
    ]


def test_check_refuses_a_socket_with_which_radd_does_not_start(tmp_path: Path) -> None:
    path = tmp_path / "rad.toml"
    for length, exit_code in ((107, 0), (108, 2)):
        path.write_text(f"[radd]\nsocket = '/{'a' * (length - 1)}'\n")
        result = _radctl("config", "check", str(path))
        assert result.exit_code == exit_code
    assert result.stderr.startswith(f"radctl: {path}: [radd] socket: longer than the 107 bytes")
    assert "ok" not in result.stdout


def test_check_says_file_key_and_cure(tmp_path: Path) -> None:
    path = tmp_path / "rad.toml"
    path.write_text("[partitions.gpu]\nplacment = 'magm'\n")
    result = _radctl("config", "check", str(path))
    assert result.exit_code == 2
    assert result.stderr == f"radctl: {path}: [partitions.gpu] placment: no such key: did you mean 'placement'?\n"


def test_check_of_an_absent_file(tmp_path: Path) -> None:
    result = _radctl("config", "check", str(tmp_path / "none.toml"))
    assert result.exit_code == 2
    assert "none.toml: cannot be read" in result.stderr
