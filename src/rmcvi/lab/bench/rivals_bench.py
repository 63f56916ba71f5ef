"""`rivals`: time per observation at equal accuracy, for every rival that learns online.

All methods predict the same stream; RMCVI runs with several numbers of particles. A rival's time is
set against that of the fastest RMCVI whose one-step error is at most one per cent above its own.
"""

from typing import Any

import jax
import optax

from rmcvi.baselines import (
    OVSMC,
    AllPairs,
    ExtendedKalmanRecursion,
    FreeBackward,
    FunctionRegression,
    OnlineLSTM,
    Paris,
    ParticleRecursion,
    Persistence,
    ProposalNetwork,
    RecursiveLeastSquares,
)
from rmcvi.contract import Trainable
from rmcvi.families import InnovationFamily, LinearGaussianFamily
from rmcvi.lab.bench.measure import Outcome, Target
from rmcvi.lab.compare import Setup, compare
from rmcvi.learners import OnlineEstimator
from rmcvi.models import ChaoticRNN, simulate
from rmcvi.optim import OnlineEM
from rmcvi.recursion import RMCVI, CalibratedWeights, NaturalRMCVI

DIM = 3


def rivals(quick: bool = False) -> Outcome:
    """One comparison; `speedup` is a rival's time over that of an equally good RMCVI."""
    length = 40 if quick else 4000
    truth = ChaoticRNN(dim=DIM)
    xs, ys = simulate(truth, jax.random.key(0), length)
    methods = _ours(quick) | _theirs(quick)
    setup = Setup(blocks=4 if quick else 20)
    found = compare(methods, ys, truth=xs, burn_in=length // 4, setup=setup)
    ours = [r for r in found.rows if r.name.startswith("rmcvi") and r.rmse is not None]
    rows, numbers = [], {}
    for row in found.rows:
        entry: dict[str, Any] = {"method": row.name, "rmse": row.rmse, "state_rmse": row.state_rmse}
        entry["log_score"] = row.log_score
        entry["microseconds"] = None if row.seconds is None else 1e6 * row.seconds
        equal = [r.seconds for r in ours if row.rmse and r.rmse and r.rmse <= 1.01 * row.rmse]
        fastest = min((s for s in equal if s is not None), default=None)
        entry["speedup"] = None if fastest is None or not row.seconds else row.seconds / fastest
        entry["failure"] = row.failure
        rows.append(entry)
        numbers[row.name] = entry["speedup"]
    learned = [r for r in rows if not r["method"].startswith("rmcvi") and r["speedup"] is not None]
    targets = [
        Target(
            f"an equally good RMCVI exists for each of {len(rows) - len(ours)} rivals: "
            f"{len(learned)}",
            len(learned) == len(rows) - len(ours),
        )
    ]
    title = f"Time per observation at equal one-step error, {length} observations"
    return Outcome("rivals", title, {"speedups": numbers}, rows, targets, quick)


ADAM = optax.adam(1e-3)


def _learner(
    family: Any, recursion: Any, quick: bool, optimiser: Any = ADAM, em: Any = None
) -> OnlineEstimator:
    """A learner that starts from wrong time constants and gains."""
    start = ChaoticRNN(dim=DIM, rho=0.05, gamma=1.5)
    trainable = Trainable() if family is not None else Trainable(family=False)
    return OnlineEstimator(
        start,
        None if family is None else family(start),
        recursion,
        optimiser,
        ADAM,
        trainable=trainable,
        em=em,
        draws=10 if quick else 100,
    )


def _ours(quick: bool) -> dict[str, Any]:
    def family(start: Any) -> Any:
        return InnovationFamily(start, hidden=4 if quick else 32, key=jax.random.key(1))

    sizes = (5,) if quick else (10, 30, 100)
    found = {f"rmcvi {num}": _learner(family, RMCVI(num, window=8, bptt=4), quick) for num in sizes}
    if quick:
        return found

    def tied(_: Any) -> Any:
        return LinearGaussianFamily(diagonal=True)

    calibrated = RMCVI(30, window=8, bptt=4, backward=CalibratedWeights())
    return (
        found
        | {f"rmcvi, natural {num}": _learner(tied, NaturalRMCVI(num), quick) for num in (5, 20)}
        | {
            "rmcvi, calibrated 30": _learner(family, calibrated, quick),
            "rmcvi, natural 25, Fisher steps": _learner(tied, NaturalRMCVI(25), quick, None),
            "rmcvi, natural 25, online EM": _learner(tied, NaturalRMCVI(25), quick, em=OnlineEM()),
        }
    )


def _theirs(quick: bool) -> dict[str, Any]:
    simple = {
        "persistence": Persistence(DIM),
        "least squares": RecursiveLeastSquares(DIM, lags=(1, 2)),
    }
    if quick:
        return simple
    key = jax.random.key(1)
    few = RMCVI(30, window=8, bptt=4, gradient="forward")
    return simple | {
        "online LSTM": OnlineLSTM(DIM),
        "extended Kalman": _learner(None, ExtendedKalmanRecursion(learn=True), quick),
        "particles, all pairs": _learner(
            None, ParticleRecursion(100, gradient=True, backward=AllPairs()), quick
        ),
        "particles, PaRIS": _learner(
            None, ParticleRecursion(100, gradient=True, backward=Paris(2)), quick
        ),
        "OVSMC": _learner(lambda m: ProposalNetwork(m, key=key, hidden=32), OVSMC(100), quick),
        "function regression": _learner(
            lambda m: FreeBackward(m, key=key, hidden=16),
            FunctionRegression(50, num_points=50),
            quick,
        ),
        "the paper's forward form": _learner(
            lambda m: InnovationFamily(m, hidden=32, key=key), few, quick
        ),
    }
