"""`fleet`: many independent streams advanced together, each with its own parameters."""

from typing import Any

import jax
import jax.numpy as jnp

from rmcvi.core.inputs import Inputs
from rmcvi.lab.bench.clock import Program, take_turns
from rmcvi.lab.bench.outcome import Outcome, Target
from rmcvi.lab.bench.stream_bench import learner
from rmcvi.models import ChaoticRNN, simulate
from rmcvi.scale import Fleet

STEPS = 16


def fleet(quick: bool = False) -> Outcome:
    """Stream-observations per second against the number of streams."""
    counts = (1, 3) if quick else (1, 10, 100, 1000)
    who = learner(5 if quick else 20, 4 if quick else 16, 2 if quick else 8)
    programs = {str(count): _program(Fleet(who, count), quick) for count in counts}
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


def _program(together: Fleet, hasty: bool) -> Program:
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
