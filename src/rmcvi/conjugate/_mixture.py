"""Components mixed column by column, with weights that follow their recent log scores.

    log w_j <- keep log w_j + log p_j(y) (up to a constant),    p(y) = sum_j w_j p_j(y),
    p_j(y) = t_nu((g_j(y) - loc_j) / scale_j) g_j'(y) / scale_j

The interval is the weighted mean of the components' quantiles. A column not yet known is Student's
t around its last value.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from rmcvi._contract import Prediction
from rmcvi.conjugate._columns import Waiting
from rmcvi.conjugate._student import log_density, nodes, quantile, upper_tail
from rmcvi.conjugate._units import Located, bend, log_slope, unbend

KEEP, LEAST = 0.99, 0.01
"""Discount of old scores; share that is spread evenly."""
CAP = 30.0
"""Nats that one value may weigh."""
NODES = 15
SIMPLE = 4
"""Degrees of freedom while a column is not known."""


class Band(eqx.Module):
    """Mean and central interval, in the units of the data."""

    mean: Float[Array, "*rows dy"]
    low: Float[Array, "*rows dy"]
    high: Float[Array, "*rows dy"]


class Mixture(eqx.Module):
    """Discounted log scores."""

    scores: Float[Array, "m dy"]

    @property
    def weights(self) -> Float[Array, "m dy"]:
        """w, never quite 0."""
        return (1.0 - LEAST) * jax.nn.softmax(self.scores, 0) + LEAST / self.scores.shape[0]

    def add(self, logs: Float[Array, "m dy"], use: Bool[Array, "dy"]) -> "Mixture":
        """After log p_j(y), where it is of use."""
        logs = jnp.clip(logs, -CAP, CAP)
        scores = KEEP * self.scores + logs - jnp.max(logs, 0, keepdims=True)
        return Mixture(jnp.where(use[None], scores, self.scores))

    def log_densities(
        self,
        told: Located,
        y: Float[Array, "dy"],
        scale: Float[Array, "dy"],
        bent: Bool[Array, "m"],
        nu: int,
    ) -> tuple[Float[Array, "m dy"], Float[Array, "m dy"]]:
        """Each log p_j(y), and the errors in deviations."""
        errors = jax.vmap(lambda b: bend(y, scale, b))(bent) - told.location
        errors = errors / told.deviation
        slopes = jax.vmap(lambda b: log_slope(y, scale, b))(bent)
        return log_density(errors, nu) - jnp.log(told.deviation) + slopes, errors

    def band(
        self,
        told: Located,
        scale: Float[Array, "dy"],
        bent: Bool[Array, "m"],
        waiting: Waiting,
        nu: int,
        half: float,
    ) -> Band:
        """Mean (within the range seen, and a tenth more) and interval of `half` deviations."""
        back = jax.vmap(lambda g, b: unbend(g, scale, b))
        weights, location, deviation = self.weights, told.location, told.deviation

        def at(node):
            return jnp.sum(weights * back(location + node * deviation, bent), 0)

        mean = jnp.mean(jax.vmap(at)(jnp.asarray(nodes(NODES, nu), float)), 0)
        margin = 0.1 * (waiting.high - waiting.low)
        mean = jnp.clip(mean, waiting.low - margin, waiting.high + margin)
        return Band(mean, at(-half), at(half))


def simple_band(waiting: Waiting, level: float) -> Band:
    """The last value and its interval."""
    half = quantile(0.5 * (1.0 + level), SIMPLE) * waiting.deviation
    return Band(waiting.last, waiting.last - half, waiting.last + half)


def predict(
    mixture: Mixture,
    told: Located,
    y: Float[Array, "dy"],
    scale: Float[Array, "dy"],
    bent: Bool[Array, "m"],
    waiting: Waiting,
    simple: Bool[Array, "dy"],
    nu: int,
    level: float,
) -> tuple[Mixture, Prediction]:
    """The prediction, scored by y, and the mixture with y taken in."""
    seen, filled = ~jnp.isnan(y), jnp.where(jnp.isnan(y), waiting.last, y)
    band = mixture.band(told, scale, bent, waiting, nu, quantile(0.5 * (1.0 + level), nu))
    walk = simple_band(waiting, level)
    band = jax.tree.map(lambda a, b: jnp.where(simple, a, b), walk, band)
    logs, errors = mixture.log_densities(told, filled, scale, bent, nu)
    ratio = (filled - waiting.last) / waiting.deviation
    walk_log = log_density(ratio, SIMPLE) - jnp.log(waiting.deviation)
    mixed = jax.nn.logsumexp(logs + jnp.log(mixture.weights), 0)
    score = jnp.sum(jnp.where(seen, jnp.where(simple, walk_log, mixed), 0.0))
    tails = []
    for sign in (1.0, -1.0):
        tail = jnp.sum(mixture.weights * upper_tail(sign * errors, nu), 0)
        tails.append(jnp.where(simple, upper_tail(sign * ratio, SIMPLE), tail))
    p_value = jnp.minimum(1.0, 2.0 * jnp.minimum(*tails))
    prediction = Prediction(
        mean=band.mean,
        low=band.low,
        high=band.high,
        log_score=jnp.where(jnp.any(seen), score, jnp.nan),
        p_value=jnp.where(seen, p_value, jnp.nan),
    )
    return mixture.add(logs, seen & ~simple), prediction
