"""Files are whole or not there, and JSON has no word for what it cannot say."""

import json
import math
import os
from pathlib import Path

import pytest

from rmcvi.core import files


def test_replace_is_whole_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state"
    files.replace(path, b"first")
    monkeypatch.setattr(os, "replace", _full)
    with pytest.raises(OSError, match="no space") as failure:
        files.replace(path, b"second")
    assert failure.value.filename == str(path)
    assert path.read_bytes() == b"first"
    assert [found.name for found in tmp_path.iterdir()] == ["state"]


def _full(*_: object) -> None:
    raise OSError(28, "no space left")


def test_sweep_takes_only_what_is_old_and_its_own(tmp_path: Path) -> None:
    names = (".state.1.tmp", ".state.2.part", ".other.1.tmp", "state.tmp")
    for name in names:
        (tmp_path / name).write_bytes(b"")
    files.sweep(tmp_path / "state")
    assert {found.name for found in tmp_path.iterdir()} == set(names)
    files.sweep(tmp_path / "state", age=-1.0)
    assert {found.name for found in tmp_path.iterdir()} == {".other.1.tmp", "state.tmp"}


def test_json_without_nan() -> None:
    plain = {"a": [1.5, math.nan, (math.inf, -math.inf)], "b": {"c": math.nan}, "d": "NaN"}
    text = files.to_json(plain)
    expected = {"a": [1.5, None, [None, None]], "b": {"c": None}, "d": "NaN"}
    assert json.loads(text) == expected
