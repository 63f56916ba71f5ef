"""The seasonal learner in plain NumPy, one component and one column at a time, lists and loops.

The oracle of `rmcvi.conjugate`: predict a row, score it, learn from it.
"""

from dataclasses import dataclass, field

import numpy as np
from scipy.stats import t as student


@dataclass
class Model:
    """One component in its own standard units."""

    bent: bool
    seasonal: bool
    W: np.ndarray
    P: np.ndarray
    m: np.ndarray
    C: np.ndarray
    v: np.ndarray
    slopes: np.ndarray
    volatility: np.ndarray
    K: np.ndarray
    a: np.ndarray
    b2: np.ndarray
    older: list[np.ndarray]
    profiles: list[np.ndarray]


@dataclass
class Reference:
    """Settings and state."""

    d: int
    periods: tuple[int, ...]
    long: tuple[int, ...]
    harmonics: int
    kinds: tuple[tuple[bool, bool], ...]
    cross: int = 2
    own: int = 3
    warm: int = 24
    t: int = 0
    rows: int = 0
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
            profiles = [np.full((p, d), np.nan) for p in self.periods]
            noise = np.full(d, 0.25), np.zeros((d, 6)), np.zeros(d), 0.9 * np.eye(d) + 0.1
            rest = np.zeros(d), np.ones(d), older, profiles
            self.models.append(
                Model(bent, seasonal, W.copy(), P, np.zeros(n), np.eye(n), *noise, *rest)
            )
        self.known, self.scale = np.zeros(d, bool), np.ones(d)
        self.values, self.noisy, self.streak = np.ones(d), np.full(d, 6.0), np.zeros(d)
        self.visits = [np.zeros((p, d)) for p in self.periods]
        self.early: list[list[float]] = [[] for _ in range(d)]
        self.kept: list[np.ndarray] = []
        self.count, self.last, self.changes = np.zeros(d), np.zeros(d), np.zeros(d)
        self.low, self.high = np.full(d, np.inf), np.full(d, -np.inf)
        self.scores = np.zeros((len(self.kinds), d))

    def bend(self, model: Model, y: np.ndarray) -> np.ndarray:
        return self.scale * np.arcsinh(y / self.scale) if model.bent else y

    def unbend(self, model: Model, g: np.ndarray) -> np.ndarray:
        return self.scale * np.sinh(np.clip(g / self.scale, -20, 20)) if model.bent else g

    def look(self, model: Model, t: int) -> dict:
        """Everything about the next row."""
        d, x = self.d, model.m.reshape(-1, self.d)
        angle = 2 * np.pi * t / self.periods[0] * np.arange(1, self.harmonics + 1)
        phi = []
        for i in range(d):
            row = [*x[: self.cross].ravel(), *x[self.cross : self.own, i]]
            row += [model.older[lag - self.own - 1][i] for lag in self.long]
            back = [x[0, i], x[0, i]]
            for profile, period in zip(model.profiles, self.periods, strict=True):
                now = [profile[t % period, i], profile[(t - 1) % period, i]]
                back = [b if np.isnan(p) else p for p, b in zip(now, back, strict=True)]
                row += back
            row += [*np.sin(angle), *np.cos(angle)]
            if not model.seasonal:
                row[self.lagged :] = [0.0] * self.season
            phi.append([*row, 1.0])
        phi = np.clip(phi, -10, 10)
        mu = np.clip(np.sum(model.W * phi, 1), -10, 10)
        lever = np.array([p @ P @ p for p, P in zip(phi, model.P, strict=True)])
        hour = [np.sin(angle[0]), np.sin(angle[1]), np.cos(angle[0]), np.cos(angle[1])]
        f = np.array([[*hour, np.clip(mu[i], -3, 3), model.volatility[i]] for i in range(d)])
        vt = model.v * np.exp(np.clip(np.sum(model.slopes * f, 1), -3, 3))
        F = np.zeros((d, self.own * d))
        F[:, : self.cross * d] = model.W[:, : self.cross * d]
        for j in range(self.cross, self.own):
            F[:, j * d : (j + 1) * d] = np.diag(model.W[:, self.cross * d + j - self.cross])
        n = len(model.m)
        move, noise = np.eye(n, k=-d), np.zeros((n, n))
        move[:d, : self.own * d] = F
        noise[:d, :d] = np.sqrt(np.outer(vt, vt)) * model.K
        noise[:d, :d] += np.diag(np.minimum(lever, 4) + 1e-6)
        C = move @ model.C @ move.T + noise
        c = np.sqrt(np.minimum(1, 9 / np.maximum(np.diag(C), 1e-9)))
        C = C * np.outer(c, c)
        mean = np.concatenate([mu, model.m[: self.own * d]])
        S = np.diag(C)[:d]
        b = np.sqrt(model.b2)
        told = dict(loc=model.a + b * mu, sc=b * np.sqrt(S), phi=phi, mu=mu, lever=lever, f=f)
        return told | dict(vt=vt, F=F, C=C, mean=mean, S=S)

    def learn(self, y: np.ndarray, told: list[dict], t: int) -> None:
        """All components, one row."""
        d = self.d
        seen = np.flatnonzero(self.known & ~np.isnan(y))
        self.noisy[seen] += 1
        self.values[seen] += 1
        self.rows += len(seen) > 0
        for visits, period in zip(self.visits, self.periods, strict=True):
            visits[t % period, seen] += 1
        ratios = []
        for model, a in zip(self.models, told, strict=True):
            z = np.clip((self.bend(model, y) - model.a) / np.sqrt(model.b2), -1e4, 1e4)[seen]
            e = z - a["mu"][seen]
            S, vt, lever = a["S"][seen], a["vt"][seen], a["lever"][seen]
            r2 = e**2 / S
            ratios.append(r2)
            far = np.maximum(1, r2 / (15 * 4.0 ** self.streak[seen]) ** 2)
            H = np.eye(len(model.m))[seen]
            G = a["C"] @ H.T @ np.linalg.inv(H @ a["C"] @ H.T + np.diag(S * (far - 1)))
            model.m, model.C = a["mean"] + G @ e, a["C"] - G @ H @ a["C"]
            gap = np.setdiff1d(np.arange(d), seen)
            model.m[gap] = np.clip(model.m[gap], -4, 4)
            w = 7 / (6 + r2)
            ev = (w * r2 - 1) * vt / S
            model.v[seen] *= 1 + np.maximum(1 / self.noisy[seen], 0.003) * ev
            ev = np.clip(ev, -1, 3)
            turn = np.maximum(1 / (self.noisy[seen] + 20), 0.004) * ev
            model.slopes[seen] += turn[:, None] * a["f"][seen]
            model.volatility[seen] = 0.9 * model.volatility[seen] + 0.1 * ev
            if len(seen):
                B = np.hstack([np.eye(d), -a["F"]])
                noise = B @ (model.m - a["mean"])
                EE = np.outer(noise, noise) + B @ model.C @ B.T
                EE = EE / np.sqrt(np.outer(a["vt"], a["vt"]))
                cut = np.sqrt(np.minimum(1, 9 / np.diag(EE)))
                rate = max(1 / (10 + self.rows), 0.003)
                K = (1 - rate) * model.K + rate * EE * np.outer(cut, cut)
                K = 0.99 * K / np.sqrt(np.outer(np.diag(K), np.diag(K)))
                model.K = K - np.diag(np.diag(K)) + np.eye(d)
            for j, i in enumerate(seen):
                phi, P = a["phi"][i], model.P[i]
                total = 0.9995 * max(S[j] - lever[j], vt[j]) / w[j] + lever[j]
                model.W[i] += P @ phi * e[j] / total
                P = (P - np.outer(P @ phi, P @ phi) / total) / 0.9995
                c = np.sqrt(np.minimum(1, self.prior[i] / np.diag(P)))
                model.P[i] = P * np.outer(c, c)
                for profile, visits, gain in zip(
                    model.profiles, self.visits, (0.05, 0.1), strict=True
                ):
                    h, x = t % len(profile), model.m[i]
                    old = x if np.isnan(profile[h, i]) else profile[h, i]
                    profile[h, i] = old + max(1 / visits[h, i], gain) * (x - old)
            model.older = [model.m[-d:].copy(), *model.older[:-1]]
            self.rescale(model, seen, z)
        if len(seen):
            far = np.min(ratios, 0) > 225
            self.streak[seen] = np.where(far, self.streak[seen] + 1, 0)

    def rescale(self, model: Model, seen: np.ndarray, z: np.ndarray) -> None:
        """Running units."""
        b, a, b2 = np.sqrt(model.b2), model.a.copy(), model.b2.copy()
        u, e = 1 / np.minimum(self.values[seen], 1000), np.clip(z, -6, 6) * b[seen]
        a[seen] += u * e
        b2[seen] = (1 - u) * (b2[seen] + u * e**2)
        r, f = b / np.sqrt(b2), (model.a - a) / np.sqrt(b2)
        R = np.tile(r, self.own + 1)
        model.m, model.C = model.m * R + np.tile(f, self.own + 1), model.C * np.outer(R, R)
        model.v, model.a, model.b2 = model.v * r**2, a, b2
        model.older = [x * r + f for x in model.older]
        model.profiles = [p * r + f for p in model.profiles]

    def step(self, y: np.ndarray, level: float = 0.9) -> dict[str, np.ndarray]:
        """Predict, score, learn."""
        d, ok = self.d, ~np.isnan(y)
        told = [self.look(model, self.t) for model in self.models]
        w = np.exp(self.scores - self.scores.max(0))
        w = 0.99 * w / w.sum(0) + 0.01 / len(w)
        simple = ~self.known | (self.t < self.warm)
        sd = np.sqrt((self.changes + 0.02 * self.last**2) / (self.count + 1) + 1e-12)
        sd = np.where(self.count > 0, sd, 1.0)
        half, wide = student.ppf(0.5 + level / 2, 6), student.ppf(0.5 + level / 2, 4)
        out = dict(mean=self.last.copy(), low=self.last - wide * sd, high=self.last + wide * sd)
        log = student.logpdf((y - self.last) / sd, 4) - np.log(sd)
        parts = np.zeros((len(w), d))
        mean, ends = np.zeros(d), [np.zeros(d), np.zeros(d)]
        for j, (model, a) in enumerate(zip(self.models, told, strict=True)):
            nodes = student.ppf((np.arange(15) + 0.5) / 15, 6)
            values = [self.unbend(model, a["loc"] + q * a["sc"]) for q in nodes]
            mean += w[j] * np.mean(values, 0)
            for end, q in zip(ends, (-half, half), strict=True):
                end += w[j] * self.unbend(model, a["loc"] + q * a["sc"])
            slope = -0.5 * np.log1p((y / self.scale) ** 2) if model.bent else 0.0
            error = (self.bend(model, y) - a["loc"]) / a["sc"]
            parts[j] = student.logpdf(error, 6) - np.log(a["sc"]) + slope
        for i in np.flatnonzero(~simple):
            margin = 0.1 * (self.high[i] - self.low[i])
            out["mean"][i] = np.clip(mean[i], self.low[i] - margin, self.high[i] + margin)
            out["low"][i], out["high"][i] = ends[0][i], ends[1][i]
            log[i] = np.log(np.sum(w[:, i] * np.exp(parts[:, i])))
        out["log_score"] = np.array(np.sum(log[ok]) if ok.any() else np.nan)
        self.take(y, ok, simple, parts, told)
        return out

    def take(self, y, ok, simple, parts, told) -> None:
        """Learn from the row, and from the first ones at once when they are `warm`."""
        change = ok & (self.count > 0) & simple
        self.changes[change] += (y - self.last)[change] ** 2
        for i in np.flatnonzero(ok & ~self.known):
            self.early[i] = [*self.early[i], y[i]][-self.warm :]
        if self.t >= self.warm:
            capped = np.clip(parts, -30, 30)
            use = ok & ~simple
            self.scores[:, use] = (0.99 * self.scores + capped - capped.max(0))[:, use]
            self.learn(y, told, self.t)
        else:
            self.kept.append(y)
        self.count += ok
        self.last = np.where(ok, y, self.last)
        inside = ok & ~((self.streak > 0) & self.known)
        self.low[inside] = np.minimum(self.low, y)[inside]
        self.high[inside] = np.maximum(self.high, y)[inside]
        self.t += 1
        if self.t >= self.warm:
            self.adopt()
        if self.t == self.warm:
            for t, row in enumerate(self.kept):
                self.learn(row, [self.look(model, t) for model in self.models], t)

    def adopt(self) -> None:
        """Columns with eight values that vary."""
        for i in np.flatnonzero(~self.known):
            y = np.array(self.early[i])
            if len(y) >= 8 and y.std() > 1e-6 * np.abs(y).mean():
                self.known[i], self.scale[i], self.values[i] = True, np.abs(y).mean(), len(y)
                for model in self.models:
                    s = self.scale[i]
                    g = s * np.arcsinh(y / s) if model.bent else y
                    model.a[i], model.b2[i] = g.mean(), g.var()
