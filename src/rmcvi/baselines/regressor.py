"""What function regression asks of a regressor: fit z -> targets once per step, then evaluate."""

import abc

import equinox as eqx
from jaxtyping import Array, Float, Key, PyTree


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
