"""Measures the later collections on a lent GPU, some minutes at a time, and packs them.

Starts worker processes on this machine's GPU (torch, torchvision, timm and transformers; nothing is downloaded). Raw
results are written under a scratch folder as they come; every half minute they are copied, compressed, to the folder
named, so that a run that is cut off loses little; ``--pack`` adds them to the data set.
"""

from __future__ import annotations

import argparse
import lzma
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from estimator.dataset.collect import Collector, Options, bundles
from estimator.dataset.packing import add
from estimator.dataset.raw import ISOLATED, ROWS, TRACES, read_jsonl
from estimator.dataset.specs import FITTED, Spec, Split, spec_from_json
from estimator.dataset.store import DEFAULT, load
from scripts import collecting
from scripts.parts import PARTS, SEED, mixed, specs, there

_CONTEXT_GROUPS = (
    "lstm crnn conv3d video_resnet dlrm rdnet vit_relpos phi3 vae gru unet cyclegan deepfm vqvae granite dcn detr "
    "hifigan llava mamba own_yolo rcnn word_lm cnn_lstm own_squeezenet own_t5 panns tabnet afm cct enet graph_sage "
    "performer segresnet zfnet deep4 osnet pixart sgc tabm timesnet xvector"
)


def shared(listed: Iterable[Spec], share: int, shares: int, *, backwards: bool) -> list[Spec]:
    """Choose a share of a list's models, each with all its configurations."""
    models = bundles(listed)[share::shares]
    return [spec for bundle in (reversed(models) if backwards else models) for spec in bundle]


def isolated(parts: Sequence[str], seed: int = SEED) -> list[Spec]:
    """Choose what processes of their own measure: parts of which that is wanted, of others small runs of each sort."""
    whole = [spec for part in parts if PARTS[part].own for spec in specs(part, seed)]
    chosen: dict[tuple[str, str], Spec] = {}
    for spec in (spec for part in parts if not PARTS[part].own for spec in specs(part, seed)):
        if spec.group in _CONTEXT_GROUPS.split() and spec.tokens <= 2048:
            chosen.setdefault((spec.group, spec.kind), spec)
    return [*whole, *chosen.values()]


def quiet(folder: Path) -> list[Spec]:
    """Choose measured runs with short steps, to be run again with nothing beside them."""
    rows = [r for r in read_jsonl(folder / ROWS) if r["status"] == "ok" and r["step_seconds"] < 0.2]
    found: dict[str, Spec] = {}
    for row in sorted(rows, key=lambda r: -r["peak_reserved_mib"]):
        if row["peak_reserved_mib"] < 24000:
            spec = spec_from_json(row["spec"])
            found.setdefault(spec.name, spec)
    chosen = list(found.values())
    random.Random(SEED).shuffle(chosen)  # noqa: S311 - an order, no secret
    return chosen


def collect(folder: Path, chosen: Sequence[Spec], options: Options) -> None:
    """Run one collection and print how far it is, now and then."""
    begin = time.monotonic()
    told = [0.0]

    def say(text: str) -> None:
        now = time.monotonic()
        if now - told[0] > 20:
            told[0] = now
            print(f"{now - begin:5.0f} s {folder.name}: {text}", flush=True)

    collector = Collector(list(chosen), folder, options)
    collector.run(say)
    print(f"{folder.name}: {collector.replaced} workers could not give memory back and were replaced", flush=True)


def pack(out: Path, folder: Path, parts: Sequence[str], seed: int) -> dict[str, int]:
    """Add the compressed raw results of a run to a packed data set.

    What judges is ``known`` where its model is fitted to, else ``kin``; what is one of the usual configurations too, is
    fitted to.
    """
    fitted = {(row.spec.source, row.spec.name) for row in load(folder).rows if row.split in FITTED}
    apart: dict[str, Split] = {}
    drawn: set[str] = set()
    usual_ids = {spec.id for part in parts if PARTS[part].grid is not None for spec in specs(part, seed)}
    for part in parts:
        about = PARTS[part]
        for spec in specs(part, seed) if about.judges or about.drawn else ():
            if spec.id in usual_ids:
                continue
            known = (spec.source, spec.name) in fitted
            if about.judges:
                apart[spec.id] = "known" if known else "kin"
            if about.drawn and known:
                drawn.add(spec.id)
    with tempfile.TemporaryDirectory() as name:
        raw = Path(name)
        for source, target in (("main", ROWS), ("main", TRACES), ("isolated", ISOLATED)):
            packed = out / f"{source}-{ROWS if source == 'isolated' else target}.xz"
            if packed.exists():
                (raw / target).write_bytes(lzma.decompress(packed.read_bytes()))
        return add(raw, folder, apart, drawn)


def _parser() -> argparse.ArgumentParser:
    parser = collecting.parser(__doc__, minutes=7.0, capacity_gib=112.0)
    parser.add_argument("--raw", type=Path, help="folder of raw results; what it holds is not measured again")
    parser.add_argument("--parts", nargs="+", default=["fresh12", "kin12"], choices=PARTS, metavar="PART")
    parser.add_argument("--then", nargs="+", default=[], choices=PARTS, metavar="PART", help="parts that follow these")
    parser.add_argument("--seed", type=int, default=SEED, help="equal seeds draw equal configurations")
    parser.add_argument("--quiet", type=float, default=0.9, help="minutes for counters afterwards")
    parser.add_argument("--own-workers", type=int, default=1, help="beside, for processes of their own; 14 GiB each")
    parser.add_argument("--backwards", action="store_true", help="begin with the models that a run reaches last")
    collecting.add_share(parser, "each Nth model from the Kth on: one for each GPU")
    parser.add_argument("--new", action="store_true", help="leave out what RAD's data set holds")
    parser.add_argument("--only", help="isolated: measure just these, with a process each")
    return parser


def main() -> None:
    """Run the command."""
    options = _parser().parse_args()
    if options.pack:
        print(pack(options.out, DEFAULT, options.parts, options.seed))
        return
    raw: Path = options.raw or Path(tempfile.mkdtemp(prefix="rad-collect-"))
    if options.only:
        many = Options(options.workers, 1024 * options.capacity_gib, options.device, options.minutes, isolated=True)
        collect(raw / "isolated", isolated(options.parts, options.seed), many)
        return
    with collecting.copied(raw, options.out):
        _collect_all(options, raw)
    _tell(raw / "main")


def _collect_all(options: argparse.Namespace, raw: Path) -> None:
    """Measure the parts, and beside them some configurations by processes of their own."""
    command = [sys.executable, "-m", "scripts.collect_later", "--only", "isolated", "--raw", str(raw)]
    command += ["--parts", *options.parts, "--seed", str(options.seed)]
    command += ["--out", str(options.out), "--minutes", str(0.7 * options.minutes), "--device", options.device]
    command += ["--workers", str(options.own_workers), "--capacity-gib", str(14 * options.own_workers)]
    share, shares = options.share
    beside = None if share else subprocess.Popen(command)
    taken = there() if options.new else set()
    drawn = (*mixed(options.parts, options.seed), *mixed(options.then, options.seed))
    listed = [spec for spec in drawn if spec.id not in taken]
    wanted = shared(listed, share, shares, backwards=options.backwards)
    print(f"{len(wanted)} configurations", flush=True)
    side = Options(options.workers, options.capacity_gib * 1024, options.device, minutes=options.minutes)
    collect(raw / "main", wanted, side)
    if beside is not None:
        try:
            beside.wait(15)
        except subprocess.TimeoutExpired:
            beside.terminate()
    if options.quiet:
        alone = Options(1, 130 * 1024, options.device, minutes=options.quiet, seconds=0.2)
        collect(raw / "quiet", quiet(raw / "main"), alone)


def _tell(folder: Path) -> None:
    """Print what a folder of raw results holds."""
    rows = list(read_jsonl(folder / ROWS))
    splits = Counter((spec_from_json(r["spec"]).split, r["status"]) for r in rows)
    print(f"{len(rows)} rows: {dict(splits)}; {len({r['spec']['group'] for r in rows})} families", flush=True)
    collecting.tell_failures(folder)


if __name__ == "__main__":
    main()
