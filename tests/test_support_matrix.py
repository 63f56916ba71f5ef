"""What each method can do is tried on a tiny stream; the guide's table must say the same.

`python -m tests.test_support_matrix` rewrites the table.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import rmcvi
from rmcvi import baselines, families
from rmcvi.checks.tools import raw

PAGE = Path(__file__).parents[1] / "docs" / "guides" / "support-matrix.md"
TABLE = re.compile(r"^\| method .*?(?=\n\n)", re.S | re.M)
ROWS = 14
"""Enough for the seasonal learner, which starts after eight."""
ONES = np.ones((2, 1))
"""Inputs of two rows ahead."""


def model() -> rmcvi.models.LinearGaussian:
    """One state, two sensors, one input."""
    return rmcvi.models.LinearGaussian(
        jnp.array([0.8]),
        jnp.array([[1.0], [0.5]]),
        jnp.array([0.5]),
        jnp.array([0.3, 0.3]),
        state_input=jnp.array([[0.7]]),
    )


def estimator(recursion: Any, family: Any = None, fitted: bool = False) -> rmcvi.OnlineEstimator:
    """The learner around a recursion, without its monitors; some recursions fit the family."""
    start = model()
    return rmcvi.OnlineEstimator(
        start,
        family,
        recursion,
        optax.sgd(1e-3),
        optax.sgd(1e-3),
        trainable=rmcvi.Trainable(
            model=rmcvi.only(start, lambda m: m.transition),
            family=False if family is None or fitted else eqx.is_inexact_array,
        ),
        draws=10,
        guard=False,
        health=False,
        drift=False,
        sensors=False,
    )


def _tied() -> Any:
    return families.LinearGaussianFamily(diagonal=True)


def _per_step() -> Any:
    return families.PerStepFamily(model(), key=jax.random.key(0), hidden=2)


def _free() -> Any:
    return baselines.FreeBackward(model(), key=jax.random.key(0), hidden=2)


def _proposal() -> Any:
    return baselines.ProposalNetwork(model(), key=jax.random.key(0), hidden=2, base="bootstrap")


METHODS: dict[str, Callable[[], Any]] = {
    "`RMCVI`": lambda: estimator(rmcvi.RMCVI(4, window=3, bptt=2), _tied()),
    "`NaturalRMCVI`": lambda: estimator(rmcvi.NaturalRMCVI(4, num_steps=1, lag=4), _tied()),
    "`PerStepRMCVI`": lambda: estimator(
        rmcvi.PerStepRMCVI(4, num_steps=30, optimiser=optax.adam(0.1)), _per_step(), fitted=True
    ),
    "`SeasonalLearner`": lambda: rmcvi.SeasonalLearner(
        2, 1, period=4, long=(), own=1, cross=1, warm=8, window=4, plain=False
    ),
    "`KalmanRecursion`": lambda: estimator(baselines.KalmanRecursion()),
    "`ExtendedKalmanRecursion()`": lambda: estimator(baselines.ExtendedKalmanRecursion()),
    "`ExtendedKalmanRecursion(learn=True)`": lambda: estimator(
        baselines.ExtendedKalmanRecursion(learn=True)
    ),
    "`LocalKalmanRecursion`": lambda: estimator(baselines.LocalKalmanRecursion(1)),
    "`ParticleRecursion()`": lambda: estimator(baselines.ParticleRecursion(8)),
    "`ParticleRecursion(gradient=True)`, PaRIS": lambda: estimator(
        baselines.ParticleRecursion(8, gradient=True, backward=baselines.Paris(2))
    ),
    "`OVSMC`": lambda: estimator(baselines.OVSMC(4), _proposal()),
    "`FunctionRegression`": lambda: estimator(
        baselines.FunctionRegression(30, num_samples=2, num_points=4, optimiser=optax.adam(0.1)),
        _free(),
        fitted=True,
    ),
    "`OnlineLSTM`": lambda: baselines.OnlineLSTM(2, 1, hidden=2, bptt=2),
    "`RecursiveLeastSquares`": lambda: baselines.RecursiveLeastSquares(2, 1, lags=(1,)),
    "`Persistence`": lambda: baselines.Persistence(2, 1),
}


class After(NamedTuple):
    """A learner after the stream, and the last row that it has not seen yet."""

    learner: Any
    state: Any
    y: np.ndarray


def finite(answer: Any) -> bool:
    """All numbers of an answer are numbers."""
    leaves = [leaf for leaf in jax.tree.leaves(answer) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    return bool(leaves) and all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in leaves)


def predicted(after: After, u: float = 1.0, dt: float = 1.0) -> np.ndarray:
    """Mean and interval of the next row."""
    said = after.learner.update(after.state, after.y, np.array([u]), dt)[1].prediction
    return np.stack([said.mean, said.low, said.high])


def learned(learner: Any, ys: np.ndarray) -> After:
    """The learner after all rows but the last; the input alternates."""
    state = learner.init(jax.random.key(1))
    for t, y in enumerate(ys[:-1]):
        state, _ = learner.update(state, y, np.array([t % 3.0]), 1.0)
    return After(learner, state, ys[-1])


def stream() -> np.ndarray:
    """A wandering pair; late in it one value is missing, then a whole row."""
    rng = np.random.default_rng(0)
    ys = np.cumsum(rng.normal(size=(ROWS, 1)), 0) * [1.0, 0.5] + rng.normal(size=(ROWS, 2)) * 0.3
    ys[-3, 1] = ys[-2] = np.nan
    return ys


def missing_data(after: After) -> bool:
    """Predictions stay finite, and missing is not zero."""
    other = learned(after.learner, np.nan_to_num(stream()))
    usual = predicted(after)
    return bool(np.all(np.isfinite(usual)) and not np.allclose(usual, predicted(other)))


def inputs(after: After) -> bool:
    """Another input, another prediction."""
    return not np.allclose(predicted(after), predicted(after, u=3.0))


def irregular_time(after: After) -> bool:
    """A longer step, another prediction."""
    return not np.allclose(predicted(after), predicted(after, dt=2.5))


def learns(after: After) -> bool:
    """Parameters have moved."""
    learner, start = after.learner, after.learner.init(jax.random.key(1))
    pairs = zip(*(learner.parameters(s).values() for s in (start, after.state)), strict=True)
    return any(not np.array_equal(a, b) for a, b in pairs)


def answers(after: After, question: str, *arguments: Any) -> bool:
    """All numbers of the answer are finite."""
    return finite(getattr(after.learner, question)(after.state, *arguments))


def saves(after: After) -> bool:
    """Every leaf comes back, to the bit."""
    path = Path("state.ckpt")
    rmcvi.save(path, after.learner, after.state)
    again, _ = rmcvi.load(path, after.learner)
    pairs = zip(jax.tree.leaves(after.state), jax.tree.leaves(again), strict=True)
    return all(raw(a).tobytes() == raw(b).tobytes() for a, b in pairs)


COLUMNS: dict[str, Callable[[After], bool]] = {
    "missing data": missing_data,
    "inputs": inputs,
    "irregular time": irregular_time,
    "learns": learns,
    "forecast": lambda after: answers(after, "forecast", 2, ONES),
    "present": lambda after: answers(after, "present"),
    "recent": lambda after: answers(after, "recent", 1),
    "filter": lambda after: after.learner.dim_state > 0 and answers(after, "filter"),
    "smooth": lambda after: after.learner.dim_state > 0 and answers(after, "smooth", 1),
    "save, load": saves,
}

SHARED = ("smooth", "forecast", "present", "recent")


def cell(column: str, after: After) -> str:
    """Yes, or a dash where there is no such thing, or it has no effect."""
    # the questions are the same code for all recursions: op by op they share what is compiled
    with jax.disable_jit(column in SHARED and after.learner.dim_state > 0):
        return "yes" if COLUMNS[column](after) else "-"


def row(name: str) -> str:
    """A line of the table."""
    after = learned(METHODS[name](), stream())
    return f"| {name} | {' | '.join(cell(column, after) for column in COLUMNS)} |"


def header() -> list[str]:
    """The first two lines of the table."""
    return [f"| method | {' | '.join(COLUMNS)} |", "|---" * (1 + len(COLUMNS)) + "|"]


def table() -> list[str]:
    """The lines of the table in the guide."""
    found = TABLE.search(PAGE.read_text())
    assert found is not None, f"{PAGE.name}: got no table, expected one"
    return found[0].splitlines()


def test_the_table_has_every_method_and_column() -> None:
    lines = table()
    assert lines[:2] == header()
    assert [line.split(" | ")[0].removeprefix("| ") for line in lines[2:]] == list(METHODS)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_the_table_says_what_is_so(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert row(name) in table()


def rewrite() -> None:
    """Try everything and write the table into the page."""
    lines = "\n".join(header() + [row(name) for name in METHODS])
    PAGE.write_text(TABLE.sub(lambda _: lines, PAGE.read_text()))
    Path("state.ckpt").unlink()


if __name__ == "__main__":
    rewrite()
