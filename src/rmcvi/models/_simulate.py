"""Draw a stream from a model."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from rmcvi._core.checks import check_array, check_instance, check_int
from rmcvi._core.inputs import Inputs
from rmcvi.models._base import AbstractModel


def simulate(
    model: AbstractModel,
    key: Key[Array, ""],
    length: int,
    u: Float[Array, "T du"] | None = None,
    dt: Float[Array, "T"] | None = None,
) -> tuple[Float[Array, "T dx"], Float[Array, "T dy"]]:
    """States and observations of `length` steps; step t uses `fold_in(key, t)`."""
    check_instance("model", model, AbstractModel)
    check_int("length", length)
    u = jnp.zeros((length, model.dim_input)) if u is None else u
    dt = jnp.ones(length) if dt is None else dt
    check_array("u", u, (length, model.dim_input))
    check_array("dt", dt, (length,))

    def step(x_prev, per_step):
        t, inputs = per_step
        k0, k1, k2 = jax.random.split(jax.random.fold_in(key, t), 3)
        x = jnp.where(
            t == 0, model.initial_sample(k0), model.transition_sample(k1, x_prev, inputs)
        )
        return x, (x, model.emission_sample(k2, x, inputs))

    start = jnp.zeros(model.dim_state)
    steps = (jnp.arange(length), Inputs(u, dt))
    return jax.lax.scan(step, start, steps)[1]
