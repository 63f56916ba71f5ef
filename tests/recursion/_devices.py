"""Run with two devices: steps of RMCVI with its particles on one of them, and on both.

The state's arrays that have an entry per particle are sharded by it, all else is on both; the
recursion knows nothing of it.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import rmcvi
from rmcvi.recursion import RMCVI
from tests.recursion._runs import linear_family, linear_model, stream

PARTICLES, STEPS = 40, 4


def main() -> None:
    """Fails unless values and gradients are equal, up to rounding."""
    assert jax.device_count() == 2
    mesh = Mesh(np.array(jax.devices()), ("particles",))
    model, family = linear_model(), linear_family("innovation")
    recursion = RMCVI(PARTICLES, window=3, bptt=2)
    ys, key = stream(model, STEPS), jax.random.key(0)

    @eqx.filter_jit
    def step(state: Any, y: Any, t: Any) -> Any:
        key_t = jax.random.fold_in(key, t)
        state, grads, info = recursion.step(state, model, family, y, rmcvi.Inputs.of(), key_t)
        return state, eqx.filter(grads, eqx.is_array), info.elbo

    def placed(leaf: Any) -> Any:
        by = PartitionSpec("particles") if leaf.shape[:1] == (PARTICLES,) else PartitionSpec()
        return jax.device_put(leaf, NamedSharding(mesh, by))

    one = recursion.init(model, family)
    both = jax.tree.map(placed, one)
    assert any(not v.sharding.is_fully_replicated for v in jax.tree.leaves(both))
    for t, y in enumerate(ys):
        one, grads, elbo = step(one, y, jnp.asarray(t))
        both, grads_both, elbo_both = step(jax.tree.map(placed, both), y, jnp.asarray(t))
        pairs = zip(
            jax.tree.leaves((grads, elbo)), jax.tree.leaves((grads_both, elbo_both)), strict=True
        )
        for a, b in pairs:
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)
        assert np.isfinite(elbo) and any(np.abs(v).max() > 0 for v in jax.tree.leaves(grads))
    spread = {str(v.sharding.spec) for v in jax.tree.leaves(jax.tree.map(placed, both))}
    print(f"equal over {STEPS} steps; {sorted(spread)}")


if __name__ == "__main__":
    main()
