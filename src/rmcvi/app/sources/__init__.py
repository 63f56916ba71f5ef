"""Streams of observations: read and diagnosed.

A stream is an iterable of `Observation`; NaN in `y` means not observed.
"""

from rmcvi.app.sources.batch import Batch as Batch
from rmcvi.app.sources.clock import calendar as calendar
from rmcvi.app.sources.clock import calendar_names as calendar_names
from rmcvi.app.sources.diagnosis import Diagnosis as Diagnosis
from rmcvi.app.sources.errors import Counts as Counts
from rmcvi.app.sources.errors import DataError as DataError
from rmcvi.app.sources.errors import Disordered as Disordered
from rmcvi.app.sources.errors import Rejected as Rejected
from rmcvi.app.sources.examination import doctor as doctor
from rmcvi.app.sources.follow import Pace as Pace
from rmcvi.app.sources.formats import Format as Format
from rmcvi.app.sources.keyed import KeyedStream as KeyedStream
from rmcvi.app.sources.lines import Readable as Readable
from rmcvi.app.sources.observation import Observation as Observation
from rmcvi.app.sources.observation import Position as Position
from rmcvi.app.sources.observation import observations as observations
from rmcvi.app.sources.one_stream import first_stream as first_stream
from rmcvi.app.sources.reader import Rules as Rules
from rmcvi.app.sources.reader import Stream as Stream
from rmcvi.app.sources.reader import open_source as open_source
from rmcvi.app.sources.reader import read as read
from rmcvi.app.sources.reader import sniff as sniff
from rmcvi.app.sources.schema import Schema as Schema
from rmcvi.app.sources.source import Source as Source
from rmcvi.app.sources.source import list_parts as list_parts
from rmcvi.app.sources.trace import Changed as Changed
from rmcvi.app.sources.uci import AirQuality as AirQuality
from rmcvi.app.sources.uci import air_quality as air_quality
