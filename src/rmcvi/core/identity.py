"""What is found once of an object that never changes."""

from typing import Any


class Itself:
    """An object by its identity, for the key of a cache; the cache keeps it alive."""

    def __init__(self, value: Any):
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Itself) and other.value is self.value
