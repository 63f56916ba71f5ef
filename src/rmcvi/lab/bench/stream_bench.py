"""`stream` and `fleet`: observations per second of one stream, and of many advanced together.

`stream` measures `update`, `run` and `scan`, and whether time grows with t, with the default
learner's settings and everything switched on: prediction, score, alarms. The long stream is learned
by a small learner, step by step, without skipping any of them. In `fleet` each stream has its own
parameters.
"""

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from rmcvi.core.inputs import Inputs
from rmcvi.families import InnovationFamily
from rmcvi.lab.bench.measure import Outcome, Program, Target, Turn, take_turns
from rmcvi.learners import OnlineEstimator, run, scan
from rmcvi.models import ChaoticRNN, simulate
from rmcvi.recursion import RMCVI
from rmcvi.scale import Fleet

STEPS = 16


def stream(quick: bool = False) -> Outcome:
    """Host loops against the compiled one, and a long stream."""
    cases = {10: 8} if quick else {20: 512, 100: 256}
    rows: list[dict[str, Any]] = []
    numbers: dict[str, Any] = {}
    for num, length in cases.items():
        loops = _loops(learner(num, *((4, 2) if quick else (64, 16))), length)
        timings = take_turns(loops, 2 if quick else 7)
        for name, timing in timings.items():
            rate = 1.0 / timing.cost
            rows.append({"particles": num, "loop": name, "per_second": rate, **timing.to_json()})
        for name in ("update", "run"):
            numbers[f"{name}_over_scan_{num}"] = timings[name].cost / timings["scan"].cost
    early, late, length = _long(quick)
    numbers |= {"length": length, "early": 1e6 * early, "late": 1e6 * late}
    numbers["late_over_early"] = late / early
    targets = [
        Target(
            f"host loop within 2 times of scan at N = {num}: {numbers[f'run_over_scan_{num}']:.2f}",
            numbers[f"run_over_scan_{num}"] <= 2,
        )
        for num in cases
    ]
    flat = numbers["late_over_early"]
    targets.append(Target(f"flat up to t = {length}: {flat:.2f} times", flat < 1.2))
    return Outcome(
        "stream", "Observations one by one, in chunks, and at once", numbers, rows, targets, quick
    )


def learner(num: int, hidden: int, window: int, **options: Any) -> OnlineEstimator:
    """A learner of the chaotic network in three dimensions."""
    model = ChaoticRNN(dim=3)
    family = InnovationFamily(model, hidden=hidden, memory=4, key=jax.random.key(1))
    recursion = RMCVI(num, window=window, bptt=min(4, window))
    return OnlineEstimator(model, family, recursion, optax.adam(1e-4), optax.adam(1e-4), **options)


def _loops(who: OnlineEstimator, length: int) -> dict[str, Turn]:
    ys = np.asarray(simulate(ChaoticRNN(dim=3), jax.random.key(0), length)[1])

    def one_by_one(state):
        for y in ys:
            state, _ = who.update(state, y)
        return state

    loops: dict[str, Callable[[Any], Any]] = {
        "update": one_by_one,
        "run": lambda state: run(who, ys, state, collect=_nothing)[0],
        "scan": lambda state: scan(who, state, ys, collect=_nothing)[0],
    }
    state = who.init(jax.random.key(2))
    return {name: HostLoop(loop, state, length) for name, loop in loops.items()}


class HostLoop:
    """A Python loop around compiled programs, on the clock."""

    def __init__(self, loop: Callable[[Any], Any], state: Any, units: int):
        """The first call compiles."""
        self.loop, self.state, self.units = loop, state, units
        began = time.perf_counter()
        self.run()
        self.compile_seconds = time.perf_counter() - began

    def run(self) -> tuple[float, float]:
        """Seconds per observation: by the clock, and of the processor."""
        began, busy = time.perf_counter(), time.process_time()
        self.state = jax.block_until_ready(self.loop(self.state))
        ended, idle = time.perf_counter(), time.process_time()
        return (ended - began) / self.units, (idle - busy) / self.units


def _nothing(learner: Any, state: Any, info: Any) -> Any:
    """Nothing is kept."""
    return info.step.elbo


def _long(quick: bool) -> tuple[float, float, int]:
    """Seconds of the processor per step early and late, and the stream's length."""
    length, chunk = (80, 10) if quick else (1_000_000, 10_000)
    who = learner(5, 8, 4, draws=0)
    state, times = who.init(jax.random.key(2)), []
    ys = jnp.asarray(simulate(ChaoticRNN(dim=3), jax.random.key(0), chunk)[1])
    for _ in range(length // chunk):
        began = time.process_time()
        state, _ = jax.block_until_ready(scan(who, state, ys, collect=_nothing))
        times.append((time.process_time() - began) / chunk)
    part = max(1, len(times) // 10)
    return float(np.median(times[1 : 1 + part])), float(np.median(times[-part:])), length


def fleet(quick: bool = False) -> Outcome:
    """Stream-observations per second against the number of streams."""
    counts = (1, 3) if quick else (1, 10, 100, 1000)
    who = learner(5 if quick else 20, 4 if quick else 16, 2 if quick else 8)
    programs = {str(count): fleet_program(Fleet(who, count), quick) for count in counts}
    timings = take_turns(programs, 3 if quick else 7)
    rows = []
    for count in counts:
        timing = timings[str(count)]
        rows.append({"streams": count, "per_second": count / timing.cost, **timing.to_json()})
    rate = {row["streams"]: row["per_second"] for row in rows}
    numbers = {f"throughput_{count}": rate[count] for count in counts}
    many = 3 if quick else 100
    gain = rate[many] / rate[1]
    numbers[f"gain_{many}"] = gain
    targets = [Target(f"at least 5 times one stream's at {many}: {gain:.1f}", gain >= 5)]
    return Outcome("fleet", "Streams advanced together", numbers, rows, targets, quick)


def fleet_program(together: Fleet, hasty: bool) -> Program:
    """Steps of a fleet in which a tenth of the values is missing."""
    ys = simulate(ChaoticRNN(dim=3), jax.random.key(0), STEPS)[1]
    count = together.count
    noise = jax.random.normal(jax.random.key(1), (STEPS, count, 3))
    seen = jax.random.uniform(jax.random.key(2), noise.shape) > 0.1
    rows = jnp.where(seen, ys[:, None] + 0.1 * noise, jnp.nan)
    inputs = Inputs.sequence(count)

    def many(states: Any, rows: Any) -> Any:
        def one(states, y):
            states, infos = together.step(states, y, inputs)
            return states, infos.step.elbo

        return jax.lax.scan(one, states, rows)[0]

    states = together.init(jax.random.key(3))
    return Program(many, states, rows, units=STEPS, hasty=hasty)
