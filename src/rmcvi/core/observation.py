"""What one step of a recursion is given."""

import equinox as eqx
from jaxtyping import Array, Bool, Float

from rmcvi.core.inputs import Inputs


class Observation(eqx.Module):
    """y_t, NaN = not observed, its inputs, and whether it is the first: t = 0."""

    y: Float[Array, "dy"]
    inputs: Inputs
    first: Bool[Array, ""]
