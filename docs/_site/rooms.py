"""A line `::: rmcvi.room` becomes one entry per name that the room exports (`X as X`)."""

import ast
import re
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src"
ROOM = re.compile(r"^::: (rmcvi(?:\.[a-z]+)*)$", re.M)


def exports(room: str) -> list[str]:
    """Public names of a package, in alphabetical order; packages among them have their own page."""
    folder = SOURCES.joinpath(*room.split("."))
    tree = ast.parse((folder / "__init__.py").read_text())
    imported = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    names = [alias.asname for node in imported for alias in node.names if alias.asname]
    public = {name for name in names if not name.startswith("_")}
    return sorted(name for name in public if not (folder / name).is_dir())


def entries(match: re.Match[str]) -> str:
    """The directives that mkdocstrings understands."""
    return "\n\n".join(f"::: {match[1]}.{name}" for name in exports(match[1]))


def on_page_markdown(markdown: str, **_: object) -> str:
    """Called by mkdocs with the text of each page."""
    return ROOM.sub(entries, markdown)
