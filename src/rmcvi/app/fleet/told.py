"""What a shard says of itself, after each batch."""

from dataclasses import dataclass


@dataclass
class Told:
    """What a shard says of itself."""

    shard: int
    rows: int = 0
    begun: int = 0
    """Rows that its checkpoint had when it began."""
    streams: int = 0
    failing: int = 0
    """Streams with a sensor that fails now."""
    left: int = 0
    """Bytes of the source that are still to be read, if they are known."""
    done: bool = False
    process: int = 0
    """Its number on its machine."""
    checkpoint: float = 0.0
    """Seconds that its last checkpoint took, the disk included."""
    doing: str = ""
    """What it is about to do if that may take long and shows no rows."""
