"""The page in a real browser: drawn, quiet, alone, zoomed, on a phone, in the dark."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from rmcvi.app.report import write
from rmcvi.app.report.forecast import Forecast
from rmcvi.app.report.scores import score, summarise
from rmcvi.app.report.write import asset, render
from tests.report._browser import PROGRAM, Browser
from tests.report._runs import arrays, make

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="Debian's chromium is not installed")

HOSTILE = ["<script>alert(1)</script>", "a\"b&'c", "x" * 90]
RUNS: dict[str, tuple[dict[str, Any], int, int]] = {
    "usual": ({}, 13, 0),
    "no time, one column": ({"time": False, "inside": False, "columns": 1}, 5, 0),
    "all missing": ({"missing": "all", "rows": 200}, 13, 2),
    "three rows": ({"rows": 3}, 10, 1),
    "one row": ({"rows": 1}, 9, 4),  # two values seen are dots in black
    "hostile": ({"columns": HOSTILE, "rows": 200}, 13, 0),
}
"""Options of the run, its charts, and how many of them have nothing to show."""
# Pixels of each chart that are neither empty nor grey: axes, grid and words are grey.
INK = """[...document.querySelectorAll('main .chart canvas')].map(canvas => {
  const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  let ink = 0;
  for (let i = 0; i < data.length; i += 4) {
    const rgb = data.subarray(i, i + 3);
    if (data[i + 3] > 40 && Math.max(...rgb) - Math.min(...rgb) > 40) ink++;
  }
  return ink; })"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    opened = Browser(tmp_path_factory.mktemp("browser"))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("runs")
    return {name: write(make(base / name, **options)) for name, (options, *_) in RUNS.items()}


def middle(browser: Browser, chart: int) -> dict[str, float]:
    """Where a chart's plot, without its axes, lies in the window, after scrolling to it."""
    find = f"document.querySelectorAll('main .chart .u-over')[{chart}]"
    browser.run(f"{find}.scrollIntoView({{block: 'center'}})")
    return browser.run(f"{find}.getBoundingClientRect().toJSON()")


@pytest.mark.parametrize("name", RUNS)
def test_charts_are_drawn_without_complaint(
    browser: Browser, pages: dict[str, Path], name: str
) -> None:
    browser.open(pages[name])
    assert browser.run("document.documentElement.dataset.ready") == "yes"
    _, charts, empty = RUNS[name]
    assert browser.run("Number(document.documentElement.dataset.charts)") == charts
    ink = browser.run(INK)
    assert len(ink) == charts and sum(found < 10 for found in ink) == empty, ink
    assert browser.complaints() == []
    assert browser.requests() == [pages[name].as_uri()]
    browser.resize(380)
    browser.frame()
    assert browser.run("document.documentElement.scrollWidth") <= 380


def test_the_watch_sees_errors_and_requests(browser: Browser, pages: dict[str, Path]) -> None:
    """What the other tests find absent is found when it is there, and refused by the page."""
    browser.open(pages["three rows"])
    browser.run("console.error('oops'); document.body.append(new Image()); 1")
    assert len(browser.complaints()) == 1
    browser.run("document.body.lastChild.src = 'http://127.0.0.1:9/x.png'; 1")
    browser.frame()
    assert any("Content Security Policy" in text for text in browser.complaints())


def test_a_run_without_rows_says_so(browser: Browser, tmp_path: Path) -> None:
    browser.open(write(make(tmp_path, rows=0)))
    assert "no rows yet" in browser.run("document.getElementById('trouble').innerText")
    assert browser.complaints() == []


def test_one_zoom_for_all_charts(browser: Browser, pages: dict[str, Path]) -> None:
    """By address, mouse, button and keyboard; every chart over the rows follows."""
    shots = "[...document.querySelectorAll('main .chart canvas')].map(c => c.toDataURL())"
    browser.open(pages["usual"])
    assert browser.view() == (1, 600)
    share = "s => s.offsetWidth / s.parentNode.offsetWidth"
    chosen = f"({share})(document.querySelector('#overview .u-select'))"
    assert browser.run(chosen) == pytest.approx(1, abs=0.01)
    before = browser.run(shots)
    box = middle(browser, 1)
    x, y = box["left"] + box["width"] / 2, box["top"] + 60
    browser.mouse("Moved", x, y)
    browser.mouse("Pressed", x, y)
    browser.mouse("Moved", x + 60, y, buttons=1)
    browser.mouse("Moved", x + 200, y, buttons=1)
    browser.mouse("Released", x + 200, y)
    first, last = browser.view()
    dragged = 600 * 200 / box["width"]
    assert (first, last) == (pytest.approx(301, abs=1), pytest.approx(300 + dragged, abs=1))
    assert browser.run("location.hash") == f"#rows={first}-{last}"
    assert browser.run(chosen) == pytest.approx(dragged / 600, abs=0.01)
    after = browser.run(shots)
    assert not set(before) & set(after)
    for act, expected in (("right", dragged / 2), ("left", 0)):
        browser.run(f"document.querySelector('[data-act={act}]').click()")
        assert browser.view()[0] == pytest.approx(first + expected, abs=2)
    browser.key("+")
    assert browser.view()[1] - browser.view()[0] == pytest.approx((last - first) / 2, abs=2)
    browser.key("0")
    assert browser.view() == (1, 600) and browser.run("location.hash") == ""
    browser.open(pages["usual"], "#rows=101-140")
    assert browser.view() == (101, 140)
    browser.run("location.hash = 'rows=5-300'")
    assert browser.view() == (5, 300)
    browser.run("document.querySelector('[data-episode=\"0\"]').click()")
    first, last = browser.view()
    assert first < 241 and last > 245 and last - first < 60
    assert browser.complaints() == []


def test_shift_wheel_double_click_and_overview(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["usual"], "#rows=201-300")
    box = middle(browser, 0)
    x, y = box["left"] + box["width"] / 2, box["top"] + 60

    def drag(start: float, end: float, height: float, **more: Any) -> tuple[int, int]:
        browser.mouse("Moved", start, height)
        browser.mouse("Pressed", start, height, **more)
        for share in (0.3, 1.0):
            browser.mouse("Moved", start + share * (end - start), height, buttons=1, **more)
        browser.mouse("Released", end, height, **more)
        return browser.view()

    shift = 8
    assert drag(x, x - box["width"] / 2, y, modifiers=shift) == (251, 350)
    browser.mouse("Wheel", x, y, deltaX=0, deltaY=-347, modifiers=2)  # control: half of the rows
    first, last = browser.view()
    assert (first, last) == (pytest.approx(276, abs=1), pytest.approx(325, abs=1))
    browser.mouse("Wheel", x, y, deltaX=0, deltaY=-347)
    assert browser.view() == (first, last)  # it scrolls the page
    y = middle(browser, 0)["top"] + 60
    for count in (1, 2):
        browser.mouse("Pressed", x, y, clickCount=count)
        browser.mouse("Released", x, y, clickCount=count)
    assert browser.view() == (1, 600)
    strip = browser.run(
        "document.querySelector('#overview .u-over').getBoundingClientRect().toJSON()"
    )
    left, wide, y = strip["left"], strip["width"], strip["top"] + 20
    first, last = drag(left + wide / 4, left + wide / 2, y)
    assert (first, last) == (pytest.approx(151, abs=1), pytest.approx(300, abs=1))
    assert drag(left + 0.75 * wide, left + 0.75 * wide, y)[0] == pytest.approx(376, abs=1)
    assert browser.complaints() == []


def test_the_tooltip_tells_what_the_file_says(browser: Browser, pages: dict[str, Path]) -> None:
    """Under the mouse, and by the arrow keys of the chart in focus."""
    lines = (pages["usual"].parent / "estimates.jsonl").read_text().splitlines()
    browser.open(pages["usual"], "#rows=401-440")
    box = middle(browser, 1)

    def told() -> tuple[int, dict[str, str]]:
        browser.frame()
        shown = browser.run("document.getElementById('tip').hidden ? '' : 'yes'")
        assert shown
        row = browser.run("document.querySelector('#tip b').textContent")
        pair = "s => [s.firstChild.data, s.lastChild.textContent]"
        cells = browser.run(f"[...document.querySelectorAll('#tip span')].map({pair})")
        return int(row.split()[1]), dict(cells)

    browser.mouse("Moved", box["left"] + 20.5 / 40 * box["width"], box["top"] + 50)
    row, cells = told()
    assert row == 421
    places = "e => new DOMMatrix(getComputedStyle(e).transform).e / e.parentNode.clientWidth"
    cursors = browser.run(f"[...document.querySelectorAll('main .u-cursor-x')].map({places})")
    assert cursors == pytest.approx([20.5 / 40] * 13, abs=0.01)
    line = json.loads(lines[row - 1])
    for name, part in (("seen", "nox"), ("predicted", "nox.mean")):
        assert float(cells[name]) == pytest.approx(line[part], rel=1e-4)
    low, high = (float(text) for text in cells["band"].split(" to "))
    assert (low, high) == pytest.approx((line["nox.low"], line["nox.high"]), rel=1e-4)
    browser.run("document.querySelectorAll('main .plot')[1].focus()")
    browser.key("ArrowRight")
    browser.key("ArrowRight")
    assert told()[0] == 423
    browser.key("Escape")
    browser.frame()
    assert browser.run("document.getElementById('tip').hidden")
    browser.key("ArrowRight", shift=True)
    assert browser.view()[0] == pytest.approx(411, abs=1)


def test_touch_moves_and_pinches(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["usual"], "#rows=201-300", width=380, height=800)
    box = middle(browser, 0)
    y = box["top"] + 60

    def touch(kind: str, *xs: float) -> None:
        points = [{"x": x, "y": y, "id": i} for i, x in enumerate(xs)]
        browser.send("Input.dispatchTouchEvent", type=f"touch{kind}", touchPoints=points)

    touch("Start", 250)
    for x in (240, 200, 150, 100):
        touch("Move", x)
    touch("End")
    first, last = browser.view()
    assert 240 < first < 260 and last - first == pytest.approx(99, abs=2)
    touch("Start", 180)
    touch("Start", 180, 220)
    for gap in (25, 40, 60):
        touch("Move", 200 - gap, 200 + gap)
    touch("End")
    assert browser.view()[1] - browser.view()[0] < 60
    assert browser.complaints() == []


def test_dark_differs_from_light(browser: Browser, pages: dict[str, Path]) -> None:
    """In the page and in the charts."""
    paper = "getComputedStyle(document.body).backgroundColor"
    canvas = "document.querySelector('main .chart canvas').toDataURL()"
    seen = []
    for dark in (False, True):
        browser.open(pages["usual"], dark=dark)
        seen.append((browser.run(paper), browser.run(canvas)))
    assert seen[0][0] == "rgb(255, 255, 255)" and seen[1][0] == "rgb(20, 23, 27)"
    assert seen[0][1] != seen[1][1]
    assert browser.complaints() == []


@pytest.mark.skipif(shutil.which("pdftoppm") is None, reason="Debian's poppler-utils is not here")
def test_paper_is_light_and_has_the_charts(
    browser: Browser, pages: dict[str, Path], tmp_path: Path
) -> None:
    """Printed from a dark screen; the second page holds two columns and the strip."""
    browser.open(pages["usual"], dark=True)
    (tmp_path / "page.pdf").write_bytes(browser.pdf())
    subprocess.run(["pdftoppm", "-r", "20", "page.pdf", "page"], cwd=tmp_path, check=True)
    sheets = sorted(tmp_path.glob("page-*.ppm"))
    assert 4 <= len(sheets) <= 7
    with Image.open(sheets[1]) as sheet:
        pixels = np.asarray(sheet.convert("RGB")).astype(int)
    assert np.mean(pixels.min(2) > 240) > 0.6
    assert np.sum(np.ptp(pixels, 2) > 40) > 1000
    assert browser.run("document.documentElement.dataset.print") is None
    assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"
    assert browser.complaints() == []


def test_the_column_of_the_curves_can_be_chosen(browser: Browser, pages: dict[str, Path]) -> None:
    canvas = "document.querySelector('#rmse canvas').toDataURL()"
    browser.open(pages["usual"])
    before = browser.run(canvas)
    browser.run("document.getElementById('pick').value = '2'")
    browser.run("document.getElementById('pick').dispatchEvent(new Event('change'))")
    browser.frame()
    assert browser.run(canvas) != before
    assert browser.run("document.querySelector('#rmse .unit').textContent") == "ppb"


def test_decimation_against_a_loop(browser: Browser) -> None:
    """Least, largest and mean of each pixel, for views that cut rows and pixels anywhere."""
    browser.send("Page.navigate", url="about:blank")
    browser.run(asset("axis.js") + "; 1")
    rng = np.random.default_rng(0)
    gone = rng.uniform(size=500) < 0.1
    rows = np.cumsum(rng.integers(1, 3, 500))
    values = [None if gone[i] else float(v) for i, v in enumerate(rng.normal(size=500))]
    browser.run(f"var given = Float64Array.from({json.dumps(values)}, v => v ?? NaN); 1")
    browser.run(f"var rows = Float64Array.from({rows.tolist()}); 1")
    for start, end, pixels in ((0.5, rows[-1] + 0.5, 40), (100.3, 333.3, 17), (700.0, 900.0, 9)):
        call = f"decimate(given, frame(rows, {start}, {end}, {pixels}))"
        plain = "a => [...a].map(v => isNaN(v) ? null : v)"
        found = browser.run(f"(d => [d.low, d.high, d.mean].map({plain}))({call})")
        bins: list[list[float]] = [[] for _ in range(pixels)]
        for row, value in zip(rows, values, strict=True):
            if start <= row <= end and value is not None:
                bins[int((row - start) * pixels / (end - start))].append(value)
        for p, inside in enumerate(bins):
            expected = [min(inside), max(inside), float(np.mean(inside))] if inside else [None] * 3
            assert [part[p] for part in found] == (pytest.approx(expected) if inside else expected)
    few = browser.run(
        "(f => [f.pixel, [...f.at], cut(given, 'ends', f)])(frame(rows, 9.5, 19, 99))"
    )
    shown = [i for i, row in enumerate(rows) if 9.5 <= row < 19]
    shown = [shown[0] - 1, *shown, shown[-1] + 1]
    assert few == [None, rows[shown].tolist(), [values[i] for i in shown]]


def test_the_forecast_follows_the_last_row(browser: Browser, tmp_path: Path) -> None:
    """It is drawn in its own colour, told as what it is, and a link leads to it."""
    run = arrays(300, 2)
    scores = score(run)
    assert run.time is not None
    steps = np.arange(1.0, 25.0)
    mean = np.repeat(run.mean[-1:], 24, 0)
    half = (run.high - run.mean)[-1] * np.sqrt(steps)[:, None]
    times = run.time[-1] + 3600 * steps
    ahead = Forecast(300 + steps, times, mean, mean - half, mean + half)
    page = tmp_path / "report.html"
    page.write_text(render(run, scores, summarise(run, scores), ahead), encoding="utf-8")
    green = """[...document.querySelectorAll('#columns canvas')].map(canvas => {
      const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
      let first = canvas.width, last = 0;
      for (let i = 0; i < data.length; i += 4) {
        if (data[i + 1] < data[i] + 60 || data[i + 1] < data[i + 2] + 15) continue;
        const x = (i / 4) % canvas.width;
        [first, last] = [Math.min(first, x), Math.max(last, x)];
      }
      return [first, last].map(x => (x - 54) / (canvas.width - 60)); })"""
    browser.open(page)
    assert browser.view() == (1, 324)
    browser.run("document.querySelector('#forecast a').click()")
    assert browser.view() == (229, 324)
    box = middle(browser, 1)
    for found in browser.run(green):
        assert found == pytest.approx([72.5 / 96, 95.5 / 96], abs=0.01)
    browser.mouse("Moved", box["left"] + 83.5 / 96 * box["width"], box["top"] + 50)
    browser.frame()
    told = browser.run("document.getElementById('tip').innerText")
    assert told.startswith("Row 312 ·") and "forecast\n" in told and "not seen" not in told
    assert f"{mean[11, 1]:.4g}"[:4] in told
    assert browser.complaints() == []


def test_a_hundred_thousand_rows_of_eight_columns(browser: Browser, tmp_path: Path) -> None:
    run = arrays(100_000, 8)
    scores = score(run)
    page = tmp_path / "report.html"
    page.write_text(render(run, scores, summarise(run, scores)), encoding="utf-8")
    assert page.stat().st_size < 10_000_000
    browser.open(page, "#rows=50001-50100")
    assert browser.view() == (50_001, 50_100)
    browser.key("0")
    assert browser.view() == (1, 100_000)
    assert min(browser.run(INK)) > 1000 and browser.complaints() == []
