"""Many streams at once."""

from rmcvi.scale.block import Block as Block
from rmcvi.scale.fleet import Fleet as Fleet
from rmcvi.scale.results import Results as Results
from rmcvi.scale.results import Tally as Tally
from rmcvi.scale.streams import Streams as Streams
