"""Conformance of a model: shapes, sampler = density, missing data, transformations, fast paths."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from rmcvi.checks import agreement, angles, emission, missing, signature
from rmcvi.checks.laws import DENSITY, LAWS, NUM_POINTS, SAMPLER, Seen, look, probes
from rmcvi.checks.report import Report, Sheet
from rmcvi.checks.tools import normal, paths

FINITE = "{}: finite at its own draws"
AGREE = "{}: sampler and density agree"


def model(model: Any, *, trained: Any = eqx.is_inexact_array, seed: int = 0) -> Report:
    """Check a model by itself, in a few seconds; Monte Carlo tolerances are 5 standard errors.

    Args:
        model: a `rmcvi.models.AbstractModel`.
        trained: filter of its parameters, as in `rmcvi.Trainable.model`.
        seed: of the draws.
    """
    sheet = Sheet(f"model {type(model).__name__}")
    sheet.check("dimensions", lambda: signature.dimensions(model))
    if not sheet.usable("dimensions"):
        return sheet.report()
    sheet.check("fields", lambda: signature.fields(model))
    for name, (arguments, expected) in signature.methods(model).items():
        sheet.check(
            f"shape of {name}",
            lambda n=name, a=arguments, e=expected: signature.shape(model, n, a, e),
        )
    seen: dict[str, Seen] = {}
    given = normal(seed, 1, model.dim_state)  # not used by the initial law
    for law in LAWS:
        found = _check_law(sheet, model, trained, law, given, seed)
        if found is not None:
            seen[law] = found
        given = _next_points(sheet, law, seen, model.dim_state)
    _check_idle(sheet, model, seen)
    _check_missing(sheet, model, trained, seen)
    for law in LAWS:
        _check_transforms(sheet, model, law, seen)
    sheet.check("float32", lambda: signature.in_float32(model, seen), _draws(seen))
    _check_fast_paths(sheet, model, seen, seed)
    _check_emission(sheet, model, seen)
    _check_angles(sheet, model, seen, seed)
    return sheet.report()


def _next_points(sheet: Sheet, law: str, seen: dict[str, Seen], dim: int) -> np.ndarray:
    """States of the model's own, or standard normal ones if it has none to offer."""
    if law in seen and sheet.usable(FINITE.format(law)):
        draws = seen[law].draws
        return draws[0, :NUM_POINTS] if law == "initial" else draws[:, 0]
    return normal(7, NUM_POINTS, dim)


def _draws(seen: dict[str, Seen]) -> list[str]:
    return [FINITE.format(law) for law in (seen or LAWS)]


def _check_law(
    sheet: Sheet, model: Any, trained: Any, law: str, given: np.ndarray, seed: int
) -> Seen | None:
    numbers, fine, same = f"{law}: draws", FINITE.format(law), AGREE.format(law)
    needs = [f"shape of {name}" for name in (SAMPLER[law], DENSITY[law])]
    if law == "emission":
        needs.insert(0, "shape of emission_log_prob")
    seen: Any = sheet.compute(numbers, lambda: look(model, trained, law, given, seed), needs)
    singular = law == "transition" and _singular(sheet, model)
    sheet.check(fine, lambda: agreement.finite(law, seen, singular), [numbers])
    if singular:
        return seen
    agree = [fine]
    if law != "emission":
        agree.append(f"{law}: a density on all of R^dx")
        sheet.check(agree[-1], lambda: agreement.support(law, seen), [fine])
    sheet.check(same, lambda: agreement.stein(law, seen), agree)
    sheet.check(f"{law}: normalised in theta", lambda: agreement.score(law, seen), [same])
    return seen


def _singular(sheet: Sheet, model: Any) -> bool:
    """Whether some direction of the state has no noise: lags, integrators."""
    if model.gaussian is None or not sheet.usable("shape of transition_scale"):
        return False
    scale = np.asarray(jax.vmap(model.transition_scale)(probes(model.dim_input)))
    return bool(np.any((scale if scale.ndim == 2 else np.diagonal(scale, axis1=1, axis2=2)) == 0.0))


def _check_idle(sheet: Sheet, model: Any, seen: dict[str, Seen]) -> None:
    slopes: dict[str, list[Any]] = {}
    for law in seen.values():
        for path, square in paths(law.theta_square):
            if square.size:
                slopes.setdefault(path, []).append(square)
    size = sum(float(law.input_slope.sum()) for law in seen.values())
    needs = [f"{law}: draws" for law in LAWS]
    sheet.check("all is used", lambda: signature.idle(slopes, model.dim_input, size), needs)


def _check_missing(sheet: Sheet, model: Any, trained: Any, seen: dict[str, Seen]) -> None:
    numbers, finite = "missing: values", "missing: finite gradients"
    found: Any = sheet.compute(
        numbers,
        lambda: missing.gaps(model, trained, seen["emission"]),
        [FINITE.format("emission")],
    )
    sheet.check("missing: all gives 0", lambda: missing.all_missing(found), [numbers])
    sheet.check(finite, lambda: missing.finite_gradients(model, found), [numbers])
    sheet.check(
        "missing: one is integrated out",
        lambda: missing.marginal(seen["emission"], found),
        [numbers, finite, AGREE.format("emission")],
    )


def _check_transforms(sheet: Sheet, model: Any, law: str, seen: dict[str, Seen]) -> None:
    numbers, needs = f"{law}: plain calls", [FINITE.format(law)]
    found: Any = sheet.compute(numbers, lambda: signature.plain(model, law, seen[law]), needs)
    for name, fast in ((SAMPLER[law], "draws"), (DENSITY[law], "log_prob")):
        pure = f"pure: {name}"
        sheet.check(pure, lambda n=name: signature.pure(n, found[n]), [numbers])
        sheet.check(
            f"jit and vmap: {name}",
            lambda n=name, f=fast: signature.same_under_jit(
                n, found[n][0], getattr(seen[law], f)[0, 0]
            ),
            [pure],
        )


def _check_fast_paths(sheet: Sheet, model: Any, seen: dict[str, Seen], seed: int) -> None:
    gaussian = model.gaussian is not None
    names = ["transition_log_prob", "pairwise_log_prob"]
    if gaussian:
        names += ["transition_mean", "transition_scale", "transition_jacobian", "moment_log_prob"]

    def numbers():
        law, weight = seen["transition"], np.abs(normal(seed, 2, NUM_POINTS))
        x_prev, x, weight = map(jnp.asarray, (law.given, law.draws[:, 0], weight))
        return agreement.account(model, x_prev, x, probes(model.dim_input), weight)

    needs, account = [f"shape of {name}" for name in names], "transition: its own account"
    said: Any = sheet.compute(account, numbers, [*needs, FINITE.format("transition")])
    if gaussian:
        sheet.check(
            "transition_mean and transition_scale are the sampler's",
            lambda: agreement.moments(said, seen["transition"]),
            [account],
        )
        sheet.check("transition_jacobian", lambda: agreement.jacobian(said), [account])
    if not _singular(sheet, model):
        sheet.check("all pairs at once = one by one", lambda: agreement.fast_paths(said), [account])


def _check_emission(sheet: Sheet, model: Any, seen: dict[str, Seen]) -> None:
    """What families that imitate a Kalman step believe."""
    if model.gaussian is None:
        return
    names = ["emission_mean", "emission_scale", "emission_information"]
    needs = [*(f"shape of {name}" for name in names), FINITE.format("emission")]
    account = "emission: its own account"
    told: Any = sheet.compute(account, lambda: emission.told(model, seen["emission"]), needs)
    sheet.check(
        "emission_mean and emission_scale are the sampler's",
        lambda: emission.place(told, seen["emission"]),
        [account],
    )
    sheet.check(
        "emission_information is the score's",
        lambda: emission.information(told, seen["emission"]),
        [account, AGREE.format("emission")],
    )
    sheet.check(
        "initial: Gaussian",
        lambda: emission.gaussian_start(model, seen["initial"]),
        [AGREE.format("initial")],
    )


def _check_angles(sheet: Sheet, model: Any, seen: dict[str, Seen], seed: int) -> None:
    needs = [FINITE.format(law) for law in ("initial", "emission")]
    if not sheet.usable(*needs) or agreement.discrete("emission", seen["emission"]):
        return
    start, far, ways = seen["initial"], "emission: draws far out", "emission: ways between states"
    turned: Any = sheet.compute(far, lambda: angles.turned(model, start, seed))
    sheet.check("angles are wrapped", lambda: angles.sampler_wraps_alone(turned), [far])
    if model.gaussian is not None:
        found: Any = sheet.compute(
            ways, lambda: angles.jumps(model, start, seed), ["shape of emission_mean"]
        )
        sheet.check("angles pass their cut", lambda: angles.mean_jumps(found), [ways])
