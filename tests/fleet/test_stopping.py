"""A fleet that is asked to stop while its program is compiled, of which no signal is heard."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from rmcvi.app.fleet.locks import COMPILING, locked
from tests.fleet._fleets import MODEL, make_source

SOON = 30.0
"""Seconds; whoever waits for the compiler waits for ten minutes."""


def test_it_stops_while_it_compiles(tmp_path: Path) -> None:
    """At once, with a word, and to be resumed: somebody else has the compiler, and keeps it."""
    make_source(tmp_path)
    (cache := tmp_path / "cache").mkdir()
    kept = locked(cache / COMPILING)
    command = [sys.executable, "-m", "rmcvi", "fleet", "plant.csv", "--key", "sensor"]
    process = subprocess.Popen(
        [*command, "--out", "run", "--shards", "1", "--model", MODEL],
        cwd=tmp_path,
        env=os.environ | {"JAX_COMPILATION_CACHE_DIR": str(cache)},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("Preparing"):
                break
        begun = time.monotonic()
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=10 * SOON)
    finally:
        process.kill()
        os.close(kept)
    assert process.returncode == 128 + signal.SIGTERM
    assert time.monotonic() - begun < SOON
    assert "Stopped; `rmcvi fleet resume run` goes on" in told
