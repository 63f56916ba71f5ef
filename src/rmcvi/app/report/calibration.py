"""Calibration: how often values fall where they should, and two small charts of it as SVG."""

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from markupsafe import Markup

from rmcvi.app.report.scores import FEWEST, Scores
from rmcvi.app.run.estimates import Run

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 320, 240, 44, 40, 12


@dataclass(frozen=True)
class Calibration:
    """Levels and the shares of values inside, the four places where a value may fall, a histogram.

    Only `share` at the run's own level and the outer two `places` are free of an assumption: for
    the rest the halves of an interval are taken as those of a normal density.
    """

    levels: np.ndarray
    shares: np.ndarray
    places: np.ndarray
    """Shares below the interval, in its lower half, in its upper half, above."""
    histogram: np.ndarray
    """Shares of the probability integral transform in equal bins."""
    values: int


def calibrate(run: Run, scores: Scores, bins: int = 10) -> Calibration | None:
    """Calibration over all columns; None if there is too little to judge."""
    z = scores.z[np.isfinite(scores.z)]
    if z.size < FEWEST:
        return None
    normal = NormalDist()
    levels = np.unique(np.append(np.arange(0.05, 1.0, 0.05), run.level).round(6))
    edges = np.array([normal.inv_cdf(0.5 + level / 2) for level in levels])
    far = normal.inv_cdf(0.5 + run.level / 2)
    cuts = [-np.inf, -far, 0.0, far, np.inf]
    inner = [normal.inv_cdf(i / bins) for i in range(1, bins)]
    size = np.sort(np.abs(z))
    return Calibration(
        levels,
        np.searchsorted(size, edges * (1 + 1e-9), "right") / z.size,
        np.histogram(z, cuts)[0] / z.size,
        np.histogram(z, [-np.inf, *inner, np.inf])[0] / z.size,
        int(z.size),
    )


def reliability(found: Calibration, level: float) -> Markup:
    """Share of the values inside the interval against its level; the diagonal is right."""
    points = [(0.0, 0.0), *zip(found.levels.tolist(), found.shares.tolist(), strict=True)]
    path = " ".join(f"{_x(p):.1f},{_y(s):.1f}" for p, s in points)
    own = found.shares[abs(found.levels - level).argmin()]
    body = [
        _line("ideal", _y(0.0), _y(1.0)),
        f'<polyline class="found" points="{path}"/>',
        f'<circle class="own" cx="{_x(level):.1f}" cy="{_y(own):.1f}" r="5"/>',
        *(_tick_x(p, f"{100 * p:.0f} %") for p in (0.0, 0.5, 1.0)),
        _label("level of the interval"),
    ]
    sentence = (
        f"At the run's level of {100 * level:.3g} %, {100 * own:.1f} % of the values are inside."
    )
    return _frame(body, sentence, 1.0, (0.0, 0.25, 0.5, 0.75, 1.0))


def histogram(found: Calibration) -> Markup:
    """Shares of the values in equal bins of the predictive distribution; flat is right."""
    bins = len(found.histogram)
    top = max(0.2, 1.1 * float(found.histogram.max()))
    body = []
    for i, share in enumerate(found.histogram.tolist()):
        left, right = _x(i / bins) + 1, _x((i + 1) / bins) - 1
        high = _y(share / top)
        body.append(
            f'<rect class="bar" x="{left:.1f}" y="{high:.1f}" width="{right - left:.1f}"'
            f' height="{max(_y(0.0) - high, 0):.1f}"/>'
        )
    body.append(_line("ideal", _y(1 / bins / top)))
    body += [_tick_x(p, f"{p:g}") for p in (0.0, 0.5, 1.0)]
    body.append(_label("place in the predictive distribution"))
    shares = ", ".join(f"{100 * s:.1f}" for s in found.histogram.tolist())
    marks = (0.0, 0.1, 0.2) if top < 0.4 else (0.0, 0.25, 0.5, 0.75, 1.0)
    return _frame(body, f"Shares in per cent: {shares}.", top, marks)


def _x(p: float) -> float:
    return _LEFT + p * (_WIDTH - _LEFT - 22)


def _y(p: float) -> float:
    return _HEIGHT - _BOTTOM - p * (_HEIGHT - _BOTTOM - _TOP)


def _line(name: str, left: float, right: float | None = None) -> str:
    right = left if right is None else right
    return f'<line class="{name}" x1="{_x(0.0)}" y1="{left:.1f}" x2="{_x(1.0)}" y2="{right:.1f}"/>'


def _tick_x(p: float, text: str) -> str:
    place = f'x="{_x(p):.1f}" y="{_HEIGHT - _BOTTOM + 16}"'
    return f'<text {place} text-anchor="middle">{text}</text>'


def _label(text: str) -> str:
    place = f'x="{_x(0.5):.1f}" y="{_HEIGHT - 6}"'
    return f'<text {place} text-anchor="middle">{text}</text>'


def _frame(body: list[str], label: str, top: float, marks: tuple[float, ...]) -> Markup:
    lines = []
    for mark in marks:
        if mark <= top:
            y = _y(mark / top)
            lines.append(_line("grid", y))
            text = f"{100 * mark:.0f} %"
            lines.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
    return Markup(
        f'<svg class="small" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}">'
        + "".join(lines + body)
        + "</svg>"
    )
