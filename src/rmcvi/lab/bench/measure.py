"""What a workload found, and the times of several programs that take turns.

Every program runs once in each round, the order turning by one place, so that a busy machine is
busy for all of them alike. Programs are compiled and warmed up before the clock starts.
"""

import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

HASTE = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


class Target(eqx.Module):
    """What was asked for, and whether it was measured."""

    text: str
    met: bool


class Outcome(eqx.Module):
    """One workload's result; `numbers` are the keys of its JSON."""

    name: str
    title: str
    numbers: dict[str, Any]
    rows: list[dict[str, Any]]
    targets: list[Target]
    quick: bool = False

    def to_json(self) -> dict[str, Any]:
        """Numbers at the top, then everything behind them."""
        return {
            "name": self.name,
            "quick": self.quick,
            **self.numbers,
            "rows": self.rows,
            "targets": [{"text": v.text, "met": v.met} for v in self.targets],
            "machine": machine(),
        }


def machine() -> dict[str, Any]:
    """Threads, versions and precision that the numbers belong to."""
    return {
        "threads": threads(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "processor": platform.processor() or platform.machine(),
        "backend": jax.default_backend(),
        "precision": str(jnp.zeros(()).dtype),
        "python": platform.python_version(),
        "jax": jax.__version__,
        "numpy": np.__version__,
    }


def threads() -> int:
    """How many cores a compiled program may use."""
    cores = getattr(os, "sched_getaffinity", None)
    return len(cores(0)) if cores is not None else os.cpu_count() or 1


@contextmanager
def pinned(count: int) -> Iterator[None]:
    """Keep to the first `count` cores, where the system lets a program do so.

    XLA makes as many threads as there are cores when it is first used: pin before.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(allowed)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


class Timing(eqx.Module):
    """Seconds per unit of work: median and quartiles over the rounds; compiling apart.

    `processor` is the median of the processor's own time, which a busy machine inflates less.
    """

    seconds: float
    low: float
    high: float
    processor: float
    compile_seconds: float

    @property
    def cost(self) -> float:
        """What ratios are made of: processor time where one thread works, else the clock's."""
        return self.processor if threads() == 1 else self.seconds

    def to_json(self) -> dict[str, float]:
        """For a table and for JSON."""
        return {
            "microseconds": 1e6 * self.seconds,
            "low": 1e6 * self.low,
            "high": 1e6 * self.high,
            "processor": 1e6 * self.processor,
            "compile_seconds": self.compile_seconds,
        }


class Program:
    """A compiled function of a state that it moves on; the state's memory is given to it."""

    def __init__(
        self,
        function: Callable[..., PyTree],
        state: PyTree,
        *constants: Any,
        units: int = 1,
        hasty: bool = False,
    ):
        """`function(state, *constants)` returns the next state; one call does `units` of work."""
        self.state = jax.tree.map(lambda v: v.copy() if eqx.is_array(v) else v, state)
        self.constants, self.units = constants, units
        began = time.perf_counter()
        self.compiled = compiled(function, self.state, *constants, hasty=hasty)
        self.compile_seconds = time.perf_counter() - began
        self.run()

    def run(self) -> tuple[float, float]:
        """Seconds per unit of one call: by the clock, and of the processor."""
        began, busy = time.perf_counter(), time.process_time()
        self.state = jax.block_until_ready(self.compiled(self.state, *self.constants))
        ended, idle = time.perf_counter(), time.process_time()
        return (ended - began) / self.units, (idle - busy) / self.units

    @property
    def peak_bytes(self) -> int:
        """What it holds at most: state and constants once, and temporaries."""
        sizes = self.compiled.memory_analysis()
        given = sizes.argument_size_in_bytes + sizes.output_size_in_bytes
        return int(given - sizes.alias_size_in_bytes + sizes.temp_size_in_bytes)


def compiled(function: Callable[..., PyTree], state: PyTree, *constants: Any, hasty: bool) -> Any:
    """`function` compiled for these arguments, the first donated; in haste it will be slow."""
    options: Any = HASTE if hasty else None
    program = jax.jit(function, donate_argnums=0, compiler_options=options)
    return program.lower(state, *constants).compile()


@runtime_checkable
class Turn(Protocol):
    """Something that can be timed."""

    compile_seconds: float

    def run(self) -> tuple[float, float]:
        """Seconds per unit of work: by the clock, and of the processor."""
        ...


def take_turns(programs: Mapping[str, Turn], rounds: int) -> dict[str, Timing]:
    """Every program once per round."""
    names = list(programs)
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for turn in range(rounds):
        for k in range(len(names)):
            name = names[(k + turn) % len(names)]
            times[name].append(programs[name].run())
    return {name: _timing(times[name], programs[name].compile_seconds) for name in names}


def _timing(runs: list[tuple[float, float]], compile_seconds: float) -> Timing:
    wall, busy = np.asarray(runs).T
    low, median, high = (float(v) for v in np.quantile(wall, (0.25, 0.5, 0.75)))
    return Timing(median, low, high, float(np.median(busy)), compile_seconds)
