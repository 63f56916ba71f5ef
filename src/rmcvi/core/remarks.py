"""What a run has to say about itself: alarms as episodes, lost predictions, lost comparisons.

The command line counts row by row, the page over all rows; both use these rules.
"""

from collections.abc import Mapping
from typing import Any

PAUSE = 25
"""Rows of silence after which the same alarm is a new episode."""
WARM_UP = 24
"""Values of a column that a learner may take to find its units before it must predict."""
LOST_SHARE = 0.01
"""Share of a column's values without a prediction above which its predictions are lost."""
LOST_LAST = 10
"""As many values at the end without a prediction, and they are lost, too."""
ENOUGH = 100
"""Scored values below which the last value is not compared with."""
MARGIN = 1.001
"""An error larger by less than this is no difference."""


def lost(column: Mapping[str, Any]) -> bool:
    """Whether a column of a summary has lost its predictions."""
    share = column["lost_predictions"] > LOST_SHARE * column["values"]
    return share or column["lost_at_end"] >= LOST_LAST


def remarks(columns: Mapping[str, Mapping[str, Any]], recoveries: int = 0) -> list[str]:
    """Sentences about the columns of a summary; none if all is well."""
    sentences = []
    for name, column in columns.items():
        missed, values = column["lost_predictions"], int(column["values"])
        if missed:
            last = ", the last ones among them" if column["lost_at_end"] else ""
            sentences.append(f"{name}: {missed} of {values} values had no prediction{last}.")
        error, rival = column["rmse"], column["persistence_rmse"]
        if rival is not None and column["scored"] >= ENOUGH and error > MARGIN * rival:
            numbers = f"RMSE {error:.4g} against {rival:.4g}"
            sentences.append(f"{name}: the last value would have predicted better ({numbers}).")
    if recoveries:
        times = "once" if recoveries == 1 else f"{recoveries} times"
        sentences.append(f"The learner lost its state and went back to a sound one {times}.")
    return sentences
