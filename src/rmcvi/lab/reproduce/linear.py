"""What the linear-Gaussian experiments share: truth, start, parameters and their errors."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

import rmcvi
from rmcvi.models import LinearGaussian


def pair(dim: int, seed: int) -> tuple[LinearGaussian, LinearGaussian]:
    """The true model and a start, both drawn from the preset `campbell` (errata B1)."""
    keys = jax.random.split(jax.random.key(seed))
    truth, start = (LinearGaussian.preset("campbell", dim, k) for k in keys)
    return truth, start


def diagonals(model: Any) -> rmcvi.Trainable:
    """Only the diagonals of F and G are learned."""
    picked = rmcvi.only(model, lambda m: (m.transition, m.emission))
    return rmcvi.Trainable(model=picked)


def own_family(start: LinearGaussian, diagonal: bool = False) -> tuple[Any, rmcvi.Trainable]:
    """A Kalman family with parameters of its own, and what is learned of model and family."""
    family = rmcvi.families.LinearGaussianFamily(start, diagonal=diagonal)
    phi = rmcvi.only(family, lambda f: (f.kalman.transition, f.kalman.emission))
    return family, rmcvi.Trainable(model=diagonals(start).model, family=phi)


def absolute_errors(f: Any, g: Any, truth: LinearGaussian) -> np.ndarray:
    """Mean absolute errors of the diagonals, the signs of G's entries left open."""
    of_f = np.abs(np.asarray(f) - np.asarray(truth.transition)).mean(-1)
    of_g = np.abs(np.abs(np.asarray(g)) - np.asarray(truth.emission)).mean(-1)
    return np.stack([of_f, of_g], -1)


def take_turns(
    programs: Mapping[str, Callable[[], Any]], units: int, rounds: int
) -> dict[str, np.ndarray]:
    """Seconds of the processor per unit of work, `rounds` times each, in turns.

    The programs have been compiled, and run once.
    """
    taken: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(rounds):
        for name, run in programs.items():
            begun = time.process_time()
            jax.block_until_ready(run())
            taken[name].append((time.process_time() - begun) / units)
    return {name: np.array(seconds) for name, seconds in taken.items()}
