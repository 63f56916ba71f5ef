"""Regressors of function regression: fit z -> targets once per step, then evaluate.

Kernel ridge regression has all outputs on one kernel matrix, its dual solved once:

    k(z, w) = exp(-|z - w|^2 / (2 b^2)),   (K + ridge I) dual = targets,   f(z) = k(z, .) dual.

The bandwidth b is the median distance of pairs, then optionally refined by gradient steps on the
leave-one-out error, whose residuals are dual_i / (K + ridge I)^-1_ii.

The network, f(z) = s (W2 relu(W1 z + b1) + b2), is warm-started from the step before: least squares
on targets in units of their standard deviations s, by Adam on minibatches. Outside of the sample a
ReLU network grows without bound, and so would dV/dx: inputs are clipped to three standard
deviations.
"""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.scipy.linalg import cho_solve
from jaxtyping import Array, Float, Key, PyTree

from rmcvi.core.checks import check_int, check_real

REACH = 3.0
"""Inputs, in standard units, beyond which the network is held constant: it has seen few there."""


class AbstractRegressor(eqx.Module):
    """Inputs come standardised; a fit is a pytree of arrays of constant size."""

    @abc.abstractmethod
    def init(self, num: int, dim: int, outputs: int) -> PyTree:
        """The fit that predicts zero, for `num` points of length `dim` to come."""

    @abc.abstractmethod
    def fit(
        self,
        last: PyTree,
        z: Float[Array, "n dx"],
        targets: Float[Array, "n outputs"],
        key: Key[Array, ""],
    ) -> PyTree:
        """A fit to the targets; `last` is that of the step before."""

    @abc.abstractmethod
    def predict(self, fit: PyTree, z: Float[Array, "dx"], count: int) -> Float[Array, "{count}"]:
        """The first `count` outputs at one point."""


class KernelFit(eqx.Module):
    """Points, dual coefficients and bandwidth."""

    z: Float[Array, "n dx"]
    dual: Float[Array, "n outputs"]
    bandwidth: Float[Array, ""]


class KernelRidge(AbstractRegressor):
    """`refine` Adam steps of `rate` on log b after the median rule (0: the median itself)."""

    ridge: float = eqx.field(static=True)
    refine: int = eqx.field(static=True)
    rate: float = eqx.field(static=True)

    def __init__(self, ridge: float = 0.01, *, refine: int = 0, rate: float = 1e-2):
        """Defaults: no refinement."""
        self.ridge = check_real("ridge", ridge, 0.0)
        self.refine = check_int("refine", refine, 0)
        self.rate = check_real("rate", rate, 0.0)

    def init(self, num, dim, outputs):
        """A dual of zeros."""
        return KernelFit(jnp.zeros((num, dim)), jnp.zeros((num, outputs)), jnp.ones(()))

    def fit(self, last, z, targets, key):
        """One Cholesky factorisation, whatever the number of outputs."""
        del last, key
        bandwidth = median_distance(z)
        if self.refine:
            bandwidth = self._refined(z, targets, bandwidth)
        return KernelFit(z, cho_solve((self._factor(z, bandwidth), True), targets), bandwidth)

    def predict(self, fit, z, count):
        """k(z, .) dual."""
        return gaussian_kernel(fit.z, z, fit.bandwidth) @ fit.dual[:, :count]

    def _factor(self, z: Float[Array, "n dx"], bandwidth: Float[Array, ""]) -> Float[Array, "n n"]:
        gram = jax.vmap(lambda w: gaussian_kernel(z, w, bandwidth))(z)
        return jnp.linalg.cholesky(gram + self.ridge * jnp.eye(len(z), dtype=z.dtype))

    def _refined(
        self,
        z: Float[Array, "n dx"],
        targets: Float[Array, "n outputs"],
        bandwidth: Float[Array, ""],
    ) -> Float[Array, ""]:
        scale = jnp.std(targets, 0)
        unit = targets / jnp.where(scale > 0.0, scale, 1.0)[None]
        eye, adam = jnp.eye(len(z), dtype=z.dtype), optax.adam(self.rate)

        def loss(log_b):
            inverse = cho_solve((self._factor(z, jnp.exp(log_b)), True), eye)
            return jnp.mean((inverse @ unit / jnp.diagonal(inverse)[:, None]) ** 2)

        def descend(loop, _):
            log_b, memory = loop
            update, memory = adam.update(jax.grad(loss)(log_b), memory)
            return (log_b + update, memory), None

        start = jnp.log(bandwidth)
        loop, _ = jax.lax.scan(descend, (start, adam.init(start)), None, self.refine)
        return jnp.exp(loop[0])


def gaussian_kernel(
    z: Float[Array, "n dx"], w: Float[Array, "dx"], bandwidth: Float[Array, ""]
) -> Float[Array, "n"]:
    """k(z_i, w)."""
    return jnp.exp(-0.5 * jnp.sum(((z - w[None]) / bandwidth) ** 2, 1))


def median_distance(z: Float[Array, "n dx"]) -> Float[Array, ""]:
    """Median of |z_i - z_{i+1}|: n pairs of independent points tell it as well as all do."""
    squares = jnp.sum((z - jnp.roll(z, 1, 0)) ** 2, 1)
    return jnp.sqrt(jnp.maximum(jnp.median(squares), jnp.finfo(z.dtype).tiny))


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
