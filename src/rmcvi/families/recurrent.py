"""The paper's family: a recurrent cell, a readout and a potential, all tanh networks.

a_t = tanh(cell(a_{t-1}, y_t, mask, u_t)),  eta_t = readout(a_t),  eta~(x) = potential(x).
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from rmcvi.core.checks import check_int, check_real
from rmcvi.core.inputs import split_missing
from rmcvi.core.network import network
from rmcvi.core.positive import positive
from rmcvi.families.base import AbstractFamily, clip_spectral_norm, scaled_mlp
from rmcvi.families.exponential import DiagonalGaussian, FullGaussian, Natural


class RecurrentFamily(AbstractFamily[DiagonalGaussian | FullGaussian]):
    """Knows nothing of the model: it needs dimensions only, and learns everything else.

    With `spectral_norm` every weight of the cell is projected after each step, so that the carry
    forgets at least at that rate; with `bound` the potential's natural parameter stays in
    [-bound, bound].
    """

    cell: eqx.nn.MLP
    readout: eqx.nn.MLP
    net: eqx.nn.MLP
    start: Float[Array, "da"]
    distribution: DiagonalGaussian | FullGaussian
    spectral_norm: float | None = eqx.field(static=True)
    bound: float | None = eqx.field(static=True)

    def __init__(
        self,
        dim_state: int,
        dim_obs: int,
        *,
        key: Key[Array, ""],
        dim_input: int = 0,
        memory: int = 32,
        width: int = 64,
        depth: int = 1,
        diagonal: bool = True,
        spectral_norm: float | None = None,
        bound: float | None = None,
    ):
        """Draw the three networks.

        Args:
            dim_state: length of x.
            dim_obs: length of y.
            key: draws the weights.
            dim_input: length of u.
            memory: length of a_t.
            width: units of a hidden layer.
            depth: hidden layers.
            diagonal: independent coordinates of q.
            spectral_norm: bound of the cell's weights (default: none).
            bound: bound of the potential's natural parameter (default: none).
        """
        check_int("dim_state", dim_state)
        check_int("dim_obs", dim_obs)
        check_int("dim_input", dim_input, 0)
        check_int("memory", memory)
        check_int("width", width)
        check_int("depth", depth, 0)
        for name, value in {"spectral_norm": spectral_norm, "bound": bound}.items():
            if value is not None:
                check_real(name, value, 0.0)
        self.spectral_norm, self.bound = spectral_norm, bound
        self.distribution = DiagonalGaussian() if diagonal else FullGaussian()
        k1, k2, k3 = jax.random.split(key, 3)
        outputs = dim_state + (dim_state if diagonal else dim_state**2)
        size = memory + 2 * dim_obs + dim_input + 1
        cell = eqx.nn.MLP(size, memory, width, depth, jnp.tanh, key=k1)
        self.cell = cell if spectral_norm is None else _clip(cell, memory, spectral_norm)
        self.readout = scaled_mlp(memory, outputs, width, depth, 0.3, k2)
        self.net = scaled_mlp(dim_state, outputs, width, depth, 0.3, k3)
        self.start = jnp.zeros(memory)

    def initial_carry(self, model):
        """The learned a_{-1}."""
        del model
        return self.start

    def advance(self, model, carry, y, inputs):
        """One update of the cell; it sees zeros for missing values, and the mask."""
        del model
        filled, seen = split_missing(y)
        features = jnp.concatenate([carry, filled, seen, inputs.u, inputs.dt[None]])
        return jnp.tanh(network(self.cell, features))

    def marginal(self, carry):
        """Mean and precision from the readout."""
        mean, precision = self._split(network(self.readout, carry), 1e-2)
        if isinstance(self.distribution, DiagonalGaussian):
            return Natural(precision * mean, precision)
        return Natural(precision @ mean, precision)

    def potential(self, model, carry, x, inputs):
        """The network's natural parameter, bounded if asked."""
        del model, carry, inputs
        linear, precision = self._split(network(self.net, x), 0.0)
        if self.bound is None:
            return Natural(linear, precision)
        return Natural(_squash(linear, self.bound), _squash_precision(precision, self.bound))

    def _split(self, out: Array, floor: float) -> tuple[Array, Array]:
        """A vector and a positive precision (vector, or matrix by its Cholesky factor)."""
        if isinstance(self.distribution, DiagonalGaussian):
            mean, raw = jnp.split(out, 2)
            return mean, positive(raw, floor)
        dim = self.net.in_size
        mean, raw = out[:dim], out[dim:].reshape(dim, dim)
        chol = jnp.tril(raw, -1) + jnp.diag(positive(jnp.diagonal(raw), floor))
        return mean, chol @ chol.T

    def project(self) -> "RecurrentFamily":
        """Clip the spectral norm of every weight through which a_{t-1} passes."""
        if self.spectral_norm is None:
            return self
        clipped = _clip(self.cell, self.start.size, self.spectral_norm)
        return eqx.tree_at(lambda f: f.cell, self, clipped)


def _clip(cell: eqx.nn.MLP, memory: int, bound: float) -> eqx.nn.MLP:
    """The first layer's recurrent columns and all of the others, scaled down to `bound`."""
    weights = [layer.weight for layer in cell.layers]
    recurrent = clip_spectral_norm(weights[0][:, :memory], bound)
    first = jnp.concatenate([recurrent, weights[0][:, memory:]], 1)
    rest = [clip_spectral_norm(w, bound) for w in weights[1:]]
    return eqx.tree_at(lambda net: [v.weight for v in net.layers], cell, [first, *rest])


def _squash(v: Array, bound: float) -> Array:
    """Into (-bound, bound), nearly the identity near zero."""
    return bound * jnp.tanh(v / bound)


def _squash_precision(precision: Array, bound: float) -> Array:
    """A matrix is scaled by its trace as a whole: entry by entry it could lose its sign."""
    if precision.ndim == 1:
        return _squash(precision, bound)
    size = jnp.trace(precision) + jnp.finfo(precision.dtype).tiny
    return precision * (_squash(size, bound) / size)
