"""Alarms on labelled streams: the score against its definition, and the quick form."""

import json
from pathlib import Path

import numpy as np
import pytest

from rmcvi.app.run.speech import Refusal
from rmcvi.lab.reproduce import failures, reproduce
from rmcvi.lab.reproduce.detection import Labelled, episodes, judge, scaled, streaming_score
from rmcvi.lab.reproduce.runner import Progress

LABELLED = Labelled(2000, [(800, 899), (1500, 1549)], 2.0)


def on(*rows: int) -> np.ndarray:
    alarms = np.zeros(LABELLED.rows, bool)
    alarms[list(rows)] = True
    return alarms


def sigmoid(x: float) -> float:
    return 2.0 / (1.0 + np.exp(5.0 * x)) - 1.0


def test_the_streaming_score_by_hand() -> None:
    """Early alarms are worth more; a false one costs little just after a window, .11 far away."""
    assert scaled(streaming_score(on(), LABELLED), 2) == 0.0
    assert scaled(streaming_score(on(800, 1500), LABELLED), 2) == pytest.approx(100.0)
    late = sigmoid(-1 / 100) / sigmoid(-1.0)
    assert streaming_score(on(899), LABELLED) == pytest.approx(late - 1.0)
    assert streaming_score(on(850, 899), LABELLED) == streaming_score(on(850), LABELLED)
    assert streaming_score(on(400), LABELLED) == pytest.approx(-2.0 - 0.11)
    assert streaming_score(on(949), LABELLED) == pytest.approx(-2.0 + 0.11 * sigmoid(50 / 99))
    assert streaming_score(on(1400), LABELLED) == pytest.approx(-2.0 - 0.11)
    # The first 15 % are not judged.
    assert streaming_score(on(299), LABELLED) == -2.0


def test_windows_found_and_false_episodes() -> None:
    """An episode that touches a window is not false; pauses of 25 rows do not end one."""
    alarms = on(100, 600, 620, 700, 790, 805, 1530)
    assert episodes(alarms) == [(100, 100), (600, 620), (700, 700), (790, 805), (1530, 1530)]
    found = judge(alarms, LABELLED)
    assert (found.hits, found.windows, found.false) == (2, 2, 2)
    assert found.delays == (0.05, 0.6)
    assert episodes(on()) == [] and judge(on(), LABELLED).delays == ()


def test_files_without_their_folder_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(failures.VARIABLE, raising=False)
    with pytest.raises(Refusal, match="RMCVI_STREAMS: got None, expected a folder"):
        failures.cells({"simulated": []})


@pytest.mark.long
def test_the_quick_form(tmp_path: Path) -> None:
    """Both simulated failures are found; every detector is in the table."""
    told = reproduce("failures", tmp_path, quick=True, progress=Progress(quiet=True))
    alarms = told["overall"]["alarms"]
    assert alarms["hits"] == alarms["windows"] == 2 and alarms["false"] <= 2
    assert set(told["overall"]) >= {"alarms", "rmcvi learn", "last value, z", "chance"}
    assert (tmp_path / "curves.png").exists()
    assert json.loads((tmp_path / "result.json").read_text())["streams"]["freeze"]["found"] == 1
