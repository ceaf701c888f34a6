"""Text of the configuration files of a development cluster. Pure: a layout in, text out."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any

from scripts.devcluster.layout import Layout

CLUSTER_NAME = "rad"
MPS_UNITS = 100  # shares of one GPU
CGROUPS_CAN_BE_OFF = (24, 5)


def slurm_conf(layout: Layout, *, rad: bool) -> str:
    """slurm.conf; with `rad` the hooks are switched on as etc/slurm.conf.rad tells an admin to."""
    host = _host()
    types = [f"g{index}" for index in range(layout.gpus)]
    instances = {name: layout.instances.count(name) for name in layout.instances}
    gres = ",".join(
        [f"gpu:{name}:1" for name in types]
        + [f"gpu:{name}:{count}" for name, count in instances.items()]
        + [f"mps:{name}:{MPS_UNITS}" for name in types]
    )
    tres = ",".join(
        ["gres/gpu", "gres/mps"]
        + [f"gres/{kind}:{name}" for kind in ("gpu", "mps") for name in types]
        + [f"gres/gpu:{name}" for name in instances]
    )
    lines = [
        f"ClusterName={CLUSTER_NAME}",
        f"SlurmctldHost={host}(127.0.0.1)",
        f"SlurmctldPort={layout.base_port}",
        "SlurmUser=slurm",
        "SlurmdUser=root",
        "AuthType=auth/munge",
        "CryptoType=crypto/munge",
        f"AuthInfo=socket={layout.munge_socket},cred_expire=5",
        f"StateSaveLocation={layout.directory}/state",
        f"SlurmdSpoolDir={layout.directory}/spool/slurmd-%n",
        f"SlurmctldPidFile={layout.run}/slurmctld/slurmctld.pid",
        f"SlurmdPidFile={layout.run}/slurmd-%n.slurm.pid",
        f"SlurmctldLogFile={layout.logs}/slurmctld/slurmctld.log",
        f"SlurmdLogFile={layout.logs}/slurmd-%n.log",
        "SlurmctldDebug=info",
        "SlurmdDebug=info",
        "SlurmdParameters=config_overrides",
        "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/none",
        "MpiDefault=none",
        "SwitchType=switch/none",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_CPU",
        "PropagateResourceLimits=NONE",
        "ReturnToService=2",
        "SlurmdTimeout=120",
        "MessageTimeout=20",
        "KillWait=2",
        "CompleteWait=0",
        "EpilogMsgTime=0",
        "MinJobAge=600",
        "MaxJobCount=50000",
        "MaxArraySize=10001",
        "SchedulerType=sched/backfill",
        "SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=10000,bf_interval=1,"
        "max_rpc_cnt=0,default_queue_depth=1000",
        "PriorityType=priority/basic",
        "JobAcctGatherType=jobacct_gather/none",
        "AccountingStorageType=accounting_storage/slurmdbd",
        "AccountingStorageHost=127.0.0.1",
        f"AccountingStoragePort={layout.dbd_port}",
        f"AccountingStoragePass={layout.munge_socket}",  # how slurmdbd is reached: without it by the system's munged
        "AccountingStoreFlags=job_comment,job_script,job_env",
        f"AccountingStorageTRES={tres}",
        "GresTypes=gpu,mps",
    ]
    if rad:
        lines += [
            "JobSubmitPlugins=lua",
            "CliFilterPlugins=lua",
            "PrologFlags=Alloc",
            f"Prolog={layout.etc}/prolog.sh",
            f"TaskProlog={layout.etc}/task_prolog.sh",
            f"Epilog={layout.etc}/epilog.sh",
            "PrologEpilogTimeout=60",
        ]
    lines += [
        f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={layout.node_port(index)} CPUs={layout.cpus}"
        f" RealMemory=262144 Feature={layout.gpu_model},infiniband Gres={gres}"
        for index, name in enumerate(layout.node_names)
    ]
    lines += [
        f"PartitionName={name} Nodes=ALL Default={'NO' if index else 'YES'} MaxTime=INFINITE State=UP"
        for index, name in enumerate(layout.partitions)
    ]
    return "\n".join(lines) + "\n"


def _host() -> str:
    """This machine's name, as Slurm's daemons compare it; it need not resolve, every address is given."""
    return socket.gethostname().partition(".")[0]


def cgroup_conf(version: tuple[int, int]) -> str:
    """cgroup.conf for a Slurm of `version`: no plugin of ours uses cgroups, yet every slurmd looks for them.

    Where it finds none, or v2 without systemd, it ends. Older ones cannot be told to do without; of v1 they want
    nothing until somebody uses it, whatever is mounted.
    """
    return f"CgroupPlugin={'disabled' if version >= CGROUPS_CAN_BE_OFF else 'cgroup/v1'}\n"


def gres_conf(layout: Layout) -> str:
    """gres.conf: every device with a Type of its own, once as gpu and once as mps."""
    nodes = layout.node_names
    names = nodes[0] if len(nodes) == 1 else f"node[0-{len(nodes) - 1}]"
    lines = [f"NodeName={names} Name=gpu Type=g{index} File={layout.device(index)}" for index in range(layout.gpus)]
    lines += [
        f"NodeName={names} Name=gpu Type={name} File={layout.device(index)}"
        for index, name in enumerate(layout.instances, start=layout.gpus)
    ]
    lines += [
        f"NodeName={names} Name=mps Type=g{index} Count={MPS_UNITS} File={layout.device(index)} Flags=all_sharing"
        for index in range(layout.gpus)
    ]
    return "AutoDetect=off\n" + "\n".join(lines) + "\n"


def slurmdbd_conf(layout: Layout) -> str:
    """slurmdbd.conf."""
    return f"""AuthType=auth/munge
AuthInfo={layout.munge_socket}
DbdHost={_host()}
DbdAddr=127.0.0.1
DbdPort={layout.dbd_port}
SlurmUser=slurm
LogFile={layout.logs}/slurmdbd/slurmdbd.log
PidFile={layout.run}/slurmdbd/slurmdbd.pid
DebugLevel=info
CommitDelay=1
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={layout.db_port}
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm_acct_db
"""


def rad_settings(layout: Layout, base: Mapping[str, Any]) -> dict[str, Any]:
    """A site's rad.toml with the cluster's own paths; partitions of the cluster that it does not name are added.

    A partition named after a mode (advise, shadow) gets that mode, one named after a sharing method that method, and
    one whose name begins with `plain` is none of RAD's business; all others enforce.
    """
    made: dict[str, Any] = {name: dict(section) for name, section in base.items()}
    for section, values in {
        "radd": {"socket": str(layout.run / "rad" / "radd.sock")},
        "mps": {"run_dir": str(layout.run / "mps")},
        "node": {
            "state_dir": str(layout.run / "jobs"),
            "spool_dir": str(layout.directory / "spool" / "rad"),
            "log": str(layout.logs / "node.log"),
        },
        "estimator": {"models_dir": str(layout.directory / "models")},
    }.items():
        made[section] = {**made.get(section, {}), **values}
    partitions = dict(made.get("partitions", {}))
    for name in layout.partitions:
        if name in partitions or name.startswith("plain"):
            continue
        partitions[name] = {"gpu_model": layout.gpu_model}
        if name in ("advise", "shadow"):
            partitions[name]["mode"] = name
        if name in ("streams", "mig", "off"):
            partitions[name]["method"] = name
    made["partitions"] = partitions
    return made


def toml(data: Mapping[str, Any]) -> str:
    """Two levels of tables of strings, numbers and booleans as TOML."""
    lines: list[str] = []
    for section, values in data.items():
        tables = {key: value for key, value in values.items() if isinstance(value, Mapping)}
        lines.append(f"[{section}]")
        lines += [f"{key} = {_literal(value)}" for key, value in values.items() if key not in tables]
        for name, table in tables.items():
            lines.append(f"[{section}.{_literal(name)}]")
            lines += [f"{key} = {_literal(value)}" for key, value in table.items()]
    return "\n".join(lines) + "\n"


def _literal(value: str | bool | float) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return repr(value)
