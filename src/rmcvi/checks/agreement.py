"""Do the sampler and the density of one law describe the same law? Sentences from its draws."""

import jax
import numpy as np

from rmcvi.checks.laws import DENSITY, NUM_DRAWS, SAMPLER, VARIABLE, Seen
from rmcvi.checks.numbers import excess, paths, sample_excess, shown, standard_error, worst
from rmcvi.checks.report import SKIPPED


def finite(law: str, seen: Seen) -> str | None:
    """Draws, log-densities and their slopes are finite at the model's own draws."""
    bad = int(np.sum(~np.all(np.isfinite(seen.draws), -1)))
    if bad:
        return f"model.{SAMPLER[law]}: {bad} of {seen.log_prob.size} draws are not finite"
    for name, values in (("", seen.log_prob[..., None]), ("the gradient of ", seen.slope)):
        wrong = ~np.all(np.isfinite(values), -1)
        if np.any(wrong):
            where = shown(seen.draws[worst(wrong.astype(float))])
            return (
                f"{name}model.{DENSITY[law]} is not finite at {int(wrong.sum())} of {wrong.size} "
                f"draws of model.{SAMPLER[law]}, such as {VARIABLE[law]} = {where}"
            )
    return None


def support(law: str, seen: Seen) -> str | None:
    """States live on all of R^dx: no atoms, no whole numbers, finite far out."""
    why = discrete(law, seen)
    if why is not None:
        return (
            f"{why}: a state needs a density on the real line (add a little noise, or write the "
            "model for a transformed state)"
        )
    if not np.all(np.isfinite(seen.far)):
        _, side, k = worst(~np.isfinite(seen.far))
        reach = "below" if side == 0 else "above"
        return (
            f"model.{DENSITY[law]} is not finite for x[{k}] far {reach} its draws: particles can "
            "get there, so write the model for a transformed state (a logarithm, a logit)"
        )
    return None


def discrete(law: str, seen: Seen) -> str | None:
    """Why the law is not continuous, judged by ties among its draws."""
    for k in range(seen.draws.shape[-1]):
        draws = seen.draws[..., k]
        if np.all(draws == np.round(draws)):
            return f"{VARIABLE[law]}[{k}] takes whole numbers only"
        if any(len(np.unique(row)) < 0.95 * row.size for row in draws):
            return f"model.{SAMPLER[law]} often draws the same value of {VARIABLE[law]}[{k}]"
    return None


def bounded(law: str, seen: Seen) -> str | None:
    """Why the law seems to live on a part of the line, judged by its density far out."""
    high = np.max(seen.log_prob, 1)[:, None, None]
    beyond = ~np.isfinite(seen.far) | (seen.far > high)
    if not np.any(beyond):
        return None
    return f"{VARIABLE[law]}[{worst(beyond)[2]}] seems to be bounded"


def stein(law: str, seen: Seen) -> str | None:
    """Stein's identities, point by point."""
    if law == "emission":
        why = discrete(law, seen) or bounded(law, seen)
        if why is not None:
            return f"{SKIPPED}{why}, and Stein's identities need a density on the whole line"
    for i in range(len(seen.draws)):
        sentence = _stein_at(law, seen.draws[i], seen.slope[i], seen.centre[i], seen.spread[i])
        if sentence is not None:
            name = "x_prev" if law == "transition" else "x"
            place = "" if law == "initial" else f" at {name} = {shown(seen.given[i])}"
            both = f"model.{SAMPLER[law]} and model.{DENSITY[law]}"
            return f"{both} disagree{place} {sentence}"
    return None


def _stein_at(
    law: str, draws: np.ndarray, slope: np.ndarray, centre: np.ndarray, spread: np.ndarray
) -> str | None:
    v = VARIABLE[law]
    draws, slope = np.asarray(draws, float), np.asarray(slope, float)
    mean, error, off = sample_excess((draws - centre) * slope, -1.0)
    if np.any(off > 1.0):
        (k,) = worst(off)
        wide = f", about {np.sqrt(-mean[k]):.2g} times as wide" if mean[k] < 0.0 else ""
        return (
            f"about the spread of {v}[{k}]: the mean of ({v} - c) d/d{v} log p is "
            f"{_with_error(mean[k], error[k])}, expected -1 (the sampler draws from another scale "
            f"or shape than the density's{wide})"
        )
    mean, error, off = sample_excess(slope)
    if np.any(off > 1.0):
        (k,) = worst(off)
        return (
            f"about the place of {v}[{k}]: the mean of d/d{v} log p is "
            f"{_with_error(mean[k], error[k])}, expected 0 (another mean, or another sign)"
        )
    bent = np.tanh((draws - centre) / spread)
    mean, error, off = sample_excess(bent[:, :, None] * slope[:, None, :])
    off = np.where(np.eye(len(centre), dtype=bool), 0.0, off)
    if np.any(off > 1.0):
        j, k = worst(off)
        return (
            f"about how {v}[{j}] and {v}[{k}] depend on each other: the mean of "
            f"tanh({v}[{j}]) d/d{v}[{k}] log p is {_with_error(mean[j, k], error[j, k])}, "
            "expected 0 (a transposed factor, or a forgotten correlation?)"
        )
    return None


def score(law: str, seen: Seen) -> str | None:
    """E d/dtheta log p = 0 for every trained leaf, point by point."""
    leaves = zip(paths(seen.theta_mean), jax.tree.leaves(seen.theta_square), strict=True)
    for (path, mean), square in leaves:
        if mean.size == 0:
            continue
        if not np.all(np.isfinite(mean)):
            return f"the gradient of model.{DENSITY[law]} in {path} is not finite"
        off = excess(mean, square, NUM_DRAWS)
        if np.any(off > 1.0):
            index = worst(off)
            error = standard_error(mean, square, NUM_DRAWS)[index]
            entry = "".join(f"[{i}]" for i in index[1:])
            return (
                f"the mean of d/d{path}{entry} model.{DENSITY[law]} over its own draws is "
                f"{_with_error(mean[index], error)}, expected 0: the density is not normalised for "
                "every value of this parameter (a forgotten -log scale?), or sampler and density "
                "read it differently"
            )
    return None


def _with_error(mean: float, error: float) -> str:
    return f"{mean:.3g} (standard error {error:.2g})"
