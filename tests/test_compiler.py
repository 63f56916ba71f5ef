"""The compiler itself: jaxlib 0.10.2 returned wrong products here, silently (jax issue 39103)."""

import os
import subprocess
import sys
from pathlib import Path


def test_compiled_products_and_conditionals_equal_eager_ones() -> None:
    """In a process of its own, with the optimisations that users get."""
    variables = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    command = [sys.executable, "-m", "tests._compiled"]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[1], env=variables, capture_output=True, text=True
    )
    assert done.stdout == "equal\n", done.stderr
