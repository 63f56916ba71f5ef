"""The particle path of a column against a particle filter, and against the truth."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import gammaln

import rmcvi
from rmcvi.learners.emissions.expert import Expert
from rmcvi.models import LatentRate, NegativeBinomial, Share

ROWS, FILTERED, PARTICLES, RUNS = 3000, 200, 10_000, 4
CLOSE, SINGLE = 0.002, 0.05
"""Nats that the Gaussian q_t may cost, a row on average and at most (counts: .0002 and .011)."""
CASES = {
    "counts": (NegativeBinomial(4.0), NegativeBinomial(20.0), 2.0, 0.5),
    "share": (Share(0.3), Share(0.1), 0.8, 0.005),
}
LONG = [pytest.param("counts"), pytest.param("share", marks=pytest.mark.long)]


def _stream(kind: str) -> tuple[LatentRate, np.ndarray]:
    law, _, mean, half = CASES[kind]
    truth = LatentRate(law, persistence=0.95, spread=0.5)
    u = law.predictor(jnp.asarray(mean), jnp.asarray(half))
    inputs = jnp.tile(jnp.stack([u, 0.0 * u, jnp.asarray(half)]), (ROWS, 1))
    ys = np.asarray(rmcvi.simulate(truth, jax.random.key(3), ROWS, inputs)[1])[:, 0]
    return truth, np.round(ys / (2.0 * half)) * 2.0 * half


@eqx.filter_jit
def _start(expert):
    """The first state, in one program."""
    return expert.init(jax.random.key(1))


@eqx.filter_jit
def _run(expert, state, ys, mean, half):
    """Over a stream, from a state; one program for all that is asked of a kind."""

    def row(state, y):
        state, told = expert.step(state, y, mean, half, jnp.ones(()), 0.9)
        return state, (told.log_mass, told.low, told.high)

    return jax.lax.scan(row, state, ys)


def _log_prob(kind: str, y: float, eta: np.ndarray) -> np.ndarray:
    """Written again: the mass of a negative binomial, of a cell of a logistic law."""
    if kind == "counts":
        mean, size = np.exp(eta), 4.0
        ways = gammaln(y + size) - gammaln(size) - gammaln(y + 1.0)
        return ways + size * np.log(size / (size + mean)) + y * np.log(mean / (size + mean))
    ends = [
        np.log(e / (1.0 - e)) if 0.0 < e < 1.0 else np.copysign(np.inf, e - 0.5)
        for e in (y - 0.005, y + 0.005)
    ]
    low, high = (0.5 * (1.0 + np.tanh(0.5 * (end - eta) / 0.3)) for end in ends)
    return np.log(high - low)


def _bootstrap(kind: str, ys: np.ndarray, seed: int) -> np.ndarray:
    """Log-probabilities of the values by a bootstrap filter that knows all parameters."""
    rng, found = np.random.default_rng(seed), []
    law, _, mean, half = CASES[kind]
    u = float(law.predictor(jnp.asarray(mean), jnp.asarray(half)))
    spread, kept = np.array([0.5, 0.3]), np.array([0.95, np.exp(-1.0 / 20_000)])
    x = spread * rng.normal(size=(PARTICLES, 2))
    for y in ys:
        log_g = _log_prob(kind, y, u + x.sum(1))
        top = log_g.max()
        weights = np.exp(log_g - top)
        found.append(top + np.log(weights.mean()))
        places = (np.arange(PARTICLES) + rng.random()) / PARTICLES
        x = x[np.searchsorted(np.cumsum(weights / weights.sum()), places).clip(max=PARTICLES - 1)]
        x = kept * x + spread * np.sqrt(1.0 - kept**2) * rng.normal(size=x.shape)
    return np.array(found)


@pytest.mark.parametrize("kind", LONG)
def test_probabilities_are_those_of_a_particle_filter(kind):
    truth, ys = _stream(kind)
    expert, known = Expert(truth), [jnp.asarray(v) for v in CASES[kind][2:]]
    state = _start(expert)
    held = expert.estimator.freeze(state.learner, model=lambda m: jax.tree.leaves(m))
    state = eqx.tree_at(lambda s: s.learner, state, held)
    late = jnp.asarray(np.where(np.arange(ROWS) < FILTERED, ys, np.nan))
    _, (log_mass, _, _) = _run(expert, state, late, *known)
    runs = np.stack([_bootstrap(kind, ys[:FILTERED], seed) for seed in range(RUNS)])
    apart = np.asarray(log_mass)[:FILTERED] - runs.mean(0)
    error = runs.mean(1).std(ddof=1) / RUNS**0.5
    assert abs(apart.mean()) < 5.0 * error + CLOSE
    assert np.abs(apart).max() < SINGLE


@pytest.mark.parametrize("kind", LONG)
def test_parameters_are_learned(kind):
    """From starts that are off by a factor of five in the law and of two and a half in r."""
    _, ys = _stream(kind)
    expert, known = Expert(LatentRate(CASES[kind][1])), [jnp.asarray(v) for v in CASES[kind][2:]]
    start = _start(expert)
    state, (_, low, high) = _run(expert, start, jnp.asarray(ys), *known)
    learned = {k: float(v) for k, v in expert.parameters(state).items()}
    assert 0.90 < learned["persistence"] < 0.98
    assert 0.35 < learned["spread"] < 0.7
    if kind == "counts":
        assert 2.8 < learned["size"] < 6.0
    else:
        assert 0.27 < learned["width"] < 0.33
    # The share's width starts at a third of the truth, and until it is found bands are too narrow:
    # all rows together hold .871, the second half what it should (docs/theory/emissions.md).
    late = np.mean(((ys >= np.asarray(low)) & (ys <= np.asarray(high)))[ROWS // 2 :])
    assert 0.88 < late < 0.97
