"""State-space models p_theta; write your own from three log-densities and three samplers."""

from rmcvi.models import zoo as zoo
from rmcvi.models.base import AbstractModel as AbstractModel
from rmcvi.models.base import check_densities as check_densities
from rmcvi.models.chaotic_rnn import ChaoticRNN as ChaoticRNN
from rmcvi.models.gaussian import AbstractGaussianModel as AbstractGaussianModel
from rmcvi.models.latent_rate import LatentRate as LatentRate
from rmcvi.models.laws import AbstractLaw as AbstractLaw
from rmcvi.models.laws import NegativeBinomial as NegativeBinomial
from rmcvi.models.laws import Poisson as Poisson
from rmcvi.models.laws import Share as Share
from rmcvi.models.linear_gaussian import LinearGaussian as LinearGaussian
from rmcvi.models.linear_part import Held as Held
from rmcvi.models.linear_part import LinearPart as LinearPart
from rmcvi.models.linear_part import Statistics as Statistics
from rmcvi.models.neural_gaussian import NeuralGaussian as NeuralGaussian
from rmcvi.models.simulation import simulate as simulate
from rmcvi.models.stochastic_volatility import StochasticVolatility as StochasticVolatility
from rmcvi.models.tilted import Tilted as Tilted
