"""Which columns are counts, or shares of something: said by the user, or found in the first rows.

Counts are whole numbers, none of them negative, few at a time, that scatter from row to row as
counts do by chance, or by more: E (y_t - y_{t-1})^2 = 2 E y for a steady rate. Whole degrees of a
thermometer scatter by far less. What counts up and starts anew (hours of rain so far, hours of the
day) is no count either: it hardly ever falls to anything but its start. A share lies between 0 and
1, or between 0 and 100 in a column in per cent, and comes near one of its bounds.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rmcvi.app.run.speech import Refusal
from rmcvi.app.sources import Stream
from rmcvi.core.checks import nearest
from rmcvi.learners.emissions import LAWS, Emission

HEAD = 2000
"""Rows that are looked at."""
FEWEST = 50
"""Values without which nothing can be said of a column."""
FEW = 30.0
"""Median above which counts are as good as continuous: chance moves them by a fifth or less."""
DISTINCT = 3
"""Different values that counts have at least: a switch has two."""
CHANCE = 0.5
"""Share of the scatter by chance that counts have at least."""
FALLS, GROWN, SEEN = 0.05, 0.8, 5
"""Of values after one of 2 or more the share that is smaller, but not 0; of those of 2 or more the
share after one that is not 0: running sums have fewer and more than this, if there are so many."""
NEAR, OFTEN = 0.05, 0.02
"""A bound matters if so many values lie so near, both as shares."""
FINEST = 1e-4
"""Least cell of a share, of its range."""
WORDS = ("auto", "gaussian", *LAWS)


def choose_emissions(
    stream: Stream, columns: Sequence[str], percent: Sequence[bool], said: Sequence[str]
) -> list[dict[str, Any]]:
    """Columns with another law than the usual one, as plain values.

    Args:
        stream: whose first rows are looked at.
        columns: their names.
        percent: whether a column is in per cent.
        said: `--emission`: one of WORDS for all columns, or NAME=LAW for some; nothing: gaussian.
    """
    laws, word = _said(columns, said)
    if word == "gaussian" and not laws:
        return []
    rows = stream.head(HEAD)
    values = np.array([row.y for row in rows]).reshape(len(rows), len(columns))
    found = []
    for name, column, of_hundred in zip(columns, values.T, percent, strict=True):
        seen = column[np.isfinite(column)]
        law = laws.get(name, word)
        law = find_law(seen, of_hundred) if law == "auto" else law
        if law not in (None, "gaussian"):
            found.append({"column": name, "law": law} | _bounds(name, law, seen))
    return found


def find_law(seen: np.ndarray, of_hundred: bool) -> str | None:
    """The law of a column with these values; None for the usual one."""
    if len(seen) < FEWEST or seen.min() < 0.0:
        return None
    high = 100.0 if of_hundred else 1.0
    share = seen / high
    if share.max() <= 1.0 and len(np.unique(seen)) > DISTINCT:
        near = np.mean((share <= NEAR) | (share >= 1.0 - NEAR))
        return "bounded" if near >= OFTEN and share.max() > 0.5 else None
    whole = np.all(seen == np.round(seen)) and len(np.unique(seen)) >= DISTINCT
    scatter = np.mean(np.diff(seen) ** 2) >= CHANCE * 2.0 * np.mean(seen)
    counts = whole and np.median(seen) <= FEW and scatter and not _counts_up(seen)
    return "negative-binomial" if counts else None


def _counts_up(seen: np.ndarray) -> bool:
    """Whether values grow until they start anew."""
    before, after = seen[:-1], seen[1:]
    falls = ((after > 0.0) & (after < before))[before >= 2.0]
    grown = (before > 0.0)[after >= 2.0]
    few = min(len(falls), len(grown)) < SEEN
    return not few and bool(falls.mean() < FALLS and grown.mean() >= GROWN)


def sentences(found: Sequence[dict[str, Any]]) -> list[str]:
    """What is assumed of each."""
    words = {
        "poisson": "counts, learned as Poisson",
        "negative-binomial": "counts, learned as negative binomial",
        "bounded": "between {low:g} and {high:g}, learned as such",
    }
    closing = "with particles beside the closed form."
    return [f"{e['column']}: {words[e['law']].format(**e)} {closing}" for e in found]


def emissions_of(found: Sequence[dict[str, Any]], columns: Sequence[str]) -> tuple[Emission, ...]:
    """For the learner."""
    numbered = ({**e, "column": columns.index(e["column"])} for e in found)
    return tuple(Emission(**e) for e in numbered)


def _said(columns: Sequence[str], said: Sequence[str]) -> tuple[dict[str, str], str]:
    """Laws by column, and the word for all others."""
    laws, words = {}, []
    for text in said:
        name, equals, law = text.rpartition("=")
        if law not in WORDS:
            near = nearest(law, WORDS, 0.5)
            hint = f"; did you mean {near!r}?" if near else ""
            raise Refusal(f"--emission: got {law!r}, expected one of {', '.join(WORDS)}{hint}")
        if equals and name not in columns:
            raise Refusal(f"--emission: got {name!r}, expected one of {', '.join(columns)}")
        if equals:
            laws[name] = law
        else:
            words.append(law)
    if len(words) > 1:
        raise Refusal(f"--emission: got {', '.join(words)}, expected one of them, or NAME=LAW")
    return laws, words[0] if words else "gaussian"


def _bounds(name: str, law: str, seen: np.ndarray) -> dict[str, float]:
    """Those of a share, and the distance of two neighbouring values."""
    if law != "bounded":
        return {}
    top = float(seen.max()) if len(seen) else 1.0
    if len(seen) and (seen.min() < 0.0 or top > 100.0):
        got = f"values from {seen.min():g} to {top:g}"
        raise Refusal(f"--emission: got {got} in {name}, expected 0 to 1, or 0 to 100")
    high = 1.0 if top <= 1.0 else 100.0
    steps = np.diff(np.unique(seen))
    step = float(steps[steps > 1e-9 * high].min()) if np.any(steps > 1e-9 * high) else 0.01 * high
    return {"low": 0.0, "high": high, "step": max(step, FINEST * high)}
