"""The picture of who imports whom, made from the imports themselves.

    python docs/_site/graph.py          # writes docs/imports.svg; a test compares

A box is a room, an arrow an import. An arrow is left out where a longer way says the same.
"""

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import grimp

PICTURE = Path(__file__).parents[1] / "imports.svg"
FLOORS = {"lab": "#f3d9c4", "app": "#d5e4f2", "scale": "#dcecd6", "library": "#eeeeee"}
"""Floors from the top, with their colours; a room that is on none of the others is library."""
DOORS = {"__main__", "version"}
"""What belongs to no room."""
WIDTH, HEIGHT = 104, 30
"""Of a box."""
ACROSS, DOWN = 24, 46
"""Between boxes."""

Edge = tuple[str, str]


def room(module: str) -> str | None:
    """The room of a module: `rmcvi.app.cli.learn` is in `app.cli`; None if it is in none."""
    parts = module.split(".")[1:]
    if not parts or parts[0] in DOORS or parts in (["app"], ["lab"]):
        return None
    return ".".join(parts[:2] if parts[0] in ("app", "lab") else parts[:1])


def floor(name: str) -> str:
    """The floor of a room."""
    first = name.split(".")[0]
    return first if first in FLOORS else "library"


def imports() -> set[Edge]:
    """Who imports whom, room by room."""
    graph = grimp.build_graph("rmcvi", cache_dir=None)
    pairs = {
        (room(module), room(other))
        for module in graph.modules
        for other in graph.find_modules_directly_imported_by(module)
    }
    return {(a, b) for a, b in pairs if a and b and a != b}


def essential(edges: set[Edge]) -> set[Edge]:
    """The edges that no longer way replaces."""
    below = {a: {d for c, d in edges if c == a} for a, _ in edges}

    def reaches(start: str, end: str) -> bool:
        return any(b == end or reaches(b, end) for b in below.get(start, ()))

    return {(a, b) for a, b in edges if not any(reaches(c, b) for c in below[a] - {b})}


def levels(edges: set[Edge]) -> dict[str, int]:
    """The longest way down from each room: who imports stands above whom it imports."""
    rooms = {name for edge in edges for name in edge}

    def depth(name: str) -> int:
        return max((1 + depth(b) for a, b in edges if a == name), default=0)

    return {name: depth(name) for name in rooms}


def arrange(edges: set[Edge]) -> tuple[dict[str, tuple[float, int]], list[list[str]]]:
    """A place (across, level) for each room and for the bends of long arrows; and the arrows."""
    level = levels(edges)
    ways = []
    for a, b in sorted(edges):
        bends = [f"{a} {b} {k}" for k in range(level[a] - 1, level[b], -1)]
        level |= {bend: level[a] - 1 - i for i, bend in enumerate(bends)}
        ways.append([a, *bends, b])
    rows = [sorted(n for n in level if level[n] == k) for k in range(max(level.values()) + 1)]
    steps = [pair for way in ways for pair in pairwise(way)]
    beside: dict[str, list[str]] = {name: [] for name in level}
    for a, b in steps:
        beside[a].append(b)
        beside[b].append(a)
    place = {name: float(i * WIDTH) for row in rows for i, name in enumerate(row)}
    for turn in range(48):  # until nothing moves; few are needed for twenty rooms
        for row in rows if turn % 2 else rows[::-1]:
            wish = {n: sum(place[m] for m in beside[n]) / len(beside[n]) for n in row}
            row.sort(key=lambda n, wish=wish: (wish[n], n))
            place |= _spread(row, wish)
    return {name: (place[name], level[name]) for name in level}, ways


def _spread(row: list[str], wish: dict[str, float]) -> dict[str, float]:
    """Near to their wishes, side by side: halfway between pushing right and left."""
    half = [(WIDTH if " " not in name else WIDTH / 3) / 2 + ACROSS / 2 for name in row]
    right = [wish[name] for name in row]
    left = list(right)
    for i in range(1, len(row)):
        right[i] = max(right[i], right[i - 1] + half[i - 1] + half[i])
    for i in range(len(row) - 2, -1, -1):
        left[i] = min(left[i], left[i + 1] - half[i + 1] - half[i])
    return {name: (a + b) / 2 for name, a, b in zip(row, left, right, strict=True)}


def svg(edges: set[Edge]) -> str:
    """The picture."""
    places, ways = arrange(edges)
    top = max(k for _, k in places.values())
    middle = [x for x, _ in places.values()]
    half = (max(middle) - min(middle) + WIDTH) / 2 + ACROSS
    shift = half - (max(middle) + min(middle)) / 2
    legend = HEIGHT + 8
    high = (top + 1) * (HEIGHT + DOWN) + legend

    def at(name: str, edge: float = 0.0) -> tuple[float, float]:
        x, k = places[name]
        return x + shift, (top - k + 0.5) * (HEIGHT + DOWN) + edge * HEIGHT

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * half:.0f} {high}" '
        f'width="{2 * half:.0f}" height="{high}" role="img" '
        'font-family="sans-serif" font-size="13">',
        "<title>Who imports whom in rmcvi</title>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="#666"/></marker></defs>',
        f'<rect width="{2 * half:.0f}" height="{high}" fill="#fff"/>',
    ]
    for way in ways:
        lines.append(_arrow([at(way[0], 0.5), *map(at, way[1:-1]), at(way[-1], -0.5)]))
    for name in sorted(n for n in places if " " not in n):
        lines += _box(name, *at(name), FLOORS[floor(name)])
    for i, (name, colour) in enumerate(FLOORS.items()):
        lines += _box(name, half + (i - 1.5) * 90, high - legend / 2, colour, 80, 22)
    return "\n".join([*lines, "</svg>", ""])


def _arrow(points: list[tuple[float, float]]) -> str:
    """A smooth line downwards."""
    path = f"M{points[0][0]:.0f} {points[0][1]:.0f}"
    for (x, y), (u, v) in pairwise(points):
        path += f"C{x:.0f} {(y + v) / 2:.0f} {u:.0f} {(y + v) / 2:.0f} {u:.0f} {v:.0f}"
    return f'<path d="{path}" fill="none" stroke="#666" marker-end="url(#tip)"/>'


def _box(
    name: str, x: float, y: float, colour: str, width: float = WIDTH, height: float = HEIGHT
) -> Iterable[str]:
    yield (
        f'<rect x="{x - width / 2:.0f}" y="{y - height / 2:.0f}" width="{width}" '
        f'height="{height}" rx="5" fill="{colour}" stroke="#444"/>'
    )
    yield f'<text x="{x:.0f}" y="{y + 4:.0f}" text-anchor="middle">{name}</text>'


if __name__ == "__main__":
    PICTURE.write_text(svg(essential(imports())))
