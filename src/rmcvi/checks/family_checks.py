"""Conformance of a family: carries, marginals and backward kernels along a stream with gaps."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from rmcvi.checks.distribution import check_distribution
from rmcvi.checks.report import Report, Sheet, call
from rmcvi.checks.tools import (
    ABSURD,
    changed_structure,
    keys,
    not_arrays,
    not_finite,
    paths,
    quick_jit,
    simulated,
    trees_close,
    with_gaps,
)
from rmcvi.core import tree
from rmcvi.core.inputs import Inputs
from rmcvi.families import AbstractFamily
from rmcvi.models import AbstractModel

LENGTH = 7
"""Rows of the stream: enough for each kind of `ROWS`, and some after a row of NaN."""
ROWS = ("the first row", "an observed row", "a row that lacks y[0]", "a row of NaN")
FAR = 1e3
"""A state far from all that is usual, at which a kernel must still have a normaliser."""


class Outputs(eqx.Module):
    """What a family says along a stream (axis 0)."""

    eta: PyTree
    log_normaliser: Array
    entropy: Array
    draws: Array
    near: Array
    """Log-normaliser of q_{t-1|t}(x, .) at a draw of q_t, at (FAR, ...) and at (-FAR, ...)."""


def family(family: Any, model: Any, *, seed: int = 0) -> Report:
    """Check a family together with a model (one that conforms, see `rmcvi.checks.model`)."""
    sheet = Sheet(f"family {type(family).__name__}")
    sheet.check("classes", lambda: _classes(family, model))
    if not sheet.usable("classes"):
        return sheet.report()
    for name, check in (
        ("initial_carry", _initial_carry),
        ("advance keeps the carry's type", _advance),
        ("marginal, potential and statistic", _natural),
    ):
        sheet.check(name, lambda c=check: c(family, model), [f.name for f in sheet.findings[1:]])
    needs = [f.name for f in sheet.findings]
    stream: Any = sheet.compute(
        "simulated stream", lambda: with_gaps(simulated(model, LENGTH, seed)), needs
    )
    for kind, value in (("usual", None), ("absurd", ABSURD)):
        _check_walk(sheet, family, model, stream, kind, value, seed)
    calm: Any = _check_plain(sheet, family, model, stream, seed)
    sheet.check("project", lambda: _project(family))
    check_distribution(sheet, family, calm, seed)
    return sheet.report()


def _classes(family: Any, model: Any) -> str | None:
    if not isinstance(family, AbstractFamily):
        return f"got {type(family).__name__}, expected a subclass of rmcvi.families.AbstractFamily"
    if not isinstance(model, AbstractModel):
        return f"model: got {type(model).__name__}, expected a rmcvi.models.AbstractModel"
    return None


def _inputs(model: Any) -> Inputs:
    return Inputs(jnp.zeros(model.dim_input), jnp.ones(()))


def _initial_carry(family: Any, model: Any) -> str | None:
    carry = call("family.initial_carry", family.initial_carry, model)
    wrong = not_arrays(carry)
    if wrong is not None:
        return f"family.initial_carry {wrong}"
    path = not_finite(carry)
    return path and f"family.initial_carry is not finite at {path}"


def _shapes(family: Any, model: Any) -> tuple[PyTree, PyTree, PyTree]:
    """Types of the carry before and after a row, and of the three natural parameters."""
    y, x, inputs = jnp.zeros(model.dim_obs), jnp.zeros(model.dim_state), _inputs(model)
    before = call("family.initial_carry", family.initial_carry, model)

    def step(before, y, x):
        after = call("family.advance", family.advance, model, before, y, inputs)
        eta = call("family.marginal", family.marginal, after)
        potential = call("family.potential", family.potential, model, before, x, inputs)
        statistic = call("family.distribution.statistic", family.distribution.statistic, x)
        return after, {"marginal": eta, "potential": potential, "statistic": statistic}

    return before, *eqx.filter_eval_shape(step, before, y, x)


def _advance(family: Any, model: Any) -> str | None:
    before, after, _ = _shapes(family, model)
    how = changed_structure(before, after)
    return how and f"family.advance must return a carry of the type it was given: {how}"


def _natural(family: Any, model: Any) -> str | None:
    _, _, natural = _shapes(family, model)
    for name in ("potential", "statistic"):
        how = changed_structure(natural["marginal"], natural[name])
        if how is not None:
            owner = "family.distribution" if name == "statistic" else "family"
            return f"{owner}.{name} must have the type of family.marginal: {how}"
    return None


@quick_jit
def _outputs(
    phi: PyTree, rest: PyTree, model: Any, ys: Array, split: Array
) -> tuple[PyTree, Outputs]:
    """The outputs, and the gradient in phi of everything it says."""

    def objective(phi):
        family: Any = eqx.combine(phi, rest)
        q, inputs = family.distribution, _inputs(model)

        def log_normaliser(eta):
            return call("family.distribution.log_normaliser", q.log_normaliser, eta)

        def step(carry, row):
            y, key = row
            new = call("family.advance", family.advance, model, carry, y, inputs)
            eta, before = (call("family.marginal", family.marginal, v) for v in (new, carry))
            draw = call("family.distribution.sample", q.sample, key, eta, 1)
            x = jnp.concatenate([draw, jnp.full_like(draw, FAR), jnp.full_like(draw, -FAR)])

            def back(x):
                added = call("family.potential", family.potential, model, carry, x, inputs)
                return log_normaliser(tree.add(before, added))

            entropy = call("family.distribution.entropy", q.entropy, eta)
            return new, Outputs(eta, log_normaliser(eta), entropy, draw[0], jax.vmap(back)(x))

        _, outputs = jax.lax.scan(step, family.initial_carry(model), (ys, split))
        return jnp.sum(outputs.log_normaliser + outputs.entropy + outputs.near[:, 0]), outputs

    return jax.grad(objective, has_aux=True)(phi)


def _run(family: Any, model: Any, ys: np.ndarray, seed: int) -> tuple[PyTree, Outputs]:
    phi, rest = eqx.partition(family, eqx.is_inexact_array)
    return _outputs(phi, rest, model, jnp.asarray(ys, float), keys(seed, LENGTH))


def _check_walk(
    sheet: Sheet, family: Any, model: Any, stream: Any, kind: str, value: Any, seed: int
) -> None:
    def run():
        ys = np.array(stream)
        if value is not None:
            ys[4, 0] = value
        return _run(family, model, ys, seed)

    numbers = f"{kind} stream"
    found: Any = sheet.compute(numbers, run, ["simulated stream"])
    rows = [*ROWS, f"a row with y[0] = {ABSURD:g}" if value else "an observed row"]
    rows += ["a later row"] * (LENGTH - len(rows))
    for name, check in (
        ("marginals", _marginals),
        ("backward kernels", _kernels),
    ):
        sheet.check(f"{kind} stream: {name}", lambda c=check: c(found[1], rows), [numbers])
    sheet.check(f"{kind} stream: gradients", lambda: _gradient(found[0]), [numbers])


def _marginals(outputs: Outputs, rows: list[str]) -> str | None:
    for name in ("eta", "log_normaliser", "entropy", "draws"):
        for path, values in paths(getattr(outputs, name)):
            for row, value in zip(rows, np.asarray(values), strict=True):
                if not np.all(np.isfinite(value)):
                    what = f"{name}{path}".replace("_", " ").replace("eta", "natural parameter", 1)
                    return f"after {row}, the {what} of family.marginal is not finite"
    return None


def _kernels(outputs: Outputs, rows: list[str]) -> str | None:
    places = ("a draw of q_t", f"x = {FAR:g}", f"x = {-FAR:g}")
    for row, values in zip(rows, np.asarray(outputs.near), strict=True):
        for place, value in zip(places, values, strict=True):
            if not np.isfinite(value):
                return (
                    f"at {row}, the marginal plus family.potential at {place} has no finite "
                    "log-normaliser: the potential must not take precision away"
                )
    return None


def _gradient(grads: PyTree) -> str | None:
    path = not_finite(grads)
    return path and f"the gradient in {path} of marginals and backward kernels is not finite"


def _check_plain(sheet: Sheet, family: Any, model: Any, stream: Any, seed: int) -> Outputs | None:
    """One step outside of jit against the same step inside."""
    found: list[Any] = []

    def compare():
        _, outputs = _run(family, model, stream, seed)
        found.append(outputs)
        y, inputs = jnp.asarray(stream[0], float), _inputs(model)
        carry = family.advance(model, family.initial_carry(model), y, inputs)
        plain, fast = family.marginal(carry), jax.tree.map(lambda v: v[0], outputs.eta)
        if not trees_close(plain, fast):
            return "family.advance and family.marginal say something else under jax.jit"
        return None

    sheet.check("jit", compare, ["usual stream", "usual stream: marginals"])
    return found[0] if found else None


def _project(family: Any) -> str | None:
    once = call("family.project", family.project)
    first, second = (
        eqx.filter(v, eqx.is_array) for v in (once, call("family.project", once.project))
    )
    how = changed_structure(eqx.filter(family, eqx.is_array), first)
    if how is not None:
        return f"family.project must return a family of the same type: {how}"
    if not trees_close(first, second):
        return "family.project is not idempotent: projected twice, the parameters move again"
    return None
