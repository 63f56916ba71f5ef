"""One file that holds a run: after `load`, the next updates are those of the uninterrupted run.

    first line: rmcvi checkpoint <format version> <bytes of header> <bytes of file>
    header: one line of JSON (versions, schema of the classes, learner, state, extra, leaves)
    leaves: raw bytes, little-endian
    SHA-256 of everything before it

The first line and the checksum keep this form in every format version. A file is replaced as a
whole: a kill at any moment leaves the old or the new one.
"""

import functools
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from rmcvi.contract import AbstractLearner
from rmcvi.core.files import replace, sweep
from rmcvi.core.identity import Itself
from rmcvi.learners import migrations
from rmcvi.learners.description import (
    describe_learner,
    differences,
    is_key,
    listed,
    outline,
    raw_bytes,
)
from rmcvi.version import __version__

MAGIC = b"rmcvi checkpoint "
FORMAT = 1
HEADER = {"rmcvi": str, "learner": dict, "extra": dict, "leaves": list}
"""Parts of a header and their types; beside them `state`, which may be of any."""
OTHERS = "It was not written by rmcvi as it is; start a new run."
CHECKSUM = 32
"""Bytes of a SHA-256."""


class CheckpointError(ValueError):
    """A file that cannot be used: the message says which, why, and what to do."""

    def __init__(self, path: Path, what: str, remedy: str):
        super().__init__(f"{path}: {' '.join(what.split())}. {remedy}")


def save(
    path: str | os.PathLike[str],
    learner: AbstractLearner,
    state: PyTree,
    extra: dict[str, Any] | None = None,
) -> None:
    """Write `state` to `path`, all of it or (with an OSError) nothing; one process per path.

    The file also describes the learner, so that `load` can refuse another one: classes, settings,
    shapes, and a hash of every array that is not trained. Settings inside an optax optimiser
    (the learning rate) are closures and are not compared.

    Args:
        path: an existing checkpoint there is replaced; any other file is refused.
        learner: what `state` belongs to.
        state: from `learner.init`, `learner.update` or `scan`.
        extra: anything JSON can hold, such as the standardiser and the source's offset.
    """
    target = Path(path).resolve()
    extra = {} if extra is None else extra
    try:
        json.dumps(extra)
    except TypeError as error:
        raise ValueError(f"extra: {error}, expected values that JSON can hold") from None
    kinds = [str(jax.random.key_impl(leaf)) for leaf in jax.tree.leaves(state) if is_key(leaf)]
    words = _words(Itself(learner), kinds[0] if kinds else None, str(jnp.result_type(float)))
    found = outline(state)
    lines = [] if found == words["state"] else differences(found, words["state"], "state")
    if lines:
        raise ValueError(f"state: got one that the learner could not load: {listed(lines)}")
    if target.is_file():
        with open(target, "rb") as file:
            foreign = not MAGIC.startswith(file.read(len(MAGIC)))
        if foreign:
            what = "not an rmcvi checkpoint, so it is not overwritten"
            raise CheckpointError(target, what, "Save under another name.")
    sweep(target, age=0.0)  # one process per path: what is there was left by one that was killed
    replace(target, _pack(words | {"state": found}, state, extra))


@functools.lru_cache(maxsize=4)
def _words(of: Itself, kind: str | None, precision: str) -> dict[str, Any]:
    """A learner and its first state in words, found once: a live one is saved again and again."""
    del precision  # part of the key alone: with it the words change
    fresh = jax.eval_shape(of.value.init, jax.random.key(0, impl=kind))
    return {"learner": describe_learner(of.value), "state": outline(fresh)}


def load(path: str | os.PathLike[str], learner: AbstractLearner) -> tuple[PyTree, dict[str, Any]]:
    """Read the state and `extra` that `save` wrote, for a learner built with the same settings.

    Raises:
        CheckpointError: the file is missing, foreign, truncated, damaged, of another format
            version, or belongs to another configuration. The file is never touched.
    """
    target = Path(path).resolve()
    header, payload = _unpack(target, _read(target))
    header = _migrated(target, header)
    _accept(target, header, differences(header["learner"], describe_learner(learner)))
    impl = next((row["impl"] for row in header["leaves"] if row["impl"]), None)
    try:
        fresh = learner.init(jax.random.key(0, impl=impl))
    except ValueError:
        what = f"its random keys are of kind {impl}, which this JAX does not know"
        raise CheckpointError(target, what, "Load it with the JAX that wrote it.") from None
    _accept(target, header, differences(header["state"], outline(fresh), "state"))
    expected = _table(fresh)[0]
    if header["schema"] < migrations.SCHEMA and len(expected) == len(header["leaves"]):
        # The state has been found to agree, field by field; only their names may be old.
        pairs = zip(header["leaves"], expected, strict=True)
        header["leaves"] = [row | {"path": new["path"]} for row, new in pairs]
    _accept(target, header, differences(header["leaves"], expected, "leaves"))
    likes, treedef = jax.tree.flatten(fresh)
    rows = zip(header["leaves"], likes, strict=True)
    return jax.tree.unflatten(
        treedef, [_restore(target, row, like, payload) for row, like in rows]
    ), header["extra"]


def peek(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The `extra` of a whole checkpoint, without a learner to load it into."""
    target = Path(path).resolve()
    return _unpack(target, _read(target))[0]["extra"]


def _read(target: Path) -> bytes:
    try:
        return target.read_bytes()
    except OSError as error:
        what = f"cannot be read: {error.strerror}"
        raise CheckpointError(target, what, "Check the path that `save` was given.") from error


def _table(state: PyTree) -> tuple[list[dict[str, Any]], list[bytes]]:
    """A row for each leaf, and its bytes."""
    rows, chunks, offset = [], [], 0
    for path, leaf in jax.tree_util.tree_flatten_with_path(state)[0]:
        chunk = raw_bytes(leaf)
        row: dict[str, Any] = {"path": "state" + jax.tree_util.keystr(path)}
        row |= {"dtype": str(leaf.dtype), "shape": list(leaf.shape)}
        row |= {"impl": str(jax.random.key_impl(leaf)) if is_key(leaf) else None}
        rows.append(row | {"offset": offset, "length": len(chunk)})
        chunks.append(chunk)
        offset += len(chunk)
    return rows, chunks


def _pack(words: dict[str, Any], state: PyTree, extra: dict[str, Any]) -> bytes:
    rows, chunks = _table(state)
    header = {
        "format": FORMAT,
        "schema": migrations.SCHEMA,
        "rmcvi": __version__,
        "jax": jax.__version__,
        **words,
        "extra": extra,
        "leaves": rows,
    }
    text = json.dumps(header).encode() + b"\n"
    first = MAGIC + b"%d %012d " % (FORMAT, len(text))
    total = len(first) + len(b"%015d\n" % 0) + len(text) + sum(map(len, chunks)) + CHECKSUM
    content = b"".join([first, b"%015d\n" % total, text, *chunks])
    return content + hashlib.sha256(content).digest()


def _unpack(path: Path, content: bytes) -> tuple[dict[str, Any], bytes]:
    """Header and leaves of a file that is whole and of our version."""
    first, newline, rest = content.partition(b"\n")
    if not content or not (content.startswith(MAGIC) or MAGIC.startswith(content)):
        what = "not an rmcvi checkpoint" + ("" if content else " (the file is empty)")
        raise CheckpointError(path, what, "Check the path; the file was left as it is.")
    # before the version: a flipped bit there is damage, too
    if hashlib.sha256(content[:-CHECKSUM]).digest() != content[-CHECKSUM:]:
        size, total = len(content), first.split(b" ")[-1]
        what = f"damaged: checksum differs over its {size} bytes"
        if not newline:
            what = f"truncated: got {size} bytes, expected a first line and more"
        elif len(total) < 20 and total.isdigit() and size < int(total):
            what = f"truncated: got {size} bytes, expected {int(total)}"
        raise CheckpointError(path, what, "Restore it from a copy, or start a new run.")
    try:
        version, length, _ = (int(number) for number in first.removeprefix(MAGIC).split(b" "))
    except ValueError:
        raise CheckpointError(path, "its first line is not ours", OTHERS) from None
    if version != FORMAT:
        what = f"written by format version {version}, this is {FORMAT}"
        raise CheckpointError(path, what, "Load it with the release of rmcvi that wrote it.")
    return _header(path, rest[: max(length, 0)]), rest[max(length, 0) : -CHECKSUM]


def _header(path: Path, text: bytes) -> dict[str, Any]:
    """What `_pack` wrote; its content is compared with a learner's later."""
    try:
        header = json.loads(text)
        kinds = {name: type(header[name]) for name in HEADER}
        impls = [row["impl"] for row in header["leaves"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise CheckpointError(path, "its header is not ours", OTHERS) from None
    known = all(isinstance(impl, str | None) for impl in impls)
    if kinds != HEADER or "state" not in header or not known:
        raise CheckpointError(path, "its header is not ours", OTHERS)
    return header


def _migrated(path: Path, header: dict[str, Any]) -> dict[str, Any]:
    """The header as this release would have written it."""
    schema = header.get("schema", 1)
    if type(schema) is not int or schema < 1:
        raise CheckpointError(path, "its header is not ours", OTHERS)
    if schema > migrations.SCHEMA:
        what = f"written with schema {schema}, this is {migrations.SCHEMA}"
        raise CheckpointError(path, what, "Load it with the release of rmcvi that wrote it.")
    try:
        new = {name: migrations.migrate(header[name], schema) for name in ("learner", "state")}
    except RecursionError:
        raise CheckpointError(path, "its header is not ours", OTHERS) from None
    return header | new | {"schema": schema}


def _restore(path: Path, row: dict[str, Any], like: Any, payload: bytes) -> Array:
    """A leaf; `row` is as that of `like`."""
    raw = np.asarray(jax.random.key_data(like) if row["impl"] else like)
    chunk = payload[row["offset"] : row["offset"] + row["length"]]
    if len(chunk) != raw.nbytes:
        raise CheckpointError(path, f"it ends within {row['path']}", OTHERS)
    data = np.frombuffer(chunk, raw.dtype.newbyteorder("<")).reshape(raw.shape).astype(raw.dtype)
    if raw.dtype == bool and not set(chunk) <= {0, 1}:
        raise CheckpointError(path, f"{row['path']} holds no truth values", OTHERS)
    _check_finite(path, row["path"], data, raw)
    # a copy: a donated state must not share memory with the bytes of the file
    array = jnp.array(data, copy=True)
    return jax.random.wrap_key_data(array, impl=row["impl"]) if row["impl"] else array


def _check_finite(path: Path, name: str, data: np.ndarray, fresh: Any) -> None:
    """NaN in what begins finite is a state that has been lost; elsewhere it means "not yet"."""
    if not jnp.issubdtype(data.dtype, jnp.inexact) or not np.isnan(data).any():
        return
    if not np.isnan(np.asarray(fresh)).any():
        what = f"its state is lost: {name} is not a number"
        raise CheckpointError(path, what, "Start a new run.")


def _accept(path: Path, header: dict[str, Any], lines: list[str]) -> None:
    if not lines:
        return
    remedy = "Build the learner as it was when the file was written, or start a new run elsewhere"
    if lines[0].startswith("precision"):
        remedy = "Set jax_enable_x64 as in the process that wrote the file"
    wrote, here = header["rmcvi"], __version__
    versions = "" if wrote == here else f" (rmcvi {wrote} wrote it, this is {here})"
    raise CheckpointError(path, f"configuration differs: {listed(lines)}", f"{remedy}{versions}.")


def difference(name: str, file: Any, here: Any) -> str:
    """In what a file differs, in one sentence."""
    if name == "standardiser" and None in (file, here):
        units = ["standardised columns", "columns in their own units"]
        old, new = (units[v is None] for v in (file, here))
        return f"its learner was given {old}, this one is given {new} (see `standardiser`)"
    return f"{name}: file has {file}, this has {here}"
