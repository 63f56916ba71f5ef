"""Rates at which a component forgets, and how it takes outliers."""

import equinox as eqx


class Settings(eqx.Module):
    """Hyper-parameters of learning."""

    keep: float = eqx.field(static=True)
    """What a regression keeps from one row to the next."""
    degrees: int = eqx.field(static=True)
    """Of Student's t."""
    memory: float = eqx.field(static=True)
    """Values that the units remember."""
    gate: float = eqx.field(static=True)
    """Deviations beyond which the state hesitates to follow."""
    slow: float = eqx.field(static=True, default=0.003)
    """Least rate of variances and correlations: the last 300 rows or so."""
    slow_slopes: float = eqx.field(static=True, default=0.004)
    """Least rate of what moves the variance: the last 250 or so."""
