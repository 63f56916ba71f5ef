"""`gradient`: one learning step, windowed, against the paper's forward recursion.

The forward form moves one gradient per particle, with all weights or with M = 2 drawn indices. What
the windowed form leaves out is compared with the full one at the same particles; the variance of
the gradient is that over keys, summed over parameters and steps.
"""

from typing import Any

import jax
import jax.numpy as jnp

from rmcvi.lab.bench.clock import take_turns
from rmcvi.lab.bench.outcome import Outcome, Target
from rmcvi.lab.bench.problem import HIDDEN, Problem, squared_norm
from rmcvi.recursion import RMCVI, SampledIndices


def gradient(quick: bool = False) -> Outcome:
    """Speed, variance and truncation of the windowed gradient at N = 500."""
    num, hidden, rounds, seeds = (30, 8, 3, 4) if quick else (500, HIDDEN, 9, 16)
    problem = Problem(30, hidden=hidden)
    recursions = {
        "windowed": RMCVI(num),
        "full": RMCVI(num, gradient="forward"),
        "sampled": RMCVI(num, gradient="forward", backward=SampledIndices(2)),
    }
    steps = {"windowed": 8, "full": 1, "sampled": 4}
    programs = {name: problem.learning(r, steps[name], quick) for name, r in recursions.items()}
    for program in programs.values():
        program.run()
    timings = take_turns(programs, rounds)
    memory = {name: program.peak_bytes / 1e6 for name, program in programs.items()}
    del programs
    late = slice(recursions["windowed"].window, None)
    keys = jax.random.split(jax.random.key(3), seeds)

    def gradients(name: str, count: int) -> Any:
        values = problem.increments(recursions[name], keys[:count], quick)
        return jax.tree.map(lambda v: v[:, late], values)

    windowed = gradients("windowed", seeds)
    first, full = jax.tree.map(lambda v: v[:1], windowed), gradients("full", 1)
    missed = jax.tree.map(jnp.subtract, first, full)
    difference = (squared_norm(missed) / squared_norm(full)) ** 0.5
    spread = _variance(windowed) / _variance(gradients("sampled", seeds))
    speed = {n: timings[n].cost / timings["windowed"].cost for n in ("full", "sampled")}
    numbers = {
        "particles": num,
        "parameters": problem.parameters,
        "window": recursions["windowed"].window,
        "speedup_over_full": speed["full"],
        "speedup_over_sampled": speed["sampled"],
        "variance_ratio": spread,
        "relative_difference": difference,
    }
    targets = [
        Target(f"20 times faster than full weights: {speed['full']:.1f}", speed["full"] >= 20),
        Target(f"faster than M = 2: {speed['sampled']:.2f} times", speed["sampled"] > 1),
        Target(f"variance below that of M = 2: {spread:.3f} of it", spread < 1),
        Target(f"relative difference below 1e-3: {difference:.1e}", difference < 1e-3),
    ]
    rows = [
        {"gradient": name, **timings[name].to_json(), "megabytes": memory[name]} for name in timings
    ]
    title = f"One learning step, {num} particles, {problem.parameters} parameters"
    return Outcome("gradient", title, numbers, rows, targets, quick)


def _variance(values: Any) -> float:
    """Variance over keys, summed over steps and parameters."""
    centred = jax.tree.map(lambda v: v - jnp.mean(v, 0, keepdims=True), values)
    return squared_norm(centred) / (jax.tree.leaves(values)[0].shape[0] - 1)
