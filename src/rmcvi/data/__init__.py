"""Streams of observations: read, standardised, diagnosed.

A stream is an iterable of `Observation`; NaN in `y` means not observed.
"""

from rmcvi.data._errors import Counts as Counts
from rmcvi.data._errors import DataError as DataError
from rmcvi.data._observation import Observation as Observation
from rmcvi.data._observation import Source as Source
from rmcvi.data._observation import observations as observations
from rmcvi.data._read import Stream as Stream
from rmcvi.data._read import read as read
from rmcvi.data._read import sniff as sniff
from rmcvi.data._schema import Schema as Schema
