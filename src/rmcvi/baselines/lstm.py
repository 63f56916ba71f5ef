"""A recurrent network with Gaussian output, trained by maximum likelihood as the stream goes by.

    (h_t, c_t) = LSTM((y_{t-l}, seen_{t-l} for l in lags, u_t, dt_t), (h_{t-1}, c_{t-1})),
    y_t ~ N(y_s + A h_t + a,  (floor + softplus(B h_t + b))^2)    coordinate by coordinate

(DeepAR without its global scaling; y_s is the last value seen, and can be left out). At each step
the last `bptt` rows are run again from the carry before them; their mean log score is
differentiated, and what the old weights said of the last row is the prediction. The carry is frozen
when its row leaves the window. Missing values are replaced by the network's own predictions, and
marked. A network fitted to its latest rows is too sure of itself: with `calibrate`, the scale is
multiplied by the running root mean square of its standardised errors, and the tails may be
Student's, as for least squares.
"""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.scipy.stats import norm
from jaxtyping import Array, Float, Int, Key, PyTree

from rmcvi.baselines.rival import AbstractRival, Past, Tails
from rmcvi.contract import Prediction, Result
from rmcvi.core import tree
from rmcvi.core.array_checks import check_key
from rmcvi.core.checks import check_instance, check_int, check_real
from rmcvi.core.inputs import Inputs, split_missing
from rmcvi.core.moments import RunningVariance
from rmcvi.core.positive import unconstrained

Carry = tuple[Float[Array, "hidden"], Float[Array, "hidden"]]
_MEMORY = 200.0
"""Values that the correction of the scale remembers."""
_FLOOR = 1e-2
"""Smallest scale: a likelihood without a floor has no maximum on a stuck sensor."""


class Network(eqx.Module):
    """The cell and its read-out; the read-out starts at 0, so that training starts calmly."""

    cell: eqx.nn.LSTMCell
    mean: eqx.nn.Linear
    scale: eqx.nn.Linear

    def __init__(self, features: int, hidden: int, dim_obs: int, key: Key[Array, ""]):
        """Draw the cell's weights; its forget gates start open."""
        keys = jax.random.split(key, 3)
        cell = eqx.nn.LSTMCell(features, hidden, key=keys[0])
        bias = jnp.zeros(4 * hidden).at[hidden : 2 * hidden].set(1.0)
        self.cell = eqx.tree_at(lambda c: c.bias, cell, bias)
        still = (jnp.zeros((dim_obs, hidden)), jnp.zeros(dim_obs))
        wide = (still[0], jnp.full(dim_obs, unconstrained(1.0, _FLOOR)))
        linear = eqx.nn.Linear(hidden, dim_obs, key=keys[1])
        self.mean = eqx.tree_at(lambda m: (m.weight, m.bias), linear, still)
        self.scale = eqx.tree_at(lambda m: (m.weight, m.bias), linear, wide)

    def __call__(
        self, carry: Carry, xs: Float[Array, "rows features"]
    ) -> tuple[Carry, Float[Array, "rows dy"], Float[Array, "rows dy"]]:
        """Feed rows: the carry after the first, and means (relative to the skip) and scales.

        Inputs and read-outs of all rows are one matrix product each; only the recurrence is a loop.
        """
        bias = jnp.asarray(self.cell.bias)
        driven = xs @ self.cell.weight_ih.T + bias[None]

        def gates(carry, drive):
            h, c = carry
            i, f, g, o = jnp.split(drive + self.cell.weight_hh @ h, 4)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), (h, c)

        _, (hs, cs) = jax.lax.scan(gates, carry, driven)
        scale = _FLOOR + jax.nn.softplus(jax.vmap(self.scale)(hs))
        return (hs[0], cs[0]), jax.vmap(self.mean)(hs), scale


class Window(eqx.Module):
    """The last rows, oldest first: what the network was fed, and what it should have said."""

    features: Float[Array, "bptt features"]
    base: Float[Array, "bptt dy"]
    """Value of the skip connection."""
    ys: Float[Array, "bptt dy"]


class LSTMState(eqx.Module):
    """Weights, optimiser, the window, the carry before it, and the values that lags need."""

    network: Network
    optimiser: PyTree
    window: Window
    carry: Carry
    values: Float[Array, "lags dy"]
    """Latest first; own predictions where values were missing."""
    seen: Float[Array, "lags dy"]
    last: Float[Array, "dy"]
    """Last value seen; unlike own predictions, it cannot run away during a gap."""
    errors: RunningVariance
    """Of the standardised errors."""
    tails: Tails
    past: Past
    skipped: Int[Array, ""]


class LSTMInfo(eqx.Module):
    """What one step has to tell."""

    prediction: Prediction
    loss: Float[Array, "*batch"]
    """Mean negative log score per value over the window, before learning."""
    result: Int[Array, "*batch"]
    """A `Result` code; a gradient that is not finite is skipped."""


class OnlineLSTM(AbstractRival):
    """The usual neural forecaster, given the same stream, the same inputs and the same care."""

    dim_obs: int = eqx.field(static=True)
    dim_input: int = eqx.field(static=True)
    hidden: int = eqx.field(static=True)
    lags: tuple[int, ...] = eqx.field(static=True)
    optimiser: optax.GradientTransformation
    bptt: int = eqx.field(static=True)
    steps: int = eqx.field(static=True)
    skip: bool = eqx.field(static=True)
    calibrate: bool = eqx.field(static=True)
    level: float = eqx.field(static=True)

    def __init__(
        self,
        dim_obs: int,
        dim_input: int = 0,
        *,
        hidden: int = 32,
        lags: Sequence[int] = (1,),
        optimiser: optax.GradientTransformation | None = None,
        bptt: int = 24,
        steps: int = 1,
        skip: bool = True,
        clip: float = 1.0,
        calibrate: bool = True,
        level: float = 0.9,
    ):
        """Set up the rival; `init(key)` draws the weights.

        Args:
            dim_obs: length of y.
            dim_input: length of u.
            hidden: width of the network.
            lags: which past rows it is fed, such as (1, 24) for hours.
            optimiser: optax transformation (default: Adam of rate 1e-3).
            bptt: rows in the window; each row is learned from that often.
            steps: gradient steps per observation.
            skip: predict the change since the last value instead of the value.
            clip: longest gradient.
            calibrate: correct scale and tails by past errors; False: the network's Gaussian.
            level: probability of the predictive interval.
        """
        optimiser = optax.adam(1e-3) if optimiser is None else optimiser
        check_instance("optimiser", optimiser, optax.GradientTransformation)
        self.dim_obs = check_int("dim_obs", dim_obs)
        self.dim_input = check_int("dim_input", dim_input, 0)
        self.hidden = check_int("hidden", hidden)
        self.lags = tuple(check_int("lags", lag) for lag in lags)
        cut = optax.clip_by_global_norm(check_real("clip", clip, 0.0))
        self.optimiser = optax.chain(cut, optimiser)
        self.bptt = check_int("bptt", bptt)
        self.steps = check_int("steps", steps)
        self.skip = bool(skip)
        self.calibrate = bool(calibrate)
        self.level = check_real("level", level, 0.0, 1.0)

    def init(self, key: Key[Array, ""]) -> LSTMState:
        """The state before the first observation."""
        check_key("key", key)
        features = 2 * self.dim_obs * len(self.lags) + self.dim_input + 1
        network = Network(features, self.hidden, self.dim_obs, key)
        depth = max(self.lags, default=1)
        return LSTMState(
            network=network,
            optimiser=self.optimiser.init(eqx.filter(network, eqx.is_array)),
            window=Window(
                jnp.zeros((self.bptt, features)),
                jnp.zeros((self.bptt, self.dim_obs)),
                jnp.full((self.bptt, self.dim_obs), jnp.nan, float),
            ),
            carry=(jnp.zeros(self.hidden), jnp.zeros(self.hidden)),
            values=jnp.zeros((depth, self.dim_obs)),
            seen=jnp.zeros((depth, self.dim_obs)),
            last=jnp.zeros(self.dim_obs),
            errors=RunningVariance.prior(self.dim_obs, 1.0),
            tails=Tails.unknown(self.dim_obs),
            past=Past.empty(self.dim_obs),
            skipped=jnp.zeros((), int),
        )

    def step(
        self, state: LSTMState, y: Float[Array, "dy"], inputs: Inputs
    ) -> tuple[LSTMState, LSTMInfo]:
        """Predict, score, learn."""
        y = jnp.where(jnp.isfinite(y), y, jnp.nan)
        carry, window = self._slide(state, y, inputs)
        descend = jax.value_and_grad(_loss, has_aux=True)
        (loss, (mean, scale)), grads = descend(state.network, carry, window)
        tails, prediction, wide = self._predict(state, mean, scale, y)
        some = jnp.any(~jnp.isnan(y))

        def once(now, grads):
            network, optimiser, sound = now
            fine = tree.all_finite(grads)
            updates, moved = self.optimiser.update(grads, optimiser, network)
            new = (optax.apply_updates(network, updates), moved)
            return (*tree.where(fine & some, new, (network, optimiser)), sound & fine)

        now = once((state.network, state.optimiser, jnp.asarray(True)), grads)
        if self.steps > 1:

            def again(_, now):
                return once(now, descend(now[0], carry, window)[1])

            now = jax.lax.fori_loop(1, self.steps, again, now)
        network, optimiser, sound = now
        filled, seen = split_missing(y)
        value = jnp.where(seen > 0.0, filled, mean)
        new = LSTMState(
            network=network,
            optimiser=optimiser,
            window=window,
            carry=carry,
            values=_shift(value, state.values),
            seen=_shift(seen, state.seen),
            last=jnp.where(seen > 0.0, filled, state.last),
            errors=state.errors.add(((filled - mean) / scale) ** 2, seen > 0.0, _MEMORY),
            tails=tails,
            past=state.past.push(y, mean, wide),
            skipped=state.skipped + ~sound,
        )
        result = jnp.where(sound, int(Result.SUCCESS), int(Result.NON_FINITE))
        return new, LSTMInfo(prediction, loss, result)

    def parameters(self, state: LSTMState) -> dict[str, Array]:
        """Weights and biases of the network."""
        leaves = jax.tree_util.tree_leaves_with_path(eqx.filter(state.network, eqx.is_array))
        return {jax.tree_util.keystr(path).removeprefix("."): leaf for path, leaf in leaves}

    def _predict(
        self, state: LSTMState, mean: Float[Array, "dy"], scale: Float[Array, "dy"], y: Array
    ) -> tuple[Tails, Prediction, Float[Array, "dy"]]:
        """What the row's tails teach, the prediction, and its corrected scale."""
        if not self.calibrate:
            return state.tails, Prediction.gaussian(mean, scale, y, self.level), scale
        wide = scale * jnp.sqrt(state.errors.value)
        return *state.tails.predict(mean, wide, y, self.level), wide

    def _slide(
        self, state: LSTMState, y: Float[Array, "dy"], inputs: Inputs
    ) -> tuple[Carry, Window]:
        """The window with the new row, and the carry moved past the row that left."""
        carry, *_ = state.network(state.carry, state.window.features[:1])
        past = [half[lag - 1] for lag in self.lags for half in (state.values, state.seen)]
        x = jnp.concatenate([*past, inputs.u, inputs.dt[None]])
        base = state.last if self.skip else jnp.zeros(self.dim_obs)
        old = (state.window.features, state.window.base, state.window.ys)
        return carry, Window(*map(_append, old, (x, base, y)))


def _append(past: Float[Array, "bptt k"], newest: Float[Array, "k"]) -> Float[Array, "bptt k"]:
    return jnp.concatenate([past[1:], newest[None]])


def _shift(newest: Float[Array, "dy"], past: Float[Array, "lags dy"]) -> Float[Array, "lags dy"]:
    return jnp.concatenate([newest[None], past[:-1]])


def _loss(network: Network, carry: Carry, window: Window) -> tuple[Array, tuple[Array, Array]]:
    """Mean negative log score per value in the window; mean and scale of its last row."""
    _, change, scale = network(carry, window.features)
    mean = window.base + change
    filled, seen = split_missing(window.ys)
    z = jnp.where(seen > 0.0, filled - mean, 0.0) / scale
    loss = -jnp.sum(seen * (norm.logpdf(z) - jnp.log(scale))) / jnp.maximum(jnp.sum(seen), 1.0)
    return loss, (mean[-1], scale[-1])
