"""Student's t with an even number of degrees of freedom is that of scipy."""

import jax.numpy as jnp
import numpy as np
from scipy.stats import t as student

from rmcvi.core.student import log_density, nodes, quantile, upper_tail


def test_student() -> None:
    r = np.linspace(-30.0, 30.0, 41)
    for nu in (4, 6):
        np.testing.assert_allclose(log_density(jnp.asarray(r), nu), student.logpdf(r, nu))
        np.testing.assert_allclose(upper_tail(jnp.asarray(r), nu), student.sf(r, nu), rtol=1e-9)
        np.testing.assert_allclose(quantile(0.05, nu), student.ppf(0.05, nu))
    np.testing.assert_allclose(nodes(15, 6), student.ppf((np.arange(15) + 0.5) / 15, 6), atol=1e-12)
