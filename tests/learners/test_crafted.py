"""Checkpoints that are whole but were not written by us: each is one sentence, none is used."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rmcvi
from rmcvi.learners.checkpoint import CheckpointError, load, peek, save
from tests.learners._files import sealed

Edit = Callable[[dict[str, Any]], Any]
LEARNER = rmcvi.baselines.Persistence(2, 0)


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A checkpoint that can be loaded."""
    path = tmp_path_factory.mktemp("crafted") / "good"
    state = LEARNER.init(jax.random.key(0))
    state, _ = LEARNER.update(state, jnp.array([1.0, jnp.nan]))
    save(path, LEARNER, state, {"rows": 1})
    assert load(path, LEARNER)[1] == {"rows": 1}
    return path.read_bytes()


def crafted(content: bytes, header: Any, leaves: bytes | None = None) -> bytes:
    """The same with another header or other leaves, and a checksum that fits."""
    _, _, rest = content[:-32].split(b"\n", 2)
    text = (header if isinstance(header, bytes) else json.dumps(header).encode()) + b"\n"
    first = b"rmcvi checkpoint 1 %012d %015d\n" % (len(text), 0)
    return sealed(first + text + (rest if leaves is None else leaves))


def parts(content: bytes) -> tuple[dict[str, Any], bytes]:
    _, header, leaves = content[:-32].split(b"\n", 2)
    return json.loads(header), leaves


def refused(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    with pytest.raises(CheckpointError) as caught:
        load(path, LEARNER)
    assert str(caught.value).startswith(f"{path}: ") and "\n" not in str(caught.value)
    return str(caught.value)


def edits() -> Iterator[Edit]:
    for name in ("learner", "state", "extra", "leaves", "rmcvi"):
        yield lambda h, name=name: h.pop(name)
        for wrong in (None, 3, [], {}, "x", [1], [[]], {"class": 1}, True):
            fits = {"extra": dict, "rmcvi": str}.get(name)
            if fits is None or not isinstance(wrong, fits):
                yield lambda h, name=name, wrong=wrong: h.update({name: wrong})
    for name in ("path", "dtype", "shape", "impl", "offset", "length"):
        for wrong in (None, -1, 10**30, "x", [], [10**9], {}, 0.5):
            yield lambda h, name=name, wrong=wrong: h["leaves"][-1].update({name: wrong})
        yield lambda h, name=name: h["leaves"][0].pop(name)
    yield lambda h: h["leaves"].reverse()
    yield lambda h: h["leaves"].append(h["leaves"][0])
    yield lambda h: h["leaves"].clear()


def test_headers(content: bytes, tmp_path: Path) -> None:
    """Fields that are missing, of another kind, or that point elsewhere."""
    good = json.dumps(parts(content)[0])
    for edit in edits():
        header = json.loads(good)
        edit(header)
        if json.dumps(header) != good:
            refused(tmp_path / "file", crafted(content, header))
    for text in (b"", b"[]", b"1", b"\xff\xfe", b"[" * 10**5, b'{"leaves": 1}', b"NaN"):
        refused(tmp_path / "file", crafted(content, text))
        with pytest.raises(CheckpointError):
            peek(tmp_path / "file")


@pytest.mark.parametrize(
    "first", [b"", b"1", b"1 2", b"1 x 3", b"1 -5 9", b"1 99999 9", b"1 2 3 4"]
)
def test_first_lines(first: bytes, content: bytes, tmp_path: Path) -> None:
    rest = content[:-32].split(b"\n", 1)[1]
    refused(tmp_path / "file", sealed(b"rmcvi checkpoint " + first + b"\n" + rest))


def test_leaves(content: bytes, tmp_path: Path) -> None:
    """Too few bytes; NaN where a state begins with a number."""
    header, leaves = parts(content)
    for length in (0, 1, len(leaves) - 1):
        assert "ends within" in refused(
            tmp_path / "file", crafted(content, header, leaves[:length])
        )
    fresh = jax.tree.leaves(LEARNER.init(jax.random.key(0)))
    kinds = set()
    for row, like in zip(header["leaves"], fresh, strict=True):
        if row["dtype"] == "float64":
            nan = np.full(row["length"] // 8, np.nan).tobytes()
            changed = leaves[: row["offset"]] + nan + leaves[row["offset"] + row["length"] :]
            kinds.add(finite := bool(np.isfinite(like).all()))
            if finite:
                message = refused(tmp_path / "file", crafted(content, header, changed))
                assert "its state is lost" in message and row["path"] in message
            else:
                (tmp_path / "file").write_bytes(crafted(content, header, changed))
                load(tmp_path / "file", LEARNER)
    assert True in kinds


@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_any_change_of_the_header(data: st.DataObject, content: bytes, tmp_path: Path) -> None:
    """One value at any depth replaced by any JSON: refused in a sentence, or the same state."""
    header, _ = parts(content)
    place: Any = header
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(place[key], dict | list) or not place[key] or data.draw(st.booleans()):
            break
        place = place[key]
    json_values = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)
    place[key] = data.draw(json_values | st.lists(json_values, max_size=2))
    (tmp_path / "file").write_bytes(crafted(content, header))
    try:
        state, _ = load(tmp_path / "file", LEARNER)
    except CheckpointError as error:
        assert "\n" not in str(error)
    else:
        assert jax.tree.structure(state) == jax.tree.structure(LEARNER.init(jax.random.key(0)))
