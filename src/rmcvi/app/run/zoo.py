"""From `--model` to a learner."""

import contextlib
import importlib
import os
import sys
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp

import rmcvi.families as families
import rmcvi.models as models
from rmcvi.app.run.season import Season
from rmcvi.app.run.settings import ZOO, Config, Family, validated
from rmcvi.app.run.speech import Refusal
from rmcvi.contract import AbstractLearner
from rmcvi.core.checks import check_instance
from rmcvi.learners import OnlineEstimator
from rmcvi.learners.emissions import Emission, EmissionLearner
from rmcvi.learners.seasonal import SeasonalLearner
from rmcvi.models import AbstractModel
from rmcvi.optim import two_time_scales
from rmcvi.recursion import RMCVI

COPIES = 8
"""Memory of a run in sizes of its state: what 300 columns were measured to take."""


def build(
    plain: dict[str, Any],
    columns: int,
    inputs: int,
    level: float,
    season: Season,
    emissions: tuple[Emission, ...] = (),
) -> tuple[AbstractLearner, dict[str, Any]]:
    """The learner of a plain configuration, and its settings for people.

    Args:
        plain: the configuration.
        columns: their number.
        inputs: the number of columns known beforehand.
        level: probability of the intervals.
        season: of the seasonal model.
        emissions: columns of it that are counts or shares.
    """
    if ":" in plain["model"]:
        return _fitting(call(plain, columns, inputs)), {"function": plain["model"]}
    config = validated(plain, "model")
    try:
        if config.model == "seasonal":
            learner, settings = _seasonal(config, columns, inputs, level, season)
            mixed = EmissionLearner(learner, emissions) if emissions else learner
            return _fitting(mixed), settings
        model = make_model(config, columns, inputs)
        return _fitting(_estimator(config, model, level)), config.model_dump(exclude={"model"})
    except Refusal:
        raise
    except ValueError as error:
        raise Refusal(f"model {config.model!r}: {error}") from None


def _fitting(learner: AbstractLearner) -> AbstractLearner:
    """The learner, if this machine has the memory for its state and for computing with it."""
    shapes = jax.tree.leaves(jax.eval_shape(learner.init, jax.random.key(0)))
    need = COPIES * sum(leaf.size * leaf.dtype.itemsize for leaf in shapes)
    have = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if need > have / 2:
        raise Refusal(
            f"columns: got {learner.dim_obs}, for which {type(learner).__name__} would need about"
            f" {need / 1e9:.3g} GB of memory and this machine has {have / 1e9:.3g}; choose fewer"
            " with --columns"
        )
    return learner


def call(plain: dict[str, Any], columns: int, inputs: int) -> AbstractLearner:
    """`module:function(columns, inputs)`, found from the directory where the command was given."""
    module, _, function = plain["model"].partition(":")
    with _importing(plain["path"]):
        try:
            make = getattr(importlib.import_module(module), function)
        except (ImportError, AttributeError, ValueError) as error:
            raise Refusal(f"--model {plain['model']}: {error}") from None
        learner = make(columns, inputs)
    try:
        check_instance(f"--model {plain['model']}", learner, AbstractLearner)
    except ValueError as error:
        raise Refusal(str(error)) from None
    return learner


@contextlib.contextmanager
def _importing(directory: str) -> Iterator[None]:
    """Modules are found in a directory as well, after all others, and only in here."""
    before = list(sys.path)
    sys.path.append(directory)
    try:
        yield
    finally:
        sys.path[:] = before


def make_model(config: Config, columns: int, inputs: int) -> AbstractModel:
    """The state-space model to start from; `simulate` draws from it as well."""
    settings = config.settings
    if inputs and config.model in ("stochastic-volatility", "chaotic-rnn"):
        others = ", ".join(n for n in ZOO if n not in ("stochastic-volatility", "chaotic-rnn"))
        raise Refusal(f"--model {config.model}: takes no inputs, expected one of {others}")
    match config.model:
        case "linear-gaussian":
            return models.LinearGaussian(
                settings.persistence * jnp.eye(columns),
                jnp.eye(columns),
                jnp.full(columns, settings.noise),
                jnp.full(columns, settings.obs_noise),
                state_input=jnp.zeros((columns, inputs)),
                obs_input=jnp.zeros((columns, inputs)),
            )
        case "stochastic-volatility":
            return models.StochasticVolatility(columns, **settings.model_dump())
        case "chaotic-rnn":
            return models.ChaoticRNN(columns, **settings.model_dump())
        case _:
            plain = settings.model_dump() | {"dim_state": settings.dim_state or columns}
            key = jax.random.key(0)
            return models.NeuralGaussian(dim_obs=columns, dim_input=inputs, key=key, **plain)


def _seasonal(
    config: Config, columns: int, inputs: int, level: float, season: Season
) -> tuple[SeasonalLearner, dict[str, Any]]:
    # Double precision: a counter that has passed 2^24 has no room in single.
    jax.config.update("jax_enable_x64", True)
    plain = config.settings.model_dump()
    period = season.period if plain["period"] is None else plain["period"] or None
    if plain["period"] is not None:
        season = Season(period)
    long_period = season.long_period if plain["long_period"] is None else plain["long_period"]
    plain |= {"period": period, "long_period": long_period or None}
    learner = SeasonalLearner(columns, inputs, level=level, **plain)
    return learner, plain | {"long": list(learner.design.long)}


def _estimator(config: Config, model: AbstractModel, level: float) -> OnlineEstimator:
    learning = config.learning
    assert config.family is not None and learning is not None
    rates = two_time_scales(learning.model_rate, learning.family_rate, power=learning.power)
    return OnlineEstimator(
        model,
        _family(config.family, model),
        RMCVI(learning.particles, window=learning.window, bptt=learning.bptt),
        *rates,
        steps=learning.steps,
        draws=learning.draws,
        level=level,
        mask_failed=learning.mask_failed,
    )


def _family(chosen: Family, model: Any) -> Any:
    sizes = {"hidden": chosen.hidden, "memory": chosen.memory, "key": jax.random.key(1)}
    match chosen.name:
        case "linear-gaussian":
            return families.LinearGaussianFamily(diagonal=False)
        case "extended-kalman":
            return families.ExtendedKalmanFamily(model, diagonal=chosen.diagonal, **sizes)
        case "innovation":
            return families.InnovationFamily(model, **sizes)
        case _:
            return families.RecurrentFamily(
                model.dim_state,
                model.dim_obs,
                dim_input=model.dim_input,
                memory=max(chosen.memory, 1),
                width=chosen.hidden,
                diagonal=chosen.diagonal,
                key=jax.random.key(1),
            )
