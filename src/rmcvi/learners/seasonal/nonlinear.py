"""A nonlinear path: tanh units explain what a component leaves over of the next row.

    z_i = mu_i + s_i v_i' h + noise,    h = tanh(A (x, 1)),
    x = (last row, last change, step of the season, harmonics),

with mu_i the component's mean and s_i its noise, all in its standard units. The rows v_i are
Bayesian regressions that forget, with one covariance for all columns: they have the same inputs,
and noise of size 1 in units of s. A follows the gradient of the log score, by Adam's rule.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from rmcvi.core import tree
from rmcvi.core.regression import narrowed
from rmcvi.learners.seasonal.columns import Columns
from rmcvi.learners.seasonal.component import Component
from rmcvi.learners.seasonal.design import Design
from rmcvi.learners.seasonal.predict import Row, RowPrediction
from rmcvi.learners.seasonal.settings import Settings
from rmcvi.learners.seasonal.units import LocationScale

BASE = 1
"""The component it adds to: the one in asinh units, with a season if there is any."""
NEXT = 2.0
"""It speaks, and learns, only of the next row: gaps are shorter than this."""
PRIOR = 0.1
"""Prior deviation of v: sixty-four units explain a share of the noise at first, not all of it."""
BOUND = 4.0
"""Inputs lie within this many standard deviations."""
FARTHEST = 3.0
"""Deviations by which it may differ from the component."""
INNER, BIAS, USUAL = 0.3, 0.5, 32
"""Deviations of the first A: units are neither linear nor steps for so many inputs, or fewer."""
RATE, FIRST, SECOND = 1e-3, 0.9, 0.999
"""Adam's step, and what its two moments keep."""
START, SMALL = 1e-8, 1e-6
"""Second moments at first, and what is added to their roots: the first steps are small ones."""


class Base(eqx.Module):
    """The component before a row, and what it predicts of it: in standard units, and of g(y)."""

    component: Component
    predicted: RowPrediction
    law: LocationScale

    @classmethod
    def of(cls, components: Component, predicted: RowPrediction, laws: LocationScale) -> "Base":
        """Of all components the one that the nonlinear path adds to."""
        return cls(*jax.tree.map(lambda v: v[BASE], (components, predicted, laws)))


class NonlinearPrediction(eqx.Module):
    """What it says of a row, and what learning from the row needs."""

    law: LocationScale
    inputs: Float[Array, "n"]
    units: Float[Array, "k"]
    white: Float[Array, "k"]
    offset: Float[Array, "dy"]
    """What it adds to the component's mean."""


class Nonlinear(eqx.Module):
    """Coefficients of the units, and the units."""

    weights: Float[Array, "dy k"]
    root: Float[Array, "k k"]
    inner: Float[Array, "k n"]
    first: Float[Array, "k n"]
    second: Float[Array, "k n"]

    @classmethod
    def unknown(cls, count: int, design: Design) -> "Nonlinear":
        """Nothing seen; the units are always the same ones, drawn once for all."""
        size, rng = 3 * design.size + 2 * design.harmonics, np.random.default_rng(0)
        scale = INNER * min(1.0, USUAL / size) ** 0.5
        inner = [scale * rng.normal(size=(count, size)), BIAS * rng.normal(size=(count, 1))]
        nothing = jnp.zeros((count, size + 1))
        return cls(
            weights=jnp.zeros((design.size, count)),
            root=PRIOR * jnp.eye(count),
            inner=jnp.asarray(np.concatenate(inner, 1), float),
            first=nothing,
            second=nothing + START,
        )

    def predict(
        self,
        base: Base,
        columns: Columns,
        row: Row,
        gap: Float[Array, "dy"],
        design: Design,
    ) -> NonlinearPrediction:
        """The next row; its deviation is NaN in columns that were not seen in the row before.

        Args:
            base: what it adds to.
            columns: what the components share.
            row: what is known of the row before it is seen.
            gap: rows since the last value of each column.
            design: sizes and places of the component's inputs.
        """
        component, law = base.component, base.law
        last, before = component.path.state.mean.reshape(-1, design.size)[:2]
        pairs = component.season(columns, row.phase, design)
        step = pairs[0][0] - pairs[0][1] if pairs else jnp.zeros_like(last)
        x = jnp.concatenate([last, last - before, step, design.season(row.phase)[0]])
        inputs = jnp.concatenate([jnp.clip(x, -BOUND, BOUND), jnp.ones(1)])
        units = jnp.tanh(self.inner @ inputs)
        most = FARTHEST * jnp.sqrt(base.predicted.variance)
        offset = jnp.sqrt(component.noise.variance) * (self.weights @ units)
        offset = jnp.clip(offset, -most, most)
        location = law.location + component.units.deviation * offset
        new = LocationScale(location, jnp.where(gap < NEXT, law.deviation, jnp.nan))
        return NonlinearPrediction(new, inputs, units, units @ self.root, offset)

    def learn(
        self,
        said: NonlinearPrediction,
        base: Base,
        z: Float[Array, "dy"],
        teaches: Bool[Array, "dy"],
        settings: Settings,
    ) -> "Nonlinear":
        """After a row.

        Args:
            said: of the row.
            base: what it added to.
            z: the row, in the component's standard units.
            teaches: columns whose value is neither missing nor stuck.
            settings: forgetting, degrees of freedom, and the gate beyond which nothing is learned.
        """
        nu, keep, variance = settings.degrees, settings.keep, base.predicted.variance
        error = jnp.where(teaches, z - base.predicted.mu - said.offset, 0.0)
        ratio = error**2 / variance
        taught = teaches & (ratio <= settings.gate**2)
        weight = jnp.where(taught, (nu + 1.0) / (nu + ratio), 0.0)
        noise = base.component.noise.variance
        free = variance / noise / jnp.where(taught, weight, 1.0)
        some = jnp.sum(taught)
        # One covariance for all: it narrows as by the average column.
        usual = jnp.sum(jnp.where(taught, free, 0.0)) / jnp.maximum(some, 1)
        most = jnp.full(self.root.shape[0], PRIOR)
        moved, root = narrowed(self.root, said.white, jnp.where(some > 0, usual, 1.0), keep, most)
        total = keep * free + jnp.sum(said.white**2)
        gain = jnp.where(taught, error / (jnp.sqrt(noise) * total), 0.0)
        # The gradient of the log score in the inputs of the units.
        slope = (error * weight * jnp.sqrt(noise) / variance) @ self.weights * (1.0 - said.units**2)
        gradient = slope[:, None] * said.inputs[None]
        first = FIRST * self.first + (1.0 - FIRST) * gradient
        second = SECOND * self.second + (1.0 - SECOND) * gradient**2
        new = Nonlinear(
            weights=self.weights + gain[:, None] * moved[None],
            root=root,
            inner=self.inner + RATE * first / (jnp.sqrt(second) + SMALL),
            first=first,
            second=second,
        )
        return tree.where(some > 0, new, self)
