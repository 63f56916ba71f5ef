"""Wrong calls become a ValueError that names the argument, what it got and what it expected.

Here those that need no JAX: what looks at files alone should not have to wait for it.
"""

import difflib
import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any


def check_int(name: str, value: Any, minimum: int = 1) -> int:
    """Return `value` as an int, or say why it is not an integer of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < minimum:
        raise ValueError(f"{name}: got {value!r}, expected an integer of at least {minimum}")
    return int(value)


def check_real(name: str, value: Any, low: float = -math.inf, high: float = math.inf) -> float:
    """Return `value` as a float strictly between `low` and `high`."""
    real = isinstance(value, Real) and not isinstance(value, bool)
    if not real or not low < float(value) < high:
        raise ValueError(f"{name}: got {value!r}, expected a number between {low} and {high}")
    return float(value)


def check_option(name: str, value: Any, options: Iterable[str]) -> str:
    """Return `value` if it is one of `options`; otherwise name them and the nearest one."""
    known = list(options)
    if value in known:
        return value
    near = nearest(str(value), known)
    hint = f" (did you mean {near!r}?)" if near else ""
    raise ValueError(f"{name}: got {value!r}, expected one of {', '.join(map(repr, known))}{hint}")


def nearest(got: str, names: Iterable[str], similarity: float = 0.6) -> str | None:
    """The name that is most like `got`, whatever its case; None if none is that similar (0 to 1).

    0.6 is what difflib takes for a close match.
    """
    folded = {name.casefold(): name for name in names}
    near = difflib.get_close_matches(got.casefold(), folded, 1, similarity)
    return folded[near[0]] if near else None


def check_instance(name: str, value: Any, kind: type) -> None:
    """Raise unless `value` is an instance of `kind`."""
    if not isinstance(value, kind):
        raise ValueError(f"{name}: got {type(value).__name__}, expected {kind.__name__}")
