"""Alarms as episodes: a sentence, from where to where, in how many rows."""

from dataclasses import dataclass

from rmcvi.app.run.scores import is_new_episode


@dataclass(frozen=True)
class Episode:
    """One sentence without a long pause; `first` and `last` are indices of rows."""

    sentence: str
    first: int
    last: int
    rows: int


def episodes(alarms: dict[str, list[int]]) -> list[Episode]:
    """All episodes, by their beginning."""
    found = []
    for sentence, rows in alarms.items():
        first, last, count = rows[0], rows[0], 0
        for row in rows:
            if is_new_episode(row, last):
                found.append(Episode(sentence, first, last, count))
                first, count = row, 0
            last, count = row, count + 1
        found.append(Episode(sentence, first, last, count))
    return sorted(found, key=lambda episode: (episode.first, episode.sentence))
