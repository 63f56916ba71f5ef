"""Step sizes: gamma_k = rate (1 + k / delay)^-power, but never below a floor.

With 1/2 < power <= 1 and no floor the steps satisfy Robbins and Monro's conditions; a floor keeps
the learner adapting to a world that changes.
"""

import jax.numpy as jnp
import optax

from rmcvi.core.checks import check_real


def robbins_monro(
    rate: float, *, power: float = 0.6, delay: float = 1000.0, floor: float = 0.0
) -> optax.Schedule:
    """A decreasing schedule for any optax optimiser.

    Args:
        rate: first step size.
        power: decay; above 1/2 and at most 1.
        delay: number of steps after which the decay begins to bite.
        floor: smallest step size, 0 for none.
    """
    check_real("rate", rate, 0.0)
    check_real("delay", delay, 0.0)
    if not 0.5 < power <= 1.0:
        raise ValueError(f"power: got {power}, expected a number above 0.5 and at most 1")
    if not 0.0 <= floor <= rate:
        raise ValueError(f"floor: got {floor}, expected a number between 0 and the rate {rate}")

    def schedule(count):
        return jnp.maximum(rate * (1.0 + count / delay) ** -power, floor)

    return schedule


def two_time_scales(
    model_rate: float = 1e-4,
    family_rate: float = 1e-3,
    *,
    power: float | None = None,
    delay: float = 1000.0,
    floor: float = 0.1,
) -> tuple[optax.GradientTransformation, optax.GradientTransformation]:
    """Adam for the model and a faster one for the family, in the order the learner takes them.

    Args:
        model_rate: first step size of the model.
        family_rate: that of the family.
        power: decay as in `robbins_monro`, for the family the slower of it and .6 (default: none).
        delay: number of steps after which the decay begins to bite.
        floor: smallest step size, as a share of the first.
    """
    if power is None:
        return optax.adam(model_rate), optax.adam(family_rate)
    slow = robbins_monro(model_rate, power=power, delay=delay, floor=floor * model_rate)
    fast = robbins_monro(family_rate, power=min(power, 0.6), delay=delay, floor=floor * family_rate)
    return optax.adam(slow), optax.adam(fast)
