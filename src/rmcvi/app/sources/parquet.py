"""Rows of a Parquet file, by polars, a few thousand at a time."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rmcvi.app.sources.errors import DataError
from rmcvi.app.sources.records import Record

_BATCH = 4096


def _scan(path: Path) -> Any:
    try:
        import polars
    except ImportError:
        message = f"{path}: reading Parquet needs polars; install rmcvi with its extra 'app'"
        raise DataError(message) from None
    return polars.scan_parquet(path, glob=False)


def parquet_names(path: Path) -> list[str]:
    """The columns of a Parquet file."""
    try:
        return list(_scan(path).collect_schema().names())
    except DataError:
        raise
    except Exception as error:
        raise _damaged(path, error) from None


def parquet_records(path: Path, names: Sequence[str], offset: int = 0) -> Iterator[Record]:
    """Rows from `offset` on, with their cells in the order of `names`."""
    while True:
        try:
            frame = _scan(path).select(list(names)).slice(offset, _BATCH).collect()
        except DataError:
            raise
        except Exception as error:
            raise _damaged(path, error) from None
        for cells in frame.iter_rows():
            offset += 1
            yield Record(list(cells), offset, offset, offset - 1, offset)
        if len(frame) < _BATCH:
            return


def _damaged(path: Path, error: Exception) -> DataError:
    first = str(error).strip().partition("\n")[0]
    return DataError(f"{path}: cannot be read as Parquet ({first})")
