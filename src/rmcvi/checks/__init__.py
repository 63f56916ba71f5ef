"""Does it conform? Checks of models, families, recursions and learners, reported in sentences.

report = rmcvi.checks.model(my_model)
print(report)
report.raise_if_failed()
"""

from rmcvi.checks.family_checks import family as family
from rmcvi.checks.learner_checks import learner as learner
from rmcvi.checks.model_checks import model as model
from rmcvi.checks.recursion_checks import recursion as recursion
from rmcvi.checks.report import Finding as Finding
from rmcvi.checks.report import Report as Report
