"""`radctl decide` and `radctl bench decide`: radd's answers without submitting."""

from __future__ import annotations

import dataclasses
import gc
import getpass
import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from estimator import footprint
from estimator.footprint import Footprint
from estimator.parsers import parse_summary
from estimator.types import Estimate, ModelSummary, Workload
from slurm_hooks import bench, hook, loading
from slurm_hooks.answer import Answer
from slurm_hooks.cluster import ClusterView, Gpu, Node
from slurm_hooks.config import Config
from slurm_hooks.radctl import decide as command
from slurm_hooks.radctl.main import cli
from slurm_hooks.records import Record, Run
from slurm_hooks.service import Service
from slurm_hooks.slurm.accounting import JobRun
from slurm_hooks.slurm.commands import SlurmError
from tests.slurm_hooks.jobs import HOUR, NOON, job_run

SCRIPT = "#!/bin/bash\n#SBATCH --gres=gpu:1\n#RAD model=net.txt batch_size=8\npython train.py\n"
NODE = Node(
    "node0", True, frozenset({"gpu"}), frozenset(), 64, 100_000, (Gpu("node0", "g0", 80), Gpu("node0", "g1", 0))
)
FEATURED = dataclasses.replace(NODE, features=frozenset({"h200"}))


class _Accounting:
    """slurmdbd, with what the test puts in."""

    known: tuple[JobRun, ...] = ()
    error = ""

    def __init__(self, timeout_s: float) -> None:
        pass

    def runs(self, since: int, until: int, user: str = "") -> list[JobRun]:
        if self.error:
            raise SlurmError(self.error)
        assert since < until
        return [run for run in self.known if run.user == user]


PARTITIONS = "PartitionName=cpu AllowGroups=ALL Default=NO State=UP\nPartitionName=gpu Default=YES QoS=N/A\n"


class _Fixed:
    """Estimates 20,000 MiB for everything."""

    name = "fixed"

    def predict(self, summary: ModelSummary, workload: Workload) -> Estimate:
        return Estimate(20_000, 28_000, "fixed", "mlp", "abc", ("fixed",))


class _Slurm:
    error = ""
    release = (22, 5)

    def __init__(self, timeout_s: float) -> None:
        pass

    def version(self) -> tuple[int, int]:
        if self.error:
            raise SlurmError(self.error)
        return self.release

    def look(self, partitions: Sequence[str]) -> ClusterView:
        if self.error:
            raise SlurmError(self.error)
        return ClusterView(taken=time.time(), nodes=(NODE,))


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(loading, "load_method", lambda name, models: _Fixed())
    monkeypatch.setattr(command, "SlurmCommands", _Slurm)
    monkeypatch.setattr(command, "SlurmAccounting", _Accounting)
    monkeypatch.setattr(_Accounting, "known", ())
    monkeypatch.setattr(_Accounting, "error", "")
    monkeypatch.setattr(command, "run", lambda words, timeout_s: PARTITIONS)
    monkeypatch.setattr(_Slurm, "error", "")
    (tmp_path / "net.txt").write_text(bench.mlp(3))
    (tmp_path / "rad.toml").write_text("[radd]\ndecide_s = 5\n[partitions.gpu]\ngpu_model = 'h200'\n")
    path = tmp_path / "job.sh"
    path.write_text(SCRIPT)
    return path


def _radctl(*args: str | Path) -> Result:
    return CliRunner().invoke(cli, ["--config", "rad.toml", *map(str, args)])


def test_the_decision(job: Path) -> None:
    shown = _radctl("decide", job)
    assert shown.exit_code == 0
    assert shown.output.splitlines() == [
        "19.5 GiB expected, 27.3 GiB reserved (net.txt, batch 8, adam, fp32): 32 of 100 shares of one GPU",
        "  tres_per_node=gres:mps:g1:32",
        "  32 shares for SMACT 0.25 of 0.80",
        "  magm chose g1 of node0",
    ]


def test_a_script_in_another_encoding_than_utf_8(job: Path) -> None:
    job.write_bytes(SCRIPT.replace("#RAD", "# caf\xe9\n#RAD").encode("latin-1"))
    shown = _radctl("decide", job)
    assert shown.exit_code == 0, shown.exception
    assert "32 of 100 shares of one GPU" in shown.output


def test_json(job: Path) -> None:
    made = json.loads(_radctl("decide", job, "--json").output)
    assert (made["action"], made["share"], made["pin"], made["node"]) == ("share", 32, "g1", "node0")
    assert (made["expected_mib"], made["upper_mib"], made["method"]) == (20_000, 28_000, "fixed")
    assert made["request"] == {"tres_per_node": "gres:mps:g1:32"}
    assert (made["partition"], made["refused"]) == ("gpu", False)


def test_lines_of_other_batch_systems_are_told_of(job: Path) -> None:
    assert "sbatch" not in _radctl("decide", job).stderr
    job.write_text(SCRIPT.replace("#SBATCH", "#PBS -l walltime=1:00:00\n#SBATCH"))
    shown = _radctl("decide", job)
    assert "sbatch follows #PBS lines too, radctl does not" in shown.stderr
    assert "share" in shown.stdout


def test_a_comment_that_looks_like_a_directive_is_told_of(job: Path) -> None:
    assert "looks like" not in _radctl("decide", job).stderr
    job.write_text(SCRIPT.replace("#RAD", "# RAD"))
    shown = _radctl("decide", job)
    assert shown.stderr.startswith("radctl: line 3 looks like a directive and is a comment: write #RAD model=...,")
    assert shown.stdout == "the job goes through as written: its script has no #RAD line\n"


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("", "empty"),
        (" \n\t\n", "whitespace"),
        (SCRIPT.replace("#!", "# !", 1), "#!"),
        ("\n" + SCRIPT, "#!"),
        ("\ufeff" + SCRIPT, "byte order mark"),
        (SCRIPT.replace("\n", "\r\n"), "DOS line breaks"),
    ],
)
def test_what_sbatch_refuses_itself(job: Path, script: str, why: str) -> None:
    job.write_bytes(script.encode())
    shown = _radctl("decide", job)
    assert shown.exit_code == 1
    assert shown.stdout.startswith("refused: sbatch takes no such script")
    assert why in shown.stdout


def test_a_later_slurm(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Slurm, "release", (24, 11))
    assert json.loads(_radctl("decide", job, "--json").output)["request"] == {"tres_per_node": "gres/mps:g1:32"}


def test_nothing_is_changed(job: Path) -> None:
    before = {path.name: path.read_bytes() for path in job.parent.iterdir()}
    _radctl("decide", job)
    assert {path.name: path.read_bytes() for path in job.parent.iterdir()} == before


def test_options_of_sbatch(job: Path) -> None:
    made = json.loads(_radctl("decide", job, "--json", "--gres=gpu:2", "-p", "gpu").output)
    assert made["action"] == "left_alone"
    assert made["reasons"] == ["the job asks for more than one GPU"]
    assert "RAD does not serve it" in _radctl("decide", job, "--partition=cpu").output


@pytest.mark.parametrize("before", [["--gres=gpu:2"], ["--gres", "gpu:2", "-Jhello"], ["-HG", "gpu:1", "-Jhello"]])
def test_options_of_sbatch_stand_before_the_script_too(job: Path, before: list[str]) -> None:
    made = json.loads(_radctl("decide", *before, job, "--json", "-pgpu").output)
    assert made["action"] == "left_alone"
    assert made["partition"] == "gpu"


def test_another_cluster_is_told_of(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "radctl: told of the cluster here, whichever of --clusters=b gets the job\n"
    assert _radctl("decide", job, "-Mb").stderr == said
    monkeypatch.setenv("SLURM_CLUSTERS", "b")
    assert _radctl("decide", job).stderr == said
    assert _radctl("decide", job, "--clusters=a,c").stderr == said.replace("=b", "=a,c")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["-pnosuch"], "there is no partition nosuch, only cpu, gpu"),
        (["-pgpu,nosuch"], "there is no partition nosuch, only cpu, gpu"),
        (["-wnosuch"], "there is no node nosuch"),
        (["-wnode0", "-xnode[1-2]"], "there is no node node2"),
        (["--gres=gpu:h9:1"], "no node of partition gpu has a GPU of type h9"),
        (["--gres=none", "--gpus-per-task=h9:1", "-n1"], "no node of partition gpu has a GPU of type h9"),
        (["--gres=gpu:h9:2"], "no node of partition gpu has a GPU of type h9"),
        (["--gres=none", "--gpus-per-task=1"], "--gpus-per-task goes with --ntasks or --gpus: add --ntasks=1"),
        (["--gres=none", "--gpus-per-task=1", "-N1", "-c2"], "--gpus-per-task goes with --ntasks or --gpus: add --n"),
    ],
)
def test_what_slurm_refuses_is_not_shared(
    job: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], why: str
) -> None:
    said = {"scontrol": PARTITIONS, "sinfo": "gpu:g0:1,mps:g0:100\n(null)\n", "%N": "node0\nnode1\n"}
    monkeypatch.setattr(command, "run", lambda words, timeout_s: said.get(words[-1], said[words[0]]))
    shown = _radctl("decide", job, *options)
    assert shown.exit_code == 1
    assert shown.output.startswith(f"refused: Slurm takes no such job: {why}")


@pytest.mark.parametrize(
    "options",
    [
        ["--gres=gpu:g0:1"],
        ["-wnode0", "-xnode1"],
        ["-wnode[0-3]"],  # of these sbatch takes none for a job of one node
        ["-w/etc/hosts"],
        ["--gres=gpu:h200:1"],  # a feature, as far as RAD asks for it
        ["--gres=none", "--gpus-per-task=1", "-n1"],
        ["--gres=none", "--gpus-per-task=1", "-N1"],
        ["--gres=none", "--gpus-per-task=1", "-B1"],
        ["--gres=none", "--gpus-per-task=1", "--ntasks-per-node=1", "-c2"],
        ["-Mother", "--gres=gpu:h9:1"],
    ],
)
def test_what_slurm_takes_is_decided(job: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]) -> None:
    gres = "gpu:g0:1,gpu:g1:1,mps:g0:100,mps:g1:100\n"
    said = {"scontrol": PARTITIONS, "sinfo": gres, "%N": "node0\nnode1\n"}
    monkeypatch.setattr(command, "run", lambda words, timeout_s: said.get(words[-1], said[words[0]]))
    monkeypatch.setattr(_Slurm, "look", lambda *_: ClusterView(taken=time.time(), nodes=(FEATURED,)))
    shown = _radctl("decide", job, *options)
    assert (shown.exit_code, "refused" in shown.output) == (0, False), shown.output


def test_a_value_is_no_option_of_radctl(job: Path) -> None:
    shown = _radctl("decide", job, "-pcpu")
    assert shown.output == "partition cpu: RAD does not serve it: the job goes through as written\n"
    assert _radctl("decide", "-h").output == _radctl("decide", "--help").output
    shown = _radctl("decide", "--gres=gpu:1")
    assert (shown.exit_code, shown.stderr.splitlines()[-1]) == (2, "Error: Missing argument 'SCRIPT'.")


def test_variables_of_sbatch(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SBATCH_GRES", "gpu:2")
    assert "more than one GPU" in _radctl("decide", job).output
    assert json.loads(_radctl("decide", job, "--json", "--gres=gpu:1").output)["action"] == "share"
    monkeypatch.setenv("SBATCH_PARTITION", "cpu")
    assert "RAD does not serve it" in _radctl("decide", job).output


def test_a_summary_that_would_not_be_handed_on(job: Path) -> None:
    assert "net.txt: it was not handed on (--export without ALL" in _radctl("decide", job, "--export=NONE").output
    job.write_text(SCRIPT.replace("model=net.txt", "model=net.txt memory=20G"))
    assert "20.0 GiB claimed" in _radctl("decide", job, "--export=NONE").output


def test_what_is_no_option_of_sbatch_is_named(job: Path) -> None:
    shown = _radctl("decide", job, "--json", "--partion=cpu", "--time", "1:00")
    assert shown.stderr == "radctl: --partion=cpu is no option of sbatch that radctl knows, and is passed over\n"
    assert json.loads(shown.stdout)["action"] == "share"


@pytest.mark.parametrize("option", ["--partition=no\x1b[31m", "--partion=\x1b]0;title\x07"])
def test_no_script_moves_the_terminal_of_who_looks_at_it(job: Path, option: str) -> None:
    job.write_text(SCRIPT.replace("#RAD", f"#SBATCH {option}\n#RAD", 1))
    shown = CliRunner().invoke(cli, ["--config", "rad.toml", "decide", str(job)], color=True)
    assert "?" in shown.output
    assert shown.output.replace("\n", "").isprintable()


def test_refused(job: Path) -> None:
    job.write_text(SCRIPT.replace("batch_size", "bach_size"))
    shown = _radctl("decide", job)
    assert shown.exit_code == 1
    assert shown.output == "refused: line 3: unknown key 'bach_size': did you mean 'batch_size'?\n"
    made = json.loads(_radctl("decide", job, "--json").output)
    assert (made["action"], made["refused"]) == ("refused", True)


def test_no_directives(job: Path) -> None:
    job.write_text("#!/bin/bash\n#SBATCH --gres=gpu:1\npython x\n")
    assert _radctl("decide", job).output == "the job goes through as written: its script has no #RAD line\n"
    assert json.loads(_radctl("decide", job, "--json").output)["action"] == "none"


def test_directives_behind_the_first_command(job: Path) -> None:
    job.write_text("#!/bin/bash\n#SBATCH --gres=gpu:1\npython x\n#RAD late=1\n")
    said = "#RAD lines after the first command have no effect: move them up, beside the #SBATCH lines\n"
    assert _radctl("decide", job).output == said


def test_what_stands_behind_the_first_command_of_a_script_that_is_sent_whole(job: Path) -> None:
    job.write_text(SCRIPT + "#RAD memory=1G\n")
    assert "\n#RAD lines after the first command have no effect" in _radctl("decide", job).output
    job.write_text(SCRIPT + "#RAD memory=1G\n" + "#" * 65_536)
    assert "no effect" not in _radctl("decide", job).output


def test_what_the_hook_does_not_ask_radd_about(job: Path) -> None:
    job.write_text(SCRIPT.replace("python", "#" * 800_000 + "\npython"))
    assert _radctl("decide", job).output.startswith("the leading comment block is longer than 768 KiB or has over ")
    job.write_text("#!/bin/sh\n#RAD memory=1G\n" + "\n#\n" * 10_001)
    assert _radctl("decide", job).output.startswith("the leading comment block is longer than 768 KiB or has over ")
    Path("net.txt").write_text("x" * 500_000)
    job.write_text(SCRIPT.replace("python", "#" * 500_000 + "\npython"))
    assert _radctl("decide", job).output == (
        "script, summary and options are longer than 1000 KB together: the job goes through as written\n"
    )
    told = "the options are longer than 128 KiB together: the job goes through as written\n"
    assert _radctl("decide", job, "--constraint=" + "x" * 200_000).output == told
    job.write_text("#!/bin/sh\n" + "#\n" * 800_000 + "python\n")
    assert _radctl("decide", job).output == "the job goes through as written: its script has no #RAD line\n"


def test_what_radd_does_not_read(job: Path) -> None:
    Path("rad.toml").write_text("[radd]\nmax_request_kib = 64\n[partitions.gpu]\n")
    Path("net.txt").write_text("x" * 65_536)
    assert "longer than radd.max_request_kib = 64: radd does not answer" in _radctl("decide", job).output


def test_no_garbage_is_collected_in_what_is_timed(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collects: list[bool] = []
    answer = Service.answer

    def watched(self: Service, fields: Mapping[str, str]) -> Answer:
        collects.append(gc.isenabled())
        return answer(self, fields)

    monkeypatch.setattr(Service, "answer", watched)
    assert _radctl("decide", job).exit_code == 0
    assert (collects, gc.isenabled()) == ([False], True)


def test_a_decision_that_radd_would_give_up(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(_Fixed):
        def predict(self, summary: ModelSummary, workload: Workload) -> Estimate:
            begin = time.thread_time()
            while time.thread_time() < begin + 0.002:
                pass
            return super().predict(summary, workload)

    monkeypatch.setattr(loading, "load_method", lambda name, models: Slow())
    Path("rad.toml").write_text("[radd]\ndecide_s = 0.001\n[partitions.gpu]\ngpu_model = 'h200'\n")
    shown = _radctl("decide", job)
    assert shown.exit_code == 0
    assert "ms here; radd gives it up" in shown.stderr
    assert shown.stdout.startswith("left as written: no decision within 1 ms: shorten the summary")
    assert json.loads(CliRunner().invoke(cli, ["--config", "rad.toml", "decide", str(job), "--json"]).stdout)["reasons"]


def test_the_hooks_limits_are_those_of_its_lua() -> None:
    folder = Path(hook.__file__).parent / "lua"
    lua = (folder / "rad.lua").read_text()
    assert f"longest_block = {hook.LONGEST_BLOCK}," in lua
    assert f"longest_whole = {hook.LONGEST_WHOLE}," in lua
    assert f"longest_request = {hook.LONGEST_REQUEST}," in lua
    assert f"longest_options = {hook.LONGEST_OPTIONS}," in lua
    assert f"longest_summary = {hook.LONGEST_SUMMARY}," in lua
    assert f"deadline = {hook.LUA_DEADLINE_S:.3f}," in lua
    assert f"MAX_STEPS = {hook.MAX_STEPS} " in (folder / "rad_script.lua").read_text()


@pytest.mark.parametrize(
    ("model", "why"),
    [
        ("none.txt", "summary none.txt: cannot be read: No such file or directory"),
        (".", "summary .: not a regular file"),
        ("pipe", "summary pipe: not a regular file"),
    ],
)
def test_a_summary_that_cannot_be_read(job: Path, model: str, why: str) -> None:
    os.mkfifo("pipe")
    job.write_text(SCRIPT.replace("net.txt", model))
    shown = _radctl("decide", job)
    assert shown.exit_code == 0
    assert f"left as written: {why}" in shown.output
    assert shown.output.count(why) == 1


def test_a_summary_that_is_not_handed_on_for_its_length(job: Path) -> None:
    Path("rad.toml").write_text("[estimator]\nmax_summary_kib = 1024\n[partitions.gpu]\ngpu_model = 'h200'\n")
    Path("net.txt").write_text("x" * 524_289)
    assert "summary net.txt: longer than 512 KiB" in _radctl("decide", job).output


def test_a_summary_in_the_script(job: Path) -> None:
    job.write_text(_radctl("embed", job).output)
    Path("net.txt").unlink()
    assert "27.3 GiB reserved" in _radctl("decide", job).output


def test_without_slurm(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(words: Sequence[str], timeout_s: float) -> str:
        raise SlurmError("scontrol: down")

    monkeypatch.setattr(command, "run", fail)
    monkeypatch.setattr(_Slurm, "error", "squeue: down")
    monkeypatch.setattr(_Accounting, "error", "sacct: down")
    shown = _radctl("decide", job)
    assert "no GPU is chosen: squeue: down" in shown.stderr
    assert "earlier runs do not count: sacct: down" in shown.stderr
    assert "tres_per_node=gres:mps:32" in shown.stdout
    Path("rad.toml").write_text("[partitions.a]\n[partitions.b]\n")
    shown = _radctl("decide", job)
    why = "radctl: no default partition is known: scontrol: down; add --partition=NAME\n"
    assert (shown.exit_code, shown.stderr) == (2, why)
    assert _radctl("decide", job, "--partition=a").exit_code == 0
    wrong = Path("wrong.sh")
    wrong.write_text("#!/bin/bash\n#RAD optimizer=lbfgs\n")
    said = "radctl: line 2: optimizer=lbfgs: not known: known are adam, "
    assert _radctl("decide", str(wrong)).stderr.startswith(said), "what needs no Slurm is told without it"
    monkeypatch.setattr(command, "run", lambda words, timeout_s: "")
    assert "Slurm names no default partition; add --partition=NAME" in _radctl("decide", job).stderr


def test_earlier_runs_of_the_user_count(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = Run(end=NOON + HOUR, outcome="completed", peak_mib=50_000)
    record = Record(action="share", fingerprint="abc", runs=(ended,))
    monkeypatch.setattr(_Accounting, "known", (job_run(record, user="somebody"),))
    assert json.loads(_radctl("decide", job, "--json").output)["method"] == "fixed"
    monkeypatch.setattr(_Accounting, "known", (job_run(record, user=getpass.getuser()),))
    made = json.loads(_radctl("decide", job, "--json").output)
    assert (made["method"], made["expected_mib"]) == ("history", 50_000)


def test_shadow_mode_is_named(job: Path, tmp_path: Path) -> None:
    (tmp_path / "rad.toml").write_text("[partitions.gpu]\ngpu_model = 'h200'\nmode = 'shadow'\n")
    assert _radctl("decide", job).output.splitlines()[:2] == [
        "the job goes through as written: the partition's mode is shadow",
        "  32 shares for SMACT 0.25 of 0.80",
    ]


def test_bench(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[str] = []

    def measure(method: str, summary: str, repeat: int, models_dir: Path) -> Footprint | None:
        measured.append(method)
        return None if method == footprint.WITH_TORCH else Footprint(method, 0.25, 42.0, 100.0, 200.0)

    monkeypatch.setattr(footprint, "measure", measure)
    monkeypatch.setattr(bench, "MADE_UP", {"mlp-3": bench.mlp(3), "cnn-9": bench.cnn(9)})
    shown = _radctl("bench", "decide", "--repeat", "10", "--nodes", "2", "--gpus", "2")
    assert shown.exit_code == 0
    lines = shown.output.splitlines()
    assert lines[0].endswith("method rad, plain Python")
    assert [line.split()[:2] for line in lines[3:5]] == [["mlp-3", "3"], ["cnn-9", "9"]]
    assert [line.split() for line in lines[-3:-1]] == [
        ["rad", "0.25", "42", "100", "200"],
        ["gpumemnet", "0.25", "42", "100", "200"],
    ]
    assert lines[-1] == "gpumemnet with torch: torch is not installed"
    assert measured == ["rad", "gpumemnet", "gpumemnet with torch"]
    made = json.loads(_radctl("bench", "decide", "net.txt", "--repeat", "10", "--json").output)
    assert made["compiled"] is False
    (row,) = made["rows"]
    assert (row["summary"], row["layers"]) == ("net.txt", 3)
    for stage in ("", "estimate_", "parse_"):
        assert 0 < row[f"{stage}p50_us"] <= row[f"{stage}p99_us"]
    assert row["parse_p50_us"] < row["estimate_p50_us"]
    assert [method["memory_mib"] for method in made["methods"]] == [42.0, 42.0]


def test_bench_quotes_the_summary_that_it_cannot_read(job: Path) -> None:
    (job.parent / "code.txt").write_text("import torch\n")
    done = _radctl("bench", "decide", "net.txt", "code.txt", "--repeat", "10")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("radctl: code.txt: summary line 1: 'import torch': no model summary starts here")


def test_bench_decides_for_real(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[str] = []
    real = Service.answer

    def answer(self: Service, fields: dict[str, str]) -> object:
        made = real(self, fields)
        answers.append((made.fields or {})["tres_per_node"])
        return made

    monkeypatch.setattr(Service, "answer", answer)
    load = lambda config, clock: Service(config, _Fixed(), clock)  # noqa: E731
    bench.decide({"net": bench.cnn(4)}, load, Config(), repeat=10, nodes=2, gpus=2)
    assert set(answers) == {"gres:mps:g0:32"}


def test_bench_predicts(job: Path) -> None:
    shown = _radctl("bench", "predict", "--repeat", "10", "--gpus", "7").output
    assert shown.startswith("one job on 7 GPUs with 13 residents, predictor rad: p50 ")
    made = json.loads(_radctl("bench", "predict", "--repeat", "10", "--gpus", "7", "--json").output)
    assert (made["model"], made["gpus"], made["residents"]) == ("rad", 7, 13)
    assert 0 < made["p50_ms"] <= made["p99_ms"]
    job.with_name("rad.toml").write_text('[predictor]\nmodel = "off"\n')
    failed = _radctl("bench", "predict")
    assert failed.exit_code == 2
    assert "predictor.model is off" in failed.stderr


@pytest.mark.parametrize("name", bench.MADE_UP)
def test_made_up_summaries_are_summaries(name: str) -> None:
    summary = parse_summary(bench.MADE_UP[name])
    assert bench._count(summary.root) == int(name.rpartition("-")[2])
    assert summary.total_params > 0


def test_percentiles() -> None:
    assert (bench._at([1.0], 0.99), bench._at([1.0, 2.0, 3.0, 4.0], 0.5), bench._at([1.0, 2.0], 0.99)) == (
        1.0,
        2.0,
        2.0,
    )
