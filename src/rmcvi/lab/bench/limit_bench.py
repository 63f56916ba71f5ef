"""`limit`: one learning step against the sum of the parts that it cannot do without.

One N x N exponential; the products with N x N matrices (logits, log m, score coefficients, and one
row-vector product per lag of the window); the products of both networks, forwards and backwards, at
the rate of a large matrix product. All of it is timed in the same run. What tanh, small operations,
copies and the compiled loop cost is the rest.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from rmcvi.lab.bench.gradient_bench import HIDDEN, Problem
from rmcvi.lab.bench.measure import Outcome, Program, Target, take_turns
from rmcvi.recursion import RMCVI

SIZE = 512  # of the matrices behind the matrix-multiply rate
GOALS = {100: 6.0, 500: 3.0, 2000: 3.0}


def limit(quick: bool = False) -> Outcome:
    """Time of a step over its limit, for several N."""
    sizes = {20: 4, 100: 2} if quick else {20: 200, 100: 60, 500: 10, 2000: 2}
    hidden, rounds = (8, 3) if quick else (HIDDEN, 9)
    problem = Problem(max(sizes.values()), hidden=hidden)
    rows = [_measure(problem, num, steps, rounds, quick) for num, steps in sizes.items()]
    numbers = {f"ratio_{row['particles']}": row["ratio"] for row in rows}
    small = rows[0]
    numbers["overhead_share_20"] = 1.0 - 1.0 / small["ratio"]
    numbers["operations_per_step_20"] = small["operations"]
    targets = [
        Target(f"within {goal:g} at N = {num}: {numbers[f'ratio_{num}']:.2f}", met)
        for num, goal in GOALS.items()
        if num in sizes
        for met in [numbers[f"ratio_{num}"] <= goal]
    ]
    title = f"A learning step over its limit, {problem.parameters} parameters"
    return Outcome("limit", title, numbers, rows, targets, quick)


def _measure(problem: Problem, num: int, steps: int, rounds: int, hasty: bool) -> dict[str, Any]:
    recursion = RMCVI(num, negligible=0.0)  # all the work that is counted
    step = problem.learning(recursion, steps, hasty)
    programs = {"step": step, **_parts(num, recursion.window, problem.model.dim_state, hasty)}
    step.run()
    timings = take_turns(programs, rounds)
    us = {name: 1e6 * timings[name].cost for name in programs}
    rate = 2.0 * SIZE**3 / timings["multiply"].cost
    network = 1e6 * _network_flops(problem, num, recursion) / rate
    pairs = us["exponential"] + us["products"] + us["sweep"]
    return {
        "particles": num,
        "step": us["step"],
        "low": 1e6 * timings["step"].low,
        "high": 1e6 * timings["step"].high,
        "exponential": us["exponential"],
        "products": us["products"],
        "sweep": us["sweep"],
        "networks": network,
        "limit": pairs + network,
        "ratio": us["step"] / (pairs + network),
        "gigaflops": rate / 1e9,
        "operations": _operations(step),
        "compile_seconds": timings["step"].compile_seconds,
    }


def _parts(num: int, window: int, dim: int, hasty: bool) -> dict[str, Program]:
    """The unavoidable work with N x N matrices, on numbers of no meaning."""
    key = jax.random.key(0)
    square = jax.random.normal(key, (num, num))
    tall, half = (jax.random.normal(key, (num, k)) for k in (2 * dim, dim))
    ring = jnp.abs(jax.random.normal(key, (window, num, num))) / num
    large = jax.random.normal(key, (SIZE, SIZE)) / SIZE

    def repeat(body: Any, times: int = 5) -> Any:
        """Several times in one program, each on what the last one left."""
        return lambda state, *rest: jax.lax.fori_loop(0, times, lambda _, s: body(s, *rest), state)

    def products(state: Any, square: Float[Array, "n n"], half: Array) -> Any:
        """Logits, log m and coefficients."""
        logits = state @ state.T
        return (square + 1e-9 * logits + 1e-9 * (half @ half.T)) @ state / num

    def sweep(state: Float[Array, "k n"], ring: Float[Array, "lags n n"]) -> Any:
        return jax.lax.scan(lambda v, w: (v @ w, None), state, ring)[0]

    start = jnp.ones((1 + dim, num))
    options: dict[str, Any] = {"units": 5, "hasty": hasty}
    return {
        "exponential": Program(repeat(lambda s: jnp.exp(-jnp.abs(s))), square, **options),
        "products": Program(repeat(products), tall, square, half, **options),
        "sweep": Program(repeat(sweep), start, ring, **options),
        "multiply": Program(repeat(lambda s, m: s @ m), large, large, **options),
    }


def _network_flops(problem: Problem, num: int, recursion: RMCVI) -> float:
    """Multiplications and additions of both networks: forwards once, backwards twice as many."""

    def weights(net: Any) -> int:
        return sum(layer.weight.size for layer in net.layers)

    family, length = problem.family, recursion.window
    particles = (3 * length + 1) * num * weights(family.net)
    chains = 3 * length * recursion.bptt * weights(family.cell)
    return 2.0 * (particles + chains)


def _operations(program: Program) -> int:
    """Instructions of the compiled program outside fused computations: what is dispatched."""
    lines = program.compiled.as_text().splitlines()
    inside, count = False, 0
    for line in lines:
        if line and not line.startswith(" "):
            inside = line.startswith("%fused") or line.startswith("fused")
        elif " = " in line and not inside:
            count += not any(f" {op}(" in line for op in _FREE)
    return count


_FREE = ("parameter", "constant", "get-tuple-element", "tuple", "bitcast", "add-dependency")
