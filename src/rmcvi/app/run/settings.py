"""What `--model` may say: a name of the zoo, or a TOML file with its settings.

model = "neural-gaussian"
[settings]                # of the model
dim_state = 4
[family]
name = "innovation"
[learning]
particles = 50
"""

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rmcvi.app.run.speech import Refusal
from rmcvi.core.checks import nearest

LONGEST = 20_000
"""Rows of a season or of a window: each has its place in the state."""


class Strict(BaseModel):
    """Unknown names are errors, and so are numbers that are not finite.

    Upper bounds keep a slip of the keyboard from taking all memory; no use is known beyond them.
    """

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Seasonal(Strict):
    """`rmcvi.SeasonalLearner`; periods are found from the times if they are absent."""

    period: int | None = Field(None, ge=0, le=LONGEST)
    """Rows in a season, 0 for none."""
    long_period: int | None = Field(None, ge=0, le=LONGEST)
    cross: int = Field(2, ge=1, le=100)
    own: int = Field(3, ge=1, le=1000)
    long: list[Annotated[int, Field(ge=1, le=LONGEST)]] | None = Field(None, max_length=100)
    harmonics: int = Field(4, ge=1, le=100)
    plain: bool = True
    hidden: int | None = Field(None, ge=0, le=1000)
    """Units of the nonlinear path, 0 for none."""
    keep: float = Field(0.9995, ge=0.9, le=1)
    """What is left of the past after a row; below 0.9, ten rows, nothing can be learned."""
    degrees: int = Field(6, ge=2, le=1000)
    memory: float = Field(1000.0, gt=1, le=1e9)
    gate: float = Field(15.0, ge=1, le=1e6)
    warm: int = Field(12, ge=8, le=LONGEST)
    window: int = Field(96, ge=1, le=LONGEST)


class Linear(Strict):
    """`rmcvi.models.LinearGaussian`, one state per column, to start from."""

    persistence: float = Field(0.95, gt=-1, lt=1)
    noise: float = Field(0.4, gt=0, le=1e6)
    obs_noise: float = Field(0.2, gt=0, le=1e6)


class Volatility(Strict):
    """`rmcvi.models.StochasticVolatility`."""

    level: float = 0.0
    persistence: float = Field(0.95, gt=-1, lt=1)
    noise: float = Field(0.3, gt=0, le=1e6)


class Chaotic(Strict):
    """`rmcvi.models.ChaoticRNN`."""

    rho: float = Field(0.025, gt=0, le=1e6)
    gamma: float = Field(2.5, gt=0, le=1e6)
    noise: float = Field(0.1, gt=0, le=1e6)
    obs_scale: float = Field(0.1, gt=0, le=1e6)
    dof: float = Field(2.0, gt=0, le=1e6)
    euler_step: float = Field(0.001, gt=0, le=1e6)


class Neural(Strict):
    """`rmcvi.models.NeuralGaussian`; as many states as columns unless it is said."""

    dim_state: int | None = Field(None, ge=1, le=1000)
    width: int = Field(32, ge=1, le=4096)
    depth: int = Field(2, ge=0, le=16)
    noise: float = Field(0.3, gt=0, le=1e6)
    obs_noise: float = Field(0.5, gt=0, le=1e6)


class Family(Strict):
    """The variational family."""

    name: Literal["linear-gaussian", "extended-kalman", "innovation", "recurrent"]
    hidden: int = Field(32, ge=1, le=4096)
    memory: int = Field(8, ge=0, le=1024)
    diagonal: bool = True


class Learning(Strict):
    """The recursion and its two optimisers."""

    particles: int = Field(30, ge=2, le=100_000)
    window: int = Field(8, ge=2, le=1000)
    bptt: int = Field(2, ge=1, le=1000)
    model_rate: float = Field(3e-3, gt=0, le=10)
    family_rate: float = Field(3e-3, gt=0, le=10)
    power: float | None = Field(0.6, gt=0.5, le=1)
    """Decay of the rates, down to a tenth."""
    steps: int = Field(1, ge=1, le=100)
    draws: int = Field(100, ge=10, le=100_000)
    mask_failed: bool = False


class Config(Strict):
    """A learner: settings are checked once it is known whose they are."""

    model: str
    settings: Any = Field(default_factory=dict)
    family: Family | None = None
    learning: Learning | None = None


ZOO: dict[str, tuple[type[Strict], str | None, dict[str, Any]]] = {
    "seasonal": (Seasonal, None, {}),
    "linear-gaussian": (Linear, "linear-gaussian", {"model_rate": 1e-2}),
    "stochastic-volatility": (Volatility, "innovation", {}),
    "chaotic-rnn": (Chaotic, "extended-kalman", {}),
    "neural-gaussian": (Neural, "extended-kalman", {"bptt": 4}),
}
"""Names, their settings, their usual families and what is usual in learning them."""


def named(name: str, argument: str = "--model") -> Config:
    """The usual settings of a model of the zoo."""
    return validated({"model": name}, argument)


def from_toml(path: Path) -> Config:
    """The configuration in a file."""
    try:
        plain = tomllib.loads(path.read_text())
    except OSError as error:
        raise Refusal(f"{path}: cannot be read ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Refusal(f"{path}: got no TOML ({error})") from None
    return validated(plain, str(path))


def validated(plain: dict[str, Any], where: str) -> Config:
    """A configuration from plain values, complete."""
    config = _checked(Config, plain, where)
    if config.model not in ZOO:
        raise Refusal(f"{where}: got {config.model!r}, expected {_expected(config.model, ZOO)}")
    kind, family, usual = ZOO[config.model]
    settings = _checked(kind, config.settings, f"{where}: settings")
    if family is None:
        for part in ("family", "learning"):
            if plain.get(part) is not None:
                raise Refusal(f"{where}: got [{part}], which {config.model!r} does not have")
        return config.model_copy(update={"settings": settings})
    chosen = config.family or Family.model_validate({"name": family})
    learning = _checked(Learning, usual | (plain.get("learning") or {}), f"{where}: learning")
    update = {"settings": settings, "family": chosen, "learning": learning}
    return config.model_copy(update=update)


def _checked(kind: type[Any], plain: Any, where: str) -> Any:
    try:
        return kind.model_validate(plain)
    except ValidationError as error:
        # A misspelt name explains one that is missing.
        first = min(error.errors(), key=lambda e: e["type"] != "extra_forbidden")
        place = ".".join(map(str, first["loc"]))
        if first["type"] == "extra_forbidden":
            *above, name = first["loc"]
            names = _fields(kind, above)
            raise Refusal(
                f"{where}: got {place!r}, expected {_expected(str(name), names)}"
            ) from None
        if first["type"] == "missing":
            raise Refusal(f"{where}: got no {place!r}, expected it to be said") from None
        said = first["msg"].removeprefix("Input should be ")
        place = f"{place}: " if place else ""
        raise Refusal(f"{where}: {place}got {first['input']!r}, expected {said}") from None


def _fields(kind: type[BaseModel], above: list[Any]) -> list[str]:
    """Names that are valid at a place."""
    inner = {"family": Family, "learning": Learning}
    return list((inner[above[0]] if above else kind).model_fields)


def _expected(got: str, names: Any) -> str:
    names = list(names)
    near = nearest(got, names, 0.5)
    hint = f"; did you mean {near!r}?" if near else ""
    return f"one of {', '.join(map(repr, names))}{hint}"


def parse(model: str, argument: str = "--model") -> dict[str, Any]:
    """What `--model` says as plain values: a configuration, or a function to call."""
    if model.endswith(".toml"):
        config = from_toml(Path(model))
    elif ":" in model:
        return {"model": model, "path": str(Path.cwd())}
    else:
        config = named(model, argument)
    return config.model_dump()
