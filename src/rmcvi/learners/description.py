"""A learner and a state in plain words and numbers, and where two of these differ."""

import dataclasses
import enum
import functools
import hashlib
import json
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import PyTree

from rmcvi.contract import AbstractLearner

LISTED = 12
"""Differences that an error message lists; the rest is counted."""


def is_key(leaf: Any) -> bool:
    """Whether a leaf is a random key."""
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def raw_bytes(leaf: Any) -> bytes:
    """A leaf as it is written, little-endian."""
    raw = np.asarray(jax.random.key_data(leaf) if is_key(leaf) else leaf)
    return raw.astype(raw.dtype.newbyteorder("<")).tobytes()


def describe_learner(learner: AbstractLearner) -> dict[str, Any]:
    """Trained arrays by their shape (the state holds their values), all others by their hash."""
    marks = jax.tree.map(lambda v: f"{_typed(v)} trained", learner.trained())
    marked = eqx.combine(marks, learner)
    # Filters are functions; what they pick is marked.
    names = [f.name for f in dataclasses.fields(learner) if f.name != "trainable"]
    parts = {name: _describe(getattr(marked, name)) for name in names}
    return {"precision": str(jnp.zeros(()).dtype)} | parts


def outline(state: PyTree) -> Any:
    """Classes, fields and shapes of a state (or of its shapes), optimisers included."""
    return _describe(jax.tree.map(_typed, state))


def _describe(value: Any) -> Any:
    match value:
        case enum.Enum():
            return f"{type(value).__qualname__}.{value.name}"
        case None | bool() | int() | float() | str():
            return value
        case jax.Array() | np.ndarray() | np.generic():
            digest = hashlib.sha256(raw_bytes(value)).hexdigest()
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


def differences(file: Any, here: Any, path: str = "") -> list[str]:
    """`path: file has A, learner has B`, entry by entry; another class is one entry."""
    file, here = _entries(file), _entries(here)
    nested = isinstance(file, dict) and isinstance(here, dict)
    if not nested or file.get("class") != here.get("class"):
        same = json.dumps(file) == json.dumps(here)  # as text, so that NaN equals itself
        return [] if same else [f"{path}: file has {_brief(file)}, learner has {_brief(here)}"]
    lines = []
    for name in file | here:
        inner = f"{path}{name}" if not path or name.startswith("[") else f"{path}.{name}"
        lines += differences(file.get(name, "nothing"), here.get(name, "nothing"), inner)
    return lines


def _entries(value: Any) -> Any:
    return {f"[{i}]": v for i, v in enumerate(value)} if isinstance(value, list) else value


def _brief(value: Any) -> str:
    return str(value.get("class", f"{len(value)} entries") if isinstance(value, dict) else value)


def listed(lines: list[str]) -> str:
    """Differences as one sentence; of many the first."""
    more = [f"and {len(lines) - LISTED} more"] if len(lines) > LISTED else []
    return "; ".join(lines[:LISTED] + more)
