"""The settings of `NaturalRMCVI`, as both of its forms read them."""

from typing import Protocol, runtime_checkable


@runtime_checkable
class NaturalSettings(Protocol):
    """Documented where they are chosen."""

    num_particles: int
    num_steps: int
    num_inner: int
    rate: float | None
    corrected: bool
    lag: int
    components: int
