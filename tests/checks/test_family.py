"""Families conform with the models they were built for; wrong ones are named."""

import pytest

from rmcvi import checks
from tests.checks import _broken
from tests.families.test_contract import FAMILIES
from tests.models.zoo import ZOO


@pytest.mark.parametrize(
    "name",
    [
        "recurrent-full",
        "innovation",
        "per-step",
        pytest.param("linear-diagonal", marks=pytest.mark.long),
    ],
)
def test_families_conform(name):
    model = ZOO["diagonal"]().model
    report = checks.family(FAMILIES[name](model), model)
    assert report.ok, str(report)
    assert all(finding.sentence == "" for finding in report.findings)


def test_a_family_that_loses_its_precision_is_named():
    report = checks.family(_broken.Greedy(), _broken.Level.build())
    found = {f.name: f.sentence for f in report.failed}
    assert "at x = 1000 has no finite" in found["usual stream: backward kernels"]
    assert "after a row with y[0] = 1e+06" in found["absurd stream: marginals"]
    assert "not idempotent" in found["project"]
    assert not any(name.startswith("distribution") for name in found)


def test_a_growing_carry_is_named():
    report = checks.family(_broken.Growing(), _broken.Level.build())
    found = {f.name: f.sentence for f in report.failed}
    assert "had shape (1,) and now has (3,)" in found["advance keeps the carry's type"]
    assert "not tried because `advance keeps the carry's type`" in str(report)
    assert "got int" in str(checks.family(3, _broken.Level.build()))
