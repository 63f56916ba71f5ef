"""The ideal algorithm (paper, Algorithm 1) where it can be run: linear-Gaussian model and kernels.

Proposition 1 moves a function h_t. Here it is a quadratic form, so three arrays hold it:

    h_t(x) = -x' A_t x / 2 + b_t' x + c_t.

Let q_{t-1|t}(x, .) = N(K x + k, S) and log m(v, x) = log N(x; J v + d, Q). An expectation under the
kernel is a value at its mean, less half of a trace:

    E[h_{t-1}(X) | x]  = h_{t-1}(K x + k) - tr(A_{t-1} S) / 2
    E[log m(X, x) | x] = log N((I - J K) x; J k + d, Q) - tr(J' Q^-1 J S) / 2
    h_0(x) = log chi(x) + log g_0(x)
    h_t(x) = E[h_{t-1}(X) + log m(X, x) | x] + log g_t(x) + Entropy(S)

and each summand is a quadratic form again. With q_t = N(m_t, P_t) the ELBO is

    L_t = h_t(m_t) - tr(A_t P_t) / 2 + Entropy(P_t).

No step samples or truncates, so `jax.grad` of `ideal_elbo` is the gradient that RMCVI estimates.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from rmcvi.core import tree
from rmcvi.core.array_checks import check_array, check_positive
from rmcvi.core.checks import check_instance
from rmcvi.core.gaussian import log_volume, whiten
from rmcvi.core.inputs import Inputs, split_missing
from rmcvi.families import AbstractFamily, LinearGaussianFamily, Natural
from rmcvi.models import LinearGaussian


class Quadratic(eqx.Module):
    """x -> -x' A x / 2 + b' x + c."""

    a: Float[Array, "dx dx"]
    b: Float[Array, "dx"]
    c: Float[Array, ""]

    def __call__(self, x: Float[Array, "dx"]) -> Float[Array, ""]:
        """The value at x."""
        return -0.5 * x @ self.a @ x + self.b @ x + self.c

    def expect(self, mean: Float[Array, "dx"], covariance: Float[Array, "dx dx"]):
        """The mean of the form under a law with these two moments."""
        return self(mean) - 0.5 * jnp.vdot(self.a, covariance)

    def after(self, matrix: Float[Array, "dx dx"], shift: Float[Array, "dx"]) -> "Quadratic":
        """The form of x -> self(matrix x + shift)."""
        slope = self.b - self.a @ shift
        return Quadratic(matrix.T @ self.a @ matrix, matrix.T @ slope, self(shift))


class Kernel(eqx.Module):
    """q_{t-1|t}(x, .) = N(K x + k, S), and its entropy, which does not depend on x."""

    matrix: Float[Array, "dx dx"]
    shift: Float[Array, "dx"]
    covariance: Float[Array, "dx dx"]
    entropy: Float[Array, ""]


def ideal_elbo(
    model: LinearGaussian,
    family: AbstractFamily,
    ys: Float[Array, "T dy"],
    u: Float[Array, "T du"] | None = None,
    dt: Float[Array, "T"] | None = None,
) -> Float[Array, "T"]:
    """The exact ELBO L_t of every prefix y_{0:t}, NaN = not observed; differentiable.

    As in the recursion, a family tied to the model sees it as a constant: the gradient in `model`
    is that of log p_theta under a q that stays where it is.
    """
    check_instance("model", model, LinearGaussian)
    check_instance("family", family, LinearGaussianFamily)
    check_array("ys", ys, (None, model.dim_obs))
    length = ys.shape[0]
    u = jnp.zeros((length, model.dim_input), ys.dtype) if u is None else u
    dt = jnp.ones(length, ys.dtype) if dt is None else dt
    check_array("u", u, (length, model.dim_input))
    check_array("dt", dt, (length,))
    check_positive("dt", dt)
    constant = jax.lax.stop_gradient(model)
    steps = (ys, Inputs(u, dt))
    first, later = jax.tree.map(lambda v: v[0], steps), jax.tree.map(lambda v: v[1:], steps)

    def step(state, now):
        carry_prev, h_prev = state
        kernel = _kernel(constant, family, carry_prev, now[1])
        h = tree.add(_expected(model, kernel, h_prev, now[1]), _emission(model, *now))
        carry = family.advance(constant, carry_prev, *now)
        return (carry, h), _elbo(family, carry, h)

    carry = family.advance(constant, family.initial_carry(constant), *first)
    h = tree.add(_initial(model), _emission(model, *first))
    _, elbos = jax.lax.scan(step, (carry, h), later)
    return jnp.concatenate([_elbo(family, carry, h)[None], elbos])


def _elbo(family: AbstractFamily, carry: PyTree, h: Quadratic) -> Float[Array, ""]:
    """E h_t + Entropy under q_t."""
    q, eta = family.distribution, family.marginal(carry)
    return h.expect(q.mean(eta), q.covariance(eta)) + q.entropy(eta)


def _kernel(
    model: LinearGaussian, family: AbstractFamily, carry_prev: PyTree, inputs: Inputs
) -> Kernel:
    """Read K, k and S off the natural parameter, which is affine in x with a constant precision."""
    q, eta_prev = family.distribution, family.marginal(carry_prev)

    def conditional(x: Float[Array, "dx"]) -> Natural:
        return tree.add(eta_prev, family.potential(model, carry_prev, x, inputs))

    origin = jnp.zeros_like(eta_prev.linear)
    eta = conditional(origin)
    matrix = jax.jacfwd(lambda x: q.mean(conditional(x)))(origin)
    return Kernel(matrix, q.mean(eta), q.covariance(eta), q.entropy(eta))


def _expected(
    model: LinearGaussian, kernel: Kernel, h_prev: Quadratic, inputs: Inputs
) -> Quadratic:
    """E[h_{t-1}(X) + log m(X, x) | x] + Entropy(S), as a form in x."""
    origin = jnp.zeros_like(kernel.shift)
    jacobian = model.transition_jacobian(origin, inputs)
    offset = model.transition_mean(origin, inputs)
    noise = _centred_normal(model.transition_scale(inputs))
    residual = jnp.eye(origin.size, dtype=origin.dtype) - jacobian @ kernel.matrix
    log_m = noise.after(residual, -jacobian @ kernel.shift - offset)
    h = h_prev.after(kernel.matrix, kernel.shift)
    curvature = h_prev.a + jacobian.T @ noise.a @ jacobian
    constant = kernel.entropy - 0.5 * jnp.vdot(curvature, kernel.covariance)
    return Quadratic(h.a + log_m.a, h.b + log_m.b, h.c + log_m.c + constant)


def _initial(model: LinearGaussian) -> Quadratic:
    """The form of log chi."""
    mean = model.initial_mean
    return _centred_normal(model.initial_scale()).after(jnp.eye(mean.size, dtype=mean.dtype), -mean)


def _emission(model: LinearGaussian, y: Float[Array, "dy"], inputs: Inputs) -> Quadratic:
    """The form of log g(., y_t) over the observed coordinates, from its derivatives at 0."""
    origin = jnp.zeros_like(model.initial_mean)
    rows = model.emission_information(origin, split_missing(y)[1], inputs)
    value, slope = jax.value_and_grad(model.observed_log_prob)(origin, y, inputs)
    return Quadratic(rows.T @ rows, slope, value)


def _centred_normal(scale: Float[Array, "dx"] | Float[Array, "dx dx"]) -> Quadratic:
    """The form of log N(.; 0, scale scale')."""
    rows = whiten(scale, jnp.eye(scale.shape[0], dtype=scale.dtype)).T
    return Quadratic(rows.T @ rows, jnp.zeros_like(rows[0]), -log_volume(scale))
