"""Figures and pages of experiments, in one style: a method looks the same everywhere.

Colours are those of Okabe and Ito, which the colour-blind can tell apart; markers and lines differ
too, so that a figure survives a grey printer. A page is one file that needs no other.
"""

import base64
import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from markupsafe import Markup
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from rmcvi.app.report.write import asset, environment
from rmcvi.core.checks import check_option
from rmcvi.core.files import replace


@dataclass(frozen=True)
class Look:
    """How a method is drawn, and what it is called in a legend."""

    label: str
    colour: str
    marker: str = ""
    line: str = "-"


LOOKS = {
    "rmcvi": Look("RMCVI", "#0072B2", "o"),
    "seasonal": Look("seasonal learner", "#00456B", "h"),
    "function regression": Look("function regression", "#D55E00", "s"),
    "ovsmc": Look("OVSMC", "#CC79A7", "D"),
    "kalman": Look("Kalman (exact)", "#000000", "x"),
    "maximum likelihood": Look("recursive maximum likelihood", "#000000", "+", "--"),
    "extended kalman": Look("extended Kalman", "#5A5A5A", "1"),
    "particle": Look("particle filter", "#009E73", "^"),
    "pathwise": Look("pathwise gradient", "#6A3D9A", "p"),
    "lstm": Look("online LSTM", "#E69F00", "v"),
    "rls": Look("recursive least squares", "#56B4E9", "P"),
    "persistence": Look("persistence", "#7F7F7F", "X", "--"),
    "interpolation": Look("interpolation", "#A6761D", "*", "--"),
    "floor": Look("particle floor", "#000000", "", ":"),
    "raw": Look("raw observations", "#9A9A9A", "", "-."),
    "truth": Look("truth", "#000000", "", "-"),
}
"""Methods and references by name."""

_STYLE: dict[Any, Any] = {
    "figure.dpi": 110,
    "savefig.dpi": 160,
    "figure.facecolor": "white",
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#59626D",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E1E5EA",
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.linewidth": 1.6,
    "lines.markersize": 5,
    "svg.fonttype": "path",
    "svg.hashsalt": "rmcvi",
}


@contextmanager
def style() -> Iterator[None]:
    """Everything that is drawn and saved inside has the house style."""
    with matplotlib.rc_context(_STYLE):
        yield


def look(method: str, **more: Any) -> dict[str, Any]:
    """Arguments of `Axes.plot` for a method; `more` is added or wins."""
    check_option("method", method, LOOKS)
    kept = LOOKS[method]
    drawn = {"color": kept.colour, "marker": kept.marker, "linestyle": kept.line}
    return drawn | {"label": kept.label} | more


def figure(
    rows: int = 1,
    columns: int = 1,
    *,
    width: float | int = 7.0,
    height: float | int = 3.4,
    **more: Any,
) -> tuple[Figure, np.ndarray]:
    """A figure in inches with its axes (rows, columns); nothing is kept in any global state."""
    made = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(made)
    return made, made.subplots(rows, columns, squeeze=False, **more)


def legend(made: Figure, axes: Any, columns: int | None = None) -> None:
    """One legend for the whole figure, under it, with the lines of `axes`."""
    handles, words = axes.get_legend_handles_labels()
    made.legend(handles, words, loc="outside lower center", ncols=columns or len(words))


def band(axes: Any, x: Any, low: Any, high: Any, method: str) -> None:
    """Uncertainty of a method's line, in its colour."""
    colour = look(method)["color"]
    axes.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0)


def save(made: Figure, path: str | os.PathLike[str]) -> tuple[Path, Path]:
    """Write PNG and SVG beside each other, whatever the end of `path`."""
    stem = Path(path)
    stem = stem.with_suffix("") if stem.suffix in (".png", ".svg") else stem
    stem.parent.mkdir(parents=True, exist_ok=True)
    png, svg = stem.with_name(f"{stem.name}.png"), stem.with_name(f"{stem.name}.svg")
    with style():
        made.savefig(png, metadata={"Software": None})
        made.savefig(svg, metadata={"Date": None})
    return png, svg


@dataclass(frozen=True)
class Table:
    """Cells may be words, numbers, None (a dash) or a pair: a number and its standard error."""

    head: Sequence[str]
    rows: Sequence[Sequence[Any]]
    caption: str = ""

    def __post_init__(self) -> None:
        for i, row in enumerate(self.rows):
            if len(row) != len(self.head):
                got = f"{len(row)} cells in row {i}"
                raise ValueError(f"rows: got {got}, expected {len(self.head)}")


@dataclass(frozen=True)
class Picture:
    """A figure, or the path of an SVG file; `alt` says in words what it shows."""

    image: Figure | Path
    alt: str
    caption: str = ""

    def svg(self) -> bytes:
        """The image as SVG."""
        if isinstance(self.image, Path):
            return self.image.read_bytes()
        kept = io.BytesIO()
        with style():
            self.image.savefig(kept, format="svg", metadata={"Date": None})
        return kept.getvalue()

    @property
    def address(self) -> Markup:
        """The image inside an address."""
        return Markup("data:image/svg+xml;base64," + base64.b64encode(self.svg()).decode("ascii"))


@dataclass(frozen=True)
class Section:
    """A heading and what is under it; text is cut into paragraphs at blank lines."""

    title: str
    parts: Sequence[str | Table | Picture]


def page(title: str, sections: Sequence[Section], path: str | os.PathLike[str]) -> Path:
    """Write the page; it needs no other file and no network."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    text = (
        environment()
        .get_template("page.html")
        .render(title=title, sections=sections, kind=_kind, style=Markup(asset("style.css")))
    )
    replace(target, text.encode("utf-8", "replace"))
    return target


def _kind(part: str | Table | Picture) -> str:
    return "text" if isinstance(part, str) else type(part).__name__.lower()
