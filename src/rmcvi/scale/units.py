"""The units of streams whose learner takes standardised columns, each learned as by `Live`."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rmcvi.learners.units import Scaling, Standardiser


class StreamUnits:
    """What is known of the units of each stream, by its key."""

    def __init__(self, dim: int):
        self._standardiser, self._dim = Standardiser(), dim
        self._scalings: dict[str, Scaling] = {}

    def rows(self, keys: Sequence[str], y: np.ndarray) -> np.ndarray:
        """The fields of `RowUnits` side by side, (rows, 3 dy); each row moves its stream on."""
        told, places = np.empty((len(y), 3 * self._dim)), {}
        for i, key in enumerate(keys):
            places.setdefault(key, []).append(i)
        for key, these in places.items():
            units = self._standardiser.run(self.scaling(key), y[these])
            told[these] = np.concatenate([units.z, units.mean, units.scale], 1)
            self._scalings[key] = units.scalings[-1]
        return told

    def scaling(self, key: str) -> Scaling:
        """That of a stream."""
        return self._scalings.get(key) or self._standardiser.init(self._dim)

    def kept(self, key: str) -> dict[str, Any]:
        """That of a stream in plain values."""
        return self.scaling(key).to_json()

    def recall(self, key: str, plain: dict[str, Any]) -> None:
        """What `kept` gave."""
        self._scalings[key] = Scaling.from_json(plain)

    def forget(self, key: str) -> None:
        """A stream leaves."""
        self._scalings.pop(key, None)
