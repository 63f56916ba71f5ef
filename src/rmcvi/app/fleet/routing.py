"""Whose streams are whose: every shard rolls a die for a key, and the highest one has it.

With one shard more, it takes one key in so many from the others, and no other key moves.
"""

from hashlib import blake2b


def owner(key: str, shards: int) -> int:
    """The shard of a key, the same in every process and for ever."""
    if shards == 1:
        return 0
    text = key.encode("utf-8", "surrogatepass")
    return max(range(shards), key=lambda shard: _roll(text, shard))


def _roll(key: bytes, shard: int) -> bytes:
    return blake2b(key, digest_size=8, salt=shard.to_bytes(8, "little")).digest()
