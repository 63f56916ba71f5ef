"""The run directory: which files it holds, and who may write there."""

import fcntl
import json
import os
from pathlib import Path
from typing import Any

from rmcvi.cli._app import Refusal
from rmcvi.cli._plan import Plan
from rmcvi.estimator import CheckpointError, peek

RUN, ESTIMATES, PARAMETERS = "run.json", "estimates.jsonl", "parameters.jsonl"
CHECKPOINT, SUMMARY, REPORT = "checkpoint.rmcvi", "summary.json", "report.html"
OURS = (RUN, ESTIMATES, PARAMETERS, CHECKPOINT, SUMMARY, REPORT)


class Directory:
    """A directory with a run in it; `lock` it before writing."""

    def __init__(self, path: Path):
        self.path = path
        self._lock: int | None = None

    @classmethod
    def create(cls, path: Path, plan: Plan, force: bool) -> "Directory":
        """A new run, locked; one that is there already is refused, or removed by `force`."""
        if path.exists() and not path.is_dir():
            raise Refusal(f"{path}: is a file, expected a directory for the run")
        if (path / RUN).exists() and not force:
            again = f"`rmcvi resume {path}` goes on with it, --force starts anew"
            raise Refusal(f"{path}: already holds a run; {again}")
        path.mkdir(parents=True, exist_ok=True)
        directory = cls(path)
        directory.lock()
        for name in OURS:
            (path / name).unlink(missing_ok=True)
        directory.write(RUN, plan.to_json())
        return directory

    @classmethod
    def open(cls, path: Path) -> tuple["Directory", Plan]:
        """An existing run and its plan."""
        if not path.exists():
            raise Refusal(f"{path}: no such directory, expected one that `rmcvi learn` made")
        try:
            plain = json.loads((path / RUN).read_text())
        except OSError:
            raise Refusal(f"{path}: holds no run, expected {RUN}; see `rmcvi learn`") from None
        except ValueError:
            raise Refusal(f"{path / RUN}: got no JSON, expected what `learn` wrote") from None
        if not isinstance(plain, dict):
            raise Refusal(f"{path / RUN}: got no JSON object, expected what `learn` wrote")
        return cls(path), Plan.from_json(plain, str(path / RUN))

    def lock(self) -> None:
        """Keep other processes out until this one ends, however it does."""
        self._lock = os.open(self.path / ".lock", os.O_CREAT | os.O_RDWR, 0o666)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.unlock()
            raise Refusal(f"{self.path}: another process is learning here") from None

    def unlock(self) -> None:
        """Let others in."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @property
    def checkpoint(self) -> Path:
        """Where the learner's state is."""
        return self.path / CHECKPOINT

    def write(self, name: str, plain: dict[str, Any]) -> None:
        """Replace a JSON file as a whole."""
        target = self.path / name
        temporary = target.with_name(f".{name}.tmp")
        try:
            with open(temporary, "w") as file:
                json.dump(plain, file, indent=1)
                file.write("\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, target)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            error.filename = str(target)
            raise

    def kept(self) -> dict[str, Any]:
        """What the checkpoint remembers of the run, without loading the learner."""
        if not self.checkpoint.exists():
            raise Refusal(f"{self.path}: has no checkpoint yet; `rmcvi resume {self.path}` goes on")
        live = peek(self.checkpoint).get("live")
        if live is None:
            what = "got a checkpoint of a bare learner"
            raise CheckpointError(self.checkpoint, what, "It was not written by `rmcvi learn`.")
        return live["extra"]
