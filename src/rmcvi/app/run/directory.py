"""The run directory: which files it holds, who may write there, and which checkpoint counts."""

import contextlib
import errno
import fcntl
import json
import os
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rmcvi.app.run.plan import FORMATS, Plan
from rmcvi.app.run.speech import Refusal, printable, say
from rmcvi.core.files import replace, sweep, to_json
from rmcvi.learners import CheckpointError, Live, peek

RUN, ESTIMATES, PARAMETERS, REJECTED = (
    "run.json",
    "estimates.jsonl",
    "parameters.jsonl",
    "rejected.jsonl",
)
CHECKPOINT, PREVIOUS = "checkpoint.rmcvi", "checkpoint-previous.rmcvi"
SUMMARY, REPORT = "summary.json", "report.html"
GROWING = (ESTIMATES, PARAMETERS, REJECTED)
FLEET = "fleet.json"
"""Instead of `RUN` in a directory of many streams."""
OURS = (*GROWING, CHECKPOINT, PREVIOUS, SUMMARY, REPORT, RUN)
REMEMBERED = {"rows": int, "bytes": dict, "scores": dict, "counts": dict, "seconds": float}
NO_LOCK = (errno.EBADF, errno.ENOTSUP, errno.ENOLCK)
"""What file systems say (NFS) that cannot lock a directory, only a file."""


@dataclass(frozen=True)
class Kept:
    """A whole checkpoint of the run: where it is, and what it remembers beside the learner."""

    path: Path
    extra: dict[str, Any]
    remark: str | None = None
    """A sentence if it is not the newest that was written."""

    @property
    def last_time(self) -> float | None:
        """The time of the last row."""
        source = self.extra["source"]
        return None if source is None else source["clock"]

    def load(self, live: Live) -> None:
        """Give the learner its state."""
        try:
            live.load(self.path)
        except CheckpointError:
            raise
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            what = str(error).removeprefix(f"{self.path}: ").rstrip(".")
            raise CheckpointError(self.path, what, "It does not fit the run.") from None


class Directory:
    """A directory with a run in it; `lock` it before writing."""

    def __init__(self, path: Path, plan: Plan):
        self.path, self.id = path, plan.id
        self._lock: int | None = None
        self._sound = False

    @classmethod
    def create(cls, path: Path, plan: Plan, force: bool) -> "Directory":
        """A new run, locked; one that is there already is refused, or removed by `force`."""
        if path.exists() and not path.is_dir():
            raise Refusal(f"{path}: is a file, expected a directory for the run")
        check_free(path, force)
        path.mkdir(parents=True, exist_ok=True)
        directory = cls(path, plan)
        directory.lock()
        try:
            check_free(path, force)
            for name in OURS:
                (path / name).unlink(missing_ok=True)
            directory.write(RUN, plan.to_json())
        except BaseException:
            directory.unlock()
            raise
        return directory

    def remove(self) -> None:
        """A run of which nothing is worth keeping."""
        for name in OURS:
            (self.path / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # there is more in it, which is not ours
            self.path.rmdir()

    @classmethod
    def open(cls, path: Path) -> tuple["Directory", Plan]:
        """An existing run and its plan."""
        plan = Plan.from_json(read_about(path), str(path / RUN))
        return cls(path, plan), plan

    def lock(self) -> None:
        """Keep other processes out until this one ends, however it does; clear away litter."""
        self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in NO_LOCK:
                    raise
                os.close(self._lock)
                flags = os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW
                self._lock = os.open(self.path / ".lock", flags, 0o666)
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.unlock()
            raise Refusal(f"{self.path}: another process is learning here") from None
        for name in OURS:
            sweep(self.path / name)

    def unlock(self) -> None:
        """Let others in."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def write(self, name: str, plain: dict[str, Any]) -> None:
        """Replace a JSON file as a whole."""
        replace(self.path / name, f"{to_json(plain, indent=1)}\n".encode())

    def newest(self) -> Kept | None:
        """The last checkpoint that is whole, or the one before it; None if there is none at all.

        One of another run is refused.
        """
        troubles = []
        for name in (CHECKPOINT, PREVIOUS):
            path = self.path / name
            if not path.exists():
                troubles.append(f"{name} is missing")
                continue
            try:
                extra = self.remembered(path)
            except CheckpointError as error:
                troubles.append(str(error))
                if name == PREVIOUS or not (self.path / PREVIOUS).exists():
                    raise
                continue
            self._sound = name == CHECKPOINT
            back = f"going back to row {extra['rows']} of {PREVIOUS}"
            return Kept(path, extra, None if self._sound else f"{troubles[0].rstrip('.')}; {back}.")
        return None

    def last(self) -> Kept:
        """As `newest`, but there must be one."""
        kept = self.newest()
        if kept is None:
            raise Refusal(f"{self.path}: has no checkpoint yet; `rmcvi resume {self.path}` goes on")
        return kept

    def save(self, live: Live, extra: dict[str, Any]) -> None:
        """Write the checkpoint; the one that was there is kept as the one before."""
        current, previous = self.path / CHECKPOINT, self.path / PREVIOUS
        for path in (current, previous):
            if path.is_symlink():
                raise Refusal(f"{path}: is a link, expected a file of this run")
        if self._sound:
            _keep(current, previous)
        else:
            current.unlink(missing_ok=True)  # unreadable, or there is none
        live.save(current, extra | {"id": self.id})
        self._sound = True

    def remembered(self, path: Path) -> dict[str, Any]:
        """What a checkpoint knows of the run: rows, place in the source, lengths, scores."""
        live = peek(path).get("live")
        extra = live.get("extra") if isinstance(live, dict) else None
        if (
            not isinstance(extra, dict)
            or any(not isinstance(extra.get(name), kind) for name, kind in REMEMBERED.items())
            or any(type(n) is not int or n < 0 for n in (extra["rows"], *extra["bytes"].values()))
            or (extra["rows"] > 0 and ESTIMATES not in extra["bytes"])
            or not isinstance(sums := extra.get("checksums", {}), dict)
            or any(type(n) not in (int, type(None)) for n in sums.values())
        ):
            what = "holds no place in a run"
            raise CheckpointError(path, what, "It was not written by `rmcvi learn`.")
        if extra.get("id", "") != self.id:
            what = f"belongs to another run than {RUN}"
            raise Refusal(f"{path}: {what}, expected the checkpoint of this one")
        return extra


def read_about(path: Path) -> dict[str, Any]:
    """The content of `run.json` in a directory, of this format or an older one."""
    if not path.exists():
        raise Refusal(f"{path}: no such directory, expected one that `rmcvi learn` made")
    for name in OURS:  # a pipe would be waited for, a device read without end
        if (path / name).exists() and not (path / name).is_file():
            raise Refusal(f"{path / name}: is no plain file, expected one that `learn` wrote")
    file = path / RUN
    try:
        about = json.loads(file.read_text(encoding="utf-8"))
    except OSError:
        if (path / FLEET).exists():
            raise Refusal(f"{path}: holds many streams; see `rmcvi fleet --help`") from None
        raise Refusal(f"{path}: holds no run, expected {RUN}; see `rmcvi learn`") from None
    except (ValueError, RecursionError):
        raise Refusal(f"{file}: got no JSON, expected what `learn` wrote") from None
    if not isinstance(about, dict):
        raise Refusal(f"{file}: got no JSON object, expected what `learn` wrote")
    if about.get("format") not in FORMATS:
        known = " or ".join(map(str, FORMATS))
        what = f"got format {about.get('format')}, expected {known}"
        raise Refusal(f"{file}: {what}; another version of rmcvi wrote it")
    if not about.get("columns") or not isinstance(about["columns"], list):
        raise Refusal(f"{file}: got no columns, expected what `learn` wrote")
    return about


def check_free(path: Path, force: bool) -> None:
    """Refuse a directory whose files are not ours to replace."""
    there = [name for name in OURS if os.path.lexists(path / name)]
    if not there:
        return
    try:
        Directory.open(path)
    except Refusal:
        what = f"holds {there[0]}, which belongs to no run"
        raise Refusal(f"{path}: {what}, expected an empty directory or a run") from None
    if not force:
        again = f"`rmcvi resume {path}` goes on with it, --force starts anew"
        raise Refusal(f"{path}: already holds a run; {again}")


def _keep(current: Path, previous: Path) -> None:
    """Give a file a second name; it is there under the first all the time, if links can be had."""
    if not current.exists() or (previous.exists() and current.samefile(previous)):
        return
    spare = previous.with_name(f".{previous.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        os.link(current, spare)
        os.replace(spare, previous)
    except OSError:
        os.replace(current, previous)


class Opened:
    """A run as it stands, for questions: directory, plan, learner, and what it remembers."""

    def __init__(self, path: Path, model: str | None = None):
        self.directory, plan = Directory.open(path)
        self.plan = plan.trusted(model)
        newest = self.directory.last()
        if newest.remark:
            say(printable(newest.remark))
        self.kept, self.last_time = newest.extra, newest.last_time
        self.live: Live = self.plan.live()
        newest.load(self.live)
        self.rows: int = self.kept["rows"]
        if not self.rows:
            raise Refusal(f"{path}: has learned from no row yet")

    def last_lines(self, count: int) -> list[str]:
        """The last rows of the estimates that belong to the checkpoint."""
        return last_lines(self.directory.path / ESTIMATES, self.kept["bytes"][ESTIMATES], count)


def last_lines(path: Path, length: int, count: int) -> list[str]:
    """The last lines of the first `length` bytes of a file."""
    block = 1 << 16
    with open(path, "rb") as file:
        start, data = length, b""
        while start and data.count(b"\n") <= count:
            step = min(block, start)
            start -= step
            file.seek(start)
            data = file.read(step) + data
            block *= 2
    return data.decode().splitlines()[-count:]
