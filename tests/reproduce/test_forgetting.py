"""Forgetting, quick form: measured rates lie below their bounds."""

import pytest

from rmcvi.lab.reproduce import reproduce
from rmcvi.lab.reproduce.runner import Progress

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    folder = tmp_path_factory.mktemp("forgetting")
    result = reproduce("forgetting", folder, quick=True, progress=Progress(quiet=True))
    assert (folder / "forgetting.png").exists()
    return result["projected and bounded"]


def test_statistics_contract_no_slower_than_their_bounds(told):
    assert told["h"] <= told["dobrushin"] <= told["paper"] < 1.0
    assert told["v"] <= told["dobrushin"] * (1.0 + 1e-6)


def test_the_carry_forgets_at_the_projected_rate(told):
    assert told["carry"] <= told["carry_bound"] <= 0.7 + 1e-6


def test_the_elbo_stays_below_the_evidence(told):
    assert told["colbo"] < told["evidence_rate"]
