"""Cells are kept, a cut-off run goes on, and what is written can be read."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rmcvi.app import report
from rmcvi.app.cli.commands import run
from rmcvi.lab import reproduce
from rmcvi.lab.reproduce import registry, runner
from rmcvi.lab.reproduce.experiment import Conclusion, Drawing, Experiment, Workspace
from rmcvi.lab.reproduce.registry import TIMES
from rmcvi.lab.reproduce.runner import Progress


class Toy:
    """Three cells, one of which fails as often as it is told to."""

    def __init__(self, failures: int = 0):
        self.failures = failures
        self.runs: list[str] = []

    def cell(self, name: str) -> Any:
        def work(workspace: Workspace) -> dict[str, Any]:
            self.runs.append(name)
            if name == "b" and self.failures:
                self.failures -= 1
                raise KeyboardInterrupt
            return {"value": ord(name), "curve": np.arange(3.0)}

        return work

    def conclude(self, settings: Any, found: Any) -> Conclusion:
        made, axes = report.figure()
        axes[0, 0].plot(found["a"]["curve"])
        total = sum(float(v["value"]) for v in found.values())
        odd = {"total": total, "none": np.nan, "array": np.ones(2), "nested": {"x": (1, np.inf)}}
        return Conclusion(
            odd, [report.Table(["a"], [[1]])], [Drawing("toy", made, "a line", "A line.")], ["Ok."]
        )

    @property
    def experiment(self) -> Experiment:
        return Experiment("toy", "A toy", lambda _: {n: self.cell(n) for n in "abc"}, self.conclude)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Toy:
    made = Toy(failures=1)
    monkeypatch.setattr(registry, "find", lambda name: made.experiment)
    monkeypatch.setattr(registry, "settings", lambda name, quick: {"size": 1 if quick else 2})
    return made


def test_a_run_that_was_cut_off_goes_on(toy: Toy, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        runner.reproduce("toy", tmp_path, progress=Progress(quiet=True))
    assert not (tmp_path / "result.json").exists()
    told = runner.reproduce("toy", tmp_path, progress=Progress(quiet=True))
    assert toy.runs == ["a", "b", "b", "c"]
    assert told["total"] == sum(map(ord, "abc"))
    runner.reproduce("toy", tmp_path, quick=True, progress=Progress(quiet=True))
    assert toy.runs[4:] == ["a", "b", "c"]  # other settings, other cells


def test_what_is_written(toy: Toy, tmp_path: Path) -> None:
    toy.failures = 0
    runner.reproduce("toy", tmp_path, progress=Progress(quiet=True))
    kept = json.loads((tmp_path / "result.json").read_text())
    assert kept["none"] is None and kept["nested"] == {"x": [1, None]} and kept["array"] == [1, 1]
    assert set(kept["seconds"]) == set("abc") and kept["machine"]["packages"]["jax"]
    assert (tmp_path / "toy.png").stat().st_size > 1000 and (tmp_path / "toy.svg").exists()
    assert "A line." in (tmp_path / "report.html").read_text()


def test_every_experiment_has_its_folder() -> None:
    for name in reproduce.names():
        folder = registry.folder(name)
        assert (folder / "README.md").exists(), name
        expected = json.loads((folder / "expected.json").read_text())
        assert expected, name
        for quick in (True, False):
            assert registry.settings(name, quick)
        assert reproduce.find(name).name == name


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(ValueError, match="did you mean 'chaotic-table1'"):
        reproduce.find("chaotic-table")


def moved(value: Any, key: str = "") -> tuple[Any, int]:
    """The same tree with every number elsewhere but for standard errors, and how many count."""
    if isinstance(value, dict):
        pairs = {k: (v, 0) if k.endswith("_error") else moved(v, k) for k, v in value.items()}
        return {k: v for k, (v, _) in pairs.items()}, sum(n for _, n in pairs.values())
    if isinstance(value, list) and not (len(value) == 2 and isinstance(value[0], float)):
        items = [moved(v, key) for v in value]
        return [v for v, _ in items], sum(n for _, n in items)
    if isinstance(value, list):
        away = value[0] + 2.0 * abs(value[0]) + 1.0 + 5.0 * (value[1] or 0.0)
        return [away, value[1]], int(key not in TIMES)
    if value is None:  # not measured
        return None, 0
    return f"not {value}" if isinstance(value, str) else 3.0 * value + 1.0, int(key not in TIMES)


@pytest.mark.parametrize("name", reproduce.names())
def test_expected_numbers_are_expected(name: str) -> None:
    """Every one of them counts, but for times, which belong to a machine."""
    kept = json.loads((registry.folder(name) / "expected.json").read_text())
    assert reproduce.differences(name, kept) == []
    other, count = moved(kept)
    # A table of times is left out under its own name: those inside it do not count either.
    count -= len(kept.get("microseconds", {}))
    assert len(reproduce.differences(name, other)) == count > 3
    assert reproduce.differences(name, {}) == [f"{key}: missing" for key in kept]


KEPT = {
    "error": [1.0, 0.1],
    "single": [1.0, None],
    "rmse": {"a": 2.0},
    "rmse_error": {"a": 0.01},
    "rows": [{"method": "x", "share": 0.5, "microseconds": 3.0, "relative_time": 2.0}],
}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, []),
        ({"error": [1.4, 0.1]}, []),  # three standard errors of a difference are .424
        ({"error": [1.5, 0.1]}, ["error: got 1.5, expected 1 within 0.43"]),
        ({"single": [1.06, None]}, ["single: got 1.06, expected 1 within 0.05"]),
        ({"rmse": {"a": 2.1}}, ["rmse.a: got 2.1, expected 2 within 0.044"]),
        ({"rmse": {"a": None}}, ["rmse.a[0]: got None, expected 2.0"]),
        ({"rows": []}, [f"rows: got [], expected {KEPT['rows']!r}"]),
        ({"rows": [KEPT["rows"][0] | {"microseconds": 99.0, "relative_time": 3.9}]}, []),
        (
            {"rows": [KEPT["rows"][0] | {"method": "y", "relative_time": 4.1}]},
            [
                "rows[0].method: got 'y', expected 'x'",
                "rows[0].relative_time: got 4.1, expected 2 within a factor of 2",
            ],
        ),
    ],
)
def test_what_differs_is_said(
    change: dict[str, Any], expected: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "expected.json").write_text(json.dumps(KEPT))
    monkeypatch.setattr(registry, "folder", lambda name: tmp_path)
    assert reproduce.differences("toy", KEPT | change) == expected


def test_the_command_compares(
    toy: Toy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    toy.failures = 0
    monkeypatch.setattr(registry, "folder", lambda name: tmp_path)
    monkeypatch.setattr(reproduce, "find", lambda name: toy.experiment)
    words = ["reproduce", "toy", "--quiet", "--check", "--out", str(tmp_path)]
    for total, status in ((294.0, 0), (300.0, 0), (400.0, 1)):
        (tmp_path / "expected.json").write_text(json.dumps({"total": total}))
        assert run(words) == status
    assert "total: got 294, expected 400 within 20" in capsys.readouterr().out
    assert run([*words, "--quick"]) == 2
    assert "--check: got --quick as well" in capsys.readouterr().err
