"""For streams of millions of rows: a small loop as one piece of code.

    from rmcvi import compiling
    compiling.one_piece()  # before the first computation

XLA goes through a program operation by operation, and to begin with one takes a CPU a tenth of a
microsecond or more: of a row with a few columns, which has 400 of them, that is most of the time. A
`while` loop that moves few bytes, sorts nothing and calls no library it compiles as one piece
instead, if it is told what "few" are. Its own small matrix products count as such calls. The piece
is large, and takes two to three times as long to compile, which is why nobody is told by default.
"""

import os
from importlib.metadata import version

BYTES = 20_000_000
"""What a round of a loop may move and be small: a row of one column moves a million or two, one of
eight columns less than this."""
EXTRA = "--xla_backend_extra_options"
LOOPS = f"{EXTRA}=xla_cpu_small_while_loop_byte_threshold={BYTES}"
PRODUCTS = "--xla_cpu_experimental_ynn_fusion_type="
"""The library for products: none."""
KNOWN = ("0.10.0", "0.10.1")
"""Versions of jaxlib that know the last one; another would refuse to start."""


def one_piece() -> None:
    """Tell the compiler, by XLA_FLAGS, unless something of the kind is said there already."""
    flags = os.environ.get("XLA_FLAGS", "")
    new = [] if EXTRA in flags else [LOOPS]
    if version("jaxlib") in KNOWN and PRODUCTS not in flags:
        new.append(PRODUCTS)
    os.environ["XLA_FLAGS"] = " ".join([flags, *new]).strip()
