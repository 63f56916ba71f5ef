"""Thin over optax: Fisher steps, online EM, step-size schedules, guarded and averaged ascent."""

from rmcvi.optim.ascent import Ascent as Ascent
from rmcvi.optim.ascent import AscentState as AscentState
from rmcvi.optim.ascent import Averaging as Averaging
from rmcvi.optim.em import EMState as EMState
from rmcvi.optim.em import OnlineEM as OnlineEM
from rmcvi.optim.fisher import fisher as fisher
from rmcvi.optim.guard import GradientGuard as GradientGuard
from rmcvi.optim.guard import GuardState as GuardState
from rmcvi.optim.metric import FisherState as FisherState
from rmcvi.optim.schedules import robbins_monro as robbins_monro
from rmcvi.optim.schedules import two_time_scales as two_time_scales
