"""The paper's family: spectral projection, forgetting, bounded potentials."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rmcvi import Inputs
from rmcvi.families import RecurrentFamily
from rmcvi.families.base import clip_spectral_norm
from tests.families.blank import blank

KEY = jax.random.key(0)


def _build(**options) -> RecurrentFamily:
    return RecurrentFamily(2, 3, key=KEY, dim_input=1, memory=5, width=6, depth=2, **options)


def _family(**options) -> RecurrentFamily:
    """With random parameters, not projected."""
    return blank(lambda: _build(**options), 0.3)


def _scaled(family: RecurrentFamily, factor: float) -> RecurrentFamily:
    weights = [factor * layer.weight for layer in family.cell.layers]
    return eqx.tree_at(lambda f: [v.weight for v in f.cell.layers], family, weights)


def _norms(family: RecurrentFamily) -> list[float]:
    """Spectral norms of the blocks through which the memory passes."""
    first, *rest = (np.asarray(layer.weight) for layer in family.cell.layers)
    return [float(np.linalg.norm(w, 2)) for w in (first[:, :5], *rest)]


def test_projection_never_scales_up():
    """Errata B13."""
    small = _scaled(_family(spectral_norm=0.9), 0.01)
    after = small.project()
    for a, b in zip(jax.tree.leaves(small), jax.tree.leaves(after), strict=True):
        np.testing.assert_array_equal(a, b)


def test_projection_bounds_the_norm_and_keeps_the_direction():
    big = _scaled(_family(spectral_norm=0.9), 40.0)
    after = big.project()
    assert min(_norms(big)) > 0.9
    np.testing.assert_allclose(_norms(after), 0.9, rtol=1e-12)
    before, now = (np.asarray(f.cell.layers[0].weight) for f in (big, after))
    np.testing.assert_array_equal(before[:, 5:], now[:, 5:])
    np.testing.assert_allclose(now[:, :5] / before[:, :5], now[0, 0] / before[0, 0], rtol=1e-12)


def test_projection_is_idempotent_and_holds_from_the_start():
    family = eqx.filter_jit(_build)(spectral_norm=0.3)
    np.testing.assert_allclose(_norms(family), 0.3, rtol=1e-12)
    np.testing.assert_allclose(_norms(family.project()), 0.3, rtol=1e-12)


def test_without_a_bound_there_is_no_projection():
    family = _scaled(_family(), 40.0)
    assert family.project() is family


def test_clipping_zero_gives_zero():
    np.testing.assert_array_equal(clip_spectral_norm(jnp.zeros((2, 3)), 0.5), np.zeros((2, 3)))


def test_the_carry_forgets_its_start():
    """Three layers of norm .9: two carries approach by .9^3 or more at each step."""
    family = _scaled(_family(spectral_norm=0.9), 40.0).project()
    ys = jnp.asarray(np.random.default_rng(0).normal(size=(30, 3)))
    inputs = Inputs.of(jnp.ones(1), dim=1)

    @eqx.filter_jit
    def gaps(family: RecurrentFamily, one, other):
        def step(pair, y):
            new = tuple(family.advance(None, carry, y, inputs) for carry in pair)
            return new, jnp.linalg.norm(new[0] - new[1])

        return jax.lax.scan(step, (one, other), ys)[1]

    start = jnp.ones(5)
    gap = np.asarray(gaps(family, start, -start))
    sizes = np.append(2.0 * 5**0.5, gap)
    np.testing.assert_array_less(sizes[1:], 0.9**3 * sizes[:-1] * (1 + 1e-9) + 1e-300)
    assert gap[0] > 0.0 and gap[-1] < 1e-3


@pytest.mark.parametrize("diagonal", [True, False])
def test_a_bounded_potential_is_bounded_and_positive(diagonal):
    """Networks blown up until tanh saturates, points far out: still an admissible parameter."""
    family = _family(diagonal=diagonal, bound=1.5)
    weights = [30.0 * layer.weight for layer in family.net.layers]
    family = eqx.tree_at(lambda f: [v.weight for v in f.net.layers], family, weights)
    xs = 10.0 * jax.random.normal(jax.random.key(1), (300, 2))

    @eqx.filter_jit
    def potentials(family: RecurrentFamily):
        inputs = Inputs.of(dim=1)
        return jax.vmap(lambda x: family.potential(None, family.start, x, inputs))(xs)

    eta = potentials(family)
    assert float(jnp.max(jnp.abs(eta.linear))) <= 1.5
    assert float(jnp.max(jnp.abs(eta.precision))) <= 1.5 * (1 + 1e-12)
    assert float(jnp.max(jnp.abs(eta.linear))) > 1.0
    lowest = jnp.min(eta.precision) if diagonal else jnp.min(jnp.linalg.eigvalsh(eta.precision))
    assert float(lowest) >= -1e-12
    assert float(jnp.max(jnp.abs(eta.precision))) > 1.0


def test_a_loose_bound_changes_nothing():
    near, free = _family(diagonal=False, bound=1e6), _family(diagonal=False)
    x, inputs = jnp.array([0.3, -0.4]), Inputs.of(dim=1)
    ours, expected = (f.potential(None, f.start, x, inputs) for f in (near, free))
    np.testing.assert_allclose(ours.linear, expected.linear, rtol=1e-9)
    np.testing.assert_allclose(ours.precision, expected.precision, rtol=1e-9)
