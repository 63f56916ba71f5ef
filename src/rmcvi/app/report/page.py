"""One self-contained page from prose, tables and figures."""

import base64
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup
from matplotlib.figure import Figure

from rmcvi.app.report.figures import style
from rmcvi.app.report.write import asset, environment
from rmcvi.core.files import replace


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
