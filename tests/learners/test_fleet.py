"""A fleet is its streams, one by one."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import rmcvi
from tests.learners._resumed import QUICK

STREAMS, STEPS = 3, 4


@pytest.fixture(scope="module")
def learner() -> rmcvi.OnlineEstimator:
    model = rmcvi.models.LinearGaussian(jnp.array([0.8]), jnp.ones(1), 0.5, 0.4)
    family = rmcvi.families.LinearGaussianFamily(model)
    recursion = rmcvi.RMCVI(4, window=2, bptt=1)
    return rmcvi.OnlineEstimator(
        model, family, recursion, optax.sgd(1e-2), optax.sgd(1e-2), **QUICK
    )


@pytest.fixture(scope="module")
def ran(learner: rmcvi.OnlineEstimator) -> Any:
    """Observations, who was there, the fleet's states after all steps, and what it told."""
    ys = np.random.default_rng(0).normal(size=(STEPS, STREAMS, 1))
    ys[1, 0] = np.nan
    active = np.ones((STEPS, STREAMS), bool)
    active[:2, 2] = False
    fleet = rmcvi.Fleet(learner, STREAMS)
    states, infos = fleet.init(jax.random.key(1)), []
    for y, there in zip(ys, active, strict=True):
        states, info = fleet.update(states, y, active=there)
        infos.append(info)
    return fleet, ys, active, states, infos


def test_streams_are_those_of_single_learners(learner: rmcvi.OnlineEstimator, ran: Any) -> None:
    """Parameters, clocks and the ELBO, with a missing value and a stream that joins late."""
    fleet, ys, active, states, infos = ran
    keys = jax.random.split(jax.random.key(1), STREAMS)
    for i in range(STREAMS):
        state = learner.init(keys[i])
        for t in range(STEPS):
            if active[t, i]:
                state, info = learner.update(state, ys[t, i])
                np.testing.assert_allclose(infos[t].elbo[i], info.elbo, rtol=1e-9)
        mine = fleet.stream(states, i)
        assert int(mine.t) == int(state.t) == (STEPS - 2 if i == 2 else STEPS)
        leaves = zip(jax.tree.leaves(mine.phi), jax.tree.leaves(state.phi), strict=True)
        for a, b in leaves:
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_updates_are_the_scan(ran: Any) -> None:
    """One row at a time ends where the loop ends, absent streams included."""
    _, ys, active, _, _ = ran
    fleet = rmcvi.Fleet(rmcvi.baselines.Persistence(1), STREAMS)
    start = fleet.init(jax.random.key(1))
    states, infos = fleet.scan(start, ys, active=active)
    for t in range(STEPS):
        start, info = fleet.update(start, ys[t], active=active[t])
        np.testing.assert_array_equal(info.prediction.mean, infos.prediction.mean[t])
    assert same(start, states)


def test_wrong_shapes_are_refused(ran: Any) -> None:
    """In words, before anything is compiled."""
    fleet, ys, _, states, _ = ran
    with pytest.raises(ValueError, match=r"^y: "):
        fleet.update(states, ys[0, :, 0])
    with pytest.raises(ValueError, match="active"):
        fleet.update(states, ys[0], active=np.array([True]))


def test_inputs_and_steps_are_those_of_single_learners(tmp_path: Path) -> None:
    """To the bit, row by row and in one loop; so are questions, and what a file gives back."""
    rng = np.random.default_rng(0)
    ys, u = rng.normal(size=(6, STREAMS, 2)), rng.normal(size=(8, STREAMS, 1))
    ys[2, 1, 0] = np.nan
    dt = rng.uniform(0.5, 2.0, size=(8, STREAMS))
    single = rmcvi.baselines.Persistence(2, 1)
    fleet = rmcvi.Fleet(single, STREAMS)
    start = fleet.init(jax.random.key(1))
    states, infos = fleet.scan(start, ys, u[:6], dt[:6])
    again, told = rmcvi.scan(fleet, start, ys, u[:6], dt[:6])
    assert same(states, again) and same(infos, told)
    ahead = fleet.forecast(states, 2, u[6:], dt[6:])
    rmcvi.save(tmp_path / "fleet", fleet, states, {"rows": 6})
    loaded, extra = rmcvi.load(tmp_path / "fleet", fleet)
    assert same(loaded, states) and extra == {"rows": 6}
    with pytest.raises(rmcvi.CheckpointError, match="count: file has 3, learner has 4"):
        rmcvi.load(tmp_path / "fleet", rmcvi.Fleet(single, 4))
    for i in range(STREAMS):
        state, info = rmcvi.scan(
            single, single.init(jax.random.key(0)), ys[:, i], u[:6, i], dt[:6, i]
        )
        assert same(fleet.stream(states, i), state)
        assert same(jax.tree.map(lambda v, i=i: v[:, i], infos), info)
        alone = single.forecast(state, 2, u[6:, i], dt[6:, i])
        assert same(jax.tree.map(lambda v, i=i: v[:, i], ahead), alone)
        assert same(jax.tree.map(lambda v, i=i: v[i], fleet.present(states)), single.present(state))


def test_a_fleet_of_estimators_is_saved(
    learner: rmcvi.OnlineEstimator, ran: Any, tmp_path: Path
) -> None:
    """With its keys, and it answers what one learner answers."""
    fleet, _, _, states, infos = ran
    rmcvi.save(tmp_path / "fleet", fleet, states)
    loaded, _ = rmcvi.load(tmp_path / "fleet", fleet)
    assert same(jax.random.key_data(loaded.key), jax.random.key_data(states.key))
    assert same(loaded.phi, states.phi)
    assert fleet.filter(states).mean.shape == (STREAMS, 1)
    assert fleet.forecast(states, 2).mean.shape == (2, STREAMS, 1)
    elbo = fleet.diagnostics(states, infos[-1]).elbo
    assert elbo is not None and elbo.shape == (STREAMS,)
    one = learner.forecast(fleet.stream(states, 1), 2)
    np.testing.assert_allclose(fleet.forecast(states, 2).mean[:, 1], one.mean, rtol=1e-9)


def same(a: Any, b: Any) -> bool:
    """All arrays are, to the bit."""
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return all(np.asarray(v).tobytes() == np.asarray(w).tobytes() for v, w in pairs)
