"""Result codes: bad numbers in a stream are reported in `info`, not raised."""

import enum


class Result(enum.IntEnum):
    """How a step ended; a larger code is a worse end."""

    SUCCESS = 0
    WINDOW_SHORT = 1
    WEIGHTS_COLLAPSED = 2
    NON_FINITE = 3

    @property
    def message(self) -> str:
        """One sentence for people."""
        return _MESSAGES[self]


_MESSAGES = {
    Result.SUCCESS: "The step is sound.",
    Result.WINDOW_SHORT: (
        "More than a tenth of the gradient's mass lies beyond the window: lengthen the window."
    ),
    Result.WEIGHTS_COLLAPSED: (
        "The backward weights rest on fewer than two particles: use more particles, "
        "a smaller step size or a family tied to the model."
    ),
    Result.NON_FINITE: "A statistic or gradient is not finite: the step must not be applied.",
}
