"""Comparisons: the numbers against NumPy, failures kept, the frontier by hand."""

import pathlib
from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float, Key

import rmcvi
from rmcvi.baselines import Persistence, RecursiveLeastSquares
from rmcvi.lab.compare.comparing import Setup, compare
from rmcvi.lab.compare.comparison import Comparison, Row
from tests.baselines._streams import broken


class Said(eqx.Module):
    prediction: rmcvi.Prediction | None


class Tiny(rmcvi.AbstractLearner):
    """Predicts a draw made at the start; misbehaves on request from row 30 on."""

    trouble: str = eqx.field(static=True, default="")
    dim_obs: int = eqx.field(static=True, default=2)
    dim_input: int = eqx.field(static=True, default=0)
    level: float = eqx.field(static=True, default=0.9)

    @property
    def dim_state(self) -> int:
        return 2

    def init(self, key: Key[Array, ""]) -> tuple[Array, Array]:
        if self.trouble == "init":
            raise RuntimeError("no such luck\nand a long story")
        return jax.random.normal(key, (2,)), jnp.zeros((), int)

    def step(
        self, state: tuple[Array, Array], y: Float[Array, "dy"], inputs: rmcvi.Inputs
    ) -> tuple[tuple[Array, Array], Said]:
        value, t = state
        if self.trouble == "step":
            raise ValueError("step: got nothing, expected something")
        if self.trouble == "silent":
            return (value, t + 1), Said(None)
        mean = jnp.where((self.trouble == "nan") & (t >= 30), jnp.nan, value)
        said = rmcvi.Prediction.gaussian(mean, jnp.ones(2), y, 0.9)
        return (value, t + 1), Said(said)

    def filter(self, state: tuple[Array, Array]) -> rmcvi.Filtered:
        return rmcvi.Filtered(state[0], jnp.eye(2))


METHODS: dict[str, rmcvi.AbstractLearner] = {
    "persistence": Persistence(2, 1),
    "least squares": RecursiveLeastSquares(2, 1, lags=(1,)),
    "draw": Tiny(),
    "nan": Tiny(trouble="nan"),
    "raises": Tiny(trouble="step"),
    "unborn": Tiny(trouble="init"),
    "silent": Tiny(trouble="silent"),
    "too wide": Persistence(3),
}
SEEDS, BURN_IN = (0, 5), 7


def truth() -> np.ndarray:
    return np.ones((60, 2))


def ran(methods: dict[str, rmcvi.AbstractLearner], blocks: int = 7) -> Comparison:
    ys, u = broken()
    return compare(
        methods,
        ys,
        u,
        truth=truth(),
        burn_in=BURN_IN,
        setup=Setup(columns=(1,), names=("a", "b"), seeds=SEEDS, blocks=blocks),
    )


@cache
def compared() -> Comparison:
    return ran(METHODS)


def test_numbers_are_those_of_a_plain_pass() -> None:
    """Blocks, padding and interleaving change nothing."""
    ys, u = broken()
    seen = ~np.isnan(ys[BURN_IN:])
    for name in ("persistence", "least squares"):
        method, row = METHODS[name], compared().row(name)
        _, infos = rmcvi.scan(method, method.init(jax.random.key(0)), ys, u)
        said: Any = jax.tree.map(lambda v: np.asarray(v)[BURN_IN:], infos.prediction)
        error = (ys[BURN_IN:] - said.mean)[:, 1]
        inside = (said.low < ys[BURN_IN:]) & (ys[BURN_IN:] < said.high)
        assert row.failure is None
        assert row.rmse == pytest.approx(np.sqrt(np.nanmean(error**2)), rel=1e-9)
        assert row.rmse_by_column == (pytest.approx(row.rmse),)
        assert row.log_score == pytest.approx(np.nansum(said.log_score) / seen.sum(), rel=1e-9)
        assert row.coverage == pytest.approx(inside[:, 1][seen[:, 1]].mean())
        assert row.width == pytest.approx((said.high - said.low)[:, 1].mean())
        assert row.rmse_spread == 0.0
        assert row.state_rmse is None


def test_seeds_are_averaged_and_states_scored() -> None:
    """Against the draws that the keys make."""
    ys, _ = broken()
    draws = [np.asarray(jax.random.normal(jax.random.key(s), (2,))) for s in SEEDS]
    errors = [np.sqrt(np.nanmean((ys[BURN_IN:, 1] - d[1]) ** 2)) for d in draws]
    row = compared().row("draw")
    assert row.rmse == pytest.approx(np.mean(errors))
    assert row.rmse_spread == pytest.approx(np.std(errors))
    distances = [np.sqrt(np.mean((d - 1.0) ** 2)) for d in draws]
    assert row.state_rmse == pytest.approx(np.mean(distances))
    # An observation of the same dimension is not a state.
    assert compared().row("persistence").state_rmse is None


def test_failures_keep_their_rows_and_reasons() -> None:
    """In the order of the methods, with the cost where there was one."""
    reasons = {row.name: row.failure for row in compared().rows}
    assert list(reasons) == list(METHODS)
    assert reasons["draw"] is None
    assert reasons["nan"] == "prediction not finite at row 30 (30 of 60 rows)"
    assert reasons["raises"] == "ValueError: step: got nothing, expected something"
    assert reasons["unborn"] == "RuntimeError: no such luck"
    assert reasons["silent"] == "ValueError: prediction: got None, expected one at each step"
    assert reasons["too wide"] == "ValueError: ys: got an array of shape (60, 2), expected (any, 3)"
    failed = compared().row("nan")
    assert failed.rmse is None
    assert failed.seconds is not None and failed.seconds > 0.0


def test_costs_are_told() -> None:
    """Sizes are exact; times are positive and ordered."""
    row = compared().row("draw")
    assert row.state_bytes == 2 * 8 + 8
    assert row.compile_seconds is not None and row.compile_seconds > 0.0
    low, mid, high = row.seconds_low, row.seconds, row.seconds_high
    assert low is not None and mid is not None and high is not None
    assert 0.0 < low <= mid <= high
    assert compared().threads >= 1
    assert compared().precision == "float64"


def test_order_does_not_matter() -> None:
    """Accuracy is the same whoever comes first and however the stream is cut."""
    turned = ran({name: METHODS[name] for name in ("draw", "persistence")}, blocks=1)
    for name in ("draw", "persistence"):
        a, b = turned.row(name), compared().row(name)
        assert (a.rmse, a.log_score, a.coverage) == (b.rmse, b.log_score, b.coverage)


def hand_made() -> Comparison:
    rows = (
        Row("slow and good", rmse=1.0, log_score=-1.0, seconds=9e-6, seconds_low=8e-6),
        Row("fast and bad", rmse=3.0, log_score=-9.0, seconds=1e-6, seconds_high=2e-6),
        Row("beaten", rmse=2.5, log_score=-0.5, seconds=5e-6),
        Row("middle", rmse=2.0, log_score=float("-inf"), seconds=4e-6),
        Row("failed", failure="no", rmse=0.0, seconds=1e-7),
        Row("unknown", seconds=1e-7),
    )
    return Comparison(rows, ("a",), 60, 0, (0,), 2, "float32", "cpu")


def test_frontier_of_a_hand_made_table() -> None:
    """Fastest first; a failure is never on it; a larger log score is better."""
    assert hand_made().frontier() == ("fast and bad", "middle", "slow and good")
    assert hand_made().frontier("log_score") == ("fast and bad", "beaten")
    with pytest.raises(ValueError, match="metric: got 'coverage'"):
        hand_made().frontier("coverage")


def test_json_comes_back() -> None:
    for found in (hand_made(), compared()):
        assert Comparison.from_json(found.to_json()) == found


def test_table_is_aligned_and_says_why() -> None:
    lines = compared().table().split("\n")
    assert len({len(line) for line in lines[: 2 + len(METHODS)]}) == 1
    assert "unborn failed: RuntimeError: no such luck" in lines
    assert lines[-1].startswith("53 of 60 rows scored, columns b; 2 seeds; float64 on cpu")
    assert "state RMSE" not in hand_made().table()


@pytest.mark.parametrize("metric", ["rmse", "log_score"])
def test_picture_is_written(tmp_path: pathlib.Path, metric: str) -> None:
    path = hand_made().plot(tmp_path / "frontier.png", metric)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_refusals() -> None:
    ys, _ = broken()
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"setup": Setup(columns=(2,))}, "columns: got"),
        ({"setup": Setup(names=("a",))}, "names: got 1, expected 2"),
        ({"burn_in": 60}, "burn_in: got 60"),
        ({"setup": Setup(seeds=())}, "methods, seeds: got none"),
        ({"truth": np.ones((3, 2))}, "truth: got an array of shape"),
    ]
    for options, message in wrong:
        with pytest.raises(ValueError, match=message):
            compare(METHODS, ys, **options)
