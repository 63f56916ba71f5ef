"""The files of a source: one, or the parts of a directory in order."""

import re
from pathlib import Path

from rmcvi.app.sources.errors import DataError
from rmcvi.app.sources.formats import ENDINGS, format_of
from rmcvi.core.checks import nearest


def list_parts(path: Path) -> list[Path]:
    """The file itself, or the non-empty parts of a directory, 'part-2' before 'part-10'."""
    if not path.exists():
        raise DataError(f"{path}: no such file or directory{_nearest(path)}")
    if not path.is_dir():
        if path.is_file() and not path.stat().st_size:
            raise DataError(f"{path}: got an empty file, expected rows of numbers")
        return [path]
    parts = [p for p in path.iterdir() if p.is_file() and _is_part(p) and p.stat().st_size]
    if not parts:
        raise DataError(f"{path}: got a directory without parts, expected files {_expected()}")
    kinds = {"text" if (f := format_of(part)).is_text else f.kind.capitalize() for part in parts}
    if len(kinds) > 1:
        both = " and ".join(sorted(kinds))
        raise DataError(f"{path}: got {both} parts together, expected one kind")
    return sorted(parts, key=lambda part: _natural(part.name))


def _is_part(path: Path) -> bool:
    plain = path.name.casefold().removesuffix(".gz")
    return not path.name.startswith((".", "_")) and plain.endswith(ENDINGS)


def _natural(name: str) -> list[tuple[int, int, str]]:
    pieces = re.findall(r"\d+|\D+", name)
    keys = [(0, int(p), "") if p.isdecimal() else (1, 0, p) for p in pieces]
    return [*keys, (2, 0, name)]


def _expected() -> str:
    return f"ending in {', '.join(ENDINGS)} (text also with .gz after it)"


def _nearest(path: Path) -> str:
    if not path.parent.is_dir():
        return ""
    near = nearest(path.name, (p.name for p in path.parent.iterdir()))
    return f"; did you mean {str(path.parent / near)!r}?" if near else ""
