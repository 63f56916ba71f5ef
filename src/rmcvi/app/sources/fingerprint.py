"""By what a source is known again when a run is resumed."""

from dataclasses import asdict, dataclass, field
from typing import Any


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
