"""Student's t with an even number of degrees of freedom: everything is a finite sum.

P(|T| > t) = 2 I_x(nu / 2, nu / 2),    x = (1 - s) / 2,    s = t / sqrt(nu + t^2)
"""

import math
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float


def log_density(r: Float[Array, "*shape"], nu: int) -> Float[Array, "*shape"]:
    """The logarithm of p(r), scale 1."""
    constant = math.lgamma(0.5 * (nu + 1)) - math.lgamma(0.5 * nu) - 0.5 * math.log(nu * math.pi)
    return constant - 0.5 * (nu + 1) * jnp.log1p(r**2 / nu)


def upper_tail(r: Float[Array, "*shape"], nu: int) -> Float[Array, "*shape"]:
    """P(T > r), without loss far out."""
    share = 1.0 / (1.0 + r**2 / nu)  # 1 - s^2
    half = 0.5 * _beyond(0.5 * share / (1.0 + jnp.sqrt(1.0 - share)), nu)
    return jnp.where(r > 0.0, half, 1.0 - half)


def quantile(probability: float, nu: int) -> float:
    """P(T <= q) = probability, by bisection in s."""
    if probability < 0.5:
        return -quantile(1.0 - probability, nu)
    low, high = 0.0, 1.0
    for _ in range(60):
        s = 0.5 * (low + high)
        within = 1.0 - 0.5 * _beyond(0.5 * (1.0 - s), nu)
        low, high = (s, high) if within < probability else (low, s)
    return math.sqrt(nu / (1.0 - low**2)) * low


def nodes(num: int, nu: int) -> list[float]:
    """Midpoints of `num` equally likely pieces."""
    return [quantile((i + 0.5) / num, nu) for i in range(num)]


def _beyond(x: Any, nu: int) -> Any:
    n = nu - 1
    return 2.0 * sum(math.comb(n, j) * x**j * (1.0 - x) ** (n - j) for j in range(nu // 2, nu))
