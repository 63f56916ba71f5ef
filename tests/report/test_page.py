"""The page as text: everything inside, everything escaped, never too large."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_hex

from rmcvi.app import report
from rmcvi.app.report.scores import score, summarise
from rmcvi.app.report.write import render
from tests.report._page import meta
from tests.report._runs import arrays, make

HOSTILE = [
    "<script>alert(1)</script>",
    "a\"b&'c",
    "</script><img src=x onerror=alert(1)>",
    "{{ 7*7 }}",
]
OUTSIDE = re.compile(r"""(?:src|href)\s*=(?!\s*["'](?:data:|\#))|@import|url\(|https?://""")


def test_hostile_names_stay_names(tmp_path: Path) -> None:
    page = report.write(make(tmp_path, rows=120, columns=HOSTILE)).read_text(encoding="utf-8")
    about, rest = meta(page)
    assert [column["name"] for column in about["columns"]] == HOSTILE
    assert page.count("<script") == page.count("</script>") == 3
    assert "<img" not in page and "{{ 7*7 }}" in rest
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in rest


def test_hostile_words_everywhere_else(tmp_path: Path) -> None:
    """In the source, what was assumed, the settings and the alarms."""
    make(tmp_path, rows=120)
    evil = "</title></script><script>alert(2)</script>"
    path = tmp_path / "run.json"
    about = json.loads(path.read_text()) | {
        "source": evil,
        "assumed": [evil],
        "options": {evil: evil},
    }
    path.write_text(json.dumps(about))
    lines = [json.loads(line) for line in (tmp_path / "estimates.jsonl").read_text().splitlines()]
    lines[9]["alarms"] = [evil]
    (tmp_path / "estimates.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
    page = report.write(tmp_path).read_text(encoding="utf-8")
    assert page.count("<script") == page.count("</script>") == 3 and page.count("</title>") == 1


def test_many_alarms_are_folded(tmp_path: Path) -> None:
    """A dozen are shown, the rest can be opened: a phone would scroll for minutes."""
    make(tmp_path, rows=400)
    lines = [json.loads(line) for line in (tmp_path / "estimates.jsonl").read_text().splitlines()]
    for i, line in enumerate(lines):
        line["alarms"] = [f"Alarm {i // 10}."]
    (tmp_path / "estimates.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
    page = report.write(tmp_path).read_text(encoding="utf-8")
    shown, folded = page.split("<details><summary>28 more</summary>")
    assert shown.count("data-episode=") == 12 and folded.count("data-episode=") == 28
    places = re.findall(r'data-episode="(\d+)"', page)
    assert places == [str(i) for i in range(40)]


def test_the_page_points_nowhere_outside(tmp_path: Path) -> None:
    page = report.write(make(tmp_path, rows=120)).read_text(encoding="utf-8")
    assert not OUTSIDE.search(page)
    assert "default-src 'none'" in page


def test_a_run_without_anything_optional(tmp_path: Path) -> None:
    """The least that run.json may say, and one column of two rows."""
    (tmp_path / "run.json").write_text('{"format": 1, "columns": ["a"]}')
    (tmp_path / "estimates.jsonl").write_text('{"row": 1, "a": 1.0}\n{"row": 2, "a": null}\n')
    about, rest = meta(report.write(tmp_path).read_text(encoding="utf-8"))
    assert about["states"] == about["parameters"] == about["episodes"] == []
    assert set(about["index"]) == {
        *(f"{p}.0" for p in ("value", "mean", "low", "high", "filled")),
        "row",
    }
    assert (
        "No alarm was raised" in rest and "nan" not in rest.split("</style>")[1].split("<script")[0]
    )


def test_large_runs_are_thinned_with_a_note() -> None:
    run = arrays(5_000, 4)
    scores = score(run)
    summary = summarise(run, scores)
    whole = render(run, scores, summary)
    less = render(run, scores, summary, limit=len(whole) // 6)
    assert 'id="thinned"' not in whole and 'id="thinned"' in less
    assert meta(whole)[0]["index"]["row"][2] == 5_000
    assert 250 < meta(less)[0]["index"]["row"][2] < 1_700
    packed = re.search(r'id="data">(.*?)</script>', less, re.S)
    assert packed is not None and len(packed[1]) <= len(whole) // 6
    assert meta(whole)[0]["episodes"] == meta(less)[0]["episodes"] == [[2501, 2509]]


def test_the_library_comes_with_its_licence(tmp_path: Path) -> None:
    page = report.write(make(tmp_path, rows=20)).read_text(encoding="utf-8")
    vendor = Path(report.__file__).parent / "vendor"
    assert (vendor / "uPlot.LICENSE").read_text().strip() in page
    assert (vendor / "uPlot.iife.min.js").read_text().partition("\n")[2].strip() in page


def test_methods_look_the_same_everywhere(tmp_path: Path) -> None:
    with report.style():
        figure, axes = report.figure(1, 2)
        for panel in axes[0]:
            for method in ("rmcvi", "lstm"):
                panel.plot([0, 1], [1, 2], **report.look(method))
        report.band(axes[0, 0], [0, 1], [0, 1], [2, 3], "rmcvi")
    left, right = ([to_hex(line.get_color()) for line in panel.lines] for panel in axes[0])
    assert left == right == ["#0072b2", "#e69f00"]
    assert report.look("rmcvi", label="N = 100")["label"] == "N = 100"
    drawn = [(look.colour, look.marker, look.line) for look in report.LOOKS.values()]
    assert len(set(drawn)) == len(drawn)
    with pytest.raises(ValueError, match=r"method: got 'rmcv'.*did you mean 'rmcvi'"):
        report.look("rmcv")
    first = [path.read_bytes() for path in report.save(figure, tmp_path / "a.b")]
    again = [path.read_bytes() for path in report.save(figure, tmp_path / "a.b.svg")]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.b.png", "a.b.svg"]
    assert first == again and first[0].startswith(b"\x89PNG") and b"<svg" in first[1]


def test_a_page_of_an_experiment(tmp_path: Path) -> None:
    figure, axes = report.figure()
    axes[0, 0].plot(np.arange(3.0))
    table = report.Table(
        ["method", "RMSE"], [["<rmcvi>", (0.123456, 0.00123)], ["lstm", None]], "All"
    )
    picture = report.Picture(figure, 'a "line"', "Up & up")
    _, svg = report.save(figure, tmp_path / "line")
    sections = [
        report.Section("Found <here>", ["One.\n\nTwo & three.", table]),
        report.Section("Seen", [picture, report.Picture(svg, "the same")]),
    ]
    page = report.page("A & B", sections, tmp_path / "deep" / "report.html").read_text("utf-8")
    assert (
        "0.1235 ± 0.0012" in page and "&lt;rmcvi&gt;" in page and "<p>Two &amp; three.</p>" in page
    )
    assert page.count("data:image/svg+xml;base64,") == 2 and "Found &lt;here&gt;" in page
    assert not OUTSIDE.search(page)
    with pytest.raises(ValueError, match="rows: got 1 cells in row 0, expected 2"):
        report.Table(["a", "b"], [["x"]])


def test_the_guide_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guide = Path(__file__).parents[2] / "docs" / "guides" / "report.md"
    blocks = re.findall(r"^```python\n(.*?)^```", guide.read_text(encoding="utf-8"), re.S | re.M)
    monkeypatch.chdir(tmp_path)
    for block in blocks:
        exec(block, {})
    made = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert made == ["error.png", "error.svg", "page.html"]
