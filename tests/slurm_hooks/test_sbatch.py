"""What a script and sbatch's options become."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_hooks.sbatch import exports_all, fields_of, foreign, parted, unknown


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ("--gres=gpu:1", {"tres_per_node": "gres:gpu:1"}),
        ("--gres gpu:h200:2,tmpfs:1", {"tres_per_node": "gres:gpu:h200:2,gres:tmpfs:1"}),
        ("--gres=none", {"tres_per_node": ""}),
        ("--gres=gres:gpu:1,tmpfs:1", {"tres_per_node": "gres:gpu:1,gres:tmpfs:1"}),
        ("--gpus=1", {"tres_per_job": "gres:gpu:1"}),
        ("-G 2", {"tres_per_job": "gres:gpu:2"}),
        ("--gpus-per-node=a100:1", {"tres_per_node": "gres:gpu:a100:1"}),
        ("--gpus-per-task=1 -n4", {"tres_per_task": "gres:gpu:1", "num_tasks": "4"}),
        ("--cpus-per-gpu=4 --mem-per-gpu=2G", {"cpus_per_tres": "gres:gpu:4", "mem_per_tres": "gres:gpu:2048"}),
        ("-p gpu", {"partition": "gpu"}),
        ("-pgpu", {"partition": "gpu"}),
        ("-p=gpu", {"partition": "gpu"}),
        ('--job-name="a b" # ours', {"name": "a b"}),
        ("-N 2-4", {"min_nodes": "2", "max_nodes": "4"}),
        ("--nodes=1", {"min_nodes": "1", "max_nodes": "1"}),
        ("--mem=16G -c 8", {"min_mem_per_node": "16384", "cpus_per_task": "8"}),
        ("--mem=1000", {"min_mem_per_node": "1000"}),
        ("--mem-per-cpu=2048K", {"min_mem_per_cpu": "2"}),
        ("--mem=lots", {}),
        ("--mem=512K", {"min_mem_per_node": "1"}),
        ("--exclusive --hold", {"shared": "0", "priority": "0"}),
        ("--exclusive=user", {"shared": "2"}),
        ("--exclusive=mcs", {"shared": "3"}),
        ("--exclusive=me", {}),
        ("--exclusive -s", {"shared": "1"}),
        ("-s --exclusive", {"shared": "0"}),
        ("-N1-4 -G1", {"tres_per_job": "gres:gpu:1", "min_nodes": "1", "max_nodes": "1"}),
        ("-N1-4 -G h200,g0:2", {"tres_per_job": "gres:gpu:h200,gres:gpu:g0:2", "min_nodes": "1", "max_nodes": "3"}),
        ("--tmp=50G --bb=fast", {"pn_min_tmp_disk": "50G", "burst_buffer": "fast"}),
        ("--hint=nomultithread", {"threads_per_core": "1"}),
        ("--hint=multithread", {}),
        ("-B 2:8:1", {"sockets_per_node": "2", "cores_per_socket": "8", "threads_per_core": "1"}),
        ("-B 2", {"sockets_per_node": "2"}),
        ("--sockets-per-node=2 --cores-per-socket=8", {"sockets_per_node": "2", "cores_per_socket": "8"}),
        ("--ntasks-per-core=1 --ntasks-per-socket=4", {"ntasks_per_core": "1", "ntasks_per_socket": "4"}),
        ("--exclusive=exclusive", {"shared": "0"}),
        ("--exclusive=topo", {"shared": "4"}),
        ("-L matlab:2 --mincpus=8", {"licenses": "matlab:2", "pn_min_cpus": "8"}),
        ("-w n[1-3]", {"req_nodes": "n[1-3]", "min_nodes": "3"}),
        ("-w n1", {"req_nodes": "n1"}),
        ("--ntasks-per-node=2", {"num_tasks": "2"}),
        ("--tasks-per-node=2", {"num_tasks": "2"}),
        ("--tasks=3", {"num_tasks": "3"}),
        ("--cluster=rad --clus=rad", {}),
        ("--ntasks-per-node=" + "9" * 5000, {}),
        ("--ntasks-per-node=2 -N3", {"num_tasks": "6", "min_nodes": "3", "max_nodes": "3"}),
        ("--ntasks-per-node=2 --nodelist=a,b -n3", {"num_tasks": "3", "req_nodes": "a,b", "min_nodes": "2"}),
        ("-S 1", {"core_spec": "1"}),
        ("--thread-spec=1", {"core_spec": "1"}),
        ("--spread-job -p gpu", {"spread_job": "1", "partition": "gpu"}),
        ("-H -p gpu", {"priority": "0", "partition": "gpu"}),
        ("--array=0-9%2", {"array_inx": "0-9%2"}),
        ("--begin=now+1hour", {"begin_time": "86500"}),
        ("--begin now", {}),
        ("-b now+1hour", {"begin_time": "86500"}),
        ("-HN2 -vvp gpu", {"priority": "0", "min_nodes": "2", "max_nodes": "2", "partition": "gpu"}),
        ("--gpus-per-t=1 --part gpu", {"tres_per_task": "gres:gpu:1", "partition": "gpu"}),
        ("--gpu=1 --tres-per-task=gres/gpu:1", {"tres_per_task": "gres/gpu:1"}),
        ("--comment --gres=gpu:1 --time-min --hold", {}),
        ("hetjob", {"het_job_offset": "0"}),
        ("--time=2:00:30", {"time_limit": "121"}),
        ("-t 90", {"time_limit": "90"}),
        ("--time=UNLIMITED", {"time_limit": "unlimited"}),
        ("--mail-user me -o x.log -t 0 --no-requeue", {"time_limit": "unlimited"}),
        ("--job-name='open", {}),
        ("--gres=gpu:1 \\", {"tres_per_node": "gres:gpu:1"}),
        (r"""--job-name='it\'s' --job-name "a\"b" -p g\pu""", {"name": 'a"b', "partition": "gpu"}),
        ("-N1 -p gpu#,second", {"partition": "gpu", "min_nodes": "1", "max_nodes": "1"}),
        ("--gpus-per-node=h200:1 --gres=tmpfs:5", {"tres_per_node": "gres:gpu:h200:1,gres:tmpfs:5"}),
        ("--gres=gpu:1 --gres=tmpfs:5 --gpus-per-node=2", {"tres_per_node": "gres:gpu:2,gres:tmpfs:5"}),
        ("--gres=none --gpus-per-node=1", {"tres_per_node": "gres:gpu:1"}),
        ("-p", {"partition": ""}),
        ("", {}),
    ],
)
def test_lines(line: str, fields: dict[str, str]) -> None:
    script = f"#!/bin/bash\n#SBATCH {line}\n"
    assert fields_of(script, now=100) == {"script": script, **fields}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--gres=gpu:1 --time 2:00:00 -o x.log -A ours --qos=q --wrap 'a b' --nice=5 -vHQ", []),
        ("--gres=gpu:1 --partion=cpu", ["--partion=cpu"]),
        ("--partion cpu -Z --gpu=1 -p gpu", ["--partion", "-Z", "--gpu=1"]),
        ("gres=gpu:1", ["gres=gpu:1"]),
        ("--cluster=rad --clus=rad", ["--clus=rad"]),
        ("hetjob", []),
    ],
)
def test_what_is_no_option(line: str, words: list[str]) -> None:
    assert unknown(f"#!/bin/bash\n#SBATCH {line}\n") == words
    assert line == "hetjob" or unknown("#!/bin/bash\n", shlex.split(line)) == words


def test_only_a_heterogeneous_jobs_first_component_is_given_the_script() -> None:
    script = "#!/bin/bash\n#SBATCH -p cpu\n#SBATCH -J hetjob\n#SBATCH hetjob\n#SBATCH -p gpu\n#SBATCH --gres=gpu:1\n"
    assert fields_of(script) == {"script": script, "partition": "cpu", "name": "hetjob", "het_job_offset": "0"}


def test_components_of_a_command_line() -> None:
    fields = fields_of("", ["--gres=gpu:1", ":", "--gres=gpu:2"])
    assert fields == {"script": "", "tres_per_node": "gres:gpu:1", "het_job_offset": "0"}


@pytest.mark.parametrize(
    ("words", "script", "others"),
    [
        (["job.sh"], "job.sh", []),
        (["-N1", "job.sh", "-pgpu"], "job.sh", ["-N1", "-pgpu"]),
        (
            ["-p", "gpu", "--time", "1:00", "--exclusive", "job.sh"],
            "job.sh",
            ["-p", "gpu", "--time", "1:00", "--exclusive"],
        ),
        (["-HN2", "job.sh"], "job.sh", ["-HN2"]),
        (["-HN", "2", "job.sh"], "job.sh", ["-HN", "2"]),
        (["-n1", ":", "-n2", "job.sh"], "job.sh", ["-n1", ":", "-n2"]),
        (["--gres", "gpu:1"], "", ["--gres", "gpu:1"]),
        ([], "", []),
    ],
)
def test_where_the_script_stands(words: list[str], script: str, others: list[str]) -> None:
    assert parted(words) == (script, others)


def test_indented_comments_end_no_options() -> None:
    script = "#!/bin/bash\n  # ours\n #SBATCH -p cpu\n\t#\n#SBATCH -p gpu\n  true\n#SBATCH -p b\n"
    assert fields_of(script)["partition"] == "gpu"


def test_what_no_c_library_calls_blank_is_a_command() -> None:
    assert "partition" not in fields_of("#!/bin/bash\n\u00a0\n#SBATCH -p gpu\n")


@pytest.mark.parametrize(
    ("script", "options", "environment", "mark"),
    [
        ("#!/bin/sh\n#PBS -q gpu\n", [], {}, "#PBS"),
        ("#!/bin/sh\n#SBATCH -p gpu\ntrue\n#BSUB -n 2\n", [], {}, "#BSUB"),
        ("#!/bin/sh\n##PBS -q gpu\n # PBS\n", [], {}, ""),
        ("#!/bin/sh\n#PBS -q gpu\n", ["--ignore-pbs"], {}, ""),
        ("#!/bin/sh\n#SBATCH --ignore-pbs\n#PBS -q gpu\n", [], {}, ""),
        ("#!/bin/sh\n#PBS -q gpu\n", [], {"SBATCH_IGNORE_PBS": ""}, ""),
    ],
)
def test_lines_of_other_batch_systems(script: str, options: list[str], environment: dict[str, str], mark: str) -> None:
    assert foreign(script, options, environment) == mark


def test_options_override_the_script() -> None:
    script = "#!/bin/bash\n#SBATCH -p a --gres=gpu:1\n\npython x\n#SBATCH -p b\n"
    fields = fields_of(script, ["--partition", "c", "x.sh"])
    assert fields == {"script": script, "partition": "c", "tres_per_node": "gres:gpu:1"}


@pytest.mark.parametrize(
    ("variables", "fields"),
    [
        ({"SBATCH_PARTITION": "b"}, {"partition": "b"}),
        ({"SBATCH_GRES": "none"}, {"tres_per_node": ""}),
        ({"SBATCH_GPUS": "2"}, {"tres_per_job": "gres:gpu:2"}),
        ({"SBATCH_GPUS_PER_TASK": "1"}, {"tres_per_task": "gres:gpu:1"}),
        (
            {"SBATCH_CPUS_PER_GPU": "4", "SBATCH_MEM_PER_GPU": "2G"},
            {"cpus_per_tres": "gres:gpu:4", "mem_per_tres": "gres:gpu:2048"},
        ),
        ({"SBATCH_ARRAY_INX": "1-3", "SBATCH_MEM_PER_NODE": "1G"}, {"array_inx": "1-3", "min_mem_per_node": "1024"}),
        ({"SBATCH_CORE_SPEC": "1"}, {"core_spec": "1"}),
        ({"SBATCH_THREAD_SPEC": "1"}, {"core_spec": "1"}),
        ({"SBATCH_HINT": "nomultithread"}, {"threads_per_core": "1"}),
        ({"SLURM_HINT": "nomultithread"}, {"threads_per_core": "1"}),
        ({"SBATCH_THREADS_PER_CORE": "1"}, {"threads_per_core": "1"}),
        ({"SBATCH_BURST_BUFFER": "capacity=1G"}, {"burst_buffer": "capacity=1G"}),
        ({"SBATCH_TIMELIMIT": "1-0"}, {"time_limit": "1440"}),
        ({"SBATCH_EXCLUSIVE": ""}, {"shared": "0"}),
        ({"SBATCH_EXCLUSIVE": "user"}, {"shared": "2"}),
        ({"SBATCH_SPREAD_JOB": ""}, {"spread_job": "1"}),
        ({"SBATCH_SPREAD_JOB": "Yes"}, {"spread_job": "1"}),
        ({"SBATCH_SPREAD_JOB": "2"}, {"spread_job": "1"}),
        ({"SBATCH_SPREAD_JOB": "0"}, {}),
        ({"SBATCH_SPREAD_JOB": "no"}, {}),
        ({"SBATCH_DEPENDENCY": "afterok:1", "SBATCH_NODES": "2", "PARTITION": "b"}, {}),  # sbatch reads none of these
    ],
)
def test_variables_override_the_script(variables: dict[str, str], fields: dict[str, str]) -> None:
    script = "#SBATCH -p a --gres=gpu:1\n"
    before = {"script": script, "partition": "a", "tres_per_node": "gres:gpu:1"}
    assert fields_of(script, environment=variables) == {**before, **fields}
    assert fields_of(script, ["-p", "c"], environment=variables) == {**before, **fields, "partition": "c"}


@pytest.mark.parametrize(
    ("line", "options", "variable", "expected"),
    [
        ("", [], None, True),
        ("--export=NONE", [], None, False),
        ("--export=ALL,A=1", [], None, True),
        ("--export=A=1", [], None, False),
        ("--export=NONE", [], "all", True),
        ("", [], "NONE", False),
        ("", ["--export", "ALL"], "NONE", True),
    ],
)
def test_what_a_job_is_given_of_the_environment(
    line: str, options: list[str], variable: str | None, expected: bool
) -> None:
    environment = {} if variable is None else {"SBATCH_EXPORT": variable}
    assert exports_all(f"#SBATCH {line}\n", options, environment) is expected


def test_later_versions_of_slurm() -> None:
    fields = fields_of("#!/bin/bash\n", ["--gres=gpu:1", "--gpus-per-task=2", "--mem-per-gpu=1G"], separator="/")
    assert fields == {
        "script": "#!/bin/bash\n",
        "tres_per_node": "gres/gpu:1",
        "tres_per_task": "gres/gpu:2",
        "mem_per_tres": "gres/gpu:1024",
    }
    fields = fields_of("#!/bin/bash\n", ["--ntasks-per-node=2", "-w", "a,b"], separator="/")
    assert fields == {"script": "#!/bin/bash\n", "req_nodes": "a,b", "min_nodes": "2"}
    fields = fields_of("", ["--ntasks-per-node=2", "--gpus-per-task=1"], separator="/")
    assert fields == {"script": "", "tres_per_task": "gres/gpu:1", "num_tasks": "2"}


@given(st.lists(st.text()))
def test_any_words(words: list[str]) -> None:
    fields_of("".join(f"#SBATCH {word}\n" for word in words), words)
    unknown("", words)
