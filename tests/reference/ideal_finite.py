"""The ideal algorithm on k states: every expectation of Proposition 1 is a finite sum.

With w_t[x, z] = q_{t-1|t}(x, z), f_t[x, z] = h_{t-1}(z) + log m(z, x) + log g_t(x) - log w_t[x, z]:

    h_t(x) = sum_z w_t[x, z] f_t[x, z]
    u_t(x) = sum_z w_t[x, z] {u_{t-1}(z) + grad_phi log w_t[x, z] f_t[x, z]}
    v_t(x) = sum_z w_t[x, z] {v_{t-1}(z) + grad_theta (log m(z, x) + log g_t(x))}

and, with the terminal -log q_t that the printed proposition lacks (errata A1),

    L_t            = sum_x q_t(x) {h_t(x) - log q_t(x)}
    grad_phi L_t   = sum_x q_t(x) {grad_phi log q_t(x) (h_t(x) - log q_t(x)) + u_t(x)}
    grad_theta L_t = sum_x q_t(x) v_t(x).

theta and phi are the tables themselves; a parametrisation of them is one chain rule away.
"""

from itertools import product

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from rmcvi.core import tree
from rmcvi.core.array_checks import check_array
from rmcvi.core.checks import check_int


class FiniteModel(eqx.Module):
    """Tables log chi[x_0], log m[x_{t-1}, x_t] and log g[t, x_t]; they need not be normalised."""

    log_chi: Float[Array, "*batch k"]
    log_m: Float[Array, "*batch k k"]
    log_g: Float[Array, "*batch T k"]


class FiniteFamily(eqx.Module):
    """q_t by `logits[t]`, and q_{t-1|t}(x, .) proportional to q_{t-1} exp(potential[t, x, .])."""

    logits: Float[Array, "*batch T k"]
    potential: Float[Array, "*batch T k k"]
    """Row t = 0 has no meaning and no gradient."""

    def log_marginal(self, t: Int[Array, ""] | int) -> Float[Array, "k"]:
        """The table of log q_t."""
        return jax.nn.log_softmax(self.logits[t])

    def log_backward(self, t: Int[Array, ""] | int) -> Float[Array, "k k"]:
        """The table of log q_{t-1|t}(x, z): row x = now, column z = before."""
        return jax.nn.log_softmax(self.logits[t - 1][None] + self.potential[t], 1)


class FiniteStatistics(eqx.Module):
    """h, u = grad_phi h and v = grad_theta h at every state."""

    h: Float[Array, "k"]
    u: FiniteFamily
    v: FiniteModel


class FiniteElbo(eqx.Module):
    """L_t and its two gradients, of one t or of every t along a leading axis."""

    value: Float[Array, "*T"]
    grad_model: FiniteModel
    grad_family: FiniteFamily


def ideal_finite_elbo(model: FiniteModel, family: FiniteFamily) -> FiniteElbo:
    """L_t and its gradients for every t, in one forward pass over the observations."""
    length, _ = _check(model, family)

    def move(before, t):
        now = _step(model, family, before, t)
        return now, _terminal(family, now, t)

    start = _start(model, family)
    _, later = jax.lax.scan(move, start, jnp.arange(1, length))
    first = _terminal(family, start, 0)
    return jax.tree.map(lambda v, rest: jnp.concatenate([v[None], rest]), first, later)


def _start(model: FiniteModel, family: FiniteFamily) -> FiniteStatistics:
    """h_0 = log chi + log g_0, u_0 = 0, v_0 = grad_theta h_0."""

    def h_0(theta: FiniteModel) -> Float[Array, "k"]:
        return theta.log_chi + theta.log_g[0]

    nothing = tree.zeros(family, model.log_chi.size)
    return FiniteStatistics(h_0(model), nothing, jax.jacobian(h_0)(model))


def _step(
    model: FiniteModel, family: FiniteFamily, before: FiniteStatistics, t: Int[Array, ""]
) -> FiniteStatistics:
    """Proposition 1, one sum for each line."""

    def log_joint(theta: FiniteModel) -> Float[Array, "k k"]:
        return theta.log_m.T + theta.log_g[t][:, None]

    log_w = family.log_backward(t)
    w = jnp.exp(log_w)
    f = before.h[None] + log_joint(model) - log_w
    score = jax.jacobian(lambda phi: phi.log_backward(t))(family)
    return FiniteStatistics(
        h=jnp.sum(w * f, 1),
        u=tree.add(_average(w, before.u), _pair_sum(w * f, score)),
        v=tree.add(_average(w, before.v), _pair_sum(w, jax.jacobian(log_joint)(model))),
    )


def _terminal(family: FiniteFamily, now: FiniteStatistics, t: Int[Array, ""] | int) -> FiniteElbo:
    """L_t and its gradients from h_t, u_t and v_t."""
    log_q = family.log_marginal(t)
    q = jnp.exp(log_q)
    value = now.h - log_q
    score = jax.jacobian(lambda phi: phi.log_marginal(t))(family)
    grad_phi = tree.add(_average(q, now.u), _average(q * value, score))
    return FiniteElbo(q @ value, _average(q, now.v), grad_phi)


def _average(weight: Float[Array, "... k"], values: PyTree) -> PyTree:
    """Sum over z of weight[..., z] values[z]."""
    return jax.tree.map(lambda leaf: jnp.tensordot(weight, leaf, 1), values)


def _pair_sum(weight: Float[Array, "k k"], values: PyTree) -> PyTree:
    """Sum over z of weight[x, z] values[x, z]."""
    return jax.tree.map(lambda leaf: jnp.einsum("xz,xz...->x...", weight, leaf), values)


def batch_elbo(model: FiniteModel, family: FiniteFamily, t: int | None = None) -> Float[Array, ""]:
    """L_t by its definition, sum over the k^(t+1) paths of q (log p - log q); t = last if None."""
    length, states = _check(model, family)
    last = length - 1 if t is None else check_int("t", t, 0)
    if last >= length:
        raise ValueError(f"t: got {last}, expected less than the {length} rows of log_g")
    x = np.array(list(product(range(states), repeat=last + 1))).T
    log_p = model.log_chi[x[0]] + model.log_g[0][x[0]]
    log_q = family.log_marginal(last)[x[last]]
    for s in range(1, last + 1):
        log_p += model.log_m[x[s - 1], x[s]] + model.log_g[s][x[s]]
        log_q += family.log_backward(s)[x[s], x[s - 1]]
    return jnp.sum(jnp.exp(log_q) * (log_p - log_q))


def _check(model: FiniteModel, family: FiniteFamily) -> tuple[int, int]:
    """Length and number of states, the same in all tables."""
    check_array("log_g", model.log_g, (None, None))
    length, states = model.log_g.shape
    check_array("log_chi", model.log_chi, (states,))
    check_array("log_m", model.log_m, (states, states))
    check_array("logits", family.logits, (length, states))
    check_array("potential", family.potential, (length, states, states))
    return length, states
