"""`gradient`, `weights` and `scaling`: one learning step on the paper's chaotic network.

`gradient` is the windowed form against the paper's forward recursion, which moves one gradient per
particle, with all weights or with M = 2 drawn indices. What the windowed form leaves out is
compared with the full one at the same particles; the variance of the gradient is that over keys,
summed over parameters and steps.

`scaling` is time and memory against particles, dimension, parameters and window. Exponents are
slopes of straight lines through the logarithms of the upper half of each range, where the leading
term shows. Memory is what the compiled program says that it holds.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PyTree

from rmcvi.contract import AbstractRecursion, Trainable
from rmcvi.core import tree
from rmcvi.core.inputs import Inputs
from rmcvi.families import InnovationFamily
from rmcvi.lab.bench.measure import HASTE, Outcome, Program, Target, take_turns
from rmcvi.models import ChaoticRNN, simulate
from rmcvi.recursion import RMCVI, CalibratedWeights, SampledIndices

HIDDEN = 178  # about 15 000 parameters at dimension 5
Case = dict[str, int]
USUAL: Case = {"particles": 100, "dim": 5, "hidden": 64, "window": 16}
RANGES = {
    "particles": (100, 200, 400, 800),
    "dim": (4, 8, 16),
    "hidden": (12, 119, 1190, 11900),
    "window": (8, 16, 32),
}
QUICK = {"particles": (10, 20), "dim": (2, 4), "hidden": (4, 8), "window": (2, 4)}
LARGE: Case = {"particles": 500, "dim": 5, "hidden": 11900, "window": 16}


class Problem(eqx.Module):
    """A model, a family of a given size, and a simulated stream."""

    model: ChaoticRNN
    family: InnovationFamily
    ys: Float[Array, "T dy"]

    def __init__(self, length: int, dim: int = 5, hidden: int = HIDDEN):
        """Everything is drawn from fixed keys."""
        self.model = ChaoticRNN(dim=dim)
        self.family = InnovationFamily(self.model, hidden=hidden, key=jax.random.key(1))
        self.ys = simulate(self.model, jax.random.key(0), length)[1]

    @property
    def parameters(self) -> int:
        """Number of parameters of the family."""
        return sum(v.size for v in jax.tree.leaves(eqx.filter(self.family, eqx.is_inexact_array)))

    def learning(self, recursion: AbstractRecursion, steps: int, hasty: bool = False) -> Program:
        """`steps` learning steps per call: statistics, gradient, Adam for theta and phi."""
        optimiser, key = optax.adam(1e-4), jax.random.key(2)
        rest = eqx.filter((self.model, self.family), eqx.is_inexact_array, inverse=True)

        def one(loop, y):
            state, parts, memory = loop
            model, family = eqx.combine(parts, rest)
            k = jax.random.fold_in(key, state.t)
            step = recursion.step(state, model, family, y, Inputs.of(), k)
            descent = jax.tree.map(jnp.negative, (step.grads.model, step.grads.family))
            update, memory = optimiser.update(descent, memory, parts)
            return (step.state, eqx.apply_updates(parts, update), memory), None

        def many(loop, ys):
            return jax.lax.scan(one, loop, ys)[0]

        parts = eqx.filter((self.model, self.family), eqx.is_inexact_array)
        state = recursion.init(self.model, self.family)
        start = (state, parts, optimiser.init(parts))
        return Program(many, start, self.ys[:steps], units=steps, hasty=hasty)

    def increments(self, recursion: AbstractRecursion, keys: Any, hasty: bool = False) -> PyTree:
        """The family's gradient at each step with frozen parameters: leaves (keys, T, ...)."""
        trainable = Trainable(model=False)

        def run(key):
            def one(state, y):
                k = jax.random.fold_in(key, state.t)
                step = recursion.step(state, self.model, self.family, y, Inputs.of(), k, trainable)
                return step.state, step.grads.family

            start = recursion.init(self.model, self.family, trainable)
            return jax.lax.scan(one, start, self.ys)[1]

        options: Any = HASTE if hasty else None
        return jax.jit(lambda k: jax.lax.map(run, k), compiler_options=options)(keys)


def squared_norm(values: PyTree) -> float:
    """Sum of squares over all leaves."""
    return float(tree.vdot(values, values))


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


def weights(quick: bool = False) -> Outcome:
    """What calibrated weights add to a learning step at N = 100, d = 5."""
    num, hidden, rounds = (30, 8, 3) if quick else (100, 64, 15)
    problem, steps = Problem(30, hidden=hidden), 2 if quick else 30
    programs = {
        "plain": problem.learning(RMCVI(num), steps, quick),
        "calibrated": problem.learning(RMCVI(num, backward=CalibratedWeights()), steps, quick),
    }
    timings = take_turns(programs, rounds)
    ratio = timings["calibrated"].cost / timings["plain"].cost
    targets = [Target(f"calibrated within 1.3 times plain weights: {ratio:.2f}", ratio <= 1.3)]
    rows = [{"weights": name, **timings[name].to_json()} for name in timings]
    title = f"One learning step with plain and with calibrated weights, {num} particles"
    numbers = {"particles": num, "calibrated_over_plain": ratio}
    return Outcome("weights", title, numbers, rows, targets, quick)


def scaling(quick: bool = False) -> Outcome:
    """Fitted exponents, and a million parameters at N = 500."""
    rows, numbers = [], {}
    usual = USUAL | ({"particles": 20, "hidden": 4, "window": 4} if quick else {})
    for axis, values in (QUICK if quick else RANGES).items():
        found = [_measure(axis, usual | {axis: value}, quick) for value in values]
        rows += found
        x = [row["parameters" if axis == "hidden" else axis] for row in found]
        name = "parameters" if axis == "hidden" else axis
        numbers[f"time_exponent_{name}"] = _slope(x, [row["microseconds"] for row in found])
        numbers[f"memory_exponent_{name}"] = _slope(x, [row["megabytes"] for row in found])
    large = LARGE if not quick else usual
    found = _measure("large", large, quick)
    rows.append(found)
    per_pair = _beyond(found)
    numbers["large_parameters"] = found["parameters"]
    numbers["large_gigabytes"] = found["megabytes"] / 1e3
    numbers["large_bytes_per_particle_and_parameter"] = per_pair
    targets = [
        Target(
            f"no N x P term: {per_pair:.2f} bytes per particle and parameter, where 4 would be one",
            per_pair < 2.0,
        ),
        Target(
            f"{found['parameters']} parameters at N = {found['particles']} under 2 GB: "
            f"{found['megabytes'] / 1e3:.2f} GB",
            found["megabytes"] < 2000,
        ),
    ]
    return Outcome("scaling", "Time and memory of a learning step", numbers, rows, targets, quick)


def _measure(axis: str, case: Case, quick: bool) -> dict[str, Any]:
    steps = 2 if quick or case["hidden"] > 1000 else 8
    problem = Problem(steps, dim=case["dim"], hidden=case["hidden"])
    recursion = RMCVI(case["particles"], window=case["window"], bptt=4)
    program = problem.learning(recursion, steps, quick)
    timing = take_turns({"step": program}, 3 if quick else 5)["step"]
    return {
        "axis": axis,
        **case,
        "parameters": problem.parameters,
        **timing.to_json(),
        "megabytes": program.peak_bytes / 1e6,
    }


def _beyond(row: dict[str, Any]) -> float:
    """Bytes per particle and parameter, the optimiser's few copies of the parameters taken off."""
    copies = 10 * 4 * row["parameters"]
    return max(1e6 * row["megabytes"] - copies, 0.0) / (row["particles"] * row["parameters"])


def _slope(x: list[float], y: list[float]) -> float:
    half = max(2, (len(x) + 1) // 2)
    return float(np.polyfit(np.log(x[-half:]), np.log(y[-half:]), 1)[0])
