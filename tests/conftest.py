"""Strict JAX for every test: x64, no rank promotion, shapes and types checked at run time."""

import os

# XLA reads this when its first computation starts. Tests compile far more than they compute: the
# cheapest code saves a third of their time, and loops without fusion emitters compile three times
# as fast (see `usual_compiler` below). Each xdist worker has one core to itself, so that nothing is
# gained by generating code in several parts, each of which costs.
os.environ["XLA_FLAGS"] = " ".join(
    [
        os.environ.get("XLA_FLAGS", ""),
        "--xla_backend_optimization_level=0",
        f"--xla_cpu_use_fusion_emitters={'USUAL_COMPILER' in os.environ}".lower(),
        "--xla_cpu_parallel_codegen_split_count=1",
    ]
).strip()
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("NPROC", "1")  # threads of XLA: more of them only take turns
os.environ["XLA_FLAGS"] += " --xla_cpu_multi_thread_eigen=false"

import gc
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from itertools import count
from pathlib import Path

import jax
import pytest
from jax._src.interpreters import mlir
from jaxtyping import install_import_hook

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
# JAX makes a compiler context for every program, a third of the time that a small one takes.
mlir.make_ir_context = cache(mlir.make_ir_context)
# jax_debug_key_reuse stays off: tests that compare two runs on the same key would be reuse to it.

# Before the first import of rmcvi, and for good: modules may be imported late, inside a test.
# A quarter of the time of a recursion's test is spent here, so the workers of `make test` do
# without; the files that the Makefile calls TYPED run with it, in a process beside them.
if "UNTYPED" not in os.environ:
    install_import_hook("rmcvi", "beartype.beartype")

MAPPINGS = 30_000
FIRST = (
    "test_soak.py",
    "test_docs.py",
    "test_windowed.py",
    "test_checkpoint.py",
    "test_questions.py",
    "test_calibrated.py",
    "test_survival.py",
)
"""Files that take longest: begun last, one of them would keep a worker busy while others wait."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first (`--no-loadscope-reorder` keeps this order)."""
    items.sort(key=lambda item: item.path.name not in FIRST)


def pytest_collection_finish() -> None:
    """What is imported stays: looking through it for garbage took a seventh of every trace."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A test marked `usual_compiler` runs in a process of its own, with fusion emitters.

    Without them two programs of the same step may differ in the last bit.
    """
    marked = pyfuncitem.get_closest_marker("usual_compiler")
    if marked is None or "USUAL_COMPILER" in os.environ:
        return None
    command = [sys.executable, "-m", "pytest", "-q", pyfuncitem.nodeid]
    environment = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    done = subprocess.run(
        command,
        cwd=pyfuncitem.config.rootpath,
        env=environment | {"USUAL_COMPILER": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    return True


@pytest.fixture(scope="module", autouse=True)
def few_mappings() -> Iterator[None]:
    """Forget compiled programs now and then: XLA crashes when memory mappings are used up, of
    which each program holds many and a process may have 65 530 on Linux.
    """
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > MAPPINGS:
        jax.clear_caches()
        gc.collect()


@pytest.fixture
def getkey() -> Callable[[], jax.Array]:
    """A factory of fresh typed keys, the same sequence in every test."""
    numbers = count()
    return lambda: jax.random.key(next(numbers))
