"""x_t = F x_{t-1} + B u_t + q_t,  y_t = G x_t + D u_t + r_t, all Gaussian; exact oracle of the zoo.

F is the transition over a usual step; over a step of length dt it is I + dt (F - I), with the noise
variance times dt (exact at dt = 1, Euler elsewhere, as for every model of the zoo).
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.core import Tracer
from jax.scipy.linalg import solve_triangular
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Key

from rmcvi.core.array_checks import as_real, check_array, check_positive
from rmcvi.core.checks import check_int, check_option
from rmcvi.core.gaussian import (
    LOG_2PI,
    covariance_of,
    log_volume,
    normal_log_prob,
    observed_cholesky,
    whiten,
)
from rmcvi.core.inputs import split_missing
from rmcvi.core.positive import positive, positive_scale, unconstrained, unconstrained_scale
from rmcvi.models.gaussian import AbstractGaussianModel, draw_normal
from rmcvi.models.linear_part import LinearPart, held_noise, held_rows, row_features

Matrix = Float[Array, "rows"] | Float[Array, "rows columns"]

PRESETS = {"campbell": (0.1, 0.25), "appendix": (0.1**0.5, 0.25**0.5), "text": (1.0, 1.0)}


class LinearGaussian(AbstractGaussianModel):
    """A linear model with Gaussian noise; vectors stand for diagonal matrices.

    Noise scales are standard deviations (a vector) or lower Cholesky factors (a matrix).
    """

    transition: Matrix
    emission: Matrix
    raw_transition_noise: Matrix
    raw_emission_noise: Matrix
    initial_mean: Float[Array, "dx"]
    raw_initial_noise: Float[Array, "dx"]
    state_input: Float[Array, "dx du"]
    obs_input: Float[Array, "dy du"]
    dim_state: int = eqx.field(static=True)
    dim_obs: int = eqx.field(static=True)

    def __init__(
        self,
        transition: ArrayLike,
        emission: ArrayLike,
        transition_noise: ArrayLike,
        emission_noise: ArrayLike,
        initial_mean: ArrayLike | None = None,
        initial_noise: ArrayLike | None = None,
        state_input: ArrayLike | None = None,
        obs_input: ArrayLike | None = None,
    ):
        """Build the model; a vector stands for a diagonal matrix.

        Args:
            transition: F.
            emission: G.
            transition_noise: scale of the state's noise: deviations, or a lower Cholesky factor.
            emission_noise: the same for the observation.
            initial_mean: of x_0 (default: 0).
            initial_noise: deviations of x_0 (default: 1).
            state_input: B (default: no inputs).
            obs_input: D (default: none).
        """
        self.transition = _matrix("transition", transition)
        self.emission = _matrix("emission", emission)
        dx, dy = self.transition.shape[0], self.emission.shape[0]
        self.dim_state, self.dim_obs = dx, dy
        check_array("transition", self.transition, (dx,) * self.transition.ndim)
        check_array("emission", self.emission, (dx,) if self.emission.ndim == 1 else (dy, dx))
        self.raw_transition_noise = _raw_scale("transition_noise", transition_noise, dx)
        self.raw_emission_noise = _raw_scale("emission_noise", emission_noise, dy)
        self.initial_mean = _vector(
            "initial_mean", 0.0 if initial_mean is None else initial_mean, dx
        )
        noise = _vector("initial_noise", 1.0 if initial_noise is None else initial_noise, dx)
        check_positive("initial_noise", noise)
        self.raw_initial_noise = unconstrained(noise)
        self.state_input, self.obs_input = _input_matrices(state_input, obs_input, dx, dy)

    @classmethod
    def preset(cls, name: str, dim: int, key: Key[Array, ""]) -> "LinearGaussian":
        """Diagonal F and G with entries U(.5, 1) and the noise of one reading of the paper.

        `campbell`: standard deviations .1 and .25; `appendix`: variances .1 and .25; `text`: 1 and
        1 (errata B1).
        """
        check_option("name", name, PRESETS)
        check_int("dim", dim)
        f, g = jax.random.uniform(key, (2, dim), minval=0.5, maxval=1.0)
        q, r = PRESETS[name]
        return cls(f, g, jnp.full(dim, q), jnp.full(dim, r), initial_noise=jnp.full(dim, q))

    @property
    def dim_input(self) -> int:
        """Length of `inputs.u`."""
        return self.state_input.shape[1]

    def parameters(self):
        """The constructor's arguments."""
        return {
            "transition": self.transition,
            "emission": self.emission,
            "transition_noise": positive_scale(self.raw_transition_noise),
            "emission_noise": positive_scale(self.raw_emission_noise),
            "initial_mean": self.initial_mean,
            "initial_noise": self.initial_scale(),
            "state_input": self.state_input,
            "obs_input": self.obs_input,
        }

    def initial_log_prob(self, x):
        """`log N(x; initial mean, diagonal)`."""
        return jnp.sum(normal_log_prob(x, self.initial_mean, self.initial_scale()))

    def initial_sample(self, key):
        """Draw x_0."""
        return draw_normal(key, self.initial_mean, self.initial_scale())

    def initial_scale(self) -> Float[Array, "dx"]:
        """Standard deviations of x_0."""
        return positive(self.raw_initial_noise)

    def initial_moments(self):
        """Mean of x_0 and its standard deviations."""
        return self.initial_mean, self.initial_scale()

    def diagonals(self, dt):
        """Of F over a step of length dt, and of G."""
        noises = self.raw_transition_noise, self.raw_emission_noise
        if any(part.ndim > 1 for part in (self.transition, self.emission, *noises)):
            return None
        return 1.0 + dt * (self.transition - 1.0), self.emission

    def transition_mean(self, x_prev, inputs):
        """`x + dt (F x + B u - x)`."""
        drift = _apply(self.transition, x_prev) + self.state_input @ inputs.u - x_prev
        return x_prev + inputs.dt * drift

    def transition_scale(self, inputs):
        """`S sqrt(dt)`."""
        return positive_scale(self.raw_transition_noise) * jnp.sqrt(inputs.dt)

    def transition_jacobian(self, x_prev, inputs):
        """`I + dt (F - I)`."""
        eye = jnp.eye(x_prev.size, dtype=x_prev.dtype)
        return eye + inputs.dt * (_dense(self.transition) - eye)

    def linear_transition(self):
        """F, B and the noise; None if F is diagonal and the noise is not."""
        shared = self.transition.ndim == 2
        if not shared and self.raw_transition_noise.ndim == 2:
            return None
        rows = (self.transition, self.state_input)
        return LinearPart(
            features=lambda x, inputs: inputs.dt * row_features(self.transition, x, inputs, shared),
            offset=lambda x, inputs: (1.0 - inputs.dt) * x,
            coefficients=held_rows(rows, shared, lambda m: (m.transition, m.state_input)),
            covariance=held_noise(
                self.raw_transition_noise, shared, lambda m: (m.raw_transition_noise,)
            ),
        )

    def linear_emission(self):
        """G, D and the noise; None if G is diagonal and the noise is not."""
        shared = self.raw_emission_noise.ndim == 2
        if shared and self.emission.ndim == 1:
            return None
        rows = (self.emission, self.obs_input)
        return LinearPart(
            features=lambda x, inputs: row_features(self.emission, x, inputs, shared),
            offset=lambda x, inputs: jnp.zeros(self.dim_obs, x.dtype),
            coefficients=held_rows(rows, shared, lambda m: (m.emission, m.obs_input)),
            covariance=held_noise(
                self.raw_emission_noise, shared, lambda m: (m.raw_emission_noise,)
            ),
        )

    def emission_mean(self, x, inputs):
        """`G x + D u`."""
        return _apply(self.emission, x) + self.obs_input @ inputs.u

    def emission_scale(self, x, inputs):
        """Marginal standard deviations of the emission noise."""
        del x, inputs
        scale = positive_scale(self.raw_emission_noise)
        return scale if scale.ndim == 1 else jnp.sqrt(jnp.sum(scale**2, 1))

    def emission_log_prob(self, x, y, inputs):
        """`log N(y; G x + D u, R)`, coordinate by coordinate given the ones before."""
        scale, residual = positive_scale(self.raw_emission_noise), y - self.emission_mean(x, inputs)
        white = whiten(scale, residual[None])[0]
        diagonal = scale if scale.ndim == 1 else jnp.diagonal(scale)
        return -0.5 * white**2 - jnp.log(diagonal) - 0.5 * LOG_2PI

    def emission_sample(self, key, x, inputs):
        """Draw y given x."""
        scale = positive_scale(self.raw_emission_noise)
        noise = jax.random.normal(key, (self.dim_obs,), x.dtype)
        return self.emission_mean(x, inputs) + _apply(scale, noise)

    def observed_log_prob(self, x, y, inputs):
        """Correlated noise is marginalised to the observed coordinates."""
        filled, seen = split_missing(y)
        if self.raw_emission_noise.ndim == 1:
            return jnp.dot(seen, self.emission_log_prob(x, filled, inputs))
        chol = self._observed_noise(seen)
        white = solve_triangular(chol, seen * (filled - self.emission_mean(x, inputs)), lower=True)
        missing = self.dim_obs - jnp.sum(seen)
        return -0.5 * white @ white - log_volume(chol) + 0.5 * LOG_2PI * missing

    def emission_information(self, x, seen, inputs):
        """Rows of R^-1/2 G over the observed coordinates."""
        del inputs
        rows = seen[:, None] * _dense(self.emission)
        if self.raw_emission_noise.ndim == 1:
            return rows / positive_scale(self.raw_emission_noise)[:, None]
        del x
        return solve_triangular(self._observed_noise(seen), rows, lower=True)

    def _observed_noise(self, seen: Float[Array, "dy"]) -> Float[Array, "dy dy"]:
        """Cholesky factor of R with the missing coordinates replaced by independent unit noise."""
        return observed_cholesky(covariance_of(positive_scale(self.raw_emission_noise)), seen > 0.0)


def _matrix(name: str, value: ArrayLike) -> Array:
    array = as_real(name, value)
    if array.ndim not in (1, 2):
        raise ValueError(f"{name}: got {array.ndim} axes, expected a vector or a matrix")
    return array


def _input_matrices(
    state: ArrayLike | None, obs: ArrayLike | None, dx: int, dy: int
) -> tuple[Array, Array]:
    """B and D with as many columns as each other; one that is not given is zero."""
    given, du = {}, None
    for name, value, rows in (("state_input", state, dx), ("obs_input", obs, dy)):
        if value is not None:
            given[name] = as_real(name, value)
            check_array(name, given[name], (rows, du))
            du = given[name].shape[1]
    b, d = (jnp.zeros((rows, du or 0)) for rows in (dx, dy))
    return given.get("state_input", b), given.get("obs_input", d)


def _vector(name: str, value: ArrayLike, dim: int) -> Array:
    array = as_real(name, value)
    array = jnp.full(dim, array) if array.ndim == 0 else array
    check_array(name, array, (dim,))
    return array


def _raw_scale(name: str, value: ArrayLike, dim: int) -> Array:
    factor = as_real(name, value)
    if factor.ndim < 2:
        scale = _vector(name, factor, dim)
        check_positive(name, scale)
        return unconstrained(scale)
    check_array(name, factor, (dim, dim))
    check_positive(f"diagonal of {name}", jnp.diagonal(factor))
    if not isinstance(factor, Tracer) and bool(jnp.any(jnp.triu(factor, 1) != 0.0)):
        raise ValueError(f"{name}: got {factor}, expected a lower Cholesky factor")
    return unconstrained_scale(factor)


def _apply(matrix: Array, x: Array) -> Array:
    return matrix * x if matrix.ndim == 1 else matrix @ x


def _dense(matrix: Array) -> Array:
    return jnp.diag(matrix) if matrix.ndim == 1 else matrix
