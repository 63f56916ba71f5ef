"""Models that statisticians bring: tracking, weather, populations, spikes, markets, epidemics.

Each is a page of mathematics on top of `AbstractGaussianModel`, and an example of how to write one.
A linear model that switches between discrete regimes is not among them: a state needs a density on
R^dx, which a regime has not (`rmcvi.checks.model` says so).
"""

from rmcvi.models.zoo.epidemic import Epidemic as Epidemic
from rmcvi.models.zoo.growth import Growth as Growth
from rmcvi.models.zoo.leverage import Leverage as Leverage
from rmcvi.models.zoo.lorenz96 import Lorenz96 as Lorenz96
from rmcvi.models.zoo.pendulum import Pendulum as Pendulum
from rmcvi.models.zoo.spikes import Spikes as Spikes
from rmcvi.models.zoo.tracking import Tracking as Tracking
