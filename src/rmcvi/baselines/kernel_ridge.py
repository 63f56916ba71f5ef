"""Kernel ridge regression with all outputs on one kernel matrix, its dual solved once.

    k(z, w) = exp(-|z - w|^2 / (2 b^2)),   (K + ridge I) dual = targets,   f(z) = k(z, .) dual.

The bandwidth b is the median distance of pairs, then optionally refined by gradient steps on the
leave-one-out error, whose residuals are dual_i / (K + ridge I)^-1_ii.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.scipy.linalg import cho_solve
from jaxtyping import Array, Float

from rmcvi.baselines.regressor import AbstractRegressor
from rmcvi.core.checks import check_int, check_real


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
