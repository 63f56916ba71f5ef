"""A neural regressor, f(z) = s (W2 relu(W1 z + b1) + b2), warm-started from the step before.

Least squares on targets in units of their standard deviations s, by Adam on minibatches. Outside of
the sample a ReLU network grows without bound, and so would dV/dx: inputs are clipped to three
standard deviations.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from rmcvi.baselines.regressor import AbstractRegressor
from rmcvi.core.checks import check_int, check_real

REACH = 3.0
"""Inputs, in standard units, beyond which the network is held constant: it has seen few there."""


class NetworkFit(eqx.Module):
    """One hidden layer, and the unit of each output."""

    w1: Float[Array, "hidden dx"]
    b1: Float[Array, "hidden"]
    w2: Float[Array, "outputs hidden"]
    b2: Float[Array, "outputs"]
    unit: Float[Array, "outputs"]

    def features(self, z: Float[Array, "dx"]) -> Float[Array, "hidden"]:
        """What the hidden layer tells."""
        return jax.nn.relu(self.w1 @ jnp.clip(z, -REACH, REACH) + self.b1)


class NetworkRegressor(AbstractRegressor):
    """`steps` Adam steps of `rate` per fit, each on `batch` of the points."""

    hidden: int = eqx.field(static=True)
    steps: int = eqx.field(static=True)
    rate: float = eqx.field(static=True)
    batch: int = eqx.field(static=True)

    def __init__(self, hidden: int = 100, *, steps: int = 200, rate: float = 3e-3, batch: int = 50):
        """A network of one hidden layer."""
        self.hidden = check_int("hidden", hidden)
        self.steps = check_int("steps", steps)
        self.rate = check_real("rate", rate, 0.0)
        self.batch = check_int("batch", batch)

    def init(self, num, dim, outputs):
        """Random features, nothing read from them; the same draw for everyone."""
        k1, k2 = jax.random.split(jax.random.key(0))
        return NetworkFit(
            jax.random.normal(k1, (self.hidden, dim)) / jnp.sqrt(dim),
            jax.random.normal(k2, (self.hidden,)),
            jnp.zeros((outputs, self.hidden)),
            jnp.zeros(outputs),
            jnp.ones(outputs),
        )

    def fit(self, last, z, targets, key):
        """Adam, its rate falling to zero."""
        scale = jnp.std(targets, 0)
        unit = jnp.where(scale > 0.0, scale, 1.0)
        rows = jax.random.randint(key, (self.steps, min(self.batch, len(z))), 0, len(z))
        adam = optax.adam(optax.cosine_decay_schedule(self.rate, self.steps))
        start = eqx.tree_at(lambda f: f.unit, last, unit)

        def loss(fit, z, wanted):
            got = jax.vmap(fit.features)(z) @ fit.w2.T + fit.b2[None]
            return jnp.mean((got - wanted / unit[None]) ** 2)

        def descend(loop, rows):
            fit, memory = loop
            gradient = jax.grad(loss)(fit, z[rows], targets[rows])
            update, memory = adam.update(gradient, memory)
            return (eqx.apply_updates(fit, update), memory), None

        return jax.lax.scan(descend, (start, adam.init(start)), rows)[0][0]

    def predict(self, fit, z, count):
        """In the units of the targets."""
        return fit.unit[:count] * (fit.w2[:count] @ fit.features(z) + fit.b2[:count])
