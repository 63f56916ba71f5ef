"""Mixtures of Gaussians, sum_k w_k N(m_k, B_k B_k'), and how many components become few.

Components i and j become one with their common mean and covariance. What that costs is at most

    c_ij = {(w_i + w_j) log |P_ij| - w_i log |P_i| - w_j log |P_j|} / 2

nats of Kullback-Leibler divergence (Runnalls, 2007). Components that cost most to join are leaders,
found one after the other, and each of the rest joins the leader that costs it least.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from rmcvi.core.gaussian import root_of
from rmcvi.families.kalman import Moments
from rmcvi.recursion.gaussian_law import Law

EMPTY = 1e-30
"""Weight of a leader that nobody joins, not even itself: a copy of another that counts for none."""


class Mixture(eqx.Module):
    """Weights, which sum to one, and laws; also the derivative in each of p parameters."""

    weight: Float[Array, "*p k"]
    law: Law

    @classmethod
    def copies(cls, law: Law, num: int) -> "Mixture":
        """One law, `num` times."""
        many = jax.tree.map(lambda v: jnp.broadcast_to(v, (num, *v.shape)), law)
        return cls(jnp.full(num, 1.0 / num, law.mean.dtype), many)

    def moments(self, fresh: Bool[Array, ""]) -> Moments:
        """Mean and covariance of the whole; `fresh` as in `Moments`."""
        mean, covariance = _joint(self.weight, self.law.mean, _covariances(self.law.root))
        return Moments(mean, covariance, fresh.astype(mean.dtype))

    def draw(self, key: Key[Array, ""], num: int) -> Float[Array, "{num} dx"]:
        """Independent draws."""
        k1, k2 = jax.random.split(key)
        at = jax.random.categorical(k1, jnp.log(self.weight), shape=(num,))
        noise = jax.random.normal(k2, (num, self.law.mean.shape[1]), self.law.mean.dtype)
        return self.law.mean[at] + jnp.einsum("nij,nj->ni", self.law.root[at], noise)

    def joins(self, num: int) -> tuple[Int[Array, "{num}"], Int[Array, "k"]]:
        """`num` leaders, and the place among them of the one that each component joins."""
        weight, mean, covariance = self.weight, self.law.mean, _covariances(self.law.root)
        volume = jax.vmap(_log_volume)(covariance)

        def cost(i, at):
            """Of joining i and `at`."""
            pair = jnp.stack([i, at])
            total = jnp.sum(weight[pair])
            share = weight[pair] / jnp.maximum(total, EMPTY)
            merged = _joint(share, mean[pair], covariance[pair])[1]
            return total * jnp.maximum(_log_volume(merged) - share @ volume[pair], 0.0)

        def add(now, k):
            least, place, at = now
            costs = jax.vmap(cost, (0, None))(jnp.arange(weight.size), at)
            nearer = costs < least
            least, place = jnp.where(nearer, costs, least), jnp.where(nearer, k, place)
            return (least, place, jnp.argmax(least)), at

        far = jnp.full(weight.shape, jnp.inf, weight.dtype)
        start = (far, jnp.zeros(weight.shape, int), jnp.argmax(weight))
        (_, place, _), leaders = jax.lax.scan(add, start, jnp.arange(num))
        return leaders, place

    def joined(self, leaders: Int[Array, "few"], place: Int[Array, "k"]) -> "Mixture":
        """All that join a leader are one component, with the moments of all."""
        few, dtype = jnp.arange(leaders.size), self.weight.dtype
        itself = jnp.arange(self.weight.size)[None] == leaders[:, None]
        member = (place[None] == few[:, None]).astype(dtype)
        share = member * self.weight[None] + EMPTY * itself.astype(dtype)
        total = jnp.sum(share, 1)
        share = share / total[:, None]
        covariances = _covariances(self.law.root)
        mean, covariance = jax.vmap(_joint, (0, None, None))(share, self.law.mean, covariances)
        return Mixture(total, Law(mean, jax.vmap(root_of)(covariance)))


def _covariances(roots: Float[Array, "k dx dx"]) -> Float[Array, "k dx dx"]:
    return jnp.einsum("kij,klj->kil", roots, roots)


def _joint(
    weight: Float[Array, "k"], mean: Float[Array, "k dx"], covariance: Float[Array, "k dx dx"]
) -> tuple[Float[Array, "dx"], Float[Array, "dx dx"]]:
    """Mean and covariance of a mixture."""
    whole = weight @ mean
    away = mean - whole[None]
    return whole, jnp.tensordot(weight, covariance, 1) + (away.T * weight[None]) @ away


def _log_volume(covariance: Float[Array, "dx dx"]) -> Float[Array, ""]:
    """Log |P| / 2, also where P is singular up to rounding."""
    smallest = jnp.finfo(covariance.dtype).tiny
    return jnp.sum(jnp.log(jnp.maximum(jnp.diagonal(root_of(covariance)), smallest)))
