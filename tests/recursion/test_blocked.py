"""Weights held in blocks of rows, and gradients taken in blocks of particles, change nothing."""

from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest

import rmcvi
from rmcvi.recursion import blocks
from tests.recursion._runs import follow, linear_family, linear_model, run, stream
from tests.recursion.test_windowed import SETTINGS, Plain, T


@pytest.mark.parametrize("entropy", ["closed", pytest.param("empirical", marks=pytest.mark.long)])
def test_blocks_of_rows_change_nothing(entropy: str) -> None:
    """Values, gradients and masses agree, with a missing row and pairs that are not Gaussian."""
    model = linear_model()
    family, ys = linear_family("innovation"), stream(model, T)
    settings: dict[str, Any] = SETTINGS | dict(entropy=entropy)
    plain: Any = model if entropy == "closed" else Plain(model)
    _, dense, told = run(rmcvi.RMCVI(**settings), plain, family, ys)
    blocked = rmcvi.RMCVI(**settings, backward=rmcvi.FullWeights(block=2))
    state, grads, infos = run(blocked, plain, family, ys)
    np.testing.assert_allclose(grads, dense, rtol=1e-9, atol=1e-10)
    for name in ("elbo", "ess", "mass", "mass_beyond"):
        np.testing.assert_allclose(getattr(infos, name), getattr(told, name), rtol=1e-9, atol=1e-12)
    shapes = [leaf.shape for leaf in jax.tree.leaves(state.memory)]
    assert not any(shape[-2:] == (4, 4) for shape in shapes)


@pytest.mark.parametrize("points", [2, 8])
def test_blocks_of_particles_change_nothing(points: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of a slot (2 of 4 particles) and several slots per block give the one gradient."""
    model = linear_model()
    family, ys = linear_family("innovation"), stream(model, T)
    recursion = rmcvi.RMCVI(**SETTINGS)
    _, whole, _ = run(recursion, model, family, ys)
    monkeypatch.setattr(blocks, "POINTS", points)
    assert blocks.block_shape(T, 4) == ((1, 2) if points == 2 else (2, 1))
    # another function, so that it is traced again, with the new number
    _, cut, _ = eqx.filter_jit(lambda ys: follow(recursion, model, family, ys))(ys)
    np.testing.assert_allclose(cut, whole, rtol=1e-10, atol=1e-10)


def test_blocks_of_particles_are_about_equal() -> None:
    """Never more than asked for, unless a number of particles has no divisor of that size."""
    assert blocks.block_shape(16, 20) == (16, 1)
    assert blocks.block_shape(16, 100) == (4, 1)
    assert blocks.block_shape(16, 500) == (1, 1)
    assert blocks.block_shape(16, 2000) == (1, 4)
    assert blocks.block_shape(16, 2003) == (1, 1)


def test_blocks_that_do_not_fit_are_refused() -> None:
    """At construction, in words."""
    with pytest.raises(ValueError, match="expected a divisor of num_particles = 10"):
        rmcvi.RMCVI(10, backward=rmcvi.FullWeights(block=3))
    with pytest.raises(ValueError, match="gradient='forward'"):
        rmcvi.RMCVI(10, gradient="forward", backward=rmcvi.FullWeights(block=5))
