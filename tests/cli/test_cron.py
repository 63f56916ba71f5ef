"""A file to which a program writes while `resume` reads it now and then."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli._runs import MODEL, call, make_source, outputs


def test_half_a_line_is_left_for_the_next_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """Learn, write the rest of the line, resume: the bytes of one run over the whole file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    data = make_source(tmp_path, rows=260).read_bytes()
    said = ("--out", "whole", *MODEL, "--no-report")
    assert call(capsys, "learn", "stream.csv", *said).status == 0
    log = Path("log.csv")
    middle = data.index(b"\n", len(data) // 2) + 1
    log.write_bytes(data[: middle + 9])
    done = call(capsys, "learn", "log.csv", "--out", "parts", *MODEL, "--no-report")
    assert done.status == 0 and "has no end and may be half-written" in done.err
    for end in (len(data) - 1, len(data)):
        log.write_bytes(data[:end])  # another inode would do as well
        done = call(capsys, "resume", "parts", *MODEL, "--no-report")
        assert done.status == 0 and ("half-written" in done.err) == (end < len(data))
    assert outputs(Path("parts")) == outputs(Path("whole"))

    log.write_bytes(data.replace(b"\n", b"\n1", 1) + b"more\n")
    done = call(capsys, "resume", "parts", *MODEL, "--no-report", "--quiet")
    assert done.status == 2 and done.err.count("\n") == 1
    assert "log.csv: does not begin as the file that was read before" in done.err
    assert outputs(Path("parts")) == outputs(Path("whole"))
