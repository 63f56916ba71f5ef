"""Two minutes for statisticians: learn a chaotic network from noisy observations, one at a time.

    python examples/chaotic.py --length 20000 --out chaotic.png

A stream is simulated with known parameters; the learner starts from wrong ones, sees each noisy
observation once (some are missing) and keeps an estimate of the hidden state. The figure shows
the hidden state with its band, the error as learning goes on, and the parameters on their way.
"""

import argparse
import pathlib
import time

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

import rmcvi

matplotlib.use("Agg")
import matplotlib.pyplot as plt

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#8A8A8A"
CHUNK = 1000


def build() -> tuple[rmcvi.models.ChaoticRNN, rmcvi.OnlineEstimator]:
    """The true model, and a learner that starts from wrong parameters."""
    weights = jax.random.key(2)
    truth = rmcvi.models.ChaoticRNN(dim=5, key=weights)
    start = rmcvi.models.ChaoticRNN(dim=5, rho=0.05, gamma=1.5, key=weights)
    learner = rmcvi.OnlineEstimator(
        start,
        rmcvi.families.LinearGaussianFamily(diagonal=True),
        rmcvi.NaturalRMCVI(num_particles=50),
        trainable=rmcvi.Trainable(model=rmcvi.only(start, lambda m: (m.log_rho, m.log_gamma))),
    )
    return truth, learner


def collect(learner, state, info):
    """What the figure needs of each step."""
    filtered, model = learner.filter(state), learner.model_at(state)
    spread = jnp.sqrt(jnp.diagonal(filtered.covariance))
    return filtered.mean, spread, jnp.exp(model.log_rho), jnp.exp(model.log_gamma), info.elbo


def learn(learner: rmcvi.OnlineEstimator, ys: jax.Array) -> list[np.ndarray]:
    """One pass in chunks, with a progress bar."""
    state, parts = learner.init(jax.random.key(1)), []
    columns = (
        TextColumn("learning"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("learn", total=len(ys), rate="compiling")
        for start in range(0, len(ys), CHUNK):
            began = time.perf_counter()
            state, part = rmcvi.scan(learner, state, ys[start : start + CHUNK], collect=collect)
            parts.append(jax.block_until_ready(part))
            speed = CHUNK / (time.perf_counter() - began)
            text = f"{speed:.0f}/s  ELBO/t {float(part[4][-1]) / int(state.t):+.2f}"
            bar.update(task, advance=CHUNK, rate="compiling" if start == 0 else text)
    return [np.concatenate([np.asarray(p[i]) for p in parts]) for i in range(5)]


def rmse(error: np.ndarray) -> float:
    """Mean over time of the root mean square over coordinates."""
    return float(np.mean(np.sqrt(np.mean(error**2, 1))))


def draw(path: pathlib.Path, xs, ys, mean, spread, rho, gamma) -> None:
    """One figure: state, error, parameters."""
    figure, (top, left, right) = plt.subplots(
        3, 1, figsize=(9, 9), gridspec_kw={"height_ratios": [2, 1, 1]}, layout="constrained"
    )
    steps = np.arange(len(xs) - 200, len(xs))
    band = 1.645 * spread[steps, 0]
    top.fill_between(
        steps,
        mean[steps, 0] - band,
        mean[steps, 0] + band,
        color=BLUE,
        alpha=0.25,
        lw=0,
        label="90 % band",
    )
    top.plot(steps, mean[steps, 0], color=BLUE, label="filtered mean")
    top.plot(steps, xs[steps, 0], color="black", lw=1, label="hidden state (truth)")
    top.plot(steps, ys[steps, 0], ".", color=GREY, ms=4, label="observation")
    low, high = xs[steps, 0].min(), xs[steps, 0].max()
    top.set(ylim=(low - 0.6, high + 0.6), ylabel="coordinate 1 of x", xlabel="observation")
    top.set_title("The last 200 observations")
    top.legend(ncols=4, loc="upper center", fontsize=8)

    error = np.sqrt(np.mean((mean - xs) ** 2, 1))
    width = max(len(xs) // 100, 1)
    smooth = np.convolve(error, np.ones(width) / width, "valid")
    raw = np.nanmean(np.sqrt(np.nanmean((ys - xs) ** 2, 1)))
    left.plot(np.arange(len(smooth)) + width, smooth, color=BLUE, label="filter")
    left.axhline(raw, color=GREY, ls="--", label="raw observations")
    left.set(ylabel="RMSE of the state", xlabel="observation", yscale="log")
    left.legend(fontsize=8)
    for values, target, colour, name in (
        (rho / 0.025, 1.0, BLUE, "rho / true rho"),
        (gamma / 2.5, 1.0, ORANGE, "gamma / true gamma"),
    ):
        right.plot(values, color=colour, label=name)
        right.axhline(target, color="black", lw=0.8)
    right.set(ylabel="ratio to the truth", xlabel="observation")
    right.legend(fontsize=8)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main() -> None:
    """Simulate, learn, print, draw."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--length", type=int, default=20_000, help="observations (default 20000)")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("chaotic.png"))
    arguments = parser.parse_args()
    length = max(arguments.length // CHUNK, 1) * CHUNK
    truth, learner = build()
    xs, ys = rmcvi.simulate(truth, jax.random.key(3), length)
    missing = jax.random.bernoulli(jax.random.key(4), 0.05, ys.shape)
    ys = jnp.where(missing, jnp.nan, ys)
    began = time.perf_counter()
    mean, spread, rho, gamma, _ = learn(learner, ys)
    seconds = time.perf_counter() - began
    xs, ys, half = np.asarray(xs), np.asarray(ys), length // 2
    raw = float(np.nanmean(np.sqrt(np.nanmean((ys - xs)[half:] ** 2, 1))))
    inside = np.mean(np.abs(mean - xs)[half:] < 1.645 * spread[half:])
    print(f"{length} observations, 5 % of values missing, in {seconds:.0f} s (compiling included)")
    print(
        f"RMSE of the hidden state, second half: filter {rmse((mean - xs)[half:]):.4f}, "
        f"raw observations {raw:.4f}"
    )
    print(f"90 % bands hold the truth {100 * inside:.1f} % of the time")
    print(
        f"rho {rho[-1]:.4f} (true 0.0250, start 0.0500), "
        f"gamma {gamma[-1]:.3f} (true 2.500, start 1.500)"
    )
    draw(arguments.out, xs, ys, mean, spread, rho, gamma)
    print(f"figure: {arguments.out.resolve()}")


if __name__ == "__main__":
    main()
