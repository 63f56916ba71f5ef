"""What is wrong with this data? One pass, then robust statistics of each column.

A run of r equal values is stuck if it cannot be the column's habit: with rho the share of repeats
that went on in runs of usual length, (r - 1) log(1 / rho) > log(runs) + 10. Zeros, and the smallest
value, are a habit of any length if they are common otherwise: rain, snow, solar power.
"""

from array import array
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np

from rmcvi.app.sources.clock import Step, usual_step
from rmcvi.app.sources.diagnosis import Diagnosis, Gap, Outliers, Stuck
from rmcvi.app.sources.errors import DataError
from rmcvi.app.sources.lines import Readable
from rmcvi.app.sources.reader import Stream, read
from rmcvi.app.sources.sentinels import table_sentinels

_FAR = 10.0
_NORMAL = 1.4826
_EVIDENCE = 10.0
_SHORTEST = 6
"""Values in the shortest run that can be stuck."""
_COMMON = 0.1
"""Share of a column's other values from which on a value is a common one."""
_ENOUGH, _RISING, _TURN, _TURNS = 100, 0.98, 360.0, 3
"""Changes before a habit is seen in them; share that go up in a counter, the rest being new starts;
a full turn in degrees, and how often a direction must have gone through it."""


@np.errstate(over="ignore", invalid="ignore")  # differences of absurd numbers
def doctor(source: str | PathLike[str] | Readable, **options: Any) -> Diagnosis:
    """Look at all rows of a source (options as in `read`); holds 8 bytes a number in memory."""
    stream = read(source, **{"on_bad_row": "missing", "gaps": "dt", **options})
    name, schema = stream.name, stream.schema
    names = (*schema.columns, *schema.inputs)
    stream.schema = replace(schema, columns=names, inputs=(), sentinels={})
    table, times, lines = _collect(stream)
    if not len(lines):
        raise DataError(f"{name}: got no rows, expected rows of numbers")
    columns = {n: column.copy() for n, column in zip(names, table.T, strict=True)}
    said = options.get("sentinels") is not None
    codes = schema.sentinels if said else table_sentinels(columns)
    sentinels = {n: found for n in names if (found := _blank(columns[n], codes.get(n, ())))}
    hidden = {n for n in sentinels if not set(codes[n]) <= set(schema.sentinels.get(n, ()))}
    calendar = schema.time_format != "number"
    step, regular = usual_step(times[~np.isnan(times)], calendar)
    gaps = _gaps(times, lines, step)
    known = times[~np.isnan(times)]
    return Diagnosis(
        source=name,
        rows=len(lines),
        columns=names,
        time=schema.time,
        calendar=calendar,
        period=step and step.size,
        step=step and step.describe(calendar),
        regular=regular,
        first=float(known[0]) if len(known) else None,
        last=float(known[-1]) if len(known) else None,
        repeated=stream.counts.bad.get("repeated", 0),
        backward=stream.counts.bad.get("backward", 0),
        gaps=len(gaps),
        absent=float(sum(gap.steps - 1.0 for gap in gaps)),
        longest=max(gaps, key=lambda gap: gap.steps, default=None),
        missing={n: float(np.isnan(column).mean()) for n, column in columns.items()},
        sentinels=sentinels,
        hidden=tuple(n for n in names if n in hidden),
        constant=tuple(n for n, column in columns.items() if _is_constant(column)),
        stuck=tuple(run for n, column in columns.items() for run in _stuck(n, column, lines)),
        outliers=tuple(o for n, column in columns.items() if (o := _outliers(n, column, lines))),
        duplicated=_duplicated(columns),
        counters=tuple(n for n, column in columns.items() if _is_counter(column)),
        directions=tuple(n for n, column in columns.items() if _is_direction(column)),
        bad=dict(stream.counts.bad),
        examples=dict(stream.counts.first),
        fills=stream.counts.fills,
        unfinished=stream.counts.unfinished,
        assumed=tuple(schema.describe()),
    )


def _collect(stream: Stream) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values, times (NaN = unknown) and lines."""
    values, times, lines = array("d"), array("d"), array("q")
    for row in stream:
        values.extend(row.y.tolist())
        times.append(np.nan if row.time is None else row.time)
        lines.append(row.position.line if row.position else len(lines) + 1)
    table = np.array(values, float).reshape(-1, len(stream.schema.columns))
    return table, np.array(times, float), np.array(lines, int)


def _blank(column: np.ndarray, codes: tuple[float, ...]) -> dict[str, int]:
    """Make sentinels missing, in place, and count them."""
    counts = {}
    for code in codes:
        hit = column == code
        if hit.any():
            counts[f"{code:g}"] = int(hit.sum())
            column[hit] = np.nan
    return counts


def _gaps(times: np.ndarray, lines: np.ndarray, step: Step | None) -> list[Gap]:
    if step is None:
        return []
    found = []
    for i in np.flatnonzero(np.diff(times) > 1.5 * step.size):
        pair = float(times[i]), float(times[i + 1])
        steps = float(step.whole(*pair) or step.between(*pair))
        found.append(Gap(int(lines[i]), pair[0], steps))
    return found


def _is_constant(column: np.ndarray) -> bool:
    seen = column[~np.isnan(column)]
    return len(seen) == 0 or (len(seen) > 1 and bool(np.all(seen == seen[0])))


def _is_counter(column: np.ndarray) -> bool:
    """Whether values rise, row after row, and if they fall, then to a new start."""
    seen = column[~np.isnan(column)]
    change = np.diff(seen)
    if len(change) < _ENOUGH or len(np.unique(seen)) < _SHORTEST:
        return False
    starts = seen[1:][change < 0.0]
    low = seen.min() + 0.1 * (seen.max() - seen.min())
    return bool(np.mean(change >= 0.0) >= _RISING and np.all(starts <= low))


def _is_direction(column: np.ndarray) -> bool:
    """Whether values between 0 and 360 move little, but for going round."""
    seen = column[~np.isnan(column)]
    change = np.abs(np.diff(seen))
    if len(change) < _ENOUGH or seen.min() < 0.0 or seen.max() > _TURN:
        return False
    turns = int((change > 0.75 * _TURN).sum())
    return turns >= _TURNS and float(np.median(change)) < 0.125 * _TURN


def _runs(column: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where runs of equal observed values begin, their lengths and values."""
    place = np.flatnonzero(~np.isnan(column))
    seen = column[place]
    begin = np.flatnonzero(np.r_[True, seen[1:] != seen[:-1]])
    lengths = np.diff(np.r_[begin, len(seen)])
    return place[begin], lengths, seen[begin]


def _stuck(name: str, column: np.ndarray, lines: np.ndarray) -> list[Stuck]:
    if _is_constant(column):
        return []
    begin, lengths, values = _runs(column)
    found = []
    lowest, total = float(values.min()), int(lengths.sum())
    for i in np.flatnonzero(lengths >= _SHORTEST):
        elsewhere = int(lengths[values == values[i]].sum() - lengths[i])
        if values[i] in (0.0, lowest) and elsewhere >= _COMMON * (total - lengths[i]):
            continue
        peers = lengths[values == values[i]]
        habit = peers if len(peers) >= 10 else lengths
        usual = habit[habit <= np.quantile(habit, 0.95)]
        went_on, ended = float((usual - 1).sum()) + 0.5, len(usual) + 4.5
        evidence = (lengths[i] - 1) * np.log1p(ended / went_on)
        if evidence > np.log(len(lengths)) + _EVIDENCE:
            line = int(lines[begin[i]])
            found.append(Stuck(name, float(values[i]), line, int(lengths[i])))
    return found


def _outliers(name: str, column: np.ndarray, lines: np.ndarray) -> Outliers | None:
    seen = column[~np.isnan(column)]
    if len(seen) < 10:
        return None
    middle = float(np.median(seen))
    # A scale for each side, so that a skewed column is not full of outliers.
    scales = [
        _NORMAL * float(np.median(side)) if len(side) else 0.0
        for side in (middle - seen[seen < middle], seen[seen > middle] - middle)
    ]
    if len(np.unique(seen)) < 10 or not all(scales):
        return None
    z = np.nan_to_num(np.abs(column - middle) / np.where(column < middle, *scales))
    worst = int(np.argmax(z))
    if z[worst] <= _FAR:
        return None
    count = int((z > _FAR).sum())
    return Outliers(name, count, float(column[worst]), int(lines[worst]), float(z[worst]))


def _duplicated(columns: dict[str, np.ndarray]) -> tuple[tuple[str, str], ...]:
    """Pairs of a column and a later one that agrees with it in every row."""
    first: dict[bytes, str] = {}
    pairs = []
    for name, column in columns.items():
        if _is_constant(column):
            continue
        twin = first.setdefault((column + 0.0).tobytes(), name)
        if twin != name:
            pairs.append((twin, name))
    return tuple(pairs)
