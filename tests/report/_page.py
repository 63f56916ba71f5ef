"""What a page holds, read as its script does."""

import base64
import json
import re
import zlib
from typing import Any

import numpy as np

from rmcvi.app.report.content import BLOCK


def meta(page: str) -> tuple[dict[str, Any], str]:
    """What the script reads, and the page without it."""
    found = re.search(r'<script type="application/json" id="meta">(.*?)</script>', page, re.S)
    assert found is not None
    return json.loads(found[1]), page.replace(found[0], "")


def column(page: str, name: str) -> np.ndarray:
    """One of the arrays of numbers."""
    found = re.search(r'id="data">(.*?)</script>', page, re.S)
    assert found is not None
    data = zlib.decompress(base64.b64decode(found[1]))
    kind, start, length = meta(page)[0]["index"][name]
    if kind == "double":
        return np.frombuffer(data, "<f8", length, start)
    return decode(data[start:], length)


def decode(data: bytes, length: int) -> np.ndarray:
    """The inverse of `encode`."""
    blocks = -(-length // BLOCK)
    low, step = np.frombuffer(data, "<f8", 2 * blocks).reshape(2, blocks)
    high, rest = np.frombuffer(data, np.uint8, 2 * length, 16 * blocks).reshape(2, length)
    codes = np.cumsum(256 * high.astype(int) + rest) % 65536
    place = np.arange(length) // BLOCK
    return np.where(codes == 65535, np.nan, low[place] + step[place] * codes)
