"""The seasonal learner in plain NumPy, one component and one column at a time, lists and loops.

The oracle of `rmcvi.learners.seasonal`: predict a row, score it, learn from it. Regressions are in
covariance form, the state's transition is a square matrix, and double precision hides the rest.
"""

from copy import deepcopy
from dataclasses import dataclass, field

import numpy as np

from tests.reference.experts import (
    GATE,
    NU,
    LastValue,
    Opinion,
    Record,
    Short,
    Smooth,
    bend,
    length_of_trial,
)
from tests.reference.nonlinear import Nonlinear


@dataclass
class Path:
    """Mean and covariance of the last rows, and rows before them."""

    m: np.ndarray
    C: np.ndarray
    older: list[np.ndarray]

    def rescale(self, r: np.ndarray, f: np.ndarray) -> None:
        """In units in which z is r z + f."""
        times = len(self.m) // len(r)
        R = np.tile(r, times)
        self.m, self.C = self.m * R + np.tile(f, times), self.C * np.outer(R, R)
        self.older = [x * r + f for x in self.older]


@dataclass
class Model:
    """One component in its own standard units."""

    bent: bool
    seasonal: bool
    W: np.ndarray
    P: np.ndarray
    path: Path
    v: np.ndarray
    slopes: np.ndarray
    volatility: np.ndarray
    K: np.ndarray
    a: np.ndarray
    b2: np.ndarray
    profiles: list[np.ndarray]
    streak: list[list[tuple[float, float]]]
    """Values in a row that were far out, and what was expected of them."""


@dataclass
class Look:
    """What a component says of the next row."""

    phi: np.ndarray
    lever: np.ndarray
    f: np.ndarray
    vt: np.ndarray
    F: np.ndarray
    mean: np.ndarray
    C: np.ndarray

    @property
    def mu(self) -> np.ndarray:
        return self.mean[: len(self.vt)]

    @property
    def S(self) -> np.ndarray:
        return np.diag(self.C)[: len(self.vt)]


@dataclass
class Reference:
    """Settings and state."""

    d: int
    periods: tuple[int, ...]
    long: tuple[int, ...]
    harmonics: int
    kinds: tuple[tuple[bool, bool], ...]
    hidden: int = 64
    cross: int = 2
    own: int = 3
    warm: int = 12
    memory: int = 71
    """Rows before the present one from which a column becomes known."""
    level: float = 0.9
    t: int = 0
    rows: int = 0
    number: int = 0
    age: int = 0
    models: list[Model] = field(default_factory=list)

    def __post_init__(self) -> None:
        d = self.d
        self.lagged = self.cross * d + self.own - self.cross
        self.season = len(self.long) + 2 * len(self.periods) + 2 * self.harmonics
        k, n = self.lagged + self.season + 1, (self.own + 1) * d
        W, sd = np.zeros((d, k)), np.full((d, k), 0.1)
        W[:, :d] = np.eye(d)
        for lag in range(self.cross):
            for i in range(d):
                sd[i, lag * d : (lag + 1) * d] = 0.1 / (1 + lag)
                sd[i, lag * d + i] = 0.2 / (1 + lag)
        self.prior = sd**2
        for bent, seasonal in self.kinds:
            P = np.stack([np.diag(row) for row in self.prior])
            older = [np.zeros(d) for _ in range(max(self.long) - self.own)]
            path = Path(np.zeros(n), np.eye(n), older)
            noise = np.full(d, 0.25), np.zeros((d, 6)), np.zeros(d), 0.9 * np.eye(d) + 0.1
            profiles = [np.zeros((p, d)) for p in self.periods]
            rest = np.zeros(d), np.ones(d), profiles, [[] for _ in range(d)]
            self.models.append(Model(bent, seasonal, W.copy(), P, path, *noise, *rest))
        self.known, self.scale = np.zeros(d, bool), np.ones(d)
        self.values, self.noisy = np.ones(d), np.full(d, 6.0)
        self.visits = [np.zeros((p, d)) for p in self.periods]
        self.kept: list[np.ndarray] = []
        self.walks = [LastValue() for _ in range(d)]
        self.shorts = [Short() for _ in range(d)]
        self.smooths = [[Smooth(bent) for bent, _ in self.kinds[:2]] for _ in range(d)]
        self.records = [Record(len(self.kinds) + 6) for _ in range(d)]
        self.nonlinear = Nonlinear(self.hidden, d, self.harmonics)
        self.then: Reference | None = None
        """All of it when the forecast under way was made."""

    def step(self, y: np.ndarray) -> dict[str, np.ndarray]:
        """Predict, score, learn."""
        y = np.array([v if abs(v) <= 1e30 else np.nan for v in y])
        started = self.t >= self.warm
        if started:
            self.adopt()
        if self.t == self.warm:
            for t, row in enumerate(self.kept):
                told = [self.look(model, model.path, t) for model in self.models]
                self.smooth(t)
                self.learn(row, told, t, np.zeros(self.d))
                self.learn_smooth(row, [False] * self.d)
        for walk in self.walks:
            walk.wait()
        told = [self.look(model, model.path, self.t) for model in self.models]
        self.smooth(self.t)
        before = deepcopy(self.records)
        out, far = self.predict(y, told, started)
        near = [i for i in range(self.d) if self.walks[i].gap < 2 and self.walks[i].repeats < 24]
        seen = [i for i in near if self.known[i] and not np.isnan(y[i])]
        self.nonlinear.learn(self.errors(self.models[1], told[1], y)[0], seen)
        self.judge_trial(y, [a.lever for a in told], before)
        for record in self.records:
            record.settle()
        belief = np.array([w.belief(v, f) for w, v, f in zip(self.walks, y, far, strict=True)])
        seasons = [self.season_alone(i) for i in range(self.d)]
        moved = self.learn(y, told, self.t, belief)
        self.learn_smooth(y, far)
        for i, walk in enumerate(self.walks):
            if far[i] and walk.confirmed(y[i]):
                self.records[i].scores[0, -1] = 3.0
            self.shorts[i].learn(y[i], walk, far[i], seasons[i])
            walk.learn(y[i], far[i])
        self.kept = [*self.kept, y][-self.memory :]
        self.t, self.age = self.t + 1, self.age + 1
        over = self.number == 0 or self.age >= length_of_trial(self.number)
        if started and (over or moved):
            self.number, self.age = self.number + 1, 0
            self.then = None
            self.then = deepcopy(self)
        return out

    def adopt(self) -> None:
        """Columns with eight values that vary, of which none is absurd."""
        for i in np.flatnonzero(~self.known):
            y = np.array([row[i] for row in self.kept if not np.isnan(row[i])])
            if len(y) == 0:
                continue
            away = np.abs(y - np.median(y))
            usual = np.sort(away)[:-2].sum() / max(len(y) - 2, 1)
            y = y[away <= 100 * usual]
            if len(y) >= 8 and y.std() > 1e-6 * np.abs(y).mean():
                self.known[i], self.scale[i], self.values[i] = True, np.abs(y).mean(), len(y)
                for model in self.models:
                    g = bend(y, self.scale[i], model.bent)
                    model.a[i], model.b2[i] = g.mean(), g.var()

    def look(self, model: Model, path: Path, t: int, lever: np.ndarray | None = None) -> Look:
        """The next row on a path; `lever` is given if it shall be that of another."""
        d, x = self.d, path.m.reshape(-1, self.d)
        angle = 2 * np.pi * t / self.periods[0] * np.arange(1, self.harmonics + 1)
        inputs = []
        for i in range(d):
            row = [*x[: self.cross].ravel(), *x[self.cross : self.own, i]]
            row += [path.older[lag - self.own - 1][i] for lag in self.long]
            for pair in self.pairs(model, t, i):
                row += pair
            row += [*np.sin(angle), *np.cos(angle)]
            if not model.seasonal:
                row[self.lagged :] = [0.0] * self.season
            inputs.append([*row, 1.0])
        phi = np.clip(inputs, -10, 10)
        mu = np.clip(np.sum(model.W * phi, 1), -10, 10)
        if lever is None:
            lever = np.array([p @ P @ p for p, P in zip(phi, model.P, strict=True)])
        hour = [np.sin(angle[0]), np.sin(angle[1]), np.cos(angle[0]), np.cos(angle[1])]
        f = np.array([[*hour, np.clip(mu[i], -3, 3), model.volatility[i]] for i in range(d)])
        vt = model.v * np.exp(np.clip(np.sum(model.slopes * f, 1), -3, 3))
        F = np.zeros((d, self.own * d))
        F[:, : self.cross * d] = model.W[:, : self.cross * d]
        for j in range(self.cross, self.own):
            F[:, j * d : (j + 1) * d] = np.diag(model.W[:, self.cross * d + j - self.cross])
        n = len(path.m)
        move, noise = np.eye(n, k=-d), np.zeros((n, n))
        move[:d, : self.own * d] = F
        noise[:d, :d] = np.sqrt(np.outer(vt, vt)) * model.K
        noise[:d, :d] += np.diag(np.minimum(lever, 4) + 1e-6)
        C = move @ path.C @ move.T + noise
        c = np.sqrt(np.minimum(1, 9 / np.maximum(np.diag(C), 1e-9)))
        mean = np.concatenate([mu, path.m[: self.own * d]])
        return Look(phi, lever, f, vt, F, mean, C * np.outer(c, c))

    def pairs(self, model: Model, t: int, i: int) -> list[list[float]]:
        """Profiles at a phase and the one before; that of the shorter period if there is none."""
        back, found = [model.path.m[i]] * 2, []
        for profile, visits in zip(model.profiles, self.visits, strict=True):
            for j, h in enumerate((t % len(profile), (t - 1) % len(profile))):
                if visits[h, i] > 0:
                    back[j] = profile[h, i]
            found.append(list(back))
        return found

    def say_nonlinear(self, a: Look) -> np.ndarray:
        """The second component's mean with what tanh units add to it."""
        model = self.models[1]
        last, before = model.path.m.reshape(-1, self.d)[:2]
        pairs = [self.pairs(model, self.t, i)[0] for i in range(self.d)]
        angle = 2 * np.pi * self.t / self.periods[0] * np.arange(1, self.harmonics + 1)
        step, waves = [p - q for p, q in pairs], [*np.sin(angle), *np.cos(angle)]
        x = np.concatenate([last, last - before, step, waves])
        return a.mu + self.nonlinear.say(x, model.v, a.S)

    def smooth(self, t: int) -> None:
        """What exponential smoothing says of the row, around what the season adds."""
        for i, walk in enumerate(self.walks):
            for model, smooth in zip(self.models, self.smooths[i], strict=False):
                known = self.visits[0][t % self.periods[0], i] > 0
                z = self.pairs(model, t, i)[-1][0] if known else 0.0
                smooth.say(np.sqrt(model.b2[i]) * z, walk.gap)

    def learn_smooth(self, y: np.ndarray, far: list[bool]) -> None:
        """Before the last values learn the row."""
        for i, walk in enumerate(self.walks):
            if self.known[i] and not np.isnan(y[i]):
                for smooth in self.smooths[i]:
                    confirmed = far[i] and walk.confirmed(y[i])
                    smooth.learn(y[i], self.scale[i], far[i], confirmed, walk.repeats >= 24)

    def season_alone(self, i: int) -> float:
        """The longest profile that has this phase; NaN if none has."""
        first, h = self.models[0], self.t % self.periods[0]
        if self.visits[0][h, i] == 0:
            return np.nan
        z = first.profiles[0][h, i]
        if len(self.periods) > 1 and self.visits[1][self.t % self.periods[1], i] > 0:
            z = first.profiles[1][self.t % self.periods[1], i]
        return first.a[i] + np.sqrt(first.b2[i]) * z

    def opinions(
        self, told: list[Look], i: int, usable: bool, last: float, horizon: float
    ) -> list[Opinion | None]:
        """Of the components, the season alone and the last value, about one column."""
        said: list[Opinion | None] = [None] * (len(told) + 1)
        if usable:
            for j, (model, a) in enumerate(zip(self.models, told, strict=True)):
                b = np.sqrt(model.b2[i])
                said[j] = Opinion(model.a[i] + b * a.mu[i], b * np.sqrt(a.S[i]), model.bent)
            if not np.isnan(self.season_alone(i)):
                said[-1] = Opinion(self.season_alone(i), np.sqrt(self.models[0].b2[i]))
        wander = self.walks[i].deviation * np.sqrt(horizon)
        return [*said, Opinion(last, wander)]

    def predict(self, y: np.ndarray, told: list[Look], started: bool) -> tuple[dict, list[bool]]:
        """The bands, and which values are far from them."""
        bands, far, log = [], [], []
        bent, mu = self.models[1], self.say_nonlinear(told[1])
        for i, (walk, record) in enumerate(zip(self.walks, self.records, strict=True)):
            usable = bool(started and self.known[i])
            said = self.opinions(told, i, usable, walk.last, walk.gap)
            b = np.sqrt(bent.b2[i])
            path = Opinion(bent.a[i] + b * mu[i], b * np.sqrt(told[1].S[i]), bent.bent)
            said.insert(len(told), path if usable and self.hidden and walk.gap < 2 else None)
            said[-2:-2] = [s.opinion if usable else None for s in self.smooths[i]]
            said.insert(-1, self.shorts[i].say(walk, self.season_alone(i)))
            mixture = record.mix(said, self.scale[i], walk, walk.gap, self.level)
            bands.append(mixture.band)
            far.append(not np.isnan(y[i]) and mixture.far(y[i]))
            if not np.isnan(y[i]):
                log.append(mixture.log_density(y[i]))
                record.learn(mixture, y[i], walk.gap, self.level)
        out = dict(zip(("mean", "low", "high"), np.array(bands).T, strict=True))
        return out | {"log_score": np.array(sum(log) if log else np.nan)}, far

    def judge_trial(self, y: np.ndarray, levers: list[np.ndarray], before: list[Record]) -> None:
        """The forecast under way goes on one row, and the record of its horizon with it; what it
        says rests on the records `before` the row.
        """
        d, then = self.d, self.then
        if then is None:
            return
        told = [
            then.look(model, model.path, then.t, lever)
            for model, lever in zip(then.models, levers, strict=True)
        ]
        for i, (walk, record) in enumerate(zip(then.walks, self.records, strict=True)):
            horizon = self.age + 1 + walk.gap
            if horizon == 1 or not then.known[i] or np.isnan(y[i]):
                continue
            if record.bin(horizon) == record.bin(self.walks[i].gap):  # the row has taught it
                continue
            said = then.opinions(told, i, True, walk.last, horizon)
            said[len(told) : len(told)] = [None] * 3
            said.insert(-1, None)
            mixture = before[i].mix(said, self.scale[i], walk, horizon, self.level)
            record.learn(mixture, y[i], horizon, self.level)
        then.t += 1
        for model, a in zip(then.models, told, strict=True):
            m = a.mean.copy()
            m[:d] = np.clip(m[:d], -4, 4)
            model.path = Path(m, a.C, [m[-d:].copy(), *model.path.older[:-1]])

    def learn(self, y: np.ndarray, told: list[Look], t: int, belief: np.ndarray) -> bool:
        """All components, one row."""
        seen = [i for i in range(self.d) if self.known[i] and not np.isnan(y[i])]
        teaches = [i for i in seen if self.walks[i].repeats < 24]
        self.noisy[teaches] += 1
        self.values[teaches] += 1
        self.rows += len(teaches) > 0
        for visits in self.visits:
            visits[t % len(visits), teaches] += 1
        moved = set()
        for model, a in zip(self.models, told, strict=True):
            e, r2 = self.errors(model, a, y)
            for i in seen:
                far = r2[i] > GATE**2
                model.streak[i] = [*model.streak[i], (e[i] + a.mu[i], a.mu[i])] if far else []
            self.condition(model, a, seen, e, r2, belief)
            self.teach(model, a, [i for i in teaches if r2[i] <= GATE**2], e, r2, t)
            moved |= self.relocate(model)
        for i in moved:
            self.values[i] = min(self.values[i], 30)
        return bool(moved)

    def errors(self, model: Model, a: Look, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of a component, in its standard units, and their squares in its variances."""
        g = np.array([bend(v, s, model.bent) for v, s in zip(y, self.scale, strict=True)])
        e = np.clip((g - model.a) / np.sqrt(model.b2), -1e8, 1e8) - a.mu
        return e, e**2 / a.S

    def condition(self, model: Model, a: Look, seen: list[int], e, r2, belief) -> None:
        """The state given the values seen; those far out have noise of their own."""
        share = np.array([max(min(1.0, GATE**2 / max(r2[i], 1e-12)), belief[i]) for i in seen])
        H = np.eye(len(a.mean))[seen]
        R = np.diag(a.S[seen] * (1 / share - 1))
        G = a.C @ H.T @ np.linalg.inv(H @ a.C @ H.T + R)
        m, C = a.mean + G @ e[seen], a.C - G @ H @ a.C
        for i in set(range(self.d)) - set(seen):
            m[i] = np.clip(m[i], -4, 4)
        model.path = Path(m, C, [m[-self.d :].copy(), *model.path.older[:-1]])

    def teach(self, model: Model, a: Look, teaches: list[int], e, r2, t: int) -> None:
        """Regressions, noise, profiles and units of one component."""
        d, path = self.d, model.path
        w = (NU + 1) / (NU + r2)
        for i in teaches:
            phi, P, S = a.phi[i], model.P[i], a.S[i]
            total = 0.9995 * max(S - a.lever[i], a.vt[i]) / w[i] + a.lever[i]
            model.W[i] += P @ phi * e[i] / total
            P = (P - np.outer(P @ phi, P @ phi) / total) / 0.9995
            c = np.sqrt(np.minimum(1, self.prior[i] / np.diag(P)))
            model.P[i] = P * np.outer(c, c)
            surprise = (w[i] * r2[i] - 1) * a.vt[i] / S
            slow = 0.06 if model.volatility[i] < -0.9 else 0.003
            model.v[i] *= 1 + max(1 / self.noisy[i], slow) * surprise
            model.v[i] = np.clip(model.v[i], 1e-8, 100)
            tamed = np.clip(surprise, -1, 3)
            model.slopes[i] += max(1 / (self.noisy[i] + 20), 0.004) * tamed * a.f[i]
            model.slopes[i] = np.clip(model.slopes[i], -3, 3)
            model.volatility[i] = 0.9 * model.volatility[i] + 0.1 * tamed
            for profile, visits, gain in zip(
                model.profiles, self.visits, (0.05, 0.1), strict=False
            ):
                h = t % len(profile)
                fast = 0.3 * min(1, 40 / visits[h, i]) if len(profile) < 24 else 0.0
                profile[h, i] += max(1 / visits[h, i], gain, fast) * (path.m[i] - profile[h, i])
        if teaches:
            B = np.hstack([np.eye(d), -a.F])
            noise = B @ (path.m - a.mean)
            EE = np.outer(noise, noise) + B @ path.C @ B.T
            EE = EE / np.sqrt(np.outer(a.vt, a.vt))
            cut = np.sqrt(np.minimum(1, 9 / np.diag(EE)))
            rate = max(1 / (10 + self.rows), 0.003)
            K = (1 - rate) * model.K + rate * EE * np.outer(cut, cut)
            K = 0.99 * K / np.sqrt(np.outer(np.diag(K), np.diag(K)))
            model.K = K - np.diag(np.diag(K)) + np.eye(d)
        a_new, b2_new = model.a.copy(), model.b2.copy()
        for i in teaches:
            u, z = 1 / min(self.values[i], 1000), e[i] + a.mu[i]
            error = np.clip(z, -6, 6) * np.sqrt(model.b2[i])
            a_new[i] += u * error
            b2_new[i] = (1 - u) * (model.b2[i] + u * error**2)
        b2_new = np.maximum(b2_new, 1e-12 * a_new**2 + 1e-30)
        r, f = np.sqrt(model.b2 / b2_new), (model.a - a_new) / np.sqrt(b2_new)
        model.path.rescale(r, f)
        model.v, model.a, model.b2 = model.v * r**2, a_new, b2_new
        model.profiles = [p * r + f for p in model.profiles]

    def relocate(self, model: Model) -> set[int]:
        """Six values in a row far from the component: their level is the new one."""
        moved = {i for i in range(self.d) if len(model.streak[i]) == 6}
        for i in moved:
            z, mu = np.array(model.streak[i]).T
            spread, usual = z.std(), np.sqrt(model.v[i])
            b, by = np.sqrt(model.b2[i]), (z.mean() - mu[0]) * np.sqrt(model.b2[i])
            model.a[i] += by
            if spread > 4 * max(usual, 1) or 0 < spread < 0.01 * usual:
                model.b2[i] *= spread**2
                model.v[i], model.slopes[i], model.volatility[i] = 0.25, 0, 0
            model.b2[i] = max(model.b2[i], 1e-12 * model.a[i] ** 2 + 1e-30)
            rows = model.path.m[i :: self.d]
            model.path.m[i :: self.d] = np.clip((b * rows - by) / np.sqrt(model.b2[i]), -10, 10)
            for row in model.path.older[: max(0, 6 - len(rows))]:
                row[i] = np.clip((b * row[i] - by) / np.sqrt(model.b2[i]), -10, 10)
            model.streak[i] = []
        return moved
