"""`radctl embed` and `radctl convert`: what they write, what they refuse."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from estimator import files
from slurm_hooks.directives import DirectiveError, leading_block, parse_script
from slurm_hooks.embed import EmbedError, embed
from slurm_hooks.rad_file import RadFileError, convert
from slurm_hooks.radctl.main import cli

SCRIPT = "#!/bin/bash\n#SBATCH --gres=gpu:1\n#RAD model=net.txt batch_size=8\n# a comment\n\npython train.py # \u00e9\n"
SUMMARY = """\
Net(
  (fc1): Linear(in_features=784, out_features=10, bias=True)
)
"""
LISTING = """\
# assumption is that model.txt file is in the same directory
conda activate tf # specifying the conda environment
python resnet.py --b 128 # command to execute
model: resnet.txt # model summary file name
batch_size: 128 # batch size
policy: exclusive/ collocation
"""


def _radctl(*args: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(arg) for arg in args])


_TEXT = st.text().filter(lambda text: "\r" not in text)


@given(_TEXT)
def test_summary_is_read_back_and_the_rest_stays(summary: str) -> None:
    made = embed(SCRIPT, summary)
    parsed = parse_script(made)
    assert parsed is not None
    assert parsed.summary == summary.removesuffix("\n")
    assert parsed.batch_size == 8
    inserted = made[len("#!/bin/bash\n#SBATCH --gres=gpu:1\n#RAD model=net.txt batch_size=8\n") :]
    assert inserted.endswith("#RAD summary-end\n# a comment\n\npython train.py # \u00e9\n")
    added = leading_block(made).count("\n") - leading_block(SCRIPT).count("\n")
    assert added == 2 + summary.removesuffix("\n").count("\n") + 1


@given(_TEXT, _TEXT)
def test_a_second_embed_replaces_the_first(first: str, second: str) -> None:
    assert embed(embed(SCRIPT, first), second) == embed(SCRIPT, second)


def test_the_last_line_needs_no_end() -> None:
    assert embed("#!/bin/sh\n#RAD memory=1G", "x") == (
        "#!/bin/sh\n#RAD memory=1G\n#RAD summary-begin\n# x\n#RAD summary-end\n"
    )


def test_line_ends_of_the_summary_are_taken_away() -> None:
    assert embed(SCRIPT, "a\r\nb\r\n") == embed(SCRIPT, "a\nb\n")
    with pytest.raises(EmbedError, match="carriage returns"):
        embed(SCRIPT, "a\r\r\nb")


def test_line_ends_of_the_script_are_kept() -> None:
    made = embed(SCRIPT.replace("\n", "\r\n"), SUMMARY)
    assert made.count("\r\n") == made.count("\n")


@pytest.mark.parametrize("script", ["", "#!/bin/bash\n", "#!/bin/bash\necho\n#RAD batch_size=3\n"])
def test_a_script_without_directives(script: str) -> None:
    with pytest.raises(EmbedError, match="no #RAD line"):
        embed(script, SUMMARY)


def test_a_script_with_a_wrong_directive() -> None:
    with pytest.raises(DirectiveError, match="line 1"):
        embed("#RAD bach_size=3\n", SUMMARY)


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "job.sh"
    path.write_text(SCRIPT)
    path.chmod(0o750)
    (tmp_path / "net.txt").write_text(SUMMARY)
    return path


def test_embed_prints(job: Path) -> None:
    result = _radctl("embed", job)
    assert result.exit_code == 0
    assert result.output == embed(SCRIPT, SUMMARY)
    assert job.read_text() == SCRIPT


def test_embed_in_place_keeps_mode_and_link(job: Path) -> None:
    link = job.with_name("link.sh")
    link.symlink_to(job)
    result = _radctl("embed", "--in-place", link)
    assert (result.exit_code, result.output) == (0, "")
    assert link.is_symlink()
    assert job.read_text() == embed(SCRIPT, SUMMARY)
    assert job.stat().st_mode & 0o777 == 0o750
    assert sorted(path.name for path in job.parent.iterdir()) == ["job.sh", "link.sh", "net.txt"]


def test_embed_in_place_names_the_folder_in_which_it_may_not_write(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    through = os.open

    def refuse(path: str, flags: int, *args: int, **options: int) -> int:
        if flags & os.O_EXCL:  # root may write everywhere
            raise PermissionError(13, "Permission denied", path)
        return through(path, flags, *args, **options)

    monkeypatch.setattr(os, "open", refuse)
    result = _radctl("embed", "--in-place", job)
    assert result.exit_code == 2
    assert result.stderr == f"radctl: {job.parent} (a new file is put there): Permission denied\n"
    monkeypatch.undo()
    assert job.read_text() == SCRIPT


def test_embed_keeps_bytes_that_are_not_utf8(job: Path) -> None:
    job.write_bytes(SCRIPT.encode() + b"echo \xff\xfe\n")
    assert _radctl("embed", job).stdout_bytes.endswith(b"echo \xff\xfe\n")


def test_embed_takes_another_summary(job: Path) -> None:
    job.write_text("#RAD batch_size=8\n")
    job.with_name("other.txt").write_text(SUMMARY)
    assert _radctl("embed", "--summary", "other.txt", job).exit_code == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"#RAD batch_size=8\n", "job.sh: no #RAD model= names a summary"),
        (b"echo hello\n", "job.sh: no #RAD model= names a summary"),
        (
            b"echo hello\n#RAD model=net.txt\n",
            "job.sh: #RAD lines after the first command have no effect: move them up",
        ),
        (b"#RAD model=none.txt\n", "none.txt: No such file or directory"),
        (b"#RAD model=.\n", ".: not a regular file"),
        (b"#RAD model=pipe\n", "pipe: not a regular file"),
        (b"#RAD model=nul.txt\n", "nul.txt: binary"),
        (b"#RAD model=huge.txt\n", "huge.txt: longer than 512 KiB"),
        (b"#RAD model=prose.txt\n", "prose.txt: "),
        (b"#RAD batch_sise=8\n", "job.sh: line 1: unknown key 'batch_sise': did you mean 'batch_size'?"),
        (b"#\n# RAD model=net.txt\n", "job.sh: line 2 looks like a directive and is a comment: write #RAD model=...,"),
        (b"\x7fELF\0", "job.sh: binary"),
        (b"#RAD model=net.txt\n#" + b" " * (4 * 1024 * 1024 - 24) + b"\n", "job.sh: longer than Slurm takes"),
        (b"#" * 5_000_000, "job.sh: longer than 4096 KiB"),
    ],
)
def test_embed_refuses(job: Path, content: bytes, message: str) -> None:
    job.write_bytes(content)
    os.mkfifo("pipe")
    Path("nul.txt").write_bytes(b"Net(\0)")
    Path("huge.txt").write_text("x\n" * 300_000)
    Path("prose.txt").write_text("Dear user, this is no summary.\n")
    result = _radctl("embed", job)
    assert result.exit_code == 2
    assert result.stderr.startswith("radctl: ")
    assert message in result.stderr


def test_convert_the_listing(tmp_path: Path) -> None:
    task = tmp_path / "resnet.rad"
    task.write_text(LISTING)
    result = _radctl("convert", task)
    assert result.exit_code == 0
    assert result.output == (
        "#!/bin/bash\n"
        "#SBATCH --job-name=resnet\n"
        "#SBATCH --gres=gpu:1\n"
        "#RAD model=resnet.txt\n"
        "#RAD batch_size=128\n"
        "# assumption is that model.txt file is in the same directory\n"
        'eval "$(conda shell.bash hook)"\n'
        "conda activate tf # specifying the conda environment\n"
        "python resnet.py --b 128 # command to execute\n"
    )


def test_convert_takes_the_listing_as_printed() -> None:
    printed = "".join(f"{n} {line}" for n, line in enumerate(LISTING.splitlines(keepends=True), start=1))
    assert convert(printed) == convert(LISTING)


@pytest.mark.parametrize(
    ("line", "directive"),
    [
        ("policy: exclusive", "#RAD policy=exclusive"),
        ("Batch-Size:\t64", "#RAD batch_size=64"),
        ("model: my net.txt # ours", '#RAD model="my net.txt"'),
        ("memory: 12G", "#RAD memory=12G"),
        ("batch-size:64", "#RAD batch_size=64"),
    ],
)
def test_convert_keys(line: str, directive: str) -> None:
    made = convert(f"python a.py\n{line}\n", "no good name")
    assert made == f"#!/bin/bash\n#SBATCH --gres=gpu:1\n{directive}\npython a.py\n"
    assert parse_script(made) is not None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no command"),
        ("# only a comment\nmodel: a.txt\n", "no command"),
        ("#!/bin/bash\npython a.py\n", "no line says key: value, with a key of model, "),
        ("python a.py\nmodle: a.txt\n", "line 2: unknown key 'modle': did you mean 'model'?"),
        ("python a.py\ncolour: red\n", "line 2: unknown key 'colour': known are model, "),
        ("python a.py\nmodel:\n", "line 2: model has no value"),
        ("python a.py\nbatch_size: many\n", "line 2: batch_size=many: not a whole number"),
        ("model: a\npython a.py\nmodel: b\n", "line 3: model is already set in line 1"),
        ("python a.py\npolicy: shared\n", "line 2: policy=shared: not known"),
    ],
)
def test_convert_refuses(text: str, message: str) -> None:
    with pytest.raises(RadFileError) as caught:
        convert(text)
    assert message in str(caught.value)


def test_convert_passes_a_byte_order_mark_over() -> None:
    assert convert("\ufeffmodel: a.txt\npython a.py\n") == convert("model: a.txt\npython a.py\n")


def test_convert_leaves_commands_alone() -> None:
    assert "\nhttp://a/b: c\n" in convert("http://a/b: c\nmodel: a.txt\n")


def test_convert_names_the_file(tmp_path: Path) -> None:
    task = tmp_path / "a.rad"
    task.write_text("x:\n")
    assert _radctl("convert", task).stderr.startswith(f"radctl: {task}: line 1: unknown key 'x'")


def test_replace_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        files.replace(tmp_path / "gone", "", "x")
    (tmp_path / "folder").mkdir()
    with pytest.raises(files.FileRefusedError):
        files.replace(tmp_path / "folder", "", "x")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_replace_writes_through_no_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script, other = tmp_path / "job.sh", tmp_path / "other"
    script.write_text("old")
    other.write_text("mine")
    monkeypatch.setattr(files, "token_hex", lambda _: "guessed")
    (tmp_path / ".job.sh.guessed").symlink_to(other)
    with pytest.raises(FileExistsError):
        files.replace(script, "old", "new")
    assert (script.read_text(), other.read_text()) == ("old", "mine")


@pytest.mark.parametrize("swapped", ["the file", "its folder"])
def test_who_owns_a_script_does_not_choose_what_root_writes(tmp_path: Path, swapped: str) -> None:
    home, etc = tmp_path / "home", tmp_path / "etc"
    for folder, text in ((home, "old"), (etc, "root's")):
        folder.mkdir()
        (folder / "job.sh").write_text(text)
    if swapped == "the file":
        (home / "job.sh").unlink()
        (home / "job.sh").symlink_to(etc / "job.sh")
    else:
        home.rename(tmp_path / "away")
        home.symlink_to(etc)
    with pytest.raises(files.FileRefusedError, match=r"etc/job\.sh: somebody has changed it meanwhile"):
        files.replace(home / "job.sh", "old", "new")
    assert (etc / "job.sh").read_text() == "root's"
    assert list(etc.iterdir()) == [etc / "job.sh"]


def test_a_link_is_swapped_while_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, etc = tmp_path / "home", tmp_path / "etc"
    for folder in (home, etc):
        folder.mkdir()
        (folder / "job.sh").write_text("old")
    through = files._put

    def swap(*given: object) -> None:
        home.rename(tmp_path / "away")
        home.symlink_to(etc)
        (tmp_path / "away" / "job.sh").unlink()
        (tmp_path / "away" / "job.sh").symlink_to(etc / "job.sh")
        through(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(files, "_put", swap)
    files.replace(home / "job.sh", "old", "new")
    assert (etc / "job.sh").read_text() == "old"
    assert (tmp_path / "away" / "job.sh").read_text() == "new"


def test_a_script_that_root_changes_stays_its_owners(tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text("old")
    os.chown(script, 40001, 40002)
    script.chmod(0o640)
    files.replace(script, "old", "new")
    about = script.stat()
    assert (about.st_uid, about.st_gid, about.st_mode & 0o7777) == (40001, 40002, 0o640)
