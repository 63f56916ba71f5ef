"""Methods compared on the same stream, in turns."""

from rmcvi.lab.compare.comparing import Setup as Setup
from rmcvi.lab.compare.comparing import compare as compare
from rmcvi.lab.compare.comparison import Comparison as Comparison
