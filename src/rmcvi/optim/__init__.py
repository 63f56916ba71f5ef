"""Thin over optax: step-size schedules, guarded ascent, iterate averaging."""

from rmcvi.optim._ascent import Ascent as Ascent
from rmcvi.optim._ascent import AscentState as AscentState
from rmcvi.optim._guard import GradientGuard as GradientGuard
from rmcvi.optim._guard import GuardState as GuardState
from rmcvi.optim._schedules import robbins_monro as robbins_monro
from rmcvi.optim._schedules import two_time_scales as two_time_scales
