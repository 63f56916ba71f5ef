"""State-space models p_theta; write your own from three log-densities and three samplers."""

from rmcvi.models._base import AbstractModel as AbstractModel
from rmcvi.models._base import check_densities as check_densities
from rmcvi.models._chaotic_rnn import ChaoticRNN as ChaoticRNN
from rmcvi.models._gaussian import AbstractGaussianModel as AbstractGaussianModel
from rmcvi.models._linear_gaussian import LinearGaussian as LinearGaussian
from rmcvi.models._neural_gaussian import NeuralGaussian as NeuralGaussian
from rmcvi.models._simulate import simulate as simulate
from rmcvi.models._stochastic_volatility import StochasticVolatility as StochasticVolatility
