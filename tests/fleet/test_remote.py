"""A fleet on storage: whatever dies, wherever, what counts is that of an uninterrupted run."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rmcvi.app.fleet import shard as shard_module
from rmcvi.app.fleet.opened import OpenedFleet
from rmcvi.app.fleet.pages import put_pages
from rmcvi.app.fleet.processes import open_shard
from rmcvi.app.fleet.remote import Published, as_directory, read_plan, write_plan
from rmcvi.app.fleet.resharding import reshard
from rmcvi.app.fleet.shard import Shard
from rmcvi.app.fleet.storage import Storage
from rmcvi.app.run.speech import Refusal
from tests.fleet._fleets import MODEL, begin, finish, make_source, output, published

pytest.importorskip("fsspec")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The source, and a fleet in a directory that met no trouble; batches are small."""
    folder = tmp_path_factory.mktemp("fleet")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(folder)
        patch.setenv("TMPDIR", str(folder))
        patch.setattr("tempfile.tempdir", str(folder))
        for name, value in (("ROWS", 70), ("STREAM_ROWS", 1), ("SHARE", 0.0)):
            patch.setattr(shard_module, name, value)
        begin(make_source(folder, keys=5, rows=60), folder / "whole", 1)
        finish(folder / "whole", 1)
        yield folder


@pytest.fixture
def place(folder: Path, request: pytest.FixtureRequest) -> str:
    """A fleet of one shard in memory of which nothing was learned yet."""
    place = f"memory://{request.node.name}/plant.run"
    write_plan(Storage(place), begin(folder / "plant.csv", folder / request.node.name, 1))
    return place


def attempt(place: str, folder: Path) -> Shard:
    """One that has a machine of its own."""
    storage = Storage(place)
    folder.mkdir(exist_ok=True)
    return Shard(folder, 0, MODEL, published=Published(storage, read_plan(storage), 0))


class Cut(OSError):
    """The storage did not answer."""


def test_cut_off_at_every_word(place: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each attempt dies one operation of the storage later, before it or in its midst."""
    left, words, ops = [0], [0], ("write", "put", "remove", "get")

    def cut(name: str, honest: Any) -> Any:
        def operation(self: Storage, *given: Any) -> Any:
            left[0] -= 1
            if left[0] <= 0:
                if not left[0] and name == "write" and words[0] % 2:  # a file may be cut short
                    honest(self, given[0], given[1][: len(given[1]) // 2])
                raise Cut("no answer")
            return honest(self, *given)

        return operation

    for name in ops:
        monkeypatch.setattr(Storage, name, cut(name, getattr(Storage, name)))
    done = False
    while not done:
        words[0] += 1
        left[0] = 2 + words[0] // 2
        shard = None
        try:
            shard = open_shard(place, 0, MODEL)
            shard.plan.options["checkpoint_every"] = 30
            for told in shard.run():
                done = told.done
            shard.close()
        except Cut:
            done = False
            if shard is not None:
                shard.close()
        assert words[0] < 100
    left[0] = 1 << 30
    assert words[0] > 8
    assert published(place) == output(folder / "whole")
    names = Storage(place).names("shard-0-0")
    assert sum(n.startswith("claim-") for n in names) <= 2  # the last attempt may find all done
    assert sum(n.startswith("manifest-") for n in names) <= 2


def test_one_that_was_believed_dead(place: str, folder: Path) -> None:
    """It sees that another has begun, at the latest at its second checkpoint, and ends."""
    old = attempt(place, folder / "old")
    rows = old.run()
    for _ in zip(range(3), rows, strict=False):
        pass
    new = attempt(place, folder / "new")
    with pytest.raises(Refusal, match="another process has taken it over"):
        old.save()
    for _ in new.run():
        pass
    new.close()
    with pytest.raises(Refusal, match="taken it over"):
        rows.close()
    old.close()
    assert published(place) == output(folder / "whole")


def test_another_begins_in_the_midst_of_a_checkpoint(
    place: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old one had looked before: its manifest comes after the new one's claim."""
    old, honest, new = attempt(place, folder / "first"), Storage.write, []
    rows = old.run()
    for _ in zip(range(3), rows, strict=False):
        pass

    def write(self: Storage, name: str, content: bytes) -> None:
        if "manifest" in name and not new:
            new.append(None)
            new[0] = attempt(place, folder / "second")
        honest(self, name, content)

    monkeypatch.setattr(Storage, "write", write)
    old.save()
    for told, _ in zip(new[0].run(), range(3), strict=False):
        assert not told.done
    new[0].close()  # as if killed: its last checkpoint, if any, counts
    last = attempt(place, folder / "third")
    for _ in last.run():
        pass
    last.close()
    assert published(place) == output(folder / "whole")


def test_other_shards_and_questions(place: str, folder: Path) -> None:
    """One shard becomes two in the midst; streams are ranked as in a directory; pages are put."""
    shard = open_shard(place, 0, MODEL)
    for _ in zip(range(3), shard.run(), strict=False):
        pass
    shard.save()
    shard.close()

    def onward(end: Any) -> Any:
        shard = open_shard(place, 0, MODEL)
        yield from shard.run(end)
        shard.close()

    fleet = reshard(place, read_plan(Storage(place)), 2, onward)
    assert fleet.shards == 2
    for number in range(2):
        shard = open_shard(place, number, MODEL)
        for _ in shard.run():
            pass
        shard.close()
    assert published(place) == output(folder / "whole")
    with as_directory(place, outputs=True) as directory:
        opened = OpenedFleet(directory, MODEL, place)
        assert opened.ranked() == OpenedFleet(folder / "whole", MODEL).ranked()
        assert opened.sentences()[0].startswith(place)
        (directory / "report.html").write_text("a page")
        assert put_pages(place, directory) == f"{place}/report.html"
    assert Storage(place).read("report.html") == b"a page"


def test_there_is_no_such_storage() -> None:
    """Said in words."""
    with pytest.raises(Refusal, match="nowhere://x"):
        Storage("nowhere://x")
    with pytest.raises(Refusal, match="holds no fleet"):
        read_plan(Storage("memory://empty/x"))
