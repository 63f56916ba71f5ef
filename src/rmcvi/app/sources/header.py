"""The columns of one part against those of the schema."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rmcvi.app.sources.delimited import unique_names
from rmcvi.app.sources.errors import DataError, place
from rmcvi.app.sources.records import Record
from rmcvi.app.sources.schema import Schema


@dataclass(frozen=True)
class Shape:
    """How the rows of one part become rows of the schema."""

    order: tuple[int | None, ...]
    """Where each of the schema's names stands; None = nowhere (a nameless, unused column)."""
    least: int
    """Cells that a row has at least: up to the last column with a name."""
    most: int

    @classmethod
    def plain(cls, schema: Schema) -> "Shape":
        """The schema's own order."""
        width = len(schema.names)
        return cls(tuple(range(width)), width, width)

    def fit(self, records: Iterator[Record]) -> Iterator[Record]:
        """Cells in the schema's order; rows of another length get a reason instead."""
        for record in records:
            cells = record.cells
            if not cells or not any(cells):
                yield record
                continue
            width = len(cells)
            while width > self.most and not str(cells[width - 1]).strip():
                width -= 1
            if self.least <= width <= self.most:
                yield record._replace(
                    cells=[cells[i] if i is not None and i < width else None for i in self.order]
                )
            else:
                reason = f"{width} cells, expected {self.least}"
                yield record._replace(cells=None, reason=reason)


def shape_of(cells: Sequence[str], schema: Schema, source: str) -> Shape:
    """Compare a part's header with the schema.

    Raises:
        DataError: a column has appeared or vanished.
    """
    names = unique_names(cells)
    named = [i for i, cell in enumerate(cells) if cell.strip()]
    used = {*schema.time, *schema.columns, *schema.inputs}
    own, known = {name: i for i, name in enumerate(names)}, set(schema.names)
    for name in schema.names:
        if name not in own and (name in used or not name.startswith("column ")):
            found = ", ".join(repr(names[i]) for i in named[:12])
            where = place(source, 1, name)
            raise DataError(f"{where}: has vanished, found {found}")
    for i in named:
        if names[i] not in known:
            expected = ", ".join(map(repr, schema.names[:12]))
            raise DataError(f"{place(source, 1, names[i])}: has appeared, expected {expected}")
    order = tuple(own.get(name) for name in schema.names)
    least = max([*named, *(own[name] for name in used)], default=-1) + 1
    return Shape(order, least, len(names))
