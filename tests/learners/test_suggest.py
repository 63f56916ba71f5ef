"""The rule behind `rmcvi.suggest`, and one trial."""

import jax
import jax.numpy as jnp
import pytest
from jax.scipy.stats import norm

import rmcvi
from rmcvi.families import LinearGaussianFamily
from rmcvi.learners.trying import Candidate, Outcome, candidates, choose
from rmcvi.models import AbstractModel, LinearGaussian

RECURSION = rmcvi.NaturalRMCVI(4)


def outcome(
    name: str, rmse: float, gaussian: bool = True, learns: bool = True, bands: float = 0.9
) -> Outcome:
    family = LinearGaussianFamily() if gaussian else None
    return Outcome(Candidate(name, RECURSION, family, learns, gaussian), rmse, bands, -1.0, 10.0)


def test_the_first_near_the_goal_is_taken():
    tried = [outcome("a", 1.2), outcome("b", 1.04), outcome("c", 0.9), outcome("p", 0.9, False)]
    chosen, why = choose(tried, 1.0, 0.9)
    assert chosen.name == "b"
    assert "1.04 times the particle filter's, that of a 1.20 times." in why


def test_the_goal_is_the_better_of_particles_and_kalman():
    tried = [outcome("a", 1.04), outcome("b", 0.94), outcome("e", 0.9, learns=False)]
    assert choose(tried, 1.0, 0.9)[0].name == "b"
    assert choose(tried[:2], 1.0, 0.9)[0].name == "a"


def test_near_the_best_if_none_is_near_the_goal():
    tried = [outcome("a", 1.3), outcome("b", 1.2), outcome("p", 1.19, False)]
    assert choose(tried, 1.0, 0.9)[0].name == "b"


def test_what_only_compares_is_not_offered_and_what_diverges_neither():
    tried = [outcome("nan", float("nan")), outcome("a", 1.0), outcome("e", 0.99, learns=False)]
    assert choose(tried, 1.0, 0.9)[0].name == "a"
    with pytest.raises(ValueError, match="everything diverges"):
        choose(tried[:1], 1.0, 0.9)


def test_a_mixture_or_particles_where_no_gaussian_suits():
    tried = [outcome("a", 1.3), outcome("m", 1.04, False), outcome("p", 1.0, False)]
    chosen, why = choose(tried, 1.0, 0.9)
    assert chosen.name == "m" and "the posterior is not Gaussian" in why
    assert choose([tried[0], outcome("m", 1.2, False), tried[2]], 1.0, 0.9)[0].name == "p"


def test_bands_that_are_too_narrow_are_passed_over():
    """Narrower than the particle filter's, that is; if all are, the error decides."""
    narrow, mixture = outcome("a", 1.0, bands=0.85), outcome("m", 1.02, False, bands=0.88)
    chosen, why = choose([narrow, mixture], 1.0, 0.89)
    assert chosen.name == "m" and "that of a 1.00 times with bands that hold 85 %" in why
    assert choose([narrow, mixture], 1.0, 0.86)[0].name == "a"
    assert choose([narrow, outcome("m", 1.2, False)], 1.0, 0.89)[0].name == "a"


def test_full_covariances_come_first():
    """They are exact on linear models, and what is only there to compare with comes last."""
    names = [c.name for c in candidates(LinearGaussian(jnp.ones(2), jnp.ones(2), 0.3, 0.5), 10)]
    assert names[0] == "NaturalRMCVI, full, N = 10" and names[-1] == "extended Kalman filter"


@pytest.mark.long
def test_a_linear_model_is_filtered_at_the_floor():
    model = LinearGaussian(jnp.array([0.9]), jnp.ones(1), 0.4, 0.5)
    said = rmcvi.suggest(model, rows=300, particles=20)
    assert said.chosen.name.startswith("NaturalRMCVI, full")
    assert [v.candidate.learns for v in said.outcomes] == [False, True]  # no others were needed
    assert said.outcomes[1].rmse < 1.05 * said.floor and "every=True" in str(said)
    assert "Take NaturalRMCVI" in str(said) and "extended Kalman filter" in str(said)
    learner = said.learner(draws=10)
    state, _ = learner.update(learner.init(jax.random.key(0)), jnp.ones(1))
    assert int(state.t) == 1


class Densities(AbstractModel):
    """Nothing but densities."""

    dim_state: int = 1
    dim_obs: int = 1

    def initial_log_prob(self, x):
        return norm.logpdf(x).sum()

    def initial_sample(self, key):
        return jax.random.normal(key, (1,))

    def transition_log_prob(self, x_prev, x, inputs):
        return norm.logpdf(x, 0.5 * x_prev).sum()

    def transition_sample(self, key, x_prev, inputs):
        return 0.5 * x_prev + jax.random.normal(key, (1,))

    def emission_log_prob(self, x, y, inputs):
        return norm.logpdf(y, x)

    def emission_sample(self, key, x, inputs):
        return x + jax.random.normal(key, (1,))


@pytest.mark.long
def test_densities_alone_get_a_recurrent_family():
    said = rmcvi.suggest(Densities(), rows=40, particles=5)
    assert "RecurrentFamily" in said.chosen.name and "AbstractGaussianModel" in said.why
    assert said.learner(draws=10).dim_obs == 1
