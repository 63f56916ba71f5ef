"""Learn state-space models online: one pass, constant cost per observation.

Names are imported when they are used: `rmcvi --help` needs no JAX.
"""

import importlib
from typing import TYPE_CHECKING, Any

from rmcvi.version import __version__ as __version__

if TYPE_CHECKING:
    from rmcvi import app as app
    from rmcvi import baselines as baselines
    from rmcvi import checks as checks
    from rmcvi import families as families
    from rmcvi import lab as lab
    from rmcvi import learners as learners
    from rmcvi import models as models
    from rmcvi import monitors as monitors
    from rmcvi import optim as optim
    from rmcvi import recursion as recursion
    from rmcvi import scale as scale
    from rmcvi.app.sources import doctor as doctor
    from rmcvi.app.sources import read as read
    from rmcvi.contract import AbstractLearner as AbstractLearner
    from rmcvi.contract import AbstractRecursion as AbstractRecursion
    from rmcvi.contract import Band as Band
    from rmcvi.contract import Filtered as Filtered
    from rmcvi.contract import Gradients as Gradients
    from rmcvi.contract import Info as Info
    from rmcvi.contract import Prediction as Prediction
    from rmcvi.contract import Result as Result
    from rmcvi.contract import Smoothed as Smoothed
    from rmcvi.contract import Step as Step
    from rmcvi.contract import Trainable as Trainable
    from rmcvi.core.inputs import Inputs as Inputs
    from rmcvi.core.tree import only as only
    from rmcvi.lab.compare import compare as compare
    from rmcvi.learners import CheckpointError as CheckpointError
    from rmcvi.learners import LearnerState as LearnerState
    from rmcvi.learners import Live as Live
    from rmcvi.learners import OnlineEstimator as OnlineEstimator
    from rmcvi.learners import SeasonalLearner as SeasonalLearner
    from rmcvi.learners import Standardiser as Standardiser
    from rmcvi.learners import default_learner as default_learner
    from rmcvi.learners import load as load
    from rmcvi.learners import run as run
    from rmcvi.learners import save as save
    from rmcvi.learners import scan as scan
    from rmcvi.learners import suggest as suggest
    from rmcvi.models import simulate as simulate
    from rmcvi.monitors import Alarm as Alarm
    from rmcvi.monitors import Health as Health
    from rmcvi.recursion import RMCVI as RMCVI
    from rmcvi.recursion import AcceptReject as AcceptReject
    from rmcvi.recursion import AdditiveFunctional as AdditiveFunctional
    from rmcvi.recursion import CalibratedWeights as CalibratedWeights
    from rmcvi.recursion import FullWeights as FullWeights
    from rmcvi.recursion import NaturalRMCVI as NaturalRMCVI
    from rmcvi.recursion import PerStepRMCVI as PerStepRMCVI
    from rmcvi.recursion import SampledIndices as SampledIndices
    from rmcvi.scale import Fleet as Fleet


_ROOMS = (
    "app",
    "baselines",
    "checks",
    "families",
    "lab",
    "learners",
    "models",
    "monitors",
    "optim",
    "recursion",
    "scale",
)
_HOMES = {
    "doctor": "rmcvi.app.sources",
    "read": "rmcvi.app.sources",
    "AbstractLearner": "rmcvi.contract",
    "AbstractRecursion": "rmcvi.contract",
    "Band": "rmcvi.contract",
    "Filtered": "rmcvi.contract",
    "Gradients": "rmcvi.contract",
    "Info": "rmcvi.contract",
    "Prediction": "rmcvi.contract",
    "Result": "rmcvi.contract",
    "Smoothed": "rmcvi.contract",
    "Step": "rmcvi.contract",
    "Trainable": "rmcvi.contract",
    "Inputs": "rmcvi.core.inputs",
    "only": "rmcvi.core.tree",
    "compare": "rmcvi.lab.compare",
    "CheckpointError": "rmcvi.learners",
    "LearnerState": "rmcvi.learners",
    "Live": "rmcvi.learners",
    "OnlineEstimator": "rmcvi.learners",
    "SeasonalLearner": "rmcvi.learners",
    "Standardiser": "rmcvi.learners",
    "default_learner": "rmcvi.learners",
    "load": "rmcvi.learners",
    "run": "rmcvi.learners",
    "save": "rmcvi.learners",
    "scan": "rmcvi.learners",
    "suggest": "rmcvi.learners",
    "simulate": "rmcvi.models",
    "Alarm": "rmcvi.monitors",
    "Health": "rmcvi.monitors",
    "RMCVI": "rmcvi.recursion",
    "AcceptReject": "rmcvi.recursion",
    "AdditiveFunctional": "rmcvi.recursion",
    "CalibratedWeights": "rmcvi.recursion",
    "FullWeights": "rmcvi.recursion",
    "NaturalRMCVI": "rmcvi.recursion",
    "PerStepRMCVI": "rmcvi.recursion",
    "SampledIndices": "rmcvi.recursion",
    "Fleet": "rmcvi.scale",
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
