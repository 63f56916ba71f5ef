"""When the rows come that are not there yet."""

from rmcvi.app.sources import Schema


def next_times(schema: Schema, last: float | None, horizon: int) -> list[float | None]:
    """The times of the rows after one at the time `last`, as far as they are known."""
    step = schema.usual
    if step is None or last is None:
        return [None] * horizon
    return [step.after(last, k) for k in range(1, horizon + 1)]
