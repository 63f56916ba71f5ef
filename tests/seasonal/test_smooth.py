"""The smoother against the joint Gaussian of all rows, solved at once."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from rmcvi.core.regression import Regression
from rmcvi.learners.seasonal.columns import Columns
from rmcvi.learners.seasonal.component import Component, Kind
from rmcvi.learners.seasonal.design import Design
from rmcvi.learners.seasonal.recent import Recent
from rmcvi.learners.seasonal.settings import Settings
from rmcvi.learners.seasonal.smooth import smooth

DESIGN = Design(size=2, width=0, cross=2, own=2, long=(), periods=(), harmonics=0)
SETTINGS = Settings(keep=1.0, slow=0.0, slow_slopes=0.0, degrees=6, memory=10.0, gate=1e3)


def test_equals_the_joint_gaussian() -> None:
    """x_t = A x_{t-1} + B x_{t-2} + c + noise over 7 rows, some of it seen."""
    rng = np.random.default_rng(0)
    weights = 0.3 * rng.standard_normal((2, 5))
    rows = Regression(jnp.asarray(weights), jnp.zeros((2, 5, 5)))
    component = eqx.tree_at(lambda c: c.rows, Component.prior(DESIGN), rows)
    columns = eqx.tree_at(lambda c: c.known, Columns.unknown(DESIGN), jnp.ones(2, bool))
    ys = rng.standard_normal((7, 2))
    ys[rng.random(ys.shape) < 0.4] = np.nan
    kind, window = Kind(jnp.asarray(False), jnp.ones(5)), Recent.empty(7, 2, 0)
    window = eqx.tree_at(lambda r: r.y, window, jnp.asarray(ys))
    got = jax.jit(lambda rows: smooth(component, columns, kind, rows, DESIGN, SETTINGS))(window)

    # Rows -2 and -1 have the prior N(0, I); stacked, (I - shifts) x = c + noise.
    system, centre = np.eye(18), np.zeros(18)
    noise = np.kron(np.eye(9), 0.25 * (0.9 * np.eye(2) + 0.1) + 1e-6 * np.eye(2))
    noise[:4, :4] = np.eye(4)
    for t in range(2, 9):
        system[2 * t : 2 * t + 2, 2 * t - 2 : 2 * t] = -weights[:, :2]
        system[2 * t : 2 * t + 2, 2 * t - 4 : 2 * t - 2] = -weights[:, 2:4]
        centre[2 * t : 2 * t + 2] = weights[:, 4]
    inverse = np.linalg.inv(system)
    mean, cov = inverse @ centre, inverse @ noise @ inverse.T
    values = np.concatenate([np.full(4, np.nan), ys.ravel()])
    seen = ~np.isnan(values)
    gain = cov[:, seen] @ np.linalg.inv(cov[np.ix_(seen, seen)])
    mean, cov = mean + gain @ (values - mean)[seen], cov - gain @ cov[seen]
    np.testing.assert_allclose(np.asarray(got.location).ravel(), mean[4:], atol=1e-9)
    np.testing.assert_allclose(np.asarray(got.deviation).ravel() ** 2, np.diag(cov)[4:], atol=1e-9)
