"""Streams of observations: read, standardised, diagnosed.

A stream is an iterable of `Observation`; NaN in `y` means not observed.
"""

from rmcvi.data._air_quality import AirQuality as AirQuality
from rmcvi.data._air_quality import air_quality as air_quality
from rmcvi.data._calendar import calendar as calendar
from rmcvi.data._calendar import calendar_names as calendar_names
from rmcvi.data._diagnosis import Diagnosis as Diagnosis
from rmcvi.data._doctor import doctor as doctor
from rmcvi.data._errors import Counts as Counts
from rmcvi.data._errors import DataError as DataError
from rmcvi.data._errors import Rejected as Rejected
from rmcvi.data._lines import Readable as Readable
from rmcvi.data._observation import Observation as Observation
from rmcvi.data._observation import Source as Source
from rmcvi.data._observation import observations as observations
from rmcvi.data._read import Stream as Stream
from rmcvi.data._read import read as read
from rmcvi.data._read import sniff as sniff
from rmcvi.data._scaling import Scaling as Scaling
from rmcvi.data._schema import Schema as Schema
from rmcvi.data._season import find_seasons as find_seasons
from rmcvi.data._standardise import Standardiser as Standardiser
from rmcvi.data._trace import Changed as Changed
