"""Cells are kept, a cut-off run goes on, and what is written can be read."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rmcvi.app import report
from rmcvi.lab import reproduce
from rmcvi.lab.reproduce import registry, runner
from rmcvi.lab.reproduce.experiment import Conclusion, Desk, Drawing, Experiment
from rmcvi.lab.reproduce.progress import Progress


class Toy:
    """Three cells, one of which fails as often as it is told to."""

    def __init__(self, failures: int = 0):
        self.failures = failures
        self.runs: list[str] = []

    def cell(self, name: str) -> Any:
        def work(desk: Desk) -> dict[str, Any]:
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
