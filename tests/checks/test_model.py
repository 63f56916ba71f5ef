"""The zoo conforms; what is wrong is named, and nothing is raised."""

import dataclasses
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rmcvi import checks
from rmcvi.checks import agreement, model_checks, signature
from rmcvi.checks.laws import Seen
from rmcvi.models import AbstractGaussianModel
from tests.checks import _broken, _planted
from tests.models.zoo import ZOO


@cache
def said(kind: type[_broken.Level]) -> dict[str, str]:
    """Sentences of the checks that failed, by name."""
    return {finding.name: finding.sentence for finding in checks.model(kind.build()).failed}


@cache
def of_the_zoo(name: str) -> checks.Report:
    """All that was found, by all tests that ask."""
    return checks.model(ZOO[name]().model)


QUICK = ("epidemic",)
"""Counts, and below a model of four methods. tests/models compares all of them with SciPy; that
these checks find nothing in the others is a long test."""
LONG = ("a rate in place of its root", "only the sampler wraps")
"""Planted faults whose check another one finds at work."""


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.long) for name in ZOO]
)
def test_the_zoo_conforms(name):
    """Counts have no Stein identities; nothing else is left out, and no hint is given."""
    report = of_the_zoo(name)
    report.raise_if_failed()
    assert report.ok, str(report)
    said = [finding for finding in report.findings if finding.sentence]
    assert all("takes whole numbers only" in finding.sentence for finding in said), str(report)


def test_four_methods_make_a_model():
    report = checks.model(_planted.Gauges(gain=_planted.GAIN))
    assert report.ok, str(report)


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.long) if n in LONG else n for n in _planted.PLANTED],
)
def test_planted_faults_are_found(name, monkeypatch):
    """Each by its own check, in a sentence that says what to do.

    All are faults of laws, emissions and angles: the other checks are left out, to save their time.
    """
    for part in ("_check_missing", "_check_transforms", "_check_fast_paths"):
        monkeypatch.setattr(model_checks, part, lambda *_: None)
    monkeypatch.setattr(signature, "in_float32", lambda *_: None)
    build, check, advice = _planted.PLANTED[name]
    found = {finding.name: finding.sentence for finding in checks.model(build()).failed}
    assert check in found, found
    assert advice in found[check]


def test_counts_skip_what_needs_a_density_on_the_line():
    skipped, *_ = (f for f in of_the_zoo("epidemic").findings if f.sentence)
    assert skipped.name == "emission: sampler and density agree"
    assert "not tried because y[0] takes whole numbers only" in skipped.sentence
    assert str(skipped).startswith("skipped emission")


class Lagged(AbstractGaussianModel):
    """A level and what it was: no noise on the second; small noise on a large number."""

    log_noise: jax.Array
    dim_state: int = 2
    dim_obs: int = 1

    def initial_moments(self):
        return jnp.full(2, 1000.0), jnp.ones(2)

    def transition_mean(self, x_prev, inputs):
        return jnp.stack([1000.0 + 0.9 * (x_prev[0] - 1000.0), x_prev[0]])

    def transition_scale(self, inputs):
        return jnp.stack([jnp.exp(self.log_noise), 0.0 * self.log_noise])

    def emission_mean(self, x, inputs):
        return x[:1] - x[1:]

    def emission_scale(self, x, inputs):
        return jnp.ones(1)


def test_noise_may_be_singular(monkeypatch):
    """As the tutorial says; the sampler is held against mean and scale all the same."""
    monkeypatch.setattr(signature, "in_float32", lambda *_: None)
    monkeypatch.setattr(model_checks, "_check_missing", lambda *_: None)
    report = checks.model(Lagged(log_noise=jnp.log(0.1)))
    assert report.ok, str(report)
    (hint,) = (f for f in report.findings if f.sentence.startswith("hint"))
    assert hint.name == "transition: finite at its own draws" and "has no density" in hint.sentence
    told = {f.name for f in report.findings}
    assert "transition_mean and transition_scale are the sampler's" in told


def drawn(values: np.ndarray) -> Seen:
    """Draws, and nothing else known of them."""
    rest = {f.name: None for f in dataclasses.fields(Seen)}
    return Seen(**(rest | {"draws": values}))


def test_singular_noise_is_that_of_the_draws():
    mean, scale, nothing = np.array([[1.0, 1000.0]]), np.array([[0.1, 0.0]]), jnp.zeros(1)
    said = agreement.Account(nothing, nothing, nothing, None, jnp.asarray(mean), jnp.asarray(scale))
    noise = np.random.default_rng(0).normal(size=(1, 4000, 2)) * scale
    assert agreement.moments(said, drawn(mean + noise)) is None
    for wrong, words in ((1.1 * mean + noise, "is off by"), (mean + 1.5 * noise, "covariance 2.2")):
        assert words in (agreement.moments(said, drawn(wrong)) or "")


def test_ties_by_rounding_are_no_atoms():
    draws = np.random.default_rng(0).normal(size=(1, 4000, 1))
    fine = (1000.0 + 0.1 * draws).astype(np.float32)
    assert len(np.unique(fine)) < 0.95 * fine.size
    assert agreement.discrete("transition", drawn(fine)) is None
    for atoms in (np.where(draws > 1.0, 1.0, draws), np.full_like(draws, 0.5)):
        assert "often draws the same value" in (
            agreement.discrete("transition", drawn(atoms)) or ""
        )


def test_sloppy_densities_are_told_apart():
    """Each defect in its own sentence; nothing else fails."""
    report = checks.model(_broken.Sloppy.build())
    found = {f.name: f.sentence for f in report.failed}
    assert set(found) == {
        "initial: normalised in theta",
        "transition: sampler and density agree",
        "emission: sampler and density agree",
    }
    assert ".raw_scale[0]" in found["initial: normalised in theta"]
    assert "forgotten -log scale" in found["initial: normalised in theta"]
    transition = found["transition: sampler and density agree"]
    assert "about the spread of x[0]" in transition and "times as wide" in transition
    assert "about the spread of y[" in found["emission: sampler and density agree"]
    (hint,) = (f for f in report.findings if f.sentence.startswith("hint"))
    assert "field gain is a Python float, which is never learned" in hint.sentence
    skipped = [f.name for f in report.findings if f.sentence.startswith("not tried")]
    assert "missing: one is integrated out" in skipped
    with pytest.raises(ValueError, match="forgotten -log scale"):
        report.raise_if_failed()


def test_what_raises_becomes_a_sentence_and_hides_nothing():
    found = said(_broken.Leaky)
    assert "raised TracerBoolConversionError" in found["shape of transition_sample"]
    assert "it must work under jax.jit" in found["shape of transition_sample"]
    assert found["shape of transition_log_prob"].endswith("one number: sum over the coordinates")
    assert "for the same arguments" in found["pure: initial_sample"]
    gradient = found["missing: finite gradients"]
    assert "gradient of model.observed_log_prob in x is not finite" in gradient
    assert all("\n" not in sentence for sentence in found.values())


def test_correlated_coordinates_need_an_observed_log_prob():
    (name,), (sentence,) = zip(*said(_broken.Correlated).items(), strict=True)
    assert name == "missing: one is integrated out"
    assert "correlated coordinates without an observed_log_prob" in sentence


def test_a_sum_of_the_wrong_shape_is_named():
    class Summed(_broken.Level):
        def emission_log_prob(self, x, y, inputs):
            return jnp.sum(y - x)

    report = checks.model(Summed.build())
    (failed,) = report.failed
    assert failed.name == "shape of emission_log_prob" and "do not sum" in failed.sentence
    skipped = [f.sentence for f in report.findings if f.sentence.startswith("not tried")]
    assert set(skipped) == {"not tried because `shape of emission_log_prob` did not pass"}


def test_something_else_is_no_model():
    report = checks.model("a string")
    assert str(report).splitlines()[0] == "model str: 1 of 1 checks failed"
    assert "got str, expected a subclass of rmcvi.models.AbstractModel" in str(report)
