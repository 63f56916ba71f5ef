"""Large programs that are traced and compiled once for all processes of a machine.

JAX's cache spares a second process the compiler, not the tracing: with many lanes that is ten
seconds of Python. Here the traced program itself is kept beside what was compiled, under a name
that is a digest of all that it was made from. Another version of the sources is another name.

A program may be asked for as one piece: a CPU then goes through one function instead of starting
some 400 small operations for each row, and needs a quarter of the time; the compiler, which has a
large function before it, takes longer. What is called in such a function may call no library and
sort nothing. Its numbers differ from the usual ones in the last digits.
"""

import hashlib
from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax import export
from jax.experimental.xla_metadata import set_xla_metadata

from rmcvi.core.files import replace

CHECKSUM = 32
"""Bytes of it, before the program."""
HOUSE = Path(__file__).parents[1]
MADE_BY = ("jax", "jaxlib", "equinox", "numpy")
QUICK = ("0.10.0", "0.10.1")
"""Versions of jaxlib that know the older way to write loops, which compiles in half the time to
programs of the same speed; one that does not know an option refuses it."""
OPTIONS = {"xla_cpu_use_fusion_emitters": False} if version("jaxlib") in QUICK else {}
WHOLE = OPTIONS | {"xla_cpu_experimental_ynn_fusion_type": ""}
"""Options of a program in one piece: small products are its own, not a library's."""
MARKS = {"xla_cpu_small_call": "true", "inlineable": "false"}
"""What the compiler itself writes on a small loop that it makes one function of."""
OUTSIDE = ("custom_call", "stablehlo.sort", "stablehlo.fft", "chlo.top_k", "stablehlo.rng")
"""Operations that cannot be in a piece."""

_made: dict[Any, Callable[..., Any]] = {}


def compiled(
    function: Callable[..., Any],
    fixed: Any,
    given: Sequence[Any],
    donate: tuple[int, ...] = (),
    *,
    whole: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """`partial(function, fixed)` as a program for arrays like those that are given.

    Args:
        function: of this package.
        fixed: its first argument, all that is no array; hashable, with `parts` that say what it is.
        given: the arguments after it.
        donate: which of them may be overwritten.
        whole: what is compiled instead, as one piece, if that can be; of the same results.
    """
    leaves, structure = jax.tree.flatten(tuple(given))
    kinds = tuple(jax.ShapeDtypeStruct(v.shape, v.dtype) for v in leaves)
    if version("jaxlib") not in QUICK or jax.default_backend() != "cpu":
        whole = None
    key = function, fixed, structure, kinds, jax.config.values["jax_enable_x64"], whole
    if key not in _made:
        call, ours = partial(function, fixed), _is_ours(fixed.parts)
        shapes = jax.tree.unflatten(structure, kinds)
        piece = _piece(whole, fixed, shapes) if whole and ours else None
        if ours and piece is None:
            traced = _traced(call, _path(function, fixed, (structure, kinds)), shapes)
            call = call if traced is None else traced.call
        options: dict[str, str | bool] = dict(OPTIONS if piece is None else WHOLE)
        # Compiled here, ahead and once, for these kinds.
        lowered = jax.jit(piece or call, donate_argnums=donate).lower(*shapes)
        _made[key] = lowered.compile(compiler_options=options)
    return _made[key]


def _piece(function: Callable[..., Any], fixed: Any, shapes: Any) -> Callable[..., Any] | None:
    """A call that the compiler makes one function of; None if there is something in it that cannot
    be there.
    """
    call, (kinds, structure) = partial(function, fixed), jax.tree.flatten(shapes)

    def inner(*held: Any) -> Any:
        # The compiler looks for a place of each argument and ends the process where there is none:
        # those of no numbers stay outside, and of others a number is a result, since what
        # nothing else needs is simplified away.
        rest = iter(held)
        whole = [next(rest) if v.size else jnp.zeros(v.shape, v.dtype) for v in kinds]
        return call(*jax.tree.unflatten(structure, whole)), [v.ravel()[0] for v in held]

    path = _path(function, fixed, (structure, tuple(kinds), "whole"))
    traced = _traced(inner, path, _held(kinds))
    if traced is None or any(word in traced.mlir_module() for word in OUTSIDE):
        return None

    def outer(*given: Any) -> Any:
        made = traced.call(*_held(jax.tree.leaves(given)))
        return jax.tree.map(lambda v: set_xla_metadata(v, **MARKS), made)[0]

    return outer


def _held(leaves: Sequence[Any]) -> list[Any]:
    """Those that hold numbers."""
    return [v for v in leaves if v.size]


def _traced(function: Callable[..., Any], path: Path | None, shapes: Any) -> export.Exported | None:
    """The function as it was traced: what is kept and what is not are compiled alike."""
    if path is not None and path.exists():
        checksum, kept = (whole := path.read_bytes())[:CHECKSUM], whole[CHECKSUM:]
        if hashlib.sha256(kept).digest() == checksum:
            return export.deserialize(bytearray(kept))
    try:
        traced = export.export(jax.jit(function))(*shapes)
    except ValueError:  # it calls something that is not promised to stay the same
        return None
    if path is not None:
        try:
            kept = bytes(traced.serialize())
            replace(path, hashlib.sha256(kept).digest() + kept)
        except (OSError, ImportError):
            pass  # no room, or no package to write it: the next process traces for itself
    return traced


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
