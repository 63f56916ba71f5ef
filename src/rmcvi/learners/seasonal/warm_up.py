"""The first units of a column: once it is known, from its values so far."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from rmcvi.core.lanes import rarely
from rmcvi.learners.seasonal.columns import Columns, Moments
from rmcvi.learners.seasonal.component import Component
from rmcvi.learners.seasonal.state import Learned
from rmcvi.learners.seasonal.units import Units, to_asinh


def first_units(
    learned: Learned, rows: Float[Array, "n dy"], asinh: Bool[Array, "m"], started: Bool[Array, ""]
) -> tuple[Component, Columns]:
    """Components and columns, with the units of those columns that have become known.

    Args:
        learned: what was learned so far.
        rows: the last rows before the present one.
        asinh: which components are linear in s asinh(y / s).
        started: whether there were rows enough.
    """

    def find(units: Units, columns: Columns, rows: Array, asinh: Array) -> tuple[Units, Columns]:
        columns, valid, new = columns.find_known(rows)

        def found(old: Units, asinh: Array) -> Units:
            scale = jnp.broadcast_to(columns.scale, rows.shape)
            first = Moments.of(to_asinh(rows, scale, asinh), valid)
            return Units(
                jnp.where(new, first.mean, old.centre),
                jnp.where(new, first.variance, old.variance),
            )

        return jax.vmap(found)(units, asinh), columns

    unknown = started & ~jnp.all(learned.columns.known)
    given = learned.components.units, learned.columns, rows, asinh
    units, columns = rarely(unknown, find, lambda units, columns, *_: (units, columns), *given)
    return eqx.tree_at(lambda c: c.units, learned.components, units), columns
