"""Networks at one point, laid out so that vectorising over points yields plain matrix products.

W x, vectorised, is a product whose result has its points last and must be turned round, forwards
and backwards; x W' has them first.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float


def network(net: eqx.nn.MLP, x: Float[Array, "k"]) -> Float[Array, "m"]:
    """`net(x)` for activations that are plain functions."""
    final: Any = net.final_activation
    return final(_affine(net.layers[-1], _hidden(net, x)))


def last_features(net: eqx.nn.MLP, x: Float[Array, "k"]) -> Float[Array, "h"]:
    """What the last layer sees, and 1 for its bias."""
    return jnp.append(_hidden(net, x), 1.0)


def _hidden(net: eqx.nn.MLP, x: Float[Array, "k"]) -> Float[Array, "h"]:
    activation: Any = net.activation
    for layer in net.layers[:-1]:
        x = activation(_affine(layer, x))
    return x


def _affine(layer: eqx.nn.Linear, x: Float[Array, "k"]) -> Float[Array, "m"]:
    out = x @ layer.weight.T
    return out if layer.bias is None else out + layer.bias
