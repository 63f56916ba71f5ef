"""The estimator conforms; peeking, hoarding and growing are named."""

import pytest

from rmcvi import checks
from tests.checks import _broken
from tests.learners.test_estimator import small_learner


@pytest.mark.slow
def test_the_estimator_conforms():
    """A hint is allowed: how XLA fuses a loop may show in the last bit of an interval."""
    report = checks.learner(small_learner())
    assert report.ok, str(report)
    assert not any(finding.sentence.startswith("not tried") for finding in report.findings)


def test_a_learner_that_peeks():
    report = checks.learner(_broken.Peeking())
    found = {f.name: f.sentence for f in report.failed}
    assert set(found) == {
        "a prediction does not know y",
        "forecast",
        "log score",
        "y = 1e+06 and infinities are survived",
    }
    assert "it must be made before y is seen" in found["a prediction does not know y"]
    assert "where nothing was seen" in found["log score"]
    assert "is not finite" in found["y = 1e+06 and infinities are survived"]


def test_a_state_that_is_no_array_or_grows():
    report = checks.learner(_broken.Hoarding())
    (failed,) = report.failed
    assert "expected JAX arrays only" in failed.sentence
    report = checks.learner(_broken.Longer())
    found = {f.name: f.sentence for f in report.failed}
    assert "now has (2, 2) at step 0" in found["state of constant type"]
    assert "a prediction does not know y" in found
    assert "not tried because `state of constant type` did not pass" in str(report)
