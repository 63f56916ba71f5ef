"""Two small charts that need no zoom, as SVG in the colours of the page."""

from markupsafe import Markup

from rmcvi.app.report.curves import Calibration

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 320, 240, 44, 40, 12


def reliability(found: Calibration, level: float) -> Markup:
    """Share of the values inside the interval against its level; the diagonal is right."""
    points = [(0.0, 0.0), *zip(found.levels.tolist(), found.shares.tolist(), strict=True)]
    path = " ".join(f"{_x(p):.1f},{_y(s):.1f}" for p, s in points)
    own = found.shares[abs(found.levels - level).argmin()]
    body = [
        f'<line class="ideal" x1="{_x(0.0)}" y1="{_y(0.0)}" x2="{_x(1.0)}" y2="{_y(1.0)}"/>',
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
    even = _y(1 / bins / top)
    body.append(
        f'<line class="ideal" x1="{_x(0.0)}" y1="{even:.1f}" x2="{_x(1.0)}" y2="{even:.1f}"/>'
    )
    body += [_tick_x(p, f"{p:g}") for p in (0.0, 0.5, 1.0)]
    body.append(_label("place in the predictive distribution"))
    shares = ", ".join(f"{100 * s:.1f}" for s in found.histogram.tolist())
    marks = (0.0, 0.1, 0.2) if top < 0.4 else (0.0, 0.25, 0.5, 0.75, 1.0)
    return _frame(body, f"Shares in per cent: {shares}.", top, marks)


def _x(p: float) -> float:
    return _LEFT + p * (_WIDTH - _LEFT - 22)


def _y(p: float) -> float:
    return _HEIGHT - _BOTTOM - p * (_HEIGHT - _BOTTOM - _TOP)


def _line(name: str, y: float) -> str:
    return f'<line class="{name}" x1="{_x(0.0)}" y1="{y:.1f}" x2="{_x(1.0)}" y2="{y:.1f}"/>'


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
            lines.append(
                f'<line class="grid" x1="{_x(0.0)}" y1="{y:.1f}" x2="{_x(1.0)}" y2="{y:.1f}"/>'
            )
            text = f"{100 * mark:.0f} %"
            lines.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
    return Markup(
        f'<svg class="small" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}">'
        + "".join(lines + body)
        + "</svg>"
    )
