"""Thin over optax: step-size schedules, guarded ascent, iterate averaging; online EM."""

from rmcvi.optim.ascent import Ascent as Ascent
from rmcvi.optim.ascent import AscentState as AscentState
from rmcvi.optim.em import EMState as EMState
from rmcvi.optim.em import OnlineEM as OnlineEM
from rmcvi.optim.guard import GradientGuard as GradientGuard
from rmcvi.optim.guard import GuardState as GuardState
from rmcvi.optim.schedules import robbins_monro as robbins_monro
from rmcvi.optim.schedules import two_time_scales as two_time_scales
