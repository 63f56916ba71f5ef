"""Programs that outlive the process that traced them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rmcvi
from rmcvi.core import compiled


class Fixed(NamedTuple):
    """What a program is for."""

    parts: tuple[Any, ...]


class Mine(eqx.Module):
    """Somebody's own class."""


TRACED: list[Any] = []
"""Each time that Python was asked what the program is."""


def power(fixed: Fixed, x: Any, y: Any) -> Any:
    """A program."""
    TRACED.append(fixed)
    return jnp.sum(x ** fixed.parts[0]) + y[0]


def run(fixed: Fixed) -> float:
    """As in a process of its own."""
    compiled._made.clear()
    given = np.arange(3.0), [np.ones(())]
    return float(compiled.compiled(power, fixed, given)(*given))


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Path]:
    """An empty one."""
    before = jax.config.values["jax_compilation_cache_dir"]
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    TRACED.clear()
    yield tmp_path
    jax.config.update("jax_compilation_cache_dir", before)


def test_it_is_traced_once(cache: Path) -> None:
    """The next process reads what the first has traced; another setting is another program."""
    assert run(Fixed((2,))) == run(Fixed((2,))) == 6.0
    assert len(TRACED) == 1
    assert run(Fixed((3,))) == 10.0
    assert len(TRACED) == 2 and len(list(cache.glob("*.traced"))) == 2


@pytest.mark.parametrize("damage", [b"", b"\0" * 500, None])
def test_a_damaged_file_is_made_again(damage: bytes | None, cache: Path) -> None:
    """Whatever is in it."""
    run(Fixed((2,)))
    (path,) = cache.glob("*.traced")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2] if damage is None else damage)
    assert run(Fixed((2,))) == 6.0 and len(TRACED) == 2
    assert run(Fixed((2,))) == 6.0 and len(TRACED) == 2


def test_code_of_others_is_not_kept(cache: Path) -> None:
    """It may change, and its name does not say so."""

    theirs = jax.tree.structure(rmcvi.baselines.Persistence(1))
    for part in (jax.tree.structure(Mine()), lambda: 1, object()):
        assert run(Fixed((2, part))) == 6.0
    assert not list(cache.glob("*.traced"))
    assert run(Fixed((2, theirs))) == 6.0 and list(cache.glob("*.traced"))
