"""The M-step of a linear regression: coefficients and noise that averaged statistics call for.

With S_zz, S_zx, S_xx and n of features z and targets x, and w rows of typical features at the
starting values A0, V0 (D = diag S_zz),

    A = (S_zz + w D)^-1 (S_zx + w D A0),
    V = {S_xx - A'S_zx - S_zx'A + A'S_zz A + w (n V0 + (A - A0)'D(A - A0))} / (n + w n).
"""

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Array, Float

from rmcvi.models import LinearPart, Statistics

SHRINK = 0.1
"""An M-step leaves at least this share of a variance: early statistics can be indefinite."""


def best_coefficients(
    part: LinearPart, start: Float[Array, "b k m"], seen: Statistics, weight: Float[Array, "b"]
) -> Float[Array, "b k m"]:
    """A, in units in which every feature has unit size; NaN if the statistics are indefinite.

    Args:
        part: the regression with its current values.
        start: A0.
        seen: averaged statistics.
        weight: w of each block.
    """
    zz, zx, _ = split(seen, start.shape[1])
    unit, w = jnp.sqrt(typical(zz)), weight[:, None, None]
    eye = jnp.eye(start.shape[1], dtype=zz.dtype)
    matrix = zz / (unit[:, :, None] * unit[:, None]) + w * eye[None]
    right = zx / unit[..., None] + w * unit[..., None] * start
    if part.tied:
        # One regression over all blocks, each in the units of its noise.
        scale = jnp.max(unit, 0)
        share = (unit / scale[None]) / jnp.sqrt(part.covariance.value[:, :, 0])
        matrix = jnp.sum(share[:, :, None] * share[:, None] * matrix, 0, keepdims=True)
        right = jnp.sum(
            (share / jnp.sqrt(part.covariance.value[:, :, 0]))[..., None] * right,
            0,
            keepdims=True,
        )
        unit = scale[None]
    white = jax.vmap(lambda m, r: cho_solve((jnp.linalg.cholesky(m), True), r))(matrix, right)
    return jnp.broadcast_to(white / unit[..., None], start.shape)


def best_covariance(
    part: LinearPart,
    start: tuple[Float[Array, "b k m"], Float[Array, "b m m"]],
    seen: Statistics,
    weight: Float[Array, "b"],
    now: Float[Array, "b k m"],
) -> Float[Array, "b m m"]:
    """V given the coefficients, no smaller in any direction than a share of the current one.

    Args:
        part: the regression with its current values.
        start: A0 and V0.
        seen: averaged statistics.
        weight: w of each block.
        now: A.
    """
    zz, zx, xx = split(seen, now.shape[1])
    n, w = seen.count[:, None, None], weight[:, None, None]
    explained = jnp.einsum("bkm,bkl->bml", now, zx)
    residual = xx - explained - jnp.swapaxes(explained, 1, 2)
    residual = residual + jnp.einsum("bkm,bkj,bjl->bml", now, zz, now)
    away = now - start[0]
    prior = n * start[1] + jnp.einsum("bkm,bk,bkl->bml", away, typical(zz), away)
    best = (residual + w * prior) / (n * (1.0 + w))
    return jax.vmap(_at_least)(best, part.covariance.value)


def split(seen: Statistics, num: int) -> tuple[Array, Array, Array]:
    """S_zz, S_zx and S_xx."""
    moments = 0.5 * (seen.moments + jnp.swapaxes(seen.moments, 1, 2))
    return moments[:, :num, :num], moments[:, :num, num:], moments[:, num:, num:]


def typical(zz: Float[Array, "b k k"]) -> Float[Array, "b k"]:
    """Mean squares of the features, above zero."""
    squares = jnp.diagonal(zz, 0, 1, 2)
    return jnp.maximum(squares, jnp.finfo(zz.dtype).tiny ** 0.5)


def _at_least(new: Float[Array, "m m"], old: Float[Array, "m m"]) -> Float[Array, "m m"]:
    """`new` with its eigenvalues relative to `old` raised to `SHRINK`."""
    root = jnp.linalg.cholesky(old)
    half = solve_triangular(root, new, lower=True)
    relative = solve_triangular(root, half.T, lower=True)
    values, vectors = jnp.linalg.eigh(relative)
    turned = root @ vectors
    return (turned * jnp.maximum(values, SHRINK)[None]) @ turned.T
