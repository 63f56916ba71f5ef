"""A stream is an iterable of observations: y_t (NaN = missing), inputs u_t, step length dt_t."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rmcvi.app.sources.errors import DataError

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Fingerprint:
    """What a source looked like when it had been read up to a place."""

    start: int
    """Where the digest begins, in the units of `Position.offset`."""
    line: int
    """Lines before that."""
    digest: str
    size: int = 0
    """Bytes at the top that `head` covers."""
    head: str = ""
    parts: dict[str, int] = field(default_factory=dict)
    """Names and sizes of the parts before this one."""

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary."""
        return asdict(self)

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> "Fingerprint":
        """The inverse of `to_json`.

        Raises:
            ValueError: it is none.
        """
        known = cls(**plain)
        counts = (known.start, known.line, known.size, *known.parts.values())
        if not all(isinstance(n, int) and n >= 0 for n in counts):
            raise ValueError(counts)
        return known


def _nothing() -> Vector:
    return np.zeros(0)


@dataclass(frozen=True)
class Position:
    """Where an observation came from, and all that is needed to go on after it.

    `offset` counts what has been consumed of the file `name`: bytes of (uncompressed) text, rows of
    tables and of pipes. `clock` and `held` are the time and the inputs that the next row follows.
    By its `fingerprint` the file is known again. `allowance` is how many missing rows may be put
    before the next row (`Clock`; None: as at the beginning).
    """

    name: str
    line: int
    offset: int
    clock: float | None = None
    held: tuple[float, ...] = ()
    fingerprint: Fingerprint | None = None
    allowance: int | None = None

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary."""
        known = self.fingerprint.to_json() if self.fingerprint else None
        return {**vars(self), "held": list(self.held), "fingerprint": known}

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> "Position":
        """The inverse of `to_json`."""
        try:
            known = plain.get("fingerprint")
            fingerprint = None if known is None else Fingerprint.from_json(known)
            held = tuple(map(float, plain["held"]))
            if not all(
                isinstance(plain[key], int) and plain[key] >= 0 for key in ("line", "offset")
            ):
                raise ValueError
            return cls(**{**plain, "held": held, "fingerprint": fingerprint})
        except (AttributeError, KeyError, TypeError, ValueError):
            message = f"source: got {plain!r}, expected what Position.to_json wrote"
            raise DataError(message) from None


@dataclass(frozen=True, eq=False)
class Observation:
    """One row of a stream."""

    y: Vector
    """Observed values, NaN = missing."""
    u: Vector = field(default_factory=_nothing)
    """Inputs, never missing."""
    dt: float = 1.0
    """Usual steps since the row before: 1, unless rows are absent between them or times irregular.

    A gap that is too long to be filled is one step with its true length. Months count as months."""
    time: float | None = None
    """Seconds since 1970 in UTC, or the number in the time column; None if unknown."""
    time_text: str | None = None
    """The time as it was written; None in a row that fills a gap."""
    position: Position | None = None
    filled: bool = False
    """Whether the row stands for one that is absent from the source."""


def observations(
    ys: ArrayLike, u: ArrayLike | None = None, dt: ArrayLike | None = None, time: Any = None
) -> Iterator[Observation]:
    """The rows of arrays as a stream: `ys` (T, dy), `u` (T, du), `dt` (T,), `time` (T,)."""
    values = np.asarray(ys, float)
    if values.ndim != 2:
        raise DataError(f"ys: got an array of shape {values.shape}, expected (T, dy)")
    length = len(values)
    inputs = np.zeros((length, 0)) if u is None else np.asarray(u, float)
    steps = np.ones(length) if dt is None else np.asarray(dt, float)
    times = [None] * length if time is None else [float(t) for t in time]
    if inputs.ndim != 2 or not len(inputs) == len(steps) == len(times) == length:
        sizes = f"{inputs.shape}, {steps.shape} and {len(times)}"
        raise DataError(f"u, dt, time: got sizes {sizes}, expected {length} rows each")
    return (
        Observation(y, v, float(step), t)
        for y, v, step, t in zip(values, inputs, steps, times, strict=True)
    )
