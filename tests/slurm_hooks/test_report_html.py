"""The report's page: its numbers, its charts, hostile names, and how a real browser shows it."""

from __future__ import annotations

import dataclasses
import itertools
import re
import struct
import subprocess
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timezone
from html.parser import HTMLParser
from pathlib import Path
from typing import get_args

import pytest
from click.testing import CliRunner

from slurm_hooks import charts, report, report_html
from slurm_hooks.radctl import jobs as command
from slurm_hooks.radctl.main import cli
from slurm_hooks.records import Record, Run
from slurm_hooks.report_html import page
from slurm_hooks.slurm.accounting import JobRun
from tests.slurm_hooks.jobs import DAY, HOUR, NOON, job_run

UTC = timezone.utc
HOSTILE = "<script>alert(1)</script>\"'&"
CHROMIUM = (
    "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
    "--hide-scrollbars",
)  # fmt: skip
HELD = (11, 122, 117)  # the colour of shares held, on a light page


def _record(*runs: Run, **changes: object) -> Record:
    record = Record(action="share", asked="gpu:1", share=40, expected_mib=10_240, upper_mib=12_288, runs=runs)
    return dataclasses.replace(record, **changes)  # type: ignore[arg-type]


def _some_jobs() -> list[JobRun]:
    measured = Run(end=NOON + HOUR, outcome="completed", peak_mib=11_264, smact_mean=0.25, energy_j=3_600_000)
    gpu = {"gres/gpu": 1}
    died = Run(end=NOON + 2 * HOUR, outcome="oom_final", peak_mib=14_336)
    return [
        job_run(_record(measured, model="resnet50.txt")),
        job_run(_record(died), job_id=2, user="bob", state="FAILED", start=NOON + HOUR, end=NOON + 2 * HOUR),
        job_run(None, job_id=3, user="chen", allocated=gpu, requested=gpu, start=NOON + 3 * HOUR, end=NOON + 5 * HOUR,
                elapsed_s=2 * HOUR),
        job_run(_record(action="exclusive", share=100), job_id=4, allocated={"gres/mps": 100}, state="RUNNING",
                end=None, elapsed_s=12 * HOUR),
    ]  # fmt: skip


def _page(runs: list[JobRun], since: int = DAY[0], until: int = DAY[1], by: report.By = "user") -> str:
    jobs = report.jobs_of(runs)
    return page(report.make(jobs, since, until, by, UTC), jobs, DAY[1], UTC)


class _Outline(HTMLParser):
    """Collects elements, and says of each that is opened whether it is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[str] = Counter()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen[tag] += 1
        if tag not in ("meta", "line", "circle", "rect", "polygon", "polyline"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen[tag] += 1

    def handle_endtag(self, tag: str) -> None:
        if tag != "rect" and tag != "circle":
            assert self.open.pop() == tag


def _outline(text: str) -> Counter[str]:
    parser = _Outline()
    parser.feed(text)
    assert parser.open == []
    return parser.seen


def test_the_page_tells_the_numbers() -> None:
    text = _page(_some_jobs())
    for words in (
        "<b>4</b><span>jobs that asked for GPUs",
        "<b>2</b><span>of them shared a GPU",
        "<b>1</b><span>runs out of memory, 0 jobs of them finished",
        "<b>1</b><span>kWh measured",
        "2026-01-01 00:00 to 2026-01-02 00:00",
        "job 1, resnet50.txt: used 11.0 GiB, expected 10.0, reserved 12.0",
        "1 of 2 jobs used more than their bound",
        '<tr class="bad"><td class="l" title="2">2</td><td class="l" title="bob">bob</td>'
        '<td class="l" title="train.sh">train.sh</td><td>01-01 13:00</td>',
        '<td class="l" title="alice">alice</td><td>0.150</td><td>12.4</td>',
        '<td class="l" title="total">total</td>',
        'width:100.0%"></i></td><td>1.00 kWh</td>',
    ):
        assert words in text
    seen = _outline(text)
    assert seen["svg"] == 3
    assert seen["circle"] == 2


def test_charts_add_up() -> None:
    text = _page(_some_jobs())
    bars = [float(value) for value in re.findall(r": (?:shared|whole|other) ([\d.]+) GPU-hours held", text)]
    assert sum(bars) == pytest.approx(0.4 + 0.4 + 2.0 + 12.0, rel=0.01)
    polygon = re.search(r'<polygon class="area"[^>]* points="([^"]+)"', text)
    assert polygon is not None
    points = [tuple(map(float, point.split(","))) for point in polygon.group(1).split()]
    area = sum((x2 - x1) * (points[0][1] - y1) for (x1, y1), (x2, _) in itertools.pairwise(points))
    top = max(float(tick) for tick in re.findall(r">([\d.]+)</text>", text.split("</svg>", 1)[0]))
    width, height = points[-1][0] - points[0][0], charts.HEIGHT - charts._TOP - charts._BOTTOM
    assert area / (width * height) * top * 24 == pytest.approx(14.8, rel=0.01)


def test_the_chart_of_hours_has_the_tables_kinds() -> None:
    gpu = {"gres/gpu": 2}
    runs = [
        job_run(_record()),
        job_run(_record(action="exclusive", share=100), job_id=2, allocated={"gres/mps": 100}),
        job_run(_record(action="shadowed"), job_id=3, allocated=gpu),
        job_run(_record(action="left_alone", asked="gpu:2"), job_id=4, allocated=gpu),
        job_run(None, job_id=5, allocated=gpu),
    ]
    text = _page(runs)
    hours = re.findall(r": (shared|whole|other) ([\d.]+) GPU-hours held", text)
    assert hours == [("shared", "0.4"), ("whole", "1"), ("other", "6")]
    assert "<td>5</td><td>1</td><td>1</td><td>3</td>" in text


def test_an_empty_page() -> None:
    text = _page([])
    assert "No job asked for a GPU in this time." in text
    assert "No run ended because GPU memory ran out." in text
    assert text.count("rad-monitor measures it on the nodes") == 2
    assert _outline(text)["svg"] == 0


def test_names_are_no_markup() -> None:
    run = Run(end=NOON + HOUR, outcome="oom_final", peak_mib=1, smact_mean=0.1, energy_j=1.0)
    record = _record(run, model=HOSTILE)
    for by in get_args(report.By):
        runs = [job_run(record, user=HOSTILE, account=HOSTILE, partition=HOSTILE, name=HOSTILE, state=HOSTILE)]
        text = _page(runs, by=by)
        assert "<script" not in text
        assert HOSTILE.lower() not in text.lower()
        _outline(text)


def test_the_page_needs_nothing_else() -> None:
    text = _page(_some_jobs())
    assert "default-src 'none'" in text
    assert re.findall(r"(?:src|href|url|@import)\s*[=(]", text) == []
    assert "http:" not in text
    assert "https:" not in text


def test_long_times_count_by_day() -> None:
    text = _page(_some_jobs(), NOON - 5 * 24 * HOUR, NOON + 15 * 24 * HOUR)
    assert "Jan 01: shared 0.8 GPU-hours held" in text
    assert "Dec 31: " not in text


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")  # no file of zones is needed
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("berlin")
@pytest.mark.parametrize("day", [datetime(2026, 3, 29), datetime(2026, 10, 25)])
def test_hours_are_as_long_where_the_clock_is_changed(day: datetime) -> None:
    begin = int(day.timestamp())
    shown = report.make([], begin, begin + 6 * HOUR, "user")
    assert report_html._hours(shown, None) == [begin + n * HOUR for n in range(7)]


@pytest.mark.usefixtures("berlin")
def test_no_time_that_the_clock_leaves_out_stands_below() -> None:
    begin = int(datetime(2026, 3, 29).timestamp())
    shown = report.make([], begin, begin + 4 * HOUR, "user")
    assert report_html._ticks(shown, None) == [
        (n / 8, text)
        for n, text in enumerate(["Mar 29", "00:30", "01:00", "01:30", "03:00", "03:30", "04:00", "04:30", "05:00"])
    ]


def test_each_run_is_looked_at_in_its_own_days_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    year = (NOON - 183 * 24 * HOUR, NOON + 182 * 24 * HOUR)
    runs = [
        job_run(_record()),  # within a day
        job_run(_record(), job_id=2, start=NOON - 24 * HOUR, end=NOON, elapsed_s=24 * HOUR),
        job_run(_record(), job_id=3, start=year[0] - HOUR, end=year[0] + HOUR, elapsed_s=2 * HOUR),
        job_run(_record(), job_id=4, state="RUNNING", start=year[1] - HOUR, end=None, elapsed_s=9 * HOUR),
    ]
    jobs = report.jobs_of(runs)
    asked: list[tuple[int, int]] = []

    def within(run: JobRun, since: int, until: int) -> int:
        asked.append((run.job_id, seconds := report.seconds_within(run, since, until)))
        return seconds

    monkeypatch.setattr(report_html, "seconds_within", within)
    page(report.make(jobs, *year, "user", UTC), jobs, year[1], UTC)
    assert asked == [(1, HOUR), (2, 12 * HOUR), (2, 12 * HOUR), (3, HOUR), (4, HOUR)]


def test_charts_leave_out_a_long_time_before_the_first_job() -> None:
    week = 7 * 24 * HOUR
    assert _below(NOON + 6 * HOUR - week, NOON + 6 * HOUR)[::4] == ["12:00", "14:00", "16:00", "18:00"]
    assert _below(NOON - HOUR, NOON - HOUR + week)[:2] == ["12:00", "Jan 02"]
    moment = job_run(_record(), start=DAY[1] - 2, end=DAY[1] - 1, submit=DAY[1] - 3)
    assert _outline(_page([moment]))["polygon"] == 1


def test_many_ooms_and_many_points_are_cut() -> None:
    record = _record(Run(end=NOON + HOUR, outcome="oom_final", peak_mib=5000))
    text = _page([job_run(record, job_id=n) for n in range(1, 2001)])
    assert "The newest 50 of 2000 jobs." in text
    assert text.count("<circle") == 1000
    assert len(text) < 400_000


def _below(since: int, until: int) -> list[str]:
    chart = _page(_some_jobs(), since, until).split("</svg>", 1)[0]
    return re.findall(rf' y="{charts.HEIGHT - charts._BOTTOM + 18}">([^<]+)</text>', chart)


def test_round_times_stand_below() -> None:
    hours = [f"{hour:02}:00" for hour in range(2, 24, 2)]
    assert _below(*DAY) == ["Jan 01", *hours, "Jan 02"]
    assert _below(NOON + 60, NOON + 5 * HOUR) == ["12:30", "13:00", "13:30", "14:00", "14:30", "15:00", "15:30",
                                                  "16:00", "16:30", "17:00"]  # fmt: skip
    assert _below(NOON - HOUR, NOON + 4 * 24 * HOUR) == ["12:00", "Jan 02", "12:00", "Jan 03", "12:00", "Jan 04",
                                                         "12:00", "Jan 05", "12:00"]  # fmt: skip
    assert _below(NOON, NOON + 14 * 24 * HOUR)[0] == "Jan 02"
    for days in (60, 400, 4000):
        assert 4 <= len(_below(NOON, NOON + days * 24 * HOUR)) <= 15
    assert _below(NOON + 1, NOON + 30) == []


class _Slurm:
    def runs(self, since: int, until: int, user: str = "", *, live: bool = False, later: bool = False) -> list[JobRun]:
        assert live and later
        return _some_jobs()


def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "SlurmAccounting", _Slurm)
    target = tmp_path / "page.html"
    base = ["report", "--since", "2026-01-01", "--until", "2026-01-02"]
    result = CliRunner().invoke(cli, [*base, "--html", str(target)])
    assert (result.exit_code, result.output) == (0, f"wrote {target}\n")
    printed = CliRunner().invoke(cli, [*base, "--html"]).output
    made = re.compile(r"made [\d: -]+ by")
    assert made.sub("", target.read_text()) == made.sub("", printed)
    assert printed.endswith("</html>\n")
    both = CliRunner().invoke(cli, [*base, "--json", "--html"])
    assert "--json and --html exclude each other" in both.stderr
    nowhere = CliRunner().invoke(cli, [*base, "--html", str(tmp_path / "no" / "page.html")])
    assert (nowhere.exit_code, nowhere.stderr) == (2, f"radctl: {tmp_path}/no/page.html: No such file or directory\n")


def _pixels(png: bytes) -> Counter[tuple[int, int, int]]:
    """Colours of a PNG of 8 bits a channel, and how many pixels have each."""
    position, data, size = 8, b"", (0, 0, 0)
    while position < len(png):
        length, kind = struct.unpack(">I4s", png[position : position + 8])
        body = png[position + 8 : position + 8 + length]
        if kind == b"IHDR":
            size = (*struct.unpack(">II", body[:8]), {2: 3, 6: 4}[body[9]])
        elif kind == b"IDAT":
            data += body
        position += length + 12
    (width, height, channels), raw = size, zlib.decompress(data)
    before, found = bytearray(width * channels), Counter[tuple[int, int, int]]()
    for row in range(height):
        start = row * (width * channels + 1)
        form, line = raw[start], bytearray(raw[start + 1 : start + 1 + width * channels])
        for n in range(len(line)):
            left, corner = (line[n - channels], before[n - channels]) if n >= channels else (0, 0)
            line[n] = (line[n] + _guess(form, left, before[n], corner)) & 255
        found.update(zip(line[::channels], line[1::channels], line[2::channels], strict=True))
        before = line
    return found


def _guess(form: int, left: int, up: int, corner: int) -> int:
    if form == 4:
        likely = left + up - corner
        return min((left, up, corner), key=lambda value: abs(likely - value))
    return (0, left, up, (left + up) // 2)[form]


def test_in_a_real_browser(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(_page(_some_jobs()))
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    shot = [f"--screenshot={tmp_path / 'shot.png'}", "--window-size=700,1050"]
    dom = subprocess.run(
        [*CHROMIUM, profile, *shot, "--dump-dom", (tmp_path / "page.html").as_uri()],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    assert "<b>4</b><span>jobs that asked for GPUs" in dom
    assert dom.count("<svg") == 3
    # The page is drawn: its text and bars are there in their colours, on a light ground.
    colours = _pixels((tmp_path / "shot.png").read_bytes())
    assert colours[255, 255, 255] > 100_000
    assert colours[HELD] > 300
