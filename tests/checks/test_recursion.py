"""RMCVI conforms; a recursion that talks too much is told so."""

from rmcvi import RMCVI, checks
from tests.checks import _broken
from tests.checks._small import small_model
from tests.families.test_contract import FAMILIES


def test_rmcvi_conforms():
    model = small_model()
    report = checks.recursion(RMCVI(4, window=3, bptt=2), model, FAMILIES["innovation"](model))
    assert report.ok, str(report)
    assert all(finding.sentence == "" for finding in report.findings)


def test_frozen_leaves_sums_and_draws():
    report = checks.recursion(_broken.Talkative(), _broken.Level.build(), None)
    found = {f.name: f.sentence for f in report.failed}
    assert "this leaf is not trained" in found["gradients: one parameter is trained"]
    assert "this leaf is not trained" in found["gradients: nothing is trained"]
    assert "gradients: everything is trained" not in found
    assert "info.increment sums to" in found["elbo = sum of increments"]
    assert "recursion.draw has covariance" in found["draw has the moments of filtered"]
    assert "y = 1e+06 is survived" in found
    assert "got str" in str(checks.recursion("none", _broken.Level.build(), None))
