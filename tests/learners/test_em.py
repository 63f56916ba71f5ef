"""A learner with EM: freezing, gaps, gradients for the rest, resuming, and what it refuses."""

import inspect
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import rmcvi
from rmcvi import Trainable
from rmcvi.baselines import KalmanRecursion
from rmcvi.families import LinearGaussianFamily
from rmcvi.learners import migrations
from rmcvi.models import ChaoticRNN, LinearGaussian, NeuralGaussian
from rmcvi.optim import OnlineEM
from tests.learners._files import bits
from tests.learners._resumed import QUICK, observation, small_learner

ADAM = optax.adam(1e-2)
EM = OnlineEM(warm_up=3)


def scalar(trained: Any = None, em: OnlineEM = EM) -> rmcvi.OnlineEstimator:
    """One state, one coordinate, exact."""
    model = LinearGaussian(np.array([0.5]), np.array([1.0]), 0.5, 0.5)
    trainable = Trainable() if trained is None else Trainable(model=rmcvi.only(model, trained))
    return rmcvi.OnlineEstimator(
        model, None, KalmanRecursion(), ADAM, ADAM, trainable=trainable, em=em, **QUICK
    )


YS = 2.0 * jax.random.normal(jax.random.key(5), (12, 1))


def after(learner: rmcvi.OnlineEstimator, state: Any, ys: Any) -> Any:
    """One row after the other: learners of equal settings share one program."""
    for y in ys:
        state, _ = learner.update(state, y)
    return state


def moved(learner: rmcvi.OnlineEstimator, before: Any, after: Any) -> set[str]:
    old, new = learner.parameters(before), learner.parameters(after)
    return {name for name in old if old[name].size and not np.array_equal(old[name], new[name])}


def test_em_moves_what_is_trained_and_gradients_the_rest() -> None:
    learner = scalar()
    start = learner.init(jax.random.key(0))
    state = after(learner, start, YS)
    linear = {"transition", "transition_noise", "emission", "emission_noise"}
    assert moved(learner, start, state) == linear | {"initial_mean", "initial_noise"}
    assert int(state.skipped) == 0
    part = scalar(lambda m: (m.transition, m.raw_emission_noise))
    start = part.init(jax.random.key(0))
    assert moved(part, start, after(part, start, YS[:6])) == {"transition", "emission_noise"}


def test_before_the_warm_up_and_between_m_steps_nothing_moves() -> None:
    learner = scalar(lambda m: m.transition, OnlineEM(warm_up=4, every=5))
    states = [learner.init(jax.random.key(0))]
    for y in YS[:6]:
        states.append(learner.update(states[-1], y)[0])
    path = np.array([learner.parameters(s)["transition"][0] for s in states])
    np.testing.assert_array_equal(path[:5], 0.5)
    assert path[5] != 0.5
    assert path[6] == path[5]


def test_frozen_in_mid_stream_and_thawed() -> None:
    learner = scalar()
    state = after(learner, learner.init(jax.random.key(0)), YS[:6])
    frozen = learner.freeze(state, model=lambda m: m.transition)
    held = after(learner, frozen, YS[6:7])
    assert "transition" not in moved(learner, frozen, held)
    assert "transition_noise" in moved(learner, frozen, held)
    thawed = learner.freeze(held, model=lambda m: m.transition, frozen=False)
    assert "transition" in moved(learner, thawed, learner.update(thawed, YS[7])[0])


def test_a_row_without_observations_leaves_the_emission_alone() -> None:
    """It tells nothing of the emission; the transition goes on, by its own prediction."""
    learner = scalar()
    state = after(learner, learner.init(jax.random.key(0)), YS[:6])
    gap = after(learner, state, [jnp.full(1, jnp.nan)])
    np.testing.assert_array_equal(gap.em.emission.rows, state.em.emission.rows)
    np.testing.assert_array_equal(gap.em.transition.rows, state.em.transition.rows + 1)
    np.testing.assert_allclose(
        gap.em.emission.statistics.moments, state.em.emission.statistics.moments, rtol=1e-10
    )
    assert all(np.isfinite(v).all() for v in learner.parameters(gap).values())


def test_resumed_is_uninterrupted(tmp_path: Path) -> None:
    """Statistics, rows and the start are in the checkpoint; a learner without EM refuses it."""
    learner = small_learner(em=EM, **QUICK)
    state = learner.init(jax.random.key(1))
    for t in range(5):
        state, _ = learner.update(state, observation(t))
    rmcvi.save(tmp_path / "run", learner, state)
    again, _ = rmcvi.load(tmp_path / "run", learner)
    assert bits(again) == bits(state)
    assert bits(learner.update(again, observation(5))[0]) == bits(
        learner.update(state, observation(5))[0]
    )
    with pytest.raises(ValueError, match="em"):
        rmcvi.load(tmp_path / "run", small_learner(**QUICK))


@pytest.mark.long
def test_last_layers_in_closed_form_and_hidden_ones_by_gradients() -> None:
    model = NeuralGaussian(2, 3, width=4, depth=1, key=jax.random.key(0))
    learner = rmcvi.OnlineEstimator(
        model, LinearGaussianFamily(), rmcvi.RMCVI(6, window=3, bptt=1), ADAM, ADAM, em=EM, **QUICK
    )
    start = learner.init(jax.random.key(0))
    ys = jax.random.normal(jax.random.key(1), (8, 3)).at[4, 1].set(jnp.nan)
    state, infos = rmcvi.scan(learner, start, ys)
    assert int(infos.skipped[-1]) == 0
    assert len(moved(learner, start, state)) == 10
    hidden, last = (model.drift.layers[k].weight for k in (0, 1))
    learned: Any = learner.model_at(state)
    net = learned.drift
    assert float(jnp.max(jnp.abs(net.layers[0].weight - hidden))) <= 8 * 1.5e-2
    assert float(jnp.max(jnp.abs(net.layers[1].weight - last))) > 1e-3


@pytest.mark.long
def test_the_example_of_the_docstring_runs() -> None:
    text = inspect.cleandoc(OnlineEM.__doc__ or "")
    code = [line.strip() for line in text.splitlines() if line.startswith("    ")]
    assert len(code) == 5
    names: dict[str, Any] = {"rmcvi": rmcvi, "optax": optax, "jax": jax, "jnp": jnp, "np": np}
    exec("\n".join(code), names)
    assert int(names["infos"].skipped[-1]) == 0
    assert np.isfinite(names["infos"].elbo).all()


def test_what_cannot_be_learned_is_refused() -> None:
    model = ChaoticRNN(2)
    weights = Trainable(model=rmcvi.only(model, lambda m: m.weights))
    parts = (model, LinearGaussianFamily(diagonal=True), rmcvi.NaturalRMCVI(4), ADAM, ADAM)
    with pytest.raises(ValueError, match="no trained parameters enter linearly"):
        rmcvi.OnlineEstimator(*parts, trainable=weights, em=EM)
    with pytest.raises(ValueError, match="power: got"):
        OnlineEM(power=0.5)


def test_files_of_learners_that_knew_no_em_are_read() -> None:
    state: Any = {"class": "LearnerState", "best": {"class": "Best"}}
    assert migrations.migrate(state, 2) == state | {
        "em": None,
        "trial": None,
        "best": state["best"] | {"em": None},
    }
    added = {"em": None, "trial": None}
    assert migrations.migrate({"model_ascent": None}, 2) == {"model_ascent": None} | added
    assert migrations.migrate({"panel": None}, 2) == {"panel": None}
