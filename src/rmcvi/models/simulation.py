"""Draw a stream from a model."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from rmcvi.core.array_checks import check_array, check_positive
from rmcvi.core.checks import check_instance, check_int
from rmcvi.core.inputs import Inputs
from rmcvi.models.base import AbstractModel


def simulate(
    model: AbstractModel,
    key: Key[Array, ""],
    length: int,
    u: Float[Array, "T du"] | None = None,
    dt: Float[Array, "T"] | None = None,
) -> tuple[Float[Array, "T dx"], Float[Array, "T dy"]]:
    """States and observations; step t uses `fold_in(key, t)`.

    Args:
        model: to draw from.
        key: for the draws.
        length: number of steps.
        u: exogenous inputs (default: none).
        dt: lengths of the steps (default: 1 each).
    """
    check_instance("model", model, AbstractModel)
    check_int("length", length)
    dtype = jax.eval_shape(model.initial_sample, key).dtype
    u = jnp.zeros((length, model.dim_input), dtype) if u is None else u
    dt = jnp.ones(length, dtype) if dt is None else dt
    check_array("u", u, (length, model.dim_input))
    check_array("dt", dt, (length,))
    check_positive("dt", dt)
    return _run(model, key, Inputs(u, dt))


@eqx.filter_jit
def _run(
    model: AbstractModel, key: Key[Array, ""], inputs: Inputs
) -> tuple[Float[Array, "T dx"], Float[Array, "T dy"]]:
    def step(x_prev, per_step):
        t, now = per_step
        k0, k1, k2 = jax.random.split(jax.random.fold_in(key, t), 3)
        x = jnp.where(t == 0, model.initial_sample(k0), model.transition_sample(k1, x_prev, now))
        return x, (x, model.emission_sample(k2, x, now))

    start = jnp.zeros_like(model.initial_sample(key))
    return jax.lax.scan(step, start, (jnp.arange(inputs.dt.size), inputs))[1]
