"""Rows as users give them: dicts, lists or arrays, checked and in the order of the columns."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rmcvi.core.checks import check_int, check_option

Values = Mapping[str, float] | Sequence[float] | np.ndarray


def names(name: str, given: Sequence[str] | int, prefix: str) -> list[str]:
    """Names of columns, or `prefix0`, `prefix1`, ... for a number of them."""
    if isinstance(given, str):
        raise ValueError(f"{name}: got {given!r}, expected a list of names or their number")
    if isinstance(given, int):
        return [f"{prefix}{i}" for i in range(check_int(name, given, 0))]
    found = [str(v) for v in given]
    if len(set(found)) != len(found):
        raise ValueError(f"{name}: got {found}, expected different names")
    return found


def vector(name: str, values: Any, columns: list[str], absent: float | None) -> np.ndarray:
    """A row as an array, in the order of `columns`; what a dict does not hold is `absent`."""
    if values is None:
        if columns and absent is None:
            raise ValueError(f"{name}: got nothing, expected {', '.join(columns)}")
        return np.full(len(columns), np.nan)
    row = values
    if isinstance(values, Mapping):
        for key in values:
            check_option(name, key, columns)
        lacking = [k for k in columns if k not in values]
        if lacking and absent is None:
            raise ValueError(f"{name}: got no {', '.join(lacking)}, expected every input")
        row = [values.get(k, absent) for k in columns]
    array = _numbers(name, row)
    if array.shape != (len(columns),):
        raise ValueError(f"{name}: got {array.size} values, expected {len(columns)}")
    return array


def table(name: str, rows: Any, columns: list[str], absent: float | None) -> np.ndarray:
    """Rows as one array, (rows, columns); each as by `vector`."""
    if isinstance(rows, np.ndarray) and rows.dtype == float and rows.shape[1:] == (len(columns),):
        return rows
    if isinstance(rows, str | bytes | Mapping) or not hasattr(rows, "__len__"):
        raise ValueError(f"{name}: got {type(rows).__name__}, expected a list of rows")
    vectors = [vector(name, row, columns, absent) for row in rows]
    return np.array(vectors).reshape(len(vectors), len(columns))


def step_length(dt: Any) -> float:
    """`dt` as a positive number; None is the usual step."""
    if dt is None:
        return 1.0
    try:
        value = math.nan if isinstance(dt, bool | str | bytes) else float(dt)
    except (TypeError, ValueError):
        value = math.nan
    if not 0.0 < value < math.inf:
        raise ValueError(f"dt: got {dt!r}, expected a positive number")
    return value


def _numbers(name: str, row: Any) -> np.ndarray:
    """Real numbers in a given order; None is NaN, and so is what a masked array masks."""
    kind = type(row).__name__
    if isinstance(row, np.ma.MaskedArray):
        row = np.ma.filled(row.astype(float), np.nan)
    if isinstance(row, str | bytes | bytearray | set | frozenset) or not hasattr(row, "__len__"):
        raise ValueError(f"{name}: got {kind}, expected a dict, a list or an array of numbers")
    if not isinstance(row, np.ndarray) or row.dtype == object:
        row = [np.nan if v is None else v for v in row]
        wrong = next((v for v in row if isinstance(v, str | bytes | complex)), None)
        if wrong is not None:
            raise ValueError(f"{name}: got {wrong!r}, expected a real number")
    array = np.asarray(row)
    if array.dtype.kind not in "fiub" and array.size:
        raise ValueError(f"{name}: got values of type {array.dtype}, expected real numbers")
    return array.astype(float)
