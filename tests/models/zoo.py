"""Every model next to its laws: a new one registers here, and inherits all checks."""

from functools import cache

from tests.models import classics
from tests.models.cases import B as B
from tests.models.cases import C as C
from tests.models.cases import Case as Case
from tests.models.cases import D as D
from tests.models.cases import F as F
from tests.models.cases import G as G
from tests.models.cases import chaotic, correlated, diagonal, full, neural, volatility
from tests.models.laws import Law as Law

BASIC = {
    case.__name__: cache(case) for case in (diagonal, full, correlated, chaotic, neural, volatility)
}
CLASSIC = {case.__name__: cache(case) for case in classics.CLASSICS}
ZOO = BASIC | CLASSIC
LINE = {
    "linear": lambda: diagonal(1),
    "chaotic": lambda: chaotic(1),
    "neural": lambda: neural(1, 1),
    "volatility": lambda: volatility(1),
    "growth": classics.growth,
}
