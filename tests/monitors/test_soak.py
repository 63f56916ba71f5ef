"""Every monitor through sixty thousand rows of faults, in single precision: finite, and back."""

import jax
import jax.numpy as jnp
import numpy as np

from rmcvi.monitors import (
    AnomalyMonitor,
    DriftDetector,
    PeerMonitor,
    SensorMonitor,
    gaussian_p_value,
)

LENGTH, START, STOP = 60_000, 4_000, 54_000


def _faulty() -> np.ndarray:
    """Columns of one signal: well, stuck, dead, with outliers, shifted; and a random walk."""
    rng = np.random.default_rng(0)
    signal = np.zeros(LENGTH)
    for t, shock in enumerate(rng.standard_normal(LENGTH - 1), 1):
        signal[t] = 0.97 * signal[t - 1] + 0.25 * shock
    ys = signal[:, None] + 0.3 * rng.standard_normal((LENGTH, 6))
    ys[START:STOP, 1] = ys[START, 1]
    ys[START:STOP, 2] = np.nan
    ys[START:STOP:50, 3] = 1e6
    ys[START:STOP, 4] += 1e6
    ys[:, 5] = np.cumsum(rng.standard_normal(LENGTH))
    return ys


def test_monitors_outlive_every_fault() -> None:
    """Nothing that was a number becomes none; when the faults are over, so are the verdicts."""
    with jax.enable_x64(False):
        sensors, peers, drift = SensorMonitor(), PeerMonitor(), DriftDetector()
        anomalies = AnomalyMonitor()
        ys = jnp.asarray(_faulty(), jnp.float32)

        def step(state, y):
            before, watched, compared, drifting, unusual = state
            last = jnp.where(jnp.isnan(y), before, y)
            p_value = gaussian_p_value(y, before, jnp.ones(6))
            watched, failed, _ = sensors.step(watched, y, p_value, jnp.ones(6))
            compared, apart, _ = peers.step(compared, y)
            score = -0.5 * jnp.nansum((y - before) ** 2)
            drifting, _, change = drift.step(drifting, score)
            unusual, found = anomalies.step(unusual, y - before, p_value, jnp.ones(6))
            state = last, watched, compared, drifting, unusual
            finite = [jnp.all(jnp.isfinite(v)) for v in jax.tree.leaves(state)]
            return state, (failed, apart, change, found.score, jnp.all(jnp.stack(finite)))

        start = jnp.zeros(6), sensors.init(6), peers.init(6), drift.init(), anomalies.init(6)
        _, (failed, apart, change, score, finite) = jax.jit(lambda s, y: jax.lax.scan(step, s, y))(
            start, ys
        )
        seen = np.asarray(finite)
    # Until every column has moved once there is something yet to be known.
    assert seen[10:].all()
    for told in (failed, apart, change, score):
        assert np.isfinite(np.asarray(told)).all()
    after = slice(STOP + 2000, None)
    assert (np.asarray(failed)[after, :5] > 0.5).mean() < 0.01
    assert (np.asarray(apart)[after] > 0.5).mean() < 0.01
    score = np.asarray(score)
    assert (score >= 0.0).all() and (score <= 1.0).all()
    assert (score[START : START + 60, [3, 4]] > 0.5).any(0).all()
    assert (score[:, 0] > 0.5).sum() < 60 and (score[after] > 0.5).mean() < 0.01
    stuck = np.asarray(failed)[START + 100 : STOP, 1]
    assert (stuck > 0.5).all()
