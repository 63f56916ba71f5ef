"""One file that holds a run: after `load`, the next updates are those of the uninterrupted run.

    first line: rmcvi checkpoint <format version> <bytes of header> <bytes of file>
    header: one line of JSON (versions, description of the learner, extra, table of leaves)
    leaves: raw bytes, little-endian
    SHA-256 of everything before it

The first line and the checksum keep this form in every format version. A file is replaced as a
whole: a kill at any moment leaves the old or the new one.
"""

import dataclasses
import enum
import functools
import glob
import hashlib
import json
import os
import sys
import uuid
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, PyTree

from rmcvi._contract import AbstractLearner

MAGIC = b"rmcvi checkpoint "
FORMAT = 1
CHECKSUM = 32
"""Bytes of a SHA-256."""
LISTED = 12
"""Differences that an error message lists; the rest is counted."""


class CheckpointError(ValueError):
    """A file that cannot be used: the message says which, why, and what to do."""

    def __init__(self, path: Path, what: str, remedy: str):
        super().__init__(f"{path}: {what}. {remedy}")


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
    keys = [leaf for leaf in jax.tree.leaves(state) if _is_key(leaf)]
    fresh = jax.eval_shape(learner.init, keys[0] if keys else jax.random.key(0))
    lines = _differences(_outline(state), _outline(fresh), "state")
    if lines:
        raise ValueError(f"state: got one that the learner could not load: {_listed(lines)}")
    if target.is_file():
        with open(target, "rb") as file:
            foreign = not MAGIC.startswith(file.read(len(MAGIC)))
        if foreign:
            what = "not an rmcvi checkpoint, so it is not overwritten"
            raise CheckpointError(target, what, "Save under another name.")
    _replace(target, _pack(learner, state, extra))


def load(path: str | os.PathLike[str], learner: AbstractLearner) -> tuple[PyTree, dict[str, Any]]:
    """Read the state and `extra` that `save` wrote, for a learner built with the same settings.

    Raises:
        CheckpointError: the file is missing, foreign, truncated, damaged, of another format
            version, or belongs to another configuration. The file is never touched.
    """
    target = Path(path).resolve()
    header, payload = _unpack(target, _read(target))
    _accept(target, header, _differences(header["learner"], _describe_learner(learner)))
    impl = next((row["impl"] for row in header["leaves"] if row["impl"]), None)
    try:
        key = jax.random.key(0, impl=impl)
    except ValueError:
        what = f"its random keys are of kind {impl}, which this JAX does not know"
        raise CheckpointError(target, what, "Load it with the JAX that wrote it.") from None
    expected = jax.eval_shape(learner.init, key)
    _accept(target, header, _differences(header["state"], _outline(expected), "state"))
    shapes, treedef = jax.tree.flatten(expected)
    rows = zip(header["leaves"], shapes, strict=True)
    leaves = [_restore(row, shape, payload) for row, shape in rows]
    return jax.tree.unflatten(treedef, leaves), header["extra"]


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


def _pack(learner: AbstractLearner, state: PyTree, extra: dict[str, Any]) -> bytes:
    rows, chunks, offset = [], [], 0
    for path, leaf in jax.tree_util.tree_flatten_with_path(state)[0]:
        chunk = _raw_bytes(leaf)
        row: dict[str, Any] = {"path": "state" + jax.tree_util.keystr(path)}
        row |= {"dtype": str(leaf.dtype), "shape": leaf.shape}
        row |= {"impl": str(jax.random.key_impl(leaf)) if _is_key(leaf) else None}
        rows.append(row | {"offset": offset, "length": len(chunk)})
        chunks.append(chunk)
        offset += len(chunk)
    header = {
        "format": FORMAT,
        "rmcvi": _version(),
        "jax": jax.__version__,
        "learner": _describe_learner(learner),
        "state": _outline(state),
        "extra": extra,
        "leaves": rows,
    }
    text = json.dumps(header).encode() + b"\n"
    first = MAGIC + b"%d %012d " % (FORMAT, len(text))
    total = len(first) + len(b"%015d\n" % 0) + len(text) + offset + CHECKSUM
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
        elif total.isdigit() and size < int(total):
            what = f"truncated: got {size} bytes, expected {int(total)}"
        raise CheckpointError(path, what, "Restore it from a copy, or start a new run.")
    version, length, _ = (int(number) for number in first.removeprefix(MAGIC).split(b" "))
    if version != FORMAT:
        what = f"written by format version {version}, this is {FORMAT}"
        raise CheckpointError(path, what, "Load it with the release of rmcvi that wrote it.")
    return json.loads(rest[:length]), rest[length:-CHECKSUM]


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _raw_bytes(leaf: Any) -> bytes:
    raw = np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)
    return raw.astype(raw.dtype.newbyteorder("<")).tobytes()


def _restore(row: dict[str, Any], shape: Any, payload: bytes) -> Array:
    raw = jax.eval_shape(jax.random.key_data, shape) if row["impl"] else shape
    little = np.dtype(raw.dtype).newbyteorder("<")
    data = np.frombuffer(payload, little, raw.size, row["offset"]).reshape(raw.shape)
    # a copy: a donated state must not share memory with the bytes of the file
    array = jnp.array(data.astype(raw.dtype), copy=True)
    return jax.random.wrap_key_data(array, impl=row["impl"]) if row["impl"] else array


def _describe_learner(learner: AbstractLearner) -> dict[str, Any]:
    """Trained arrays by their shape (the state holds their values), all others by their hash."""
    parts: dict[str, Any] = {"precision": str(jnp.zeros(()).dtype)}
    trainable = getattr(learner, "trainable", None)
    for field in dataclasses.fields(learner):
        value = getattr(learner, field.name)
        if trainable is not None and field.name in ("model", "family"):
            trained = eqx.filter(value, getattr(trainable, field.name))
            value = eqx.combine(jax.tree.map(lambda v: f"{_typed(v)} trained", trained), value)
        if field.name != "trainable":
            parts[field.name] = _describe(value)
    return parts


def _outline(state: PyTree) -> Any:
    """Classes, fields and shapes of a state (or of its shapes), optimisers included."""
    return _describe(jax.tree.map(_typed, state))


def _describe(value: Any) -> Any:
    match value:
        case enum.Enum():
            return f"{type(value).__qualname__}.{value.name}"
        case None | bool() | int() | float() | str():
            return value
        case jax.Array() | np.ndarray() | np.generic():
            digest = hashlib.sha256(_raw_bytes(value)).hexdigest()
            return f"{_typed(value)} frozen, sha256 {digest[:16]}"
        case optax.GradientTransformation():
            return "optimiser"  # functions; its state tells what it is
        case list() | tuple() if not hasattr(value, "_asdict"):
            return [_describe(v) for v in value]
        case dict():
            return {str(name): _describe(v) for name, v in value.items()}
        case functools.partial():
            fields = {"function": value.func, "args": value.args, "keywords": value.keywords}
        case _ if hasattr(value, "_asdict"):
            fields = value._asdict()
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = [field.name for field in dataclasses.fields(value)]
            fields = {name: getattr(value, name, None) for name in names}
        case _:
            return getattr(value, "__qualname__", type(value).__qualname__)
    return {"class": type(value).__qualname__} | _describe(fields)


def _typed(value: Any) -> str:
    return f"{value.dtype}[{','.join(map(str, value.shape))}]"


def _differences(file: Any, learner: Any, path: str = "") -> list[str]:
    """`path: file has A, learner has B`, entry by entry; another class is one entry."""
    file, learner = _entries(file), _entries(learner)
    nested = isinstance(file, dict) and isinstance(learner, dict)
    if not nested or file.get("class") != learner.get("class"):
        same = json.dumps(file) == json.dumps(learner)  # as text, so that NaN equals itself
        return [] if same else [f"{path}: file has {_brief(file)}, learner has {_brief(learner)}"]
    lines = []
    for name in file | learner:
        inner = f"{path}{name}" if not path or name.startswith("[") else f"{path}.{name}"
        lines += _differences(file.get(name, "nothing"), learner.get(name, "nothing"), inner)
    return lines


def _entries(value: Any) -> Any:
    return {f"[{i}]": v for i, v in enumerate(value)} if isinstance(value, list) else value


def _brief(value: Any) -> str:
    return value.get("class", f"{len(value)} entries") if isinstance(value, dict) else str(value)


def _listed(lines: list[str]) -> str:
    more = [f"and {len(lines) - LISTED} more"] if len(lines) > LISTED else []
    return "; ".join(lines[:LISTED] + more)


def _accept(path: Path, header: dict[str, Any], lines: list[str]) -> None:
    if not lines:
        return
    remedy = "Build the learner as it was when the file was written, or start a new run elsewhere"
    if lines[0].startswith("precision"):
        remedy = "Set jax_enable_x64 as in the process that wrote the file"
    wrote, here = header["rmcvi"], _version()
    versions = "" if wrote == here else f" (rmcvi {wrote} wrote it, this is {here})"
    raise CheckpointError(path, f"configuration differs: {_listed(lines)}", f"{remedy}{versions}.")


def _version() -> str:
    return sys.modules["rmcvi"].__version__


def _replace(path: Path, content: bytes) -> None:
    """Write beside `path`, then rename: the file under that name is always a whole one."""
    for stale in path.parent.glob(f".{glob.escape(path.name)}.????????.tmp"):
        stale.unlink(missing_ok=True)  # left by a process that was killed
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if sys.platform != "win32":  # the new name itself must survive a power cut
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
