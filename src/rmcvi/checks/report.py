"""What a conformance suite says: one finding per check, each a sentence for people.

A check is a function without arguments that returns None (fine) or a sentence. A sentence that
starts with `hint: ` or `not tried because ` is no failure. What a check raises becomes a sentence
too, and a check whose preconditions failed is not tried.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

HINT = "hint: "
SKIPPED = "not tried because "


@dataclasses.dataclass(frozen=True)
class Finding:
    """The outcome of one check; `sentence` is empty when there is nothing to say."""

    name: str
    ok: bool
    sentence: str

    def __str__(self) -> str:
        mark = "ok" if self.ok else "FAILED"
        if self.sentence.startswith(HINT):
            mark = "hint"
        if self.sentence.startswith(SKIPPED):
            mark = "skipped"
        said = self.sentence.removeprefix(HINT)
        return f"{mark:<7} {self.name}" + (f": {said}" if said else "")


@dataclasses.dataclass(frozen=True)
class Report:
    """All findings about one subject; `print` it."""

    subject: str
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether no check failed."""
        return all(finding.ok for finding in self.findings)

    @property
    def failed(self) -> tuple[Finding, ...]:
        """The findings that are not ok."""
        return tuple(finding for finding in self.findings if not finding.ok)

    def __str__(self) -> str:
        count = len(self.failed)
        verdict = f"{count} of {len(self.findings)} checks failed" if count else "conforms"
        return "\n".join([f"{self.subject}: {verdict}", *map(str, self.findings)])

    def raise_if_failed(self) -> None:
        """Raise a ValueError that lists the failed checks, if there are any."""
        if not self.ok:
            raise ValueError(
                "\n".join([f"{self.subject} does not conform", *map(str, self.failed)])
            )


class CallError(Exception):
    """A method of the subject raised; the message is the sentence to report."""


def call(name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """The function's result; what it raises is reported under its own name."""
    try:
        return function(*arguments)
    except CallError:
        raise
    except Exception as error:
        raise CallError(describe(name, error)) from error


def describe(name: str, error: Exception) -> str:
    """`name raised Type: first line of the message`, with advice for what is often met."""
    lines = str(error).strip().splitlines() or ["no message"]
    sentence = f"{name} raised {type(error).__name__}: {lines[0].strip()}"
    if type(error).__name__.startswith(("Tracer", "Concretization", "NonConcrete")):
        sentence += " (it must work under jax.jit: jnp.where instead of `if`, jnp instead of numpy)"
    return sentence


class Sheet:
    """Collects findings. `needs` names the checks without which another makes no sense."""

    def __init__(self, subject: str):
        self.subject = subject
        self.findings: list[Finding] = []
        self._unusable: dict[str, str] = {}  # with the check that failed first

    def check(self, name: str, check: Callable[[], str | None], needs: Sequence[str] = ()) -> None:
        """Run a check and note what it says."""
        sentence = self._blocked(name, needs)
        self._note(name, self._attempt(name, check) if sentence is None else sentence)

    def compute(self, name: str, numbers: Callable[[], Any], needs: Sequence[str] = ()) -> Any:
        """The numbers behind several checks, which `need` this name; None if there are none.

        Only a failure is noted.
        """
        kept: list[Any] = []
        if self._blocked(name, needs) is None:
            sentence = self._attempt(name, lambda: kept.append(numbers()))
            if sentence is not None:
                self._note(name, sentence)
        return kept[0] if kept else None

    def report(self) -> Report:
        """Everything noted so far."""
        return Report(self.subject, tuple(self.findings))

    def usable(self, *names: str) -> bool:
        """Whether none of these checks failed or was left out for want of another."""
        return not any(name in self._unusable for name in names)

    def _blocked(self, name: str, needs: Sequence[str]) -> str | None:
        """Why the check makes no sense; whatever needs it makes none either."""
        root = next((self._unusable[need] for need in needs if need in self._unusable), None)
        if root is None:
            return None
        self._unusable[name] = root
        return f"{SKIPPED}`{root}` did not pass"

    def _attempt(self, name: str, check: Callable[[], str | None]) -> str | None:
        try:
            return check()
        except CallError as error:
            return str(error)
        except Exception as error:
            return describe(f"the check `{name}`", error)

    def _note(self, name: str, sentence: str | None) -> None:
        said = sentence or ""
        ok = not said or said.startswith((HINT, SKIPPED))
        if not ok:
            self._unusable[name] = name
        self.findings.append(Finding(name, ok, said))
