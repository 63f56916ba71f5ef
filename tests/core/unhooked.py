"""Calls as users make them: without the run-time type checker of the tests."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jaxtyping


@contextmanager
def unhooked() -> Iterator[None]:
    """Inside, a wrong type reaches the package's own checks."""
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


def wrong(value: Any) -> Any:
    """A value of the wrong type, hidden from the static checker."""
    return value
