"""What the page holds of a run: numbers to a known precision, rows that matter, episodes."""

import base64
import zlib

import numpy as np
import pytest

from rmcvi.app.report.content import BLOCK, Packer, encode
from rmcvi.app.report.scores import Episode, episodes, score, thin
from tests.report._page import decode
from tests.report._runs import arrays


@pytest.mark.parametrize("length", [0, 1, 255, 256, 257, 1000])
def test_numbers_come_back(length: int) -> None:
    """To half a step of their block, which an outlier in another block does not change."""
    rng = np.random.default_rng(length)
    values = np.cumsum(rng.normal(size=length)) + 1e6
    values[rng.uniform(size=length) < 0.1] = np.nan
    if length > 300:
        values[700], values[701] = 1e30, np.inf
    found = decode(encode(values), length)
    values[np.isinf(values)] = np.nan
    for start in range(0, length, BLOCK):
        part = values[start : start + BLOCK]
        known = part[np.isfinite(part)]
        bound = 0.51 * np.ptp(known) / 65534 + 1e-9 if known.size else 0.0
        np.testing.assert_allclose(found[start : start + BLOCK], part, rtol=0, atol=bound)


def test_constants_are_exact_and_blocks_may_be_empty() -> None:
    values = np.concatenate([np.full(256, 0.1), np.full(256, np.nan), [3.0, -3.0]])
    np.testing.assert_array_equal(decode(encode(values), 514), values)


def test_places_of_the_arrays() -> None:
    packer = Packer()
    packer.add("a", np.arange(300.0))
    packer.share("b", np.array([0.0, 0.5, 1.0, np.nan]))
    packer.exact("c", np.array([1.7e9 + 0.25]))
    data = zlib.decompress(base64.b64decode(packer.text()))
    kind, start, length = packer.index["a"]
    assert kind == "number" and np.allclose(decode(data[start:], length), np.arange(300), atol=0.01)
    kind, start, length = packer.index["b"]
    assert kind == "share" and list(data[start : start + length]) == [0, 127, 254, 255]
    kind, start, length = packer.index["c"]
    assert kind == "double" and np.frombuffer(data, "<f8", length, start)[0] == 1.7e9 + 0.25


def test_thinning_keeps_the_surprises() -> None:
    run = arrays(1003, 2)
    run.value[500, 1] = run.high[500, 1] + 100.0
    scores = score(run)
    keep = thin(scores, 10)
    assert len(keep) == 101 and 500 in keep and keep[-1] == 1002
    assert np.all(np.diff(keep) > 0) and np.array_equal(keep[:100] // 10, np.arange(100))
    assert np.array_equal(thin(scores, 1), np.arange(1003))


def test_episodes_by_hand() -> None:
    found = episodes({"b": [3, 4, 29, 90], "a": [3]})
    assert found == [Episode("a", 3, 3, 1), Episode("b", 3, 29, 3), Episode("b", 90, 90, 1)]
    assert episodes({}) == []
