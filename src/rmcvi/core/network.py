"""Networks at one point, laid out so that vectorising over points yields plain matrix products.

W x, vectorised, is a product whose result has its points last and must be turned round, forwards
and backwards; x W' has them first.
"""

from typing import Any

import equinox as eqx
from jaxtyping import Array, Float


def network(net: eqx.nn.MLP, x: Float[Array, "k"]) -> Float[Array, "m"]:
    """`net(x)` for activations that are plain functions."""
    activation: Any = net.activation
    final: Any = net.final_activation
    *hidden, last = net.layers
    for layer in hidden:
        x = activation(_affine(layer, x))
    return final(_affine(last, x))


def _affine(layer: eqx.nn.Linear, x: Float[Array, "k"]) -> Float[Array, "m"]:
    out = x @ layer.weight.T
    return out if layer.bias is None else out + layer.bias
