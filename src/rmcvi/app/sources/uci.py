"""The air-quality data of De Vito et al. (2008) from the UCI repository: 9 357 hours in Italy.

The file is for research and is not part of this package: a path, an environment variable or a
download brings it.
"""

import io
import os
import urllib.request
import zipfile
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rmcvi.app.sources.errors import DataError
from rmcvi.app.sources.reader import read
from rmcvi.core.files import replace

FILE = "AirQualityUCI.csv"
VARIABLE = "RMCVI_AIR_QUALITY"
URL = "https://archive.ics.uci.edu/static/public/360/air+quality.zip"
COLUMNS = ("CO(GT)", "NMHC(GT)", "NOx(GT)", "NO2(GT)", "C6H6(GT)", "T", "RH", "AH")
SENSORS = ("PT08.S1(CO)", "PT08.S2(NMHC)", "PT08.S3(NOx)", "PT08.S4(NO2)", "PT08.S5(O3)")
_ROWS = 9357
_LIMIT = 50_000_000
_KNOWN = {
    "CO(GT)": (7674, 16520.2),
    "NMHC(GT)": (914, 199994.0),
    "NOx(GT)": (7718, 1905549.0),
    "NO2(GT)": (7715, 872499.0),
    "C6H6(GT)": (8991, 90657.2),
    "T": (8991, 164695.6),
    "RH": (8991, 442664.7),
    "AH": (8991, 9220.5427),
    "PT08.S1(CO)": (8991, 9888600.0),
    "PT08.S2(NMHC)": (8991, 8443928.0),
    "PT08.S3(NOx)": (8991, 7511923.0),
    "PT08.S4(NO2)": (8991, 13093275.0),
    "PT08.S5(O3)": (8991, 9196949.0),
}
"""Values that are not missing, and their sum."""


class AirQuality(NamedTuple):
    """Hours as seconds since 1970 (T,), values (T, dy) with NaN = missing, names of the columns."""

    time: np.ndarray
    y: np.ndarray
    names: tuple[str, ...]


def air_quality(
    path: str | PathLike[str] | None = None,
    *,
    sensors: bool = False,
    check: bool = True,
    cache: str | PathLike[str] | None = None,
    opener: Callable[..., Any] = urllib.request.urlopen,
) -> AirQuality:
    """The eight reference columns, with the five metal-oxide `sensors` after them if asked for.

    Args:
        path: the file, or its folder; else `RMCVI_AIR_QUALITY` says it; else it is downloaded.
        sensors: the sensor columns too.
        check: refuse a file without the known rows and sums.
        cache: where a download is kept; `rmcvi` in the user's cache directory by default.
        opener: opens a URL.
    """
    file = _find(path, cache, opener)
    names = COLUMNS + SENSORS if sensors else COLUMNS
    stream = read(file, columns=names, time=("Date", "Time"), sentinels=[-200.0], gaps="ignore")
    rows = [(row.time, row.y) for row in stream]
    data = AirQuality(
        np.array([time for time, _ in rows], float),
        np.array([y for _, y in rows], float).reshape(-1, len(names)),
        names,
    )
    if check:
        _check(data, file)
    return data


def _find(path: Any, cache: Any, opener: Callable[..., Any]) -> Path:
    said = path if path is not None else os.environ.get(VARIABLE)
    if said:
        file = Path(said)
        file = file / FILE if file.is_dir() else file
        if not file.is_file():
            what = "path" if path is not None else VARIABLE
            raise DataError(f"{what}: got {str(said)!r}, where there is no file; {_wanted()}")
        return file
    folder = Path(cache) if cache is not None else _cache()
    file = folder / FILE
    if not file.is_file():
        _download(file, opener)
    return file


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "rmcvi"


def _wanted() -> str:
    return f"wanted is {FILE} of {URL}: unpack it and set {VARIABLE} to its path, or give its path"


def _download(file: Path, opener: Callable[..., Any]) -> None:
    try:
        with opener(URL, timeout=60.0) as response:
            packed = response.read(_LIMIT)
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            data = archive.read(FILE)
        file.parent.mkdir(parents=True, exist_ok=True)
        replace(file, data)
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        reason = str(error) or type(error).__name__
        raise DataError(f"air quality: the download failed ({reason}); {_wanted()}") from None


def _check(data: AirQuality, file: Path) -> None:
    if len(data.y) != _ROWS:
        raise DataError(f"{file}: got {len(data.y)} rows, expected {_ROWS}; {_wanted()}")
    if np.any(np.diff(data.time) != 3600.0):
        raise DataError(f"{file}: got rows that are not an hour apart; {_wanted()}")
    for name, column in zip(data.names, data.y.T, strict=True):
        count, total = int((~np.isnan(column)).sum()), float(np.nansum(column))
        if count != _KNOWN[name][0] or abs(total - _KNOWN[name][1]) > 1e-6 * total:
            found = f"{count} values with sum {total:.10g}"
            expected = "{} with sum {:.10g}".format(*_KNOWN[name])
            raise DataError(f"{file}, column {name!r}: got {found}, expected {expected}")
