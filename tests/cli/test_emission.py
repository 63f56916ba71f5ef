"""Counts and shares are found where they are; a run with both kinds of columns resumes."""

from pathlib import Path

import numpy as np
import pytest

from rmcvi.app.run.emission import choose_emissions, emissions_of, find_law, sentences
from rmcvi.app.run.speech import Refusal
from rmcvi.app.sources import read
from rmcvi.learners.emissions import Emission
from tests.cli._runs import call

ROWS = 400
RNG = np.random.default_rng(2)
WAVE = np.sin(np.arange(ROWS) / 20.0)
WET = RNG.random(ROWS) < 0.5
SO_FAR = np.array([np.argmin(WET[t::-1]) if not WET[: t + 1].all() else t for t in range(ROWS)])
"""Hours of rain so far: they count up, and start anew when it is dry."""


@pytest.mark.parametrize(
    ("law", "values"),
    {
        "visits": ("negative-binomial", RNG.poisson(np.exp(0.5 + WAVE))),
        "rare": ("negative-binomial", RNG.poisson(0.1, ROWS)),
        "bursts": ("negative-binomial", RNG.poisson(20.0, ROWS) * (RNG.random(ROWS) < 0.2)),
        "share": ("bounded", np.round(1.0 / (1.0 + np.exp(-3.0 - 2.0 * WAVE)), 3)),
        "many": (None, RNG.poisson(1000.0, ROWS)),
        "degrees": (None, np.round(20.0 + 5.0 * WAVE)),
        "switch": (None, (WAVE > 0.0).astype(float)),
        "amount": (None, np.exp(WAVE)),
        "negative": (None, np.round(3.0 * WAVE)),
        "share in the middle": (None, 0.5 + 0.2 * WAVE),
        "running sum": (None, SO_FAR),
        "rare running sum": (None, SO_FAR * (np.arange(ROWS) < 60)),
        "hour of the day": (None, np.arange(ROWS) % 24),
        "few": (None, RNG.poisson(2.0, 20)),
    }.values(),
)
def test_laws_are_found(law, values):
    assert find_law(np.asarray(values, float), False) == law


def test_per_cent_is_a_share_of_a_hundred():
    load = np.clip(np.round(60.0 + 60.0 * WAVE, 1), 0.0, 100.0)
    assert find_law(load, True) == "bounded"
    assert find_law(load, False) is None


def _write(path: Path) -> Path:
    visits = RNG.poisson(np.exp(0.5 + WAVE))
    level = WAVE + 0.1 * RNG.standard_normal(ROWS)
    lines = [f"{v},{x:.4f}" for v, x in zip(visits, level, strict=True)]
    path.write_text("\n".join(["visits,level", *lines]) + "\n")
    return path


def test_what_is_said_has_the_last_word(tmp_path):
    stream, names = read(str(_write(tmp_path / "shop.csv"))), ["visits", "level"]

    def found(*said: str) -> list[dict]:
        return choose_emissions(stream, names, [False, False], said)

    assert found("auto") == [{"column": "visits", "law": "negative-binomial"}]
    assert found() == found("gaussian") == []
    assert found("visits=poisson") == [{"column": "visits", "law": "poisson"}]
    assert emissions_of(found("auto"), names) == (Emission(0, "negative-binomial"),)
    assert sentences(found("auto"))[0].startswith("visits: counts, learned as negative binomial")
    for wrong in ("poison", "vists=poisson", "level=bounded"):
        with pytest.raises(Refusal, match="--emission"):
            found(wrong)
    with pytest.raises(Refusal, match="one of them"):
        found("auto", "poisson")


@pytest.mark.long
def test_a_run_with_counts_resumes_to_the_byte(tmp_path, capsys):
    source = _write(tmp_path / "shop.csv")
    whole, cut = tmp_path / "whole.run", tmp_path / "cut.run"
    usual = ("--emission", "auto", "--season", "none", "--no-report")
    done = call(capsys, "learn", source, "--out", whole, *usual)
    assert done.status == 0 and "visits: counts, learned as negative binomial" in done.err
    assert call(capsys, "learn", source, "--out", cut, *usual, "--limit", 150).status == 0
    assert call(capsys, "resume", cut, "--no-report").status == 0
    assert (cut / "estimates.jsonl").read_bytes() == (whole / "estimates.jsonl").read_bytes()
    told = call(capsys, "forecast", whole, "--horizon", 5)
    assert told.status == 0
    assert "NaturalRMCVI" in call(capsys, "inspect", whole, "--json").out
