"""Does it conform? Checks of models, families, recursions and learners, told in sentences.

report = rmcvi.checks.model(my_model)
print(report)
report.raise_if_failed()
"""

from rmcvi.checks._family import family as family
from rmcvi.checks._learner import learner as learner
from rmcvi.checks._model import model as model
from rmcvi.checks._recursion import recursion as recursion
from rmcvi.checks._report import Finding as Finding
from rmcvi.checks._report import Report as Report
