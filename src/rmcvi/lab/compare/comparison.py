"""What a comparison found: one row per method, failures included.

A method is on the frontier if no other is both at least as fast and at least as good.
"""

import dataclasses
import json
import math
import pathlib
from typing import Any

from rmcvi.core.checks import check_option

# Okabe and Ito's colours, told apart by every kind of sight; shapes say the same once more.
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000")
_SHAPES = "osD^vPX*<>"
LARGER_IS_BETTER = {"rmse": False, "log_score": True, "width": False, "state_rmse": False}
"""Metrics that order methods; coverage does not, it should be the level."""
_UNITS = {
    "rmse": "one-step RMSE (units of y)",
    "log_score": "log score (nats per value)",
    "width": "mean width of the interval (units of y)",
    "state_rmse": "RMSE of the filtered state (units of x)",
}


@dataclasses.dataclass(frozen=True)
class Row:
    """One method; None where there is nothing to say. Averages over seeds."""

    name: str
    failure: str | None = None
    """Why it failed, in one line; None if it did not."""
    rmse: float | None = None
    """One-step error over the scored columns."""
    rmse_by_column: tuple[float | None, ...] | None = None
    rmse_spread: float | None = None
    """Standard deviation of `rmse` over seeds."""
    log_score: float | None = None
    """Mean predictive log score per observed value, over all columns: larger is better."""
    coverage: float | None = None
    """Share of the observed values inside the interval, over the scored columns."""
    width: float | None = None
    """Mean width of the interval, over the scored columns."""
    state_rmse: float | None = None
    """Error of the filtered state, where the truth is known and the method has a hidden state."""
    seconds: float | None = None
    """Median time per observation, compiled and warmed up."""
    seconds_low: float | None = None
    """Lower quartile of the blocks' times per observation."""
    seconds_high: float | None = None
    """Upper quartile."""
    compile_seconds: float | None = None
    state_bytes: int | None = None
    """Memory that is kept between observations."""
    temp_bytes: int | None = None
    """Scratch memory of the compiled loop, where the compiler tells."""


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Rows, and what one must know to read them."""

    rows: tuple[Row, ...]
    columns: tuple[str, ...]
    """Names of the scored columns."""
    length: int
    """Rows of the stream."""
    burn_in: int
    """Rows at its start that were learned from and not scored."""
    seeds: tuple[int, ...]
    threads: int
    """Threads that the compiler may use, the same for all methods."""
    precision: str
    platform: str

    @property
    def threads_in_words(self) -> str:
        """The number of threads in words."""
        return f"{self.threads} thread" + "s" * (self.threads > 1)

    def row(self, name: str) -> Row:
        """The row of a method."""
        check_option("name", name, [row.name for row in self.rows])
        return next(row for row in self.rows if row.name == name)

    def frontier(self, metric: str = "rmse") -> tuple[str, ...]:
        """Names of the methods that no other beats in both time and `metric`, fastest first."""
        check_option("metric", metric, LARGER_IS_BETTER)
        points = [(row.seconds, _loss(row, metric), row.name) for row in self.rows]
        known = sorted((s, m, name) for s, m, name in points if s is not None and m is not None)
        names, best = [], math.inf
        for _, loss, name in known:
            if loss < best:
                names.append(name)
                best = loss
        return tuple(names)

    def table(self) -> str:
        """The rows as aligned text."""
        body = [_HEAD, *(_cells(row) for row in self.rows)]
        if all(row.state_rmse is None for row in self.rows):
            body = [cells[:5] + cells[6:] for cells in body]
        widths = [max(map(len, column)) for column in zip(*body, strict=True)]
        lines = [
            "  ".join([cells[0].ljust(widths[0]), *map(str.rjust, cells[1:], widths[1:])])
            for cells in body
        ]
        lines.insert(1, "-" * len(lines[0]))
        failed = [f"{row.name} failed: {row.failure}" for row in self.rows if row.failure]
        counted = self.length - self.burn_in
        seeds = f"{len(self.seeds)} seed" + "s" * (len(self.seeds) > 1)
        foot = (
            f"{counted} of {self.length} rows scored, columns {', '.join(self.columns)}; {seeds}; "
            f"{self.precision} on {self.platform}, {self.threads_in_words}"
        )
        return "\n".join([*lines, *failed, foot])

    def to_json(self) -> str:
        """As text that `from_json` reads back; numbers that are not finite become strings."""
        return json.dumps(_plain(dataclasses.asdict(self)), indent=1, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> "Comparison":
        """What `to_json` wrote."""
        kept = json.loads(text)
        text_fields = ("name", "failure")
        rows = tuple(
            Row(**{key: v if key in text_fields else _number(v) for key, v in row.items()})
            for row in kept.pop("rows")
        )
        lists = {key: tuple(kept.pop(key)) for key in ("columns", "seeds")}
        return cls(rows=rows, **lists, **kept)

    def plot(self, path: str | pathlib.Path, metric: str = "rmse") -> pathlib.Path:
        """Draw time per observation against `metric`, with the frontier, into a file."""
        check_option("metric", metric, LARGER_IS_BETTER)
        return draw(self, pathlib.Path(path), metric, _UNITS[metric])


def _loss(row: Row, metric: str) -> float | None:
    value = getattr(row, metric)
    if row.failure is not None or value is None or math.isnan(value):
        return None
    return -value if LARGER_IS_BETTER[metric] else value


_HEAD = [
    "method",
    "RMSE",
    "log score",
    "coverage",
    "width",
    "state RMSE",
    "us/obs",
    "quartiles",
    "compile s",
    "state kB",
    "scratch kB",
]


def _cells(row: Row) -> list[str]:
    name = row.name + (" (failed)" if row.failure else "")
    spread = row.rmse_spread or 0.0
    rmse = _show(row.rmse, ".4f") + (f" +- {spread:.4f}" if spread >= 5e-5 else "")
    micro = [None if s is None else 1e6 * s for s in (row.seconds, row.seconds_low)]
    upper = None if row.seconds_high is None else 1e6 * row.seconds_high
    kilo = [None if b is None else b / 1024 for b in (row.state_bytes, row.temp_bytes)]
    quartiles = "-" if upper is None else f"{_show(micro[1], '.1f')}-{_show(upper, '.1f')}"
    return [
        name,
        rmse,
        _show(row.log_score, ".4f"),
        _show(row.coverage, ".3f"),
        _show(row.width, ".3f"),
        _show(row.state_rmse, ".4f"),
        _show(micro[0], ".1f"),
        quartiles,
        _show(row.compile_seconds, ".2f"),
        _show(kilo[0], ".1f"),
        _show(kilo[1], ".1f"),
    ]


def _show(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _number(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_number(v) for v in value)
    return float(value) if value in ("inf", "-inf", "nan") else value


def draw(comparison: Comparison, path: pathlib.Path, metric: str, label: str) -> pathlib.Path:
    """Accuracy against time per observation; failed methods are named in the corner."""
    import matplotlib  # here: only drawing needs the extra `app`
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 4.5), layout="constrained")
    axes = figure.add_subplot()
    best = comparison.frontier(metric)
    for k, row in enumerate(comparison.rows):
        value = getattr(row, metric)
        if row.failure is not None or row.seconds is None or value is None:
            continue
        ends = (row.seconds_low or row.seconds, row.seconds_high or row.seconds)
        axes.errorbar(
            1e6 * row.seconds,
            value,
            xerr=[[1e6 * max(row.seconds - ends[0], 0.0)], [1e6 * max(ends[1] - row.seconds, 0.0)]],
            fmt=_SHAPES[k % len(_SHAPES)],
            color=_COLOURS[k % len(_COLOURS)],
            markersize=8,
            markerfacecolor=None if row.name in best else "white",
            label=row.name,
        )
    steps = [comparison.row(name) for name in best]
    axes.step(
        [1e6 * (row.seconds or 0.0) for row in steps],
        [getattr(row, metric) for row in steps],
        where="post",
        color="0.6",
        linewidth=1.0,
        zorder=0,
    )
    axes.set_xscale("log")
    axes.set_xlabel(f"time per observation (microseconds, {comparison.threads_in_words})")
    axes.set_ylabel(label)
    axes.grid(True, which="major", color="0.92")
    failed = [row.name for row in comparison.rows if row.failure is not None]
    note = "filled: not beaten" + (f"; failed: {', '.join(failed)}" if failed else "")
    axes.set_title(note, fontsize=9, loc="left", color="0.3")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=8, frameon=False)
    with matplotlib.rc_context({"svg.hashsalt": "rmcvi"}):
        figure.savefig(path, dpi=150)
    return path
