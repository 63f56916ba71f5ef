"""Learn state-space models online: one pass, constant cost per observation.

Names are imported when they are used: `rmcvi --help` needs no JAX.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rmcvi import baselines as baselines
    from rmcvi import checks as checks
    from rmcvi import conjugate as conjugate
    from rmcvi import data as data
    from rmcvi import diagnostics as diagnostics
    from rmcvi import families as families
    from rmcvi import models as models
    from rmcvi import optim as optim
    from rmcvi._contract import AbstractLearner as AbstractLearner
    from rmcvi._contract import AbstractRecursion as AbstractRecursion
    from rmcvi._contract import Filtered as Filtered
    from rmcvi._contract import Gradients as Gradients
    from rmcvi._contract import Info as Info
    from rmcvi._contract import Prediction as Prediction
    from rmcvi._contract import Result as Result
    from rmcvi._contract import Step as Step
    from rmcvi._contract import Trainable as Trainable
    from rmcvi._core.inputs import Inputs as Inputs
    from rmcvi._core.tree import only as only
    from rmcvi.estimator import Alarm as Alarm
    from rmcvi.estimator import CheckpointError as CheckpointError
    from rmcvi.estimator import Fleet as Fleet
    from rmcvi.estimator import Health as Health
    from rmcvi.estimator import LearnerState as LearnerState
    from rmcvi.estimator import Live as Live
    from rmcvi.estimator import OnlineEstimator as OnlineEstimator
    from rmcvi.estimator import compare as compare
    from rmcvi.estimator import default_learner as default_learner
    from rmcvi.estimator import load as load
    from rmcvi.estimator import run as run
    from rmcvi.estimator import save as save
    from rmcvi.estimator import scan as scan
    from rmcvi.models import simulate as simulate
    from rmcvi.recursion import RMCVI as RMCVI
    from rmcvi.recursion import AcceptReject as AcceptReject
    from rmcvi.recursion import AdditiveFunctional as AdditiveFunctional
    from rmcvi.recursion import FullWeights as FullWeights
    from rmcvi.recursion import NaturalRMCVI as NaturalRMCVI
    from rmcvi.recursion import PerStepRMCVI as PerStepRMCVI
    from rmcvi.recursion import SampledIndices as SampledIndices

__version__ = "0.1.0"

_ROOMS = (
    "baselines",
    "checks",
    "conjugate",
    "data",
    "diagnostics",
    "estimator",
    "families",
    "models",
    "optim",
    "recursion",
)
_HOMES = {
    "AbstractLearner": "rmcvi._contract",
    "AbstractRecursion": "rmcvi._contract",
    "Filtered": "rmcvi._contract",
    "Gradients": "rmcvi._contract",
    "Info": "rmcvi._contract",
    "Prediction": "rmcvi._contract",
    "Result": "rmcvi._contract",
    "Step": "rmcvi._contract",
    "Trainable": "rmcvi._contract",
    "Inputs": "rmcvi._core.inputs",
    "only": "rmcvi._core.tree",
    "Alarm": "rmcvi.estimator",
    "CheckpointError": "rmcvi.estimator",
    "Fleet": "rmcvi.estimator",
    "Health": "rmcvi.estimator",
    "LearnerState": "rmcvi.estimator",
    "Live": "rmcvi.estimator",
    "OnlineEstimator": "rmcvi.estimator",
    "compare": "rmcvi.estimator",
    "default_learner": "rmcvi.estimator",
    "load": "rmcvi.estimator",
    "run": "rmcvi.estimator",
    "save": "rmcvi.estimator",
    "scan": "rmcvi.estimator",
    "simulate": "rmcvi.models",
    "RMCVI": "rmcvi.recursion",
    "AcceptReject": "rmcvi.recursion",
    "AdditiveFunctional": "rmcvi.recursion",
    "FullWeights": "rmcvi.recursion",
    "NaturalRMCVI": "rmcvi.recursion",
    "PerStepRMCVI": "rmcvi.recursion",
    "SampledIndices": "rmcvi.recursion",
}


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"rmcvi.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'rmcvi' has no attribute {name!r}")
    found = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_ROOMS, *_HOMES})
