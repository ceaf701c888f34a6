"""rad.lua in the interpreter that slurmctld embeds, against a socket that answers well, badly or never.

The job descriptor is a table here; tests/cluster runs the same file inside a real slurmctld.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

import pytest

from slurm_hooks.directives import KEYS, looks_like_directives
from slurm_hooks.radd.protocol import decode, encode

HERE = Path(__file__).parent
MODULES = HERE.parents[1] / "slurm_hooks" / "lua"
SCRIPT = "#!/bin/sh\n#RAD batch_size=4\ntrue\n"
Reply = Callable[[dict[str, str]], bytes | None]


class Radd:
    """A socket that says what a test wants; keeps what it was asked."""

    def __init__(self, path: Path, reply: Reply, each: int = 1) -> None:
        self.asked: list[dict[str, str]] = []
        self.connections = 0
        self._each = each  # requests that one connection may bring
        self._reply = reply
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(path))
        self._socket.listen(16)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            peer, _ = self._socket.accept()
            self.connections += 1
            with peer, peer.makefile("rb") as stream:
                for _ in range(self._each):
                    head = stream.readline()
                    if self._done.is_set():
                        return
                    if not head:
                        break
                    fields = decode(stream.read(int(head.split()[1])))
                    self.asked.append(fields)
                    answer = self._reply(fields)
                    if answer is None:
                        self._done.wait(5)
                    else:
                        with contextlib.suppress(BrokenPipeError):  # the hook has given up
                            peer.sendall(answer)

    def stop(self, path: Path) -> None:
        self._done.set()
        with socket.socket(socket.AF_UNIX) as waker:
            waker.connect(str(path))
        self._thread.join()
        self._socket.close()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[[Reply], Radd]]:
    path, made = tmp_path / "s", []

    def start(reply: Reply, each: int = 1) -> Radd:
        made.append(Radd(path, reply, each))
        return made[-1]

    yield start
    for radd in made:
        radd.stop(path)


def lua(tmp_path: Path, jobs: list[dict[str, str]], deadline: float = 20, **settings: float) -> list[str]:
    """What the hook does with each job; a busy machine takes longer than the deadline that is usual."""

    def literal(value: str) -> str:
        return value if value.startswith("{") else '"' + "".join(f"\\{ord(c):03d}" for c in value) + '"'

    rows = ",".join("{" + ",".join(f"{k}={literal(v)}" for k, v in job.items()) + "}" for job in jobs)
    extra = "".join(f",{k}={v}" for k, v in {"deadline": deadline, **settings}.items())
    plan = tmp_path / "plan.lua"
    plan.write_text(f'return {{settings={{socket="{tmp_path}/s"{extra}}}, jobs={{{rows}}}}}')
    return drive(MODULES, plan)


def drive(modules: Path, plan: Path) -> list[str]:
    command = ["lua5.1", str(HERE / "lua_driver.lua"), str(modules), str(plan)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.splitlines()


def test_one_connection_serves_many_jobs_and_a_lost_one_costs_none(tmp_path: Path, serve: Callable[..., Radd]) -> None:
    radd = serve(passing(message="yes"), each=3)
    lines = lua(tmp_path, [{"script": SCRIPT}] * 7)
    assert lines == ["user rad: yes", "result 0 "] * 7
    assert (len(radd.asked), radd.connections) == (7, 3)


def test_what_comes_too_late_is_not_the_next_jobs_answer(tmp_path: Path, serve: Callable[..., Radd]) -> None:
    def reply(fields: dict[str, str]) -> bytes:
        if fields["reservation"] == "slow":
            time.sleep(0.4)
        return encode({"status": "pass", "message": fields["reservation"]})

    serve(reply, each=9)
    jobs = [{"script": SCRIPT, "reservation": name} for name in ("one", "slow", "two")]
    said = [line for line in lua(tmp_path, jobs, deadline=0.3, breaker_failures=9) if line.startswith("user")]
    late = "user rad: RAD does not answer: the job goes through as written"
    assert said == ["user rad: one", late, "user rad: two"]


def passing(**fields: str) -> Reply:
    return lambda _: encode({"status": "pass", **fields})


def test_the_system_is_asked_once_for_a_users_name(tmp_path: Path, serve: Callable[..., Radd]) -> None:
    radd = serve(passing(), each=9)
    users = [("7", "ann"), ("8", "nobody"), ("7", "eve"), ("8", "bob"), ("9", "9"), ("9", "cid"), ("9", "dan")]
    lua(tmp_path, [{"script": SCRIPT, "user_id": number, "user_name": name} for number, name in users])
    assert [fields["user_name"] for fields in radd.asked] == ["ann", "8", "ann", "bob", "9", "cid", "cid"]


def test_a_users_name_is_asked_for_again_after_ten_minutes(tmp_path: Path, serve: Callable[..., Radd]) -> None:
    radd = serve(passing(), each=9)
    looks = [("ann", "0"), ("eve", "590"), ("eve", "610"), ("bob", "620"), ("bob", "-620")]  # the clock was set back
    lua(tmp_path, [{"script": SCRIPT, "user_id": "7", "user_name": name, "clock_ahead": at} for name, at in looks])
    assert [fields["user_name"] for fields in radd.asked] == ["ann", "ann", "eve", "eve", "bob"]


def test_flags_that_radd_is_told_of(tmp_path: Path, serve: Callable[..., Radd]) -> None:
    radd = serve(passing(), each=9)
    lua(tmp_path, [{"script": SCRIPT, "bitflags": flags} for flags in ("503316736", "503316992", "256", "768")])
    assert [fields.get("spread_job") for fields in radd.asked] == ["1", None, "1", "1"]


def test_a_time_limit_that_is_none_is_told_from_one_that_nobody_set(tmp_path: Path, serve: Callable[..., Radd]) -> None:
    radd = serve(passing(), each=9)
    lua(tmp_path, [{"script": SCRIPT, "limit": minutes} for minutes in ("90", "4294967294", "4294967295")])
    assert [fields.get("time_limit") for fields in radd.asked] == ["90", None, "unlimited"]


def test_a_number_that_nobody_set_is_not_told(tmp_path: Path, serve: Callable[..., Radd]) -> None:
    radd = serve(passing(), each=9)
    lua(tmp_path, [{"script": SCRIPT, "ntasks_per_core": number} for number in ("1", "65533", "65534", "65535")])
    assert [fields.get("ntasks_per_core") for fields in radd.asked] == ["1", "65533", None, None]


def test_a_job_without_directives_costs_no_question(tmp_path: Path, serve: Callable[[Reply], Radd]) -> None:
    radd = serve(passing())
    scripts = ["#!/bin/sh\ntrue\n", "", "\x00\x01#RAD", "#RADIO x\ntrue", "# see #RAD x=y\ntrue", "true\n"]
    assert lua(tmp_path, [{"script": s} for s in scripts] + [{}]) == ["result 0 "] * 7
    assert radd.asked == []


def test_an_answer_is_applied(tmp_path: Path, serve: Callable[[Reply], Radd]) -> None:
    radd = serve(passing(**{"set.tres_per_node": "gres:mps:38", "env.RAD_SHARE": "38", "message": "13 GiB\n38 of 100"}))
    job = {"script": SCRIPT, "tres_per_node": "gres:gpu:1", "features": "", "environment": "{}"}
    assert lua(tmp_path, [job]) == [
        "user rad: 13 GiB\\nrad: 38 of 100",
        "result 0 tres_per_node=gres:mps:38",
        "env RAD_SHARE=38",
    ]
    assert radd.asked[0]["script"] == SCRIPT
    assert radd.asked[0]["partition"] == "gpu"
    assert radd.asked[0]["tres_per_node"] == "gres:gpu:1"
    assert "features" not in radd.asked[0]


def test_whatever_radd_sets_is_set(tmp_path: Path, serve: Callable[[Reply], Radd]) -> None:
    texts = "tres_per_node tres_per_job tres_per_task features prefer req_nodes admin_comment"
    numbers = "cpus_per_task min_mem_per_node min_cpus"
    taken_away = "cpus_per_tres mem_per_tres tres_bind"
    given = {
        **dict.fromkeys(texts.split(), "x"),
        **dict.fromkeys(numbers.split(), "7"),
        **dict.fromkeys(taken_away.split(), ""),
    }
    serve(passing(**{f"set.{name}": value for name, value in given.items()}))
    job = {"script": SCRIPT, **dict.fromkeys(taken_away.split(), "y")}
    assert lua(tmp_path, [job]) == ["result 0 " + " ".join(sorted(f"{name}={value}" for name, value in given.items()))]


def test_a_refusal(tmp_path: Path, serve: Callable[[Reply], Radd]) -> None:
    serve(lambda _: encode({"status": "reject", "message": "line 2: no %s"}))
    assert lua(tmp_path, [{"script": SCRIPT}]) == ["user rad: line 2: no %s", "result 2072 "]


@pytest.mark.parametrize(
    "block",
    [
        "#RAD x=1\n",
        "\n\n#RAD x=1\n",
        "#!/bin/sh\n\n  \n# c\n#RAD x=1\n\n",
        "#!/bin/sh\n#RAD",
        "#!/bin/sh\n#RAD\tx\n\n\n",
        "#!/bin/sh\n  # c\n\n\t#\n #SBATCH -n 1\n#RAD x=1\n  # c\n",
        "  # c\n#RAD x=1\n",
        "# as #RAD x=y has it\n#RADIO on\n##RAD x=2\n#RAD x=1\n",
    ],
)
def test_the_leading_block(tmp_path: Path, serve: Callable[[Reply], Radd], block: str) -> None:
    radd = serve(passing())
    tail = "true\n#RAD y=2\n" if block.endswith("\n") else ""
    assert lua(tmp_path, [{"script": block + tail}]) == ["result 0 "]
    assert lua(tmp_path, [{"script": block + tail}], longest_whole=0) == ["result 0 "]
    assert radd.asked[0]["script"] == block + tail
    assert radd.asked[1]["script"].rstrip() == block.rstrip()


def test_directives_after_the_first_command(tmp_path: Path, serve: Callable[[Reply], Radd]) -> None:
    radd = serve(passing())
    lines = lua(tmp_path, [{"script": "#!/bin/sh\ntrue\n#RAD x=1\n"}, {"script": "  true\n#RAD x=1\n"}])
    assert [line for line in lines if "after the first command have no effect" in line] == lines[::2]
    assert radd.asked == []


def test_directives_of_another_script_within_this_one(tmp_path: Path, serve: Callable[[Reply], Radd]) -> None:
    radd = serve(passing())
    script = "#!/bin/sh\nsbatch <<E\n#!/bin/sh\n#RAD x=1\ntrue\nE\n"
    assert lua(tmp_path, [{"script": script}]) == ["result 0 "]
    assert "have no effect" in lua(tmp_path, [{"script": script.replace("<<E\n", "<<E\n#RAD x=1\n")}])[0]
    assert radd.asked == []


def test_a_mark_with_a_no_break_space_behind_it_is_radds_to_refuse(
    tmp_path: Path, serve: Callable[[Reply], Radd]
) -> None:
    radd = serve(passing())
    behind = ("\xc2\xa0", "\xc2\xa1", "IO ")  # as bytes
    lua(tmp_path, [{"script": f"#!/bin/sh\n#RAD{word}x=1\ntrue\n"} for word in behind])
    assert [fields["script"] for fields in radd.asked] == ["#!/bin/sh\n#RAD\u00a0x=1\ntrue\n"]


def test_a_long_block(tmp_path: Path, serve: Callable[[Reply], Radd]) -> None:
    radd = serve(passing())
    file = tmp_path / "script"
    file.write_text("#!/bin/sh\n#RAD x=1\n" + "# \n" * 100_000 + "true\n")
    assert lua(tmp_path, [{"script_file": str(file)}], longest_block=200_000)[-1] == "result 0 "
    assert radd.asked == []
    assert lua(tmp_path, [{"script_file": str(file)}]) == ["result 0 "]
    assert len(radd.asked[0]["script"]) == 300_019


def test_a_script_made_to_be_slow_to_search_is_given_up(tmp_path: Path, serve: Callable[[Reply], Radd]) -> None:
    radd = serve(passing())
    gaps = tmp_path / "gaps"
    gaps.write_text("#!/bin/sh\n" + "#\n\n" * 20_000 + "#RAD x=1\ntrue\n")
    lines = lua(tmp_path, [{"script_file": str(gaps)}])
    assert "over 10000 gaps" in lines[0]
    near = tmp_path / "near"
    near.write_text("#!/bin/sh\ntrue\n" + "#RADIO\n" * 20_000 + "#RAD x=1\n")
    assert lua(tmp_path, [{"script_file": str(near)}]) == ["result 0 "]
    assert radd.asked == []


def test_what_radd_would_not_read_is_not_sent_and_no_failure(tmp_path: Path, serve: Callable[[Reply], Radd]) -> None:
    radd = serve(passing())
    job = {"script": SCRIPT, "features": "x" * 60_000}
    lines = lua(tmp_path, [job, job, job, job, {"script": SCRIPT}], longest_request=50_000)
    assert [line.split(":")[1] for line in lines if line.startswith("user")] == [
        " script, summary and options are longer than 50 KB together"
    ] * 4
    assert [line for line in lines if line.startswith("result")] == ["result 0 "] * 5
    assert len(radd.asked) == 1, "the breaker opened"


def test_options_that_an_answer_could_not_repeat_are_no_failure(tmp_path: Path, serve: Callable[..., Radd]) -> None:
    radd = serve(passing())
    job = {"script": SCRIPT, "partition": "x" * 60_000, "environment": '{RAD_SUMMARY="ok 1", RAD_SUMMARY_1="one"}'}
    lines = lua(tmp_path, [job, job, job, job, {"script": SCRIPT}], longest_options=50_000)
    told = [line for line in lines if line.startswith("user")]
    assert told == ["user rad: the options are longer than 48 KiB together: the job goes through as written"] * 4
    assert lines.count("env RAD_SUMMARY=") == 4
    assert sum(line.startswith("result 0 ") for line in lines) == 5
    assert len(radd.asked) == 1, "the breaker opened"


def test_the_summary_is_taken_out_of_the_environment(tmp_path: Path, serve: Callable[[Reply], Radd]) -> None:
    radd = serve(passing())
    env = '{RAD_SUMMARY="ok 2", RAD_SUMMARY_1="one ", RAD_SUMMARY_2="two"}'
    lines = lua(tmp_path, [{"script": SCRIPT, "environment": env}])
    assert radd.asked[0]["summary"] == "one two"
    assert sorted(lines) == ["env RAD_SUMMARY=", "env RAD_SUMMARY_1=", "env RAD_SUMMARY_2=", "result 0 "]
    lua(tmp_path, [{"script": SCRIPT, "environment": '{RAD_SUMMARY="error is not a regular file"}'}])
    assert radd.asked[1]["summary_error"] == "is not a regular file"


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\n",
        b"garbage\n",
        b"RAD1 99999999999\n",
        b"RAD1 4\nabc",
        b"RAD1 5\nx 9\na",
        b"RAD1 8\nstatus 0",
        encode({"status": "pass", "set.user_id": "0"}),
        encode({"status": "what"}),
        encode({"message": "hello"}),
        None,
    ],
)
def test_whatever_goes_wrong_the_job_goes_through(
    tmp_path: Path, serve: Callable[[Reply], Radd], answer: bytes | None
) -> None:
    serve(lambda _: answer)
    lines = lua(tmp_path, [{"script": SCRIPT, "tres_per_node": "gres:gpu:1"}], deadline=0.05)
    assert lines[0].startswith("log rad: a job goes through as written: ")
    assert lines[1:] == ["user rad: RAD does not answer: the job goes through as written", "result 0 "]


@pytest.mark.parametrize(("each_look", "answered"), [("4", True), ("7", False)])
def test_one_deadline_holds_for_all_of_an_exchange(
    tmp_path: Path, serve: Callable[[Reply], Radd], each_look: str, answered: bool
) -> None:
    serve(passing(message="yes"))
    lines = lua(tmp_path, [{"script": SCRIPT, "each_look": each_look}])
    assert ("no answer in 20000 ms" in lines[0], "user rad: yes" in lines) == (not answered, answered)


def test_a_field_that_cannot_be_set_undoes_the_others(tmp_path: Path, serve: Callable[[Reply], Radd]) -> None:
    serve(passing(**{"set.tres_per_node": "gres:mps:3", "set.features": "x", "set.admin_comment": "r"}))
    job = {"script": SCRIPT, "tres_per_node": "gres:gpu:1", "refuses": "features"}
    lines = lua(tmp_path, [job])
    last = [word for word in lines[-1].split() if word.startswith("tres_per_node")]
    assert last in ([], ["tres_per_node=gres:gpu:1", "tres_per_node=gres:mps:3"])
    assert "cannot set features" in lines[0]
    before = {"tres_per_node": "gres:gpu:1", "features": "big", "admin_comment": ""}
    after = {"tres_per_node": "gres:mps:3", "features": "x", "admin_comment": "r"}
    lines = lua(tmp_path, [{"script": SCRIPT, **before, "refuses_at": "3"}])  # in whatever order they come
    words = lines[-1].split()[2:]
    assert sum(f"{name}={value}" in words for name, value in after.items()) == 2
    assert all(f"{name}={value}" in words for name, value in before.items())


def test_an_answer_that_sets_what_it_may_not_sets_nothing(tmp_path: Path, serve: Callable[[Reply], Radd]) -> None:
    names = ("set.min_mem_per_node", "set.cpus_per_task", "set.features", "set.user_id", "set.min_cpus")
    serve(passing(**dict.fromkeys(names, "7")))
    lines = lua(tmp_path, [{"script": SCRIPT, "tres_per_node": "gres:gpu:1"}])
    assert lines[-1] == "result 0 "
    assert "radd may not set user_id" in lines[0]


def test_a_fault_of_rad_lua_lets_the_job_through(tmp_path: Path, serve: Callable[[Reply], Radd]) -> None:
    serve(passing())
    log, result = lua(tmp_path, [{"script": SCRIPT, "partition": "{}"}])
    assert log.startswith("log rad: a job goes through as written: ") and "rad_submit.lua" in log
    assert result == "result 0 "


def test_failures_that_are_not_in_a_row_do_not_open_the_breaker(tmp_path: Path, serve: Callable[..., Radd]) -> None:
    radd = serve(lambda fields: encode({"status": fields["reservation"]}), each=9)
    said = ["nonsense", "nonsense", "pass", "nonsense", "nonsense", "pass"]
    lua(tmp_path, [{"script": SCRIPT, "reservation": status} for status in said], breaker_failures=3)
    assert [fields["reservation"] for fields in radd.asked] == said


def test_the_breaker(tmp_path: Path, serve: Callable[[Reply], Radd]) -> None:
    radd = serve(lambda _: b"garbage\n")
    lines = lua(tmp_path, [{"script": SCRIPT}] * 5)
    assert [line for line in lines if line.startswith("result")] == ["result 0 "] * 5
    assert len(radd.asked) == 3
    assert [line.split(": ")[-1] for line in lines if line.startswith("log")][2:] == [
        "the answer is not one of radd's; radd is not asked for 10 s",
        "radd did not answer before",
        "radd did not answer before",
    ]


def test_a_summary_that_nobody_reads_is_taken_out_too(tmp_path: Path, serve: Callable[[Reply], Radd]) -> None:
    serve(lambda _: b"garbage\n")
    jobs = [{"script": SCRIPT, "environment": '{RAD_SUMMARY="ok 1",RAD_SUMMARY_1="Net()"}'} for _ in range(4)]
    given = [line for line in lua(tmp_path, jobs) if line.startswith("env")]
    assert sorted(given) == ["env RAD_SUMMARY="] * 4 + ["env RAD_SUMMARY_1="] * 4


def test_the_breaker_closes_again(tmp_path: Path, serve: Callable[[Reply], Radd]) -> None:
    replies = iter([b"garbage\n"] * 3)
    radd = serve(lambda _: next(replies, encode({"status": "pass"})))
    lua(tmp_path, [{"script": SCRIPT}] * 6, breaker_seconds=0)
    assert len(radd.asked) == 6


def test_a_clock_that_was_set_back_keeps_the_breaker_open_for_nobody(
    tmp_path: Path, serve: Callable[[Reply], Radd]
) -> None:
    replies = iter([b"garbage\n"] * 3)
    radd = serve(lambda _: next(replies, encode({"status": "pass"})))
    lua(tmp_path, [*[{"script": SCRIPT, "clock_ahead": "3600"}] * 4, {"script": SCRIPT, "clock_ahead": "0"}])
    assert len(radd.asked) == 4


def test_nobody_listens(tmp_path: Path) -> None:
    lines = lua(tmp_path, [{"script": SCRIPT}])
    assert lines[-1] == "result 0 "
    assert "No such file" in lines[0]


def test_no_descriptor_is_left_for_a_socket(tmp_path: Path) -> None:
    plan = tmp_path / "plan.lua"
    plan.write_text(
        'package.preload["socket.unix"] = function() return function() return nil, "too many open files" end end\n'
        f"return {{settings={{}}, jobs={{{{script=[==[{SCRIPT}]==]}}}}}}"
    )
    said = drive(MODULES, plan)
    assert said[1:] == ["user rad: RAD does not answer: the job goes through as written", "result 0 "]
    assert said[0].endswith("too many open files")


@pytest.mark.parametrize("missing", ["rad_submit", "rad_script"])
def test_a_module_that_was_not_copied_is_named_and_jobs_go_through(tmp_path: Path, missing: str) -> None:
    for module in MODULES.iterdir():
        if module.stem != missing:
            (tmp_path / module.name).write_text(module.read_text())
    plan = tmp_path / "plan.lua"
    plan.write_text(f"return {{settings={{}}, jobs={{{{script=[==[{SCRIPT}]==]}}}}}}")
    said = drive(tmp_path, plan)
    assert said[-1] == "result 0 "
    assert "copy all of slurm_hooks/lua/*.lua where rad.lua lies: " in said[0]
    assert f"module '{missing}' not found" in said[0]


def test_what_the_sites_own_functions_refuse_stays_refused() -> None:
    script = f"""
        package.path = '{MODULES}/?.lua;' .. package.path
        slurm = {{ SUCCESS = 0 }}
        package.loaded.rad_submit = function() return 'rad' end
        local rad = require('rad')
        rad.pre_submit = package.loaded.rad_submit
        function slurm_job_submit(job) return job.result end
        function slurm_cli_pre_submit(options) return options.result end
        rad.wrap()
        for _, site in ipairs({{ {{ result = 0 }}, {{}}, {{ result = 2072 }}, {{ result = -1 }} }}) do
            print(slurm_job_submit(site) .. " " .. slurm_cli_pre_submit(site))
        end
    """
    done = subprocess.run(["lua5.1", "-e", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["rad rad", "rad rad", "2072 2072", "-1 -1"]


def test_a_line_before_the_functions_that_it_is_to_wrap_is_told() -> None:
    script = f"package.path = '{MODULES}/?.lua;' .. package.path slurm = {{ log_info = print }} require('rad').wrap()"
    done = subprocess.run(["lua5.1", "-e", script], capture_output=True, text=True, timeout=20, check=True)
    assert "move the line with rad.wrap() behind the functions of this script" in done.stdout


def cli_filter(
    script: Path,
    program: str = "sbatch",
    test_only: str = "unset",
    core_spec: str = "unset",
    users: Sequence[str] = (),
    **env: str,
) -> list[str]:
    """What cli_filter.lua does with a script that `program` is given, run in the script's folder.

    `users` are the job's and whoever runs the program, as numbers.
    """
    told = [program, test_only, core_spec, *users]
    command = ["lua5.1", str(HERE / "filter_driver.lua"), str(MODULES), str(script), *told]
    env = {"PATH": os.environ["PATH"], **env}
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True, cwd=script.parent, env=env)
    return done.stdout.splitlines()


def test_a_script_on_standard_input(tmp_path: Path) -> None:
    """What sbatch has read there is there still where it was a file."""
    (tmp_path / "net.txt").write_text("Net()")
    (tmp_path / "job.sh").write_text("#!/bin/sh\n# RAD memory=2G\n#RAD model=net.txt\n")
    command = ["lua5.1", str(HERE / "filter_driver.lua"), str(MODULES), "-", "sbatch"]

    def said(stdin: IO[bytes] | int, **env: str) -> list[str]:
        given = {"PATH": os.environ["PATH"], **env}
        done = subprocess.run(
            command, stdin=stdin, stdout=subprocess.PIPE, timeout=20, check=True, cwd=tmp_path, env=given
        )
        return [line for line in done.stdout.decode().splitlines() if not line.startswith("loads")]

    with (tmp_path / "job.sh").open("rb") as file:
        first, *rest = said(file)
    assert first.startswith("said rad: line 2 looks like a directive and is a comment: write #RAD memory=...")
    assert rest == ["result 0", "RAD_SUMMARY=ok 1", "RAD_SUMMARY_1=Net()"]
    with subprocess.Popen(["cat", "job.sh"], cwd=tmp_path, stdout=subprocess.PIPE) as cat:
        assert cat.stdout is not None
        assert said(cat.stdout) == ["result 0"]
    assert said(subprocess.DEVNULL) == ["result 0"]
    wrapped = said(subprocess.DEVNULL, WRAP="#RAD model=net.txt\npython train.py")
    assert wrapped == ["result 0", "RAD_SUMMARY=ok 1", "RAD_SUMMARY_1=Net()"]
    first, *rest = said(subprocess.DEVNULL, WRAP="# RAD model=net.txt\npython train.py")
    assert first.startswith("said rad: line 4 looks like a directive")


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("#RAD model=net.txt\ntrue\n", ["RAD_SUMMARY=ok 1", "RAD_SUMMARY_1=Net()"]),
        (
            "#!/bin/sh\n#RAD batch_size=4\n#RAD batch_size=4 Model: 'net.txt',\n",
            ["RAD_SUMMARY=ok 1", "RAD_SUMMARY_1=Net()"],
        ),
        (  # what was commented out is not followed
            "#RAD batch_size=4 # model=old.txt\n#RAD optimizer='adam', model=\"net.txt\" # model=old.txt\n",
            ["RAD_SUMMARY=ok 1", "RAD_SUMMARY_1=Net()"],
        ),
        ("#RAD model=none.txt\n", ["RAD_SUMMARY=error cannot be read: No such file or directory"]),
        ("#RAD model=.\n", ["RAD_SUMMARY=error is not a regular file"]),
        ("#RAD model=pipe\n", ["RAD_SUMMARY=error is not a regular file"]),
        ("#RAD model=zeros\n", ["RAD_SUMMARY=error is not text"]),
        ("#RAD model=wide\n", ["RAD_SUMMARY=error is UTF-16: save it as UTF-8"]),
    ],
)
def test_a_summary_is_handed_on(tmp_path: Path, script: str, said: list[str]) -> None:
    (tmp_path / "net.txt").write_text("Net()")
    (tmp_path / "zeros").write_bytes(bytes(9))
    (tmp_path / "wide").write_bytes("\ufeffNet()".encode("utf-16-le"))
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "job.sh").write_text(script)
    assert cli_filter(tmp_path / "job.sh") == ["result 0", *said, "loads rad_script", "loads posix.fcntl"]


def test_the_longest_summary_that_is_handed_on(tmp_path: Path) -> None:
    text = "".join(f"{number:07} " for number in range(512 * 1024 // 8))
    (tmp_path / "net.txt").write_text(text)
    (tmp_path / "job.sh").write_text("#RAD model=net.txt\n")
    said = dict(line.split("=", 1) for line in cli_filter(tmp_path / "job.sh") if line.startswith("RAD_SUMMARY"))
    assert said.pop("RAD_SUMMARY") == f"ok {len(said)}"
    assert "".join(said[f"RAD_SUMMARY_{number}"] for number in range(1, len(said) + 1)) == text
    (tmp_path / "net.txt").write_text(f"{text}x")
    assert "RAD_SUMMARY=error is longer than 512 KiB" in cli_filter(tmp_path / "job.sh")


@pytest.mark.parametrize(
    ("script", "loads"),
    [
        ("#!/bin/sh\ntrue\n", []),
        ("#RAD memory=12G\npython train.py --model net.txt\n", []),
        ("#RAD batch_size=4\n#RAD summary-begin\n# Model()\n#RAD summary-end\n", []),
        ("true\n#RAD model=net.txt\n", ["loads rad_script"]),
        ("#RADIO model=net.txt\n", ["loads rad_script"]),
        ("# see #RAD model=net.txt\n", []),
        ("#RAD memory=12G # instead of model=net.txt\n", ["loads rad_script"]),
        ("#RAD batch_size=4\n#RAD summary-begin\n# Net()\n#RAD summary-end\n#RAD model=n\n", ["loads rad_script"]),
        ("#RAD batch_size=4\n" * 101, ["loads rad_script"]),
        ("", []),
    ],
)
def test_a_script_without_a_path_costs_sbatch_no_library(tmp_path: Path, script: str, loads: list[str]) -> None:
    (tmp_path / "net.txt").write_text("Net()")
    (tmp_path / "job.sh").write_text(script)
    assert cli_filter(tmp_path / "job.sh") == ["result 0", *loads]


AS_WRITTEN = ", from the first column, in capitals, with a blank behind #RAD"


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ("# RAD model=net.txt", "line 2 looks like a directive and is a comment: write #RAD model=..."),
        ("#rad memory=12G", "line 2 looks like a directive and is a comment: write #RAD memory=..."),
        ("#Rad Batch-Size: 4", "line 2 looks like a directive and is a comment: write #RAD batch_size=..."),
        ("#RADmodel=net.txt", "line 2 looks like a directive and is a comment: write #RAD model=..."),
        ("\n\t  #RAD policy=exclusive", "line 3 looks like a directive and is a comment: write #RAD policy=..."),
        ("#\u00a0RAD --kind=infer", "line 2 looks like a directive and is a comment: write #RAD kind=..."),
        ("# RAD summary-begin\n# Net()", "line 2 looks like a directive and is a comment: write #RAD summary-begin"),
        (
            "#RAD memory=12G\n# RAD seq_len=8\n#RAD policy=exclusive\n#RADkind=infer",
            "lines 3, 5 look like directives and are comments: write #RAD seq_len=...",
        ),
        (
            "# RAD memory=1G\r\n" * 7 + "#\n" * 30_000,
            "lines 2, 3, 4 and 4 more look like directives and are comments: write #RAD memory=...",
        ),
    ],
)
def test_a_comment_that_may_be_meant_for_a_directive_is_told(tmp_path: Path, block: str, said: str) -> None:
    (tmp_path / "job.sh").write_bytes(f"#!/bin/sh\n{block}".encode())
    lines = cli_filter(tmp_path / "job.sh")
    assert lines == [f"said rad: {said}{AS_WRITTEN}", "result 0", "loads rad_script"]
    assert looks_like_directives((tmp_path / "job.sh").read_text()) == said + AS_WRITTEN


@pytest.mark.parametrize(
    "block",
    [
        "##RAD model=net.txt",  # as one takes an #SBATCH line out
        "# #RAD model=net.txt",
        "# RAD shares this GPU: see model=net.txt",
        "# RAD's memory=12G was too little",
        "# rad model of the earth",
        "#RADIO model=net.txt",
        "# grad memory=12G",
        "#RAD batch_size=4\n#RAD summary-begin\n# RAD model=x\n#RAD summary-end",
        "true\n# RAD model=net.txt",
        "#" * 65536 + "\n# RAD model=net.txt",
        "#\n" * 1000 + "# RAD model=net.txt",
    ],
)
def test_other_comments_are_passed_over(tmp_path: Path, block: str) -> None:
    (tmp_path / "job.sh").write_text(f"#!/bin/sh\n{block}\n")
    lines = cli_filter(tmp_path / "job.sh")
    assert [line for line in lines if line.startswith("said")] == []
    assert "result 0" in lines
    assert looks_like_directives((tmp_path / "job.sh").read_text()) == ""


def test_all_keys_are_known_in_comments_too(tmp_path: Path) -> None:
    for key in KEYS:
        (tmp_path / "job.sh").write_text(f"# RAD {key}=x\n")
        assert f"write #RAD {key}=...," in cli_filter(tmp_path / "job.sh")[0]


def test_a_job_of_several_parts_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text("# RAD model=net.txt\n")
    lines = cli_filter(tmp_path / "job.sh", PARTS="3")
    assert [line.split(":")[0] for line in lines] == ["said rad", *["result 0"] * 3, "loads rad_script"]


def test_a_script_that_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert cli_filter(tmp_path / "pipe") == ["result 0"]
    assert cli_filter(tmp_path / "none") == cli_filter(tmp_path) == ["result 0", "loads posix.fcntl"]
    assert cli_filter(Path("/dev/null")) == ["result 0"]


@pytest.mark.parametrize(
    ("users", "reads"),
    [(["1001", "0"], False), (["0", "0"], True), (["1001", "1001"], True), (["unset", "0"], True), (["99", "0"], True)],
)
def test_root_reads_nothing_that_another_users_script_names(tmp_path: Path, users: list[str], *, reads: bool) -> None:
    (tmp_path / "net.txt").write_text("Net()")
    (tmp_path / "job.sh").write_text("#RAD model=net.txt\n")
    said = cli_filter(tmp_path / "job.sh", users=users)
    assert ("RAD_SUMMARY_1=Net()" in said) == reads
    assert any(line.startswith("RAD_SUMMARY=error is not read by root for another user") for line in said) != reads


@pytest.mark.parametrize("program", ["sbatch", "salloc"])
def test_a_job_does_not_pass_its_own_on(tmp_path: Path, program: str) -> None:
    (tmp_path / "job.sh").write_text("true\n")
    given = {"RAD_SUMMARY": "ok 2", "RAD_SUMMARY_1": "x", "RAD_SUMMARY_2": "y", "RAD_SHARE": "12", "RAD_CORE_SPEC": "1"}
    assert cli_filter(tmp_path / "job.sh", program, **given) == ["result 0"]


def test_radd_is_told_since_when_slurmctld_runs(tmp_path: Path, serve: Callable[..., Radd]) -> None:
    radd = serve(passing(), each=9)
    before = time.time()
    lua(tmp_path, [{"script": SCRIPT}, {"script": SCRIPT, "clock_ahead": "7"}])
    told = [int(fields["slurmctld_since"]) for fields in radd.asked]
    assert before - 0.1 <= told[0] == told[1] < time.time() + 1.1


def test_a_question_when_a_job_would_start_is_told_from_a_job(tmp_path: Path, serve: Callable[..., Radd]) -> None:
    (tmp_path / "job.sh").write_text(SCRIPT)
    assert cli_filter(tmp_path / "job.sh", test_only="set") == ["result 0", "RAD_TEST_ONLY=1"]
    assert cli_filter(tmp_path / "job.sh", test_only="set", RAD_TEST_ONLY="0") == ["result 0", "RAD_TEST_ONLY=1"]
    assert cli_filter(tmp_path / "job.sh", RAD_TEST_ONLY="1") == ["result 0"]
    assert cli_filter(tmp_path / "job.sh", "salloc", test_only="set") == ["result 0"]
    radd = serve(passing(), each=9)
    lua(tmp_path, [{"script": SCRIPT, "environment": '{RAD_TEST_ONLY="1"}'}, {"script": SCRIPT, "environment": "{}"}])
    assert [fields.get("test_only") for fields in radd.asked] == ["1", None]


def test_a_job_that_may_get_its_node_whole_is_told_from_others(tmp_path: Path, serve: Callable[..., Radd]) -> None:
    (tmp_path / "job.sh").write_text(SCRIPT)
    assert cli_filter(tmp_path / "job.sh", core_spec="0") == ["result 0", "RAD_CORE_SPEC=1"]
    assert cli_filter(tmp_path / "job.sh", RAD_CORE_SPEC="1") == ["result 0"]
    radd = serve(passing(), each=9)
    lua(tmp_path, [{"script": SCRIPT, "environment": '{RAD_CORE_SPEC="1"}'}, {"script": SCRIPT, "environment": "{}"}])
    assert [fields.get("core_spec") for fields in radd.asked] == ["1", None]


def test_an_allocation_hands_no_summary_on(tmp_path: Path) -> None:
    (tmp_path / "net.txt").write_text("Net()")
    (tmp_path / "job.sh").write_text("#RAD model=net.txt\n")
    assert cli_filter(tmp_path / "job.sh", "salloc") == ["result 0"]


def step(*options: str, **env: str) -> list[str]:
    """What becomes of srun's options."""
    return step_with(MODULES, *options, **env)


def step_with(modules: Path, *options: str, **env: str) -> list[str]:
    """The same, with the files of a folder."""
    command = ["lua5.1", str(HERE / "step_driver.lua"), str(modules), *options]
    env = {"PATH": os.environ["PATH"], **env}
    return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True, env=env).stdout.splitlines()


@pytest.mark.parametrize(
    ("option", "left"),
    [
        ("gpus=1", "gpus="),
        ("gpus=h200:1", "gpus="),
        ("gpus-per-task=1", "gpus-per-task="),
        ("gpus-per-node=1", "gpus-per-node="),
        ("gpus-per-socket=1", "gpus-per-socket="),
        ("gres=gres:gpu:1", "gres=mps:30"),
        ("gres=gres/gpu:h200:1", "gres=mps:30"),
        ("gres=gpu", "gres=mps:30"),
        ("gres=gpu=1", "gres=mps:30"),
        ("gres=gpu:g1", "gres=mps:30"),
        ("gres=gres:gpu:1,gres:nic:1", "gres=mps:30,gres:nic:1"),
        ("gres=nic:1,gpu:h200:1", "gres=nic:1,mps:30"),
        ("tres-per-task=gres/gpu:1", "tres-per-task="),
        ("tres-per-task=gres:gpu:h200=1,cpu=2", "tres-per-task=cpu=2"),
        ("tres-per-task=gres/gpu:2", "tres-per-task=gres/gpu:2"),
        ("mem-per-gpu=1G", "mem-per-gpu=0"),
        ("export=NONE", "export=RAD_SHARE,RAD_THREAD_PERCENTAGE,RAD_COUNTED"),
        ("export=HOME,none=1", "export=HOME,none=1,RAD_SHARE,RAD_THREAD_PERCENTAGE,RAD_COUNTED"),
        ("export=ALL", "export=ALL"),
        ("export=A=1,all", "export=A=1,all"),
        ("export=", "export="),
        # Slurm's answer to these is right.
        ("gpus=0", "gpus=0"),
        ("gpus=2", "gpus=2"),
        ("gpus=11", "gpus=11"),
        ("gres=gres:gpu:2", "gres=gres:gpu:2"),
        ("gres=gpus:1", "gres=gpus:1"),
        ("gres=none", "gres=none"),
        ("gres=mps:5", "gres=mps:5"),
        ("gres=gpu:2,nic:1", "gres=gpu:2,nic:1"),
        ("gpus=", "gpus="),
    ],
)
def test_a_step_that_asks_for_the_jobs_gpu_takes_its_share(option: str, left: str) -> None:
    assert step(option, SLURM_JOB_ID="7", RAD_SHARE="30") == [left]


def test_a_step_whose_tasks_ask_for_a_gpu_each_asks_for_as_many() -> None:
    job = {"SLURM_JOB_ID": "7", "RAD_SHARE": "30"}
    assert step("ntasks=1", "gpus-per-task=1", **job) == ["ntasks=1", "gpus-per-task="]
    assert step("ntasks=2", "gpus-per-task=1", **job) == ["ntasks=2", "gpus-per-task=1"]
    assert step("ntasks=2", "gpus=1", **job) == ["ntasks=2", "gpus="]
    each = "tres-per-task=cpu:2,gres/gpu:1"
    assert step("ntasks=1", each, **job) == ["ntasks=1", "tres-per-task=cpu:2"]
    assert step("ntasks=2", each, **job) == ["ntasks=2", each]


BY_GPU = (
    (["cpus-per-gpu=4"], ["ntasks=1", "cpus-per-task=4"]),
    (["ntasks=2", "cpus-per-gpu=5"], ["ntasks=2", "cpus-per-task=2"]),
    (["ntasks=7", "cpus-per-gpu=5"], ["ntasks=7", "cpus-per-task=1"]),
    (["cpus-per-gpu=64"], ["ntasks=1", "cpus-per-task=16"]),
    (["ntasks=1", "ntasks-per-gpu=2"], ["ntasks=2"]),
    (["ntasks-per-gpu=2", "ntasks=4", "cpus-per-gpu=8"], ["ntasks=4", "cpus-per-task=2"]),
    (["ntasks=1", "ntasks-per-gpu=2", "gpu-bind=none"], ["ntasks=2"]),
    (["ntasks-per-gpu=2", "ntasks=1"], ["ntasks=2"]),
)
SHARES = {"SLURM_JOB_ID": "7", "RAD_SHARE": "30", "SLURM_CPUS_ON_NODE": "16"}


@pytest.mark.parametrize(("options", "instead"), BY_GPU)
def test_a_step_that_asks_by_gpu_is_started_anew_in_other_words(options: list[str], instead: list[str]) -> None:
    line = [f"--{option}" for option in options]
    left = step(*line, "mem=1", "--", "a b", "--cpus-per-gpu=3", "", **SHARES)
    assert left[-3:] == ["runs a b", "runs --cpus-per-gpu=3", "runs "]
    assert set(left[:-3]) == {*instead, "mem=1"}


@pytest.mark.parametrize(("options", "instead"), BY_GPU)
def test_what_slurm_will_refuse_is_told_with_its_cure(options: list[str], instead: list[str]) -> None:
    said, *left = step(*options, **SHARES)
    assert said.startswith("said rad: this job holds shares of a GPU")
    assert said.endswith(f": write {' '.join(f'--{option}' for option in instead)} instead")
    assert left == options
    assert step(*options, SLURM_JOB_ID="7") == options


@pytest.mark.parametrize("bound", ["gpu-bind=closest", "tres-bind=gres/gpu:none", "tres-bind=gres:gpu:1+gres/nic:1"])
def test_a_step_whose_tasks_are_bound_to_gpus_is_started_anew_without_that(bound: str) -> None:
    assert step("--ntasks=2", f"--{bound}", "--", "--gpu-bind=none", **SHARES) == ["ntasks=2", "runs --gpu-bind=none"]
    said, left = step(bound, **SHARES)
    assert said.startswith("said rad: this job holds shares of a GPU")
    assert said.endswith(": leave them out")
    assert left == bound
    assert step("--tres-bind=gres/nic:1", **SHARES) == ["tres-bind=gres/nic:1"]


@pytest.mark.parametrize(
    ("left", "has"),
    [
        ({"SLURM_GPUS_PER_TASK": "h200:1"}, ["RAD_COUNTED=SLURM_GPUS_PER_TASK=h200:1"]),
        ({"SLURM_MEM_PER_GPU": "64"}, ["RAD_COUNTED=SLURM_MEM_PER_GPU=64"]),
        ({"SLURM_CPUS_PER_GPU": "4"}, ["SRUN_CPUS_PER_TASK=4", "RAD_COUNTED=SLURM_CPUS_PER_GPU=4 SRUN_CPUS_PER_TASK"]),
        (
            {"SLURM_GPUS_PER_TASK": "1", "SLURM_CPUS_PER_GPU": "4", "SRUN_CPUS_PER_TASK": "2"},
            ["SRUN_CPUS_PER_TASK=2", "RAD_COUNTED=SLURM_CPUS_PER_GPU=4 SLURM_GPUS_PER_TASK=1"],
        ),
        ({"SLURM_GPUS": "1"}, ["RAD_COUNTED=SLURM_GPUS=1"]),
        (
            {"SLURM_GPUS_PER_NODE": "h200:1", "SLURM_MEM_PER_GPU": "64"},
            ["RAD_COUNTED=SLURM_GPUS_PER_NODE=h200:1 SLURM_MEM_PER_GPU=64"],
        ),
    ],
)
def test_what_scripts_count_by_is_hidden_from_srun(left: dict[str, str], has: list[str]) -> None:
    lines = step("--mem=1", "--", "a b", "", **SHARES, **left)
    assert [line.rstrip() for line in lines] == ["mem=1", "runs a b", "runs", *(f"has {one}" for one in has)]
    assert not [line for line in step("mem=1", SLURM_JOB_ID="7", **left) if "RAD_COUNTED" in line]


@pytest.mark.parametrize(("tasks", "cpus"), [("1", "4"), ("2", "2"), ("3", "1"), ("8", "1"), ("x", "4")])
def test_tasks_of_a_step_have_the_processors_of_the_gpu_together(tasks: str, cpus: str) -> None:
    left = step(f"ntasks={tasks}", "--", SLURM_CPUS_PER_GPU="4", **SHARES)
    assert f"has SRUN_CPUS_PER_TASK={cpus}" in left


def test_srun_is_started_anew_once_whatever_the_site_s_filter_sets() -> None:
    left = step("mem=1", SITE_SETS="SLURM_GPUS_PER_TASK=1", SLURM_GPUS="1", SLURM_MEM_PER_GPU="64", **SHARES)
    assert left == [
        "mem=1",
        "has SLURM_GPUS_PER_TASK=1",
        "has RAD_COUNTED=SLURM_GPUS=1 SLURM_GPUS_PER_TASK=1 SLURM_MEM_PER_GPU=64 ",
    ]


def test_what_an_option_of_a_step_says_may_be_a_word_of_its_own() -> None:
    line = ["--cpus-per-gpu", "4", "--gpu-bind", "none", "--mem", "1", "--", "--cpus-per-gpu", "3"]
    assert step(*line, **SHARES) == ["mem=1", "ntasks=1", "cpus-per-task=4", "runs --cpus-per-gpu", "runs 3"]
    line = ["--mem=1", "--cpus-per-gpu=4", "python", "--cpus-per-gpu=3"]
    assert step(*line, **SHARES) == ["mem=1", "ntasks=1", "cpus-per-task=4", "runs python", "runs --cpus-per-gpu=3"]


def test_options_of_a_step_may_be_shortened() -> None:
    line = ["--cpus-per-g=4", "--gpu-b=none", "--mem=1", "--", "--cpus-per-g=3"]
    assert step(*line, **SHARES) == ["mem=1", "ntasks=1", "cpus-per-task=4", "runs --cpus-per-g=3"]


def test_a_step_of_several_kinds_of_tasks_is_none_that_is_started_anew() -> None:
    said, left = step("--cpus-per-gpu=2", ":", **SHARES)
    assert said.endswith("write --ntasks=1 --cpus-per-task=2 instead")
    assert left == "cpus-per-gpu=2"


@pytest.mark.parametrize("option", ["cpus-per-gpu=0", "ntasks-per-gpu=-2", "ntasks-per-gpu=4294967294"])
def test_options_that_nobody_has_set_are_passed_over(option: str) -> None:
    assert step(option, SLURM_JOB_ID="7", RAD_SHARE="30") == [option]


def test_a_node_that_lacks_a_file_says_so_and_the_step_starts_as_written(tmp_path: Path) -> None:
    shutil.copy(MODULES / "rad.lua", tmp_path)
    said, left = step_with(tmp_path, "gpus=1", SLURM_JOB_ID="7", RAD_SHARE="30")
    assert said.startswith("said rad: this step starts as written: ") and "rad_step" in said
    assert left == "gpus=1"


def test_what_is_no_step_of_a_job_that_shares_keeps_its_options() -> None:
    assert step("gpus=1", "gres=gpu:1", SLURM_JOB_ID="7") == ["gpus=1", "gres=gpu:1"]
    assert step("gpus=1", "gres=gpu:1", RAD_SHARE="30") == ["gpus=1", "gres=gpu:1"]
