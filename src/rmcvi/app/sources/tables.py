"""Rows of a Parquet or Arrow file, by polars, a few thousand at a time."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rmcvi.app.sources.errors import DataError
from rmcvi.app.sources.records import Record

_BATCH = 4096
"""Rows at a time: a few megabytes of Python objects, and few calls."""
_ARROW_FILE, _OLD_FEATHER = b"ARROW1", b"FEA1"
Scan = Callable[[Any, Path], Any]
"""From polars and a path to a lazy frame."""


def scan_parquet(polars: Any, path: Path) -> Any:
    """A Parquet file."""
    return polars.scan_parquet(path, glob=False)


def scan_arrow(polars: Any, path: Path) -> Any:
    """An Arrow IPC file, of which Feather is another name, or stream, which is read as a whole."""
    with path.open("rb") as file:
        top = file.read(6)
    if top.startswith(_OLD_FEATHER):
        raise DataError(f"{path}: got Feather of version 1, expected version 2, which is Arrow")
    if top == _ARROW_FILE:
        return polars.scan_ipc(path, glob=False)
    return polars.read_ipc_stream(path).lazy()


def table_names(path: Path, scan: Scan, title: str) -> list[str]:
    """The columns of a file."""
    polars = _polars(path, title)
    try:
        return list(scan(polars, path).collect_schema().names())
    except DataError:
        raise
    except Exception as error:
        raise _damaged(path, title, error) from None


def table_records(
    path: Path, scan: Scan, title: str, names: Sequence[str], offset: int = 0
) -> Iterator[Record]:
    """Rows from `offset` on, with their cells in the order of `names`."""
    polars, lazy = _polars(path, title), None
    while True:
        try:
            lazy = scan(polars, path).select(list(names)) if lazy is None else lazy
            frame = lazy.slice(offset, _BATCH).collect()
        except DataError:
            raise
        except Exception as error:
            raise _damaged(path, title, error) from None
        for cells in frame.iter_rows():
            offset += 1
            yield Record(list(cells), offset, offset, offset - 1, offset)
        if len(frame) < _BATCH:
            return


def _polars(path: Path, title: str) -> Any:
    try:
        import polars
    except ImportError:
        message = f"{path}: reading {title} needs polars; install rmcvi with its extra 'app'"
        raise DataError(message) from None
    return polars


def _damaged(path: Path, title: str, error: Exception) -> DataError:
    first = str(error).strip().partition("\n")[0]
    return DataError(f"{path}: cannot be read as {title} ({first})")
