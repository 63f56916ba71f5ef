"""Many streams at once."""

from rmcvi.scale.fleet import Fleet as Fleet
