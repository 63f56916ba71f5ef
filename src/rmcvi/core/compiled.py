"""Large programs that are traced and compiled once for all processes of a machine.

JAX's cache spares a second process the compiler, not the tracing: with many lanes that is ten
seconds of Python. Here the traced program itself is kept beside what was compiled, under a name
that is a digest of all that it was made from. Another version of the sources is another name.
"""

import hashlib
from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
from jax import export

from rmcvi.core.files import replace

CHECKSUM = 32
"""Bytes of it, before the program."""
HOUSE = Path(__file__).parents[1]
MADE_BY = ("jax", "jaxlib", "equinox", "numpy")
QUICK = ("0.10.0", "0.10.1")
"""Versions of jaxlib that know the older way to write loops, which compiles in half the time to
programs of the same speed; one that does not know an option refuses it."""
OPTIONS = {"xla_cpu_use_fusion_emitters": False} if version("jaxlib") in QUICK else {}

_made: dict[Any, Callable[..., Any]] = {}


def compiled(
    function: Callable[..., Any], fixed: Any, given: Sequence[Any], donate: tuple[int, ...] = ()
) -> Callable[..., Any]:
    """`partial(function, fixed)` as a program for arrays like those that are given.

    Args:
        function: of this package.
        fixed: its first argument, all that is no array; hashable, with `parts` that say what it is.
        given: the arguments after it.
        donate: which of them may be overwritten.
    """
    leaves, structure = jax.tree.flatten(tuple(given))
    kinds = tuple(jax.ShapeDtypeStruct(v.shape, v.dtype) for v in leaves)
    key = function, fixed, structure, kinds, jax.config.values["jax_enable_x64"]
    if key not in _made:
        call = partial(function, fixed)
        if _is_ours(fixed.parts):
            path = _path(function, fixed, (structure, kinds))
            call = _traced(call, path, jax.tree.unflatten(structure, kinds))
        _made[key] = jax.jit(call, donate_argnums=donate, compiler_options=OPTIONS)
    return _made[key]


def _traced(function: Callable[..., Any], path: Path | None, shapes: Any) -> Callable[..., Any]:
    """The function as it was traced: what is kept and what is not are compiled alike."""
    if path is not None and path.exists():
        checksum, kept = (whole := path.read_bytes())[:CHECKSUM], whole[CHECKSUM:]
        if hashlib.sha256(kept).digest() == checksum:
            return export.deserialize(bytearray(kept)).call
    try:
        traced = export.export(jax.jit(function))(*shapes)
    except ValueError:  # it calls something that is not promised to stay the same
        return function
    if path is not None:
        try:
            kept = bytes(traced.serialize())
            replace(path, hashlib.sha256(kept).digest() + kept)
        except (OSError, ImportError):
            pass  # no room, or no package to write it: the next process traces for itself
    return traced.call


def _path(function: Callable[..., Any], fixed: Any, kinds: Any) -> Path | None:
    """Where the program is kept; None if there is no cache."""
    folder = jax.config.values["jax_compilation_cache_dir"]
    if not folder:
        return None
    what = function.__module__, function.__qualname__, fixed.parts, kinds
    where = jax.default_backend(), jax.config.values["jax_enable_x64"]
    digest = hashlib.sha256(repr((what, where, _sources())).encode()).hexdigest()
    return Path(folder) / f"rmcvi-{digest[:32]}.traced"


@cache
def _sources() -> str:
    digest = hashlib.sha256(" ".join(map(version, MADE_BY)).encode())
    for path in sorted(HOUSE.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _is_ours(part: Any) -> bool:
    """Whether a value and the classes in it are plain or of this package, so that the sources and
    its `repr` say all of it.
    """
    if isinstance(part, jax.tree_util.PyTreeDef):
        node = part.node_data()
        ours = node is None or (_is_house(node[0]) and _is_ours(node[1]))
        return ours and all(map(_is_ours, part.children()))
    if isinstance(part, tuple | list):
        return _is_house(type(part)) and all(map(_is_ours, part))
    return part is None or isinstance(part, str | int | float | bool) or _is_missing(part)


def _is_house(kind: type) -> bool:
    return kind.__module__.split(".")[0] in ("rmcvi", "builtins")


def _is_missing(part: Any) -> bool:
    """What equinox writes for a field without a value."""
    return type(part).__module__.split(".")[0] == "equinox"
