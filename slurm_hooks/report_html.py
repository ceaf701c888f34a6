"""The report as one page that needs nothing else: no script, font or image from anywhere. Pure: values in, text out.

Every word of the page that comes from Slurm or a user is escaped; a content security policy forbids the rest.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, tzinfo
from html import escape

from slurm_hooks import charts
from slurm_hooks.amounts import MIB_PER_GIB, duration, gib
from slurm_hooks.charts import Point, Series, number
from slurm_hooks.report import ENDED_WELL, Job, Report, Row, make, seconds_within
from slurm_hooks.slurm.accounting import JobRun

_STEPS = 120
_MAX_POINTS = 1500
_MAX_OOMS = 50
_TOP = 10
_SHORT_S = 3 * 86_400
_DAY_MIN = 1440
_STEPS_MIN = (1, 5, 10, 30, 60, 120, 180, 360, 720, *(days * _DAY_MIN for days in (1, 2, 7, 30, 90, 365)))
_MOST_TICKS = 14
_KINDS = {"shared": "held", "whole": "whole", "other": "unseen"}  # as in the table, with their colours

_STYLE = """
:root{--bg:#fff;--fg:#1b2733;--soft:#5c6b7a;--line:#dde4ea;--card:#f6f8fa;--held:#0b7a75;--asked:#e08e0b;
--whole:#7b8ea1;--unseen:#c9d3dc;--bad:#c0392b}
@media (prefers-color-scheme:dark){:root{--bg:#12181f;--fg:#e6edf3;--soft:#9fb0c0;--line:#2b3641;--card:#1a232c;
--held:#2bb5ad;--asked:#f0ad4e;--whole:#73879b;--unseen:#3c4a58;--bad:#ff7566}}
*{box-sizing:border-box}
body{margin:0 auto;padding:28px 20px 60px;max-width:1180px;background:var(--bg);color:var(--fg);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
h1{font-size:26px;margin:0}h2{font-size:17px;margin:0 0 10px}
.when{color:var(--soft);margin:2px 0 22px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;margin-bottom:18px}
.tile,.card{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:14px 16px}
.tile b{display:block;font-size:27px;line-height:1.2;font-variant-numeric:tabular-nums}
.tile span{color:var(--soft);font-size:13px}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(460px,100%),1fr));gap:14px}
.wide{grid-column:1/-1}.card p{margin:8px 0 0;color:var(--soft);font-size:13px}
svg{width:100%;height:auto;display:block}
.grid{stroke:var(--line)}.tick{fill:var(--soft);font-size:11px}
.area{fill:var(--c);opacity:.28}.line{fill:none;stroke:var(--c);stroke-width:2}
.bar{fill:var(--c)}.dot{fill:var(--c);fill-opacity:.75}.whisker{stroke:var(--c);stroke-width:1.5;opacity:.6}
.diagonal{stroke:var(--soft);stroke-dasharray:4 4}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:4px 18px;padding:0;margin:8px 0 0;font-size:13px}
.legend li::before{content:"";display:inline-block;width:11px;height:11px;border-radius:3px;background:var(--c);
margin-right:6px}
.scroll{overflow-x:auto}.scroll svg{min-width:640px}.tall{max-height:420px;overflow-y:auto}
td.l{max-width:16ch;overflow:hidden;text-overflow:ellipsis}.wide td.l{max-width:26ch}
.tall table{font-size:13px}.tall th,.tall td{padding:5px 4px}
.ranks td{border-bottom:0}.ranks .track{width:70%}.track i{display:block;height:16px;border-radius:3px;
background:var(--c)}
table{border-collapse:collapse;width:100%;font-size:14px;font-variant-numeric:tabular-nums}
th,td{padding:6px 8px;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
th{color:var(--soft);font-weight:600}th.l,td.l{text-align:left}tr.total td{font-weight:700;border-bottom:0}
.bad{color:var(--bad)}
@media print{body{max-width:none}.card,.tile{break-inside:avoid}.tall{max-height:none}}
"""


def page(report: Report, jobs: Sequence[Job], now: int, zone: tzinfo | None = None) -> str:
    """The page.

    Args:
        report: the numbers by group.
        jobs: the jobs that it was made from.
        now: Unix time in seconds at which it is made.
        zone: time zone of the page; None for this machine's.
    """
    begin, end = _when(report.since, zone), _when(report.until, zone)
    charted = _without_empty_begin(report, jobs)
    cards = [
        _card("GPUs over time", _gpus(charted, jobs, zone), wide=True),
        _card("Shared against exclusive", _split(charted, jobs, zone)),
        _card("Estimate against use of memory", _memory(jobs)),
        _card("Out of GPU memory", _ooms(report, jobs, zone)),
        _card("Energy", _energy(report)),
        _card("Top users by waste", _waste(jobs, report), wide=True),
        _card(f"By {report.by}", _table(report), wide=True),
    ]
    return (
        "<!doctype html>\n"
        '<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>GPU sharing, {begin} to {end}</title><style>{_STYLE}</style></head><body>"
        f'<h1>GPU sharing</h1><p class="when">{begin} to {end}, made {_when(now, zone)} by radctl report</p>'
        f'<div class="tiles">{"".join(_tiles(report.total))}</div><div class="cards">{"".join(cards)}</div>'
        "</body></html>\n"
    )


def _without_empty_begin(report: Report, jobs: Sequence[Job]) -> Report:
    """The report from the first run on where more than half of its time has passed by then."""
    first = min((run.start for job in jobs for run in job.runs if run.start is not None), default=report.since)
    late = report.until - first < (report.until - report.since) / 2
    return replace(report, since=min(first, report.until - _STEPS)) if late else report


def _tiles(total: Row) -> list[str]:
    saved = total.gpu_hours_saved / total.gpu_hours_asked if total.gpu_hours_asked else 0.0
    tiles = [
        (f"{total.jobs:,}", "jobs that asked for GPUs"),
        (f"{total.shared:,}", "of them shared a GPU"),
        (number(total.gpu_hours_asked), "GPU-hours asked"),
        (number(total.gpu_hours_held), "GPU-hours held"),
        (f"{saved:.0%}", f"saved: {number(total.gpu_hours_saved)} GPU-hours"),
        (str(total.ooms), f"runs out of memory, {total.oom_finished} jobs of them finished"),
    ]
    if total.energy_kwh is not None:
        tiles.append((number(total.energy_kwh), "kWh measured"))
    return [f'<div class="tile"><b>{escape(value)}</b><span>{escape(text)}</span></div>' for value, text in tiles]


def _card(title: str, body: str, *, wide: bool = False) -> str:
    return f'<section class="card{" wide" if wide else ""}"><h2>{escape(title)}</h2>{body}</section>'


def _none(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def _gpus(report: Report, jobs: Sequence[Job], zone: tzinfo | None) -> str:
    if not jobs:
        return _none("No job asked for a GPU in this time.")
    asked = _binned(report, jobs, lambda job, run: job.gpus_asked(run))
    held = _binned(report, jobs, lambda job, run: job.gpus_held(run))
    rows = [Series("held", "held", held, filled=True), Series("asked", "asked", asked)]
    chart = charts.over_time(rows, _ticks(report, zone), "GPUs", "GPUs asked and held over time")
    return f'<div class="scroll">{chart}</div>' + _none(
        "Asked: whole GPUs of the jobs that ran, but for runs that were lost to sharing. Held: their shares. "
        "The space between is what sharing gave back."
    )


def _ticks(report: Report, zone: tzinfo | None) -> list[tuple[float, str]]:
    """Round times of the report's time, with their places in it."""
    span = report.until - report.since
    step = timedelta(minutes=next((m for m in _STEPS_MIN if span <= _MOST_TICKS * 60 * m), _STEPS_MIN[-1]))
    day = datetime.fromtimestamp(report.since, zone).replace(hour=0, minute=0, second=0, microsecond=0)
    found: dict[float, str] = {}  # a time that the clock leaves out is the one that it goes on with
    at = day
    while (seconds := at.timestamp()) <= report.until:
        if seconds >= report.since:
            shown = datetime.fromtimestamp(seconds, zone)
            form = "%b %d" if (shown.hour, shown.minute) == (0, 0) else "%H:%M"
            found[(seconds - report.since) / span] = shown.strftime(form)
        at += step
    return list(found.items())


def _binned(report: Report, jobs: Sequence[Job], gpus: Callable[[Job, JobRun], float]) -> list[float]:
    """Mean number of GPUs in each step of the report's time."""
    step = (report.until - report.since) / _STEPS
    made = [0.0] * _STEPS
    for job in jobs:
        for run in job.runs:
            if run.start is None or not (amount := gpus(job, run)):
                continue
            begin = max(0.0, (run.start - report.since) / step)
            stop = min(float(_STEPS), ((report.until if run.end is None else run.end) - report.since) / step)
            for n in range(math.floor(begin), min(_STEPS, math.ceil(stop))):
                made[n] += amount * max(0.0, min(stop, n + 1) - max(begin, n))
    return made


def _split(report: Report, jobs: Sequence[Job], zone: tzinfo | None) -> str:
    """GPU-hours of each day, or hour where the time is short, by what was done with the job."""
    if not jobs:
        return _none("No job asked for a GPU in this time.")
    hourly = report.until - report.since <= _SHORT_S
    edges = _hours(report, zone) if hourly else _days(report, zone)
    hours = {kind: [0.0] * (len(edges) - 1) for kind in _KINDS}
    for job in jobs:
        kind = "shared" if job.is_shared else "whole" if job.is_changed else "other"
        for run in job.runs:
            if run.start is None or not (held := job.gpus_held(run)):
                continue
            first = max(0, bisect_right(edges, run.start) - 1)
            stop = min(len(edges) - 1, bisect_left(edges, report.until if run.end is None else run.end))
            for n in range(first, stop):
                hours[kind][n] += held * seconds_within(run, edges[n], edges[n + 1]) / 3600
    rows = [Series(kind, colour, hours[kind]) for kind, colour in _KINDS.items()]
    form = "%H:%M" if hourly else "%b %d"
    labels = [datetime.fromtimestamp(edge, zone).strftime(form) for edge in edges[:-1]]
    return charts.bars(rows, labels, "GPU-hours held", "GPU-hours held by shared and other jobs")


def _hours(report: Report, zone: tzinfo | None) -> list[int]:
    """The report's time cut at full hours, each as long as an hour also where the clock is changed."""
    full = datetime.fromtimestamp(report.since, zone).replace(minute=0, second=0, microsecond=0)
    return [report.since, *range(int(full.timestamp()) + 3600, report.until, 3600), report.until]


def _days(report: Report, zone: tzinfo | None) -> list[int]:
    """The report's time cut at midnights."""
    at = datetime.fromtimestamp(report.since, zone).replace(hour=0, minute=0, second=0, microsecond=0)
    edges = [report.since]
    while (later := int((at := at + timedelta(days=1)).timestamp())) < report.until:
        edges.append(later)
    return [*edges, report.until]


def _memory(jobs: Sequence[Job]) -> str:
    points = []
    for job in jobs:
        record, peak = job.record, job.peak_mib
        if record is None or record.expected_mib is None or peak is None:
            continue
        upper = max(record.expected_mib, record.upper_mib or record.expected_mib)
        used, expected, bound = (mib / MIB_PER_GIB for mib in (peak, record.expected_mib, upper))
        title = (
            f"job {job.last.shown_id}, {record.model or job.last.name}: used {gib(peak)} GiB, "
            f"expected {gib(record.expected_mib)}, reserved {gib(upper)}"
        )
        points.append(Point(used, expected, bound, "bad" if peak > upper else "held", title))
    if not points:
        return _none("No job of this time has both an estimate and a measured peak.")
    every = math.ceil(len(points) / _MAX_POINTS)
    legend = [("expected, with the bound above it", "held"), ("used more than the bound", "bad")]
    over = sum(point.colour == "bad" for point in points)
    return charts.scatter(points[::every], "GiB", legend, "Memory estimated against memory used") + _none(
        f"To the right: GiB used. Upwards: GiB estimated. {over} of {len(points)} jobs used more than their bound."
    )


def _ooms(report: Report, jobs: Sequence[Job], zone: tzinfo | None) -> str:
    died = [(job, times) for job in jobs if (times := job.ooms(report.since, report.until))]
    if not died:
        return _none("No run ended because GPU memory ran out.")
    rows = []
    for job, times in sorted(died, key=lambda item: item[0].last.submit or 0, reverse=True)[:_MAX_OOMS]:
        well = job.last.state == ENDED_WELL
        record = job.record
        started = job.runs[0].start
        rows.append(
            (
                [job.last.shown_id, job.last.user, (record.model if record else "") or job.last.name],
                ["" if started is None else _when(started, zone)[5:], str(times), job.last.state.lower()],
                not well,
            )
        )
    head = _head(("job", "user", "model"), ("first run", "times", "now"))
    body = "".join(
        f"<tr>{_cells(left, right)}</tr>" if not bad else f'<tr class="bad">{_cells(left, right)}</tr>'
        for left, right, bad in rows
    )
    more = _none(f"The newest {_MAX_OOMS} of {len(died)} jobs.") if len(died) > _MAX_OOMS else ""
    return f'<div class="scroll tall"><table>{head}{body}</table></div>{more}'


def _energy(report: Report) -> str:
    known = [(row.group, row.energy_kwh) for row in report.rows if row.energy_kwh is not None]
    if not known:
        return _none("No run of this time has measured energy: rad-monitor measures it on the nodes.")
    known = sorted(known, key=lambda item: -item[1])[:_TOP]
    return charts.ranks([(name or "-", value) for name, value in known], "kWh", "asked")


def _waste(jobs: Sequence[Job], report: Report) -> str:
    users = make(jobs, report.since, report.until, "user").rows
    known = [(row, row.gpu_hours_idle) for row in users if row.gpu_hours_idle is not None]
    if not known:
        return _none("No run of this time has measured activity: rad-monitor measures it on the nodes.")
    known = sorted(known, key=lambda item: -item[1])[:_TOP]
    head = _head(("user",), ("GPU-hours idle", "GPU-hours held", "GPU-hours asked", "jobs"))
    hours = [
        charts.column(values)
        for values in zip(*((idle, row.gpu_hours_held, row.gpu_hours_asked) for row, idle in known), strict=True)
    ]
    rows = [([row.group], [*texts, str(row.jobs)]) for (row, _), *texts in zip(known, *hours, strict=True)]
    body = "".join(f"<tr>{_cells(left, right)}</tr>" for left, right in rows)
    return f'<div class="scroll"><table>{head}{body}</table></div>' + _none(
        "Idle: GPU-hours held in which no warp was resident (1 - SMACT), of the runs that were measured."
    )


def _table(report: Report) -> str:
    head = _head(
        (report.by,),
        ("jobs", "shared", "whole", "other", "asked", "held", "saved", "GiB est.", "GiB used", "OOMs", "finished"),
    )
    shown = [*report.rows, report.total]
    hours = zip(
        charts.column([row.gpu_hours_asked for row in shown]),
        charts.column([row.gpu_hours_held for row in shown]),
        charts.column([row.gpu_hours_saved for row in shown]),
        strict=True,
    )
    lines = [_cells([row.group or "-"], _numbers(row, texts)) for row, texts in zip(shown, hours, strict=True)]
    body = "".join(f"<tr>{line}</tr>" for line in lines[:-1]) + f'<tr class="total">{lines[-1]}</tr>'
    return f'<div class="scroll"><table>{head}{body}</table></div>' + _none(
        f"Asked, held and saved are GPU-hours within {duration(report.until - report.since)}."
    )


def _numbers(row: Row, hours: Iterable[str]) -> list[str]:
    return [
        *map(str, (row.jobs, row.shared, row.exclusive, row.left_alone + row.unseen)),
        *hours,
        gib(row.estimated_mib),
        gib(row.used_mib),
        *map(str, (row.ooms, row.oom_finished)),
    ]


def _head(left: Iterable[str], right: Iterable[str]) -> str:
    cells = [f'<th class="l">{escape(text)}</th>' for text in left] + [f"<th>{escape(text)}</th>" for text in right]
    return f"<tr>{''.join(cells)}</tr>"


def _cells(left: Iterable[str], right: Iterable[str]) -> str:
    cells = [f'<td class="l" title="{escape(text)}">{escape(text)}</td>' for text in left]
    return "".join([*cells, *(f"<td>{escape(text)}</td>" for text in right)])


def _when(at: int, zone: tzinfo | None) -> str:
    return datetime.fromtimestamp(at, zone).strftime("%Y-%m-%d %H:%M")
