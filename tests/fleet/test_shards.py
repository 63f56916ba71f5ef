"""Shards: every stream is a run of its own, and a kill at any moment costs nothing."""

import errno
import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest

from rmcvi import Live
from rmcvi.app.fleet import output as output_module
from rmcvi.app.fleet import shard as shard_module
from rmcvi.app.fleet.opened import OpenedFleet
from rmcvi.app.fleet.output import lines_of
from rmcvi.app.fleet.pages import write as write_pages
from rmcvi.app.fleet.resharding import reshard
from rmcvi.app.fleet.routing import owner
from rmcvi.app.fleet.shard import Shard
from rmcvi.app.fleet.store import Store
from rmcvi.app.report.scores import episodes
from rmcvi.app.run.speech import Refusal
from rmcvi.app.sources import DataError, keyed, read
from tests.fleet._fleets import (
    KEYS,
    MODEL,
    STANDARD,
    begin,
    finish,
    leave_often,
    make_source,
    output,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The source, and a fleet of one shard that met no trouble."""
    folder = tmp_path_factory.mktemp("fleet")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(folder)
        begin(make_source(folder), folder / "whole", 1)
        finish(folder / "whole", 1)
        yield folder


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small batches, and a checkpoint whenever rows enough were learned."""
    for name, value in (("ROWS", 70), ("STREAM_ROWS", 1), ("SHARE", 0.0)):
        monkeypatch.setattr(shard_module, name, value)


def test_every_stream_is_a_run_of_its_own(folder: Path) -> None:
    """The rows of a key alone, through `Live`: gaps filled, scored and alarms told as there."""
    sentences = same_as_alone(folder, folder / "whole", "make", ["pump 0", "pump 1", "pump 2"])
    for words in ("flow: no value since row 31; it seems dead.", "heat: stuck at -12.7625 since"):
        assert any(text.startswith(words) for text in sentences)
    same_as_alone(folder, folder / "whole", "make", [f"pump {KEYS - 1}"])


def same_as_alone(folder: Path, out: Path, make: str, keys: list[str]) -> set[str]:
    """Compare some streams with `Live`; returns the sentences of their alarms."""
    lines = [json.loads(line) for line in output(out)]
    assert len({line["key"] for line in lines}) == KEYS
    header, *rows = (folder / "plant.csv").read_text().splitlines()
    cheap, sentences = importlib.import_module("cheap_fleet"), set()
    for key in keys:
        path = folder / "alone.csv"
        path.write_text("\n".join([header, *(r for r in rows if f",{key}," in r)]) + "\n")
        alone = list(read(path, columns=["flow", "heat"]))
        live = Live(["flow", "heat"], learner=getattr(cheap, make)(2, 0))
        found = live.learn_many(np.array([row.y for row in alone]), dt=[r.dt for r in alone])
        mine = [line for line in lines if line["key"] == key]
        assert [line["row"] for line in mine] == list(range(1, len(alone) + 1))
        told = np.array([[v["flow.mean"], v["heat.high"], v["log_score"]] for v in mine], float)
        expected = np.stack([found.mean[:, 0], found.high[:, 1], found.log_score], 1)
        np.testing.assert_allclose(told, expected, rtol=1e-8)
        assert [tuple(line["alarms"]) for line in mine] == found.alarms
        sentences |= {sentence for alarms in found.alarms for sentence in alarms}
    return sentences


@pytest.mark.usefixtures("small")
def test_columns_may_be_standardised(folder: Path, tmp_path: Path) -> None:
    """Each stream by units of its own, which are written and read with it."""
    out = tmp_path / "run"
    begin(folder / "plant.csv", out, 1, model=STANDARD)
    leave_often(out, 0, 5, drop=0.5, model=STANDARD)
    keys = ["pump 0", "pump 2", f"pump {KEYS - 1}"]
    assert same_as_alone(folder, out, "standard", keys)
    ahead = OpenedFleet(out, STANDARD).stream("pump 0").forecast([None] * 2, 0.9)
    assert ahead.shape == (2, 2, 3) and np.isfinite(ahead).all()
    assert abs(ahead[0, 0, 0]) > 50.0  # in the units of the data: it had jumped by a hundred


def test_blocks_and_records_are_read_alike(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plain rows by the thousand, or all of them one by one: the same bytes."""
    monkeypatch.setattr(keyed, "suits", lambda *_: False)
    begin(folder / "plant.csv", tmp_path / "run", 1)
    finish(tmp_path / "run", 1)
    assert output(tmp_path / "run") == output(folder / "whole")


@pytest.mark.usefixtures("small")
def test_tables_are_read_alike(folder: Path, tmp_path: Path) -> None:
    """A Parquet file with dates and numbers, by two shards, one of which stops and goes on."""
    table = tmp_path / "plant.parquet"
    polars.read_csv(folder / "plant.csv", try_parse_dates=True).write_parquet(table)
    begin(table, tmp_path / "run", 2)
    shard = Shard(tmp_path / "run", 1, MODEL)
    for _ in zip(range(2), shard.run(), strict=False):
        pass
    shard.save()
    shard.close()
    finish(tmp_path / "run", 2)
    assert output(tmp_path / "run") == output(folder / "whole")


@pytest.mark.usefixtures("small")
def test_a_full_disk_costs_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint that the disk did not take, told late: the next one holds what it held."""
    begin(folder / "plant.csv", tmp_path / "run", 1)
    shard, full = Shard(tmp_path / "run", 0, MODEL), OSError(errno.ENOSPC, "No space left")
    told = shard.run()
    next(told)
    with monkeypatch.context() as patch:
        patch.setattr(Store, "sync", lambda _: (_ for _ in ()).throw(full))
        with pytest.raises(OSError, match="No space left"):
            shard.save()
    for _ in told:
        pass
    shard.close()
    assert (
        OpenedFleet(tmp_path / "run", MODEL).ranked()
        == OpenedFleet(folder / "whole", MODEL).ranked()
    )
    assert output(tmp_path / "run") == output(folder / "whole")


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("shards", [1, 2])
def test_left_at_any_batch_it_goes_on(folder: Path, tmp_path: Path, shards: int) -> None:
    """As if killed: nothing is saved; the next one starts from the last checkpoint.

    Some streams leave the memory now and then, and are read again.
    """
    out = tmp_path / "run"
    begin(folder / "plant.csv", out, shards)
    for number in range(shards):
        leave_often(out, number, shards, drop=0.5)
    assert output(out) == output(folder / "whole")


def test_few_streams_are_in_memory(folder: Path, tmp_path: Path) -> None:
    """About as many as are allowed, never all; what is told is the same, to the byte."""
    source, out, absent, streams = make_source(tmp_path, rows=12), tmp_path / "run", 0, 0
    begin(source, tmp_path / "all", 1)
    finish(tmp_path / "all", 1)
    begin(source, out, 1, resident=6)
    shard = Shard(out, 0, MODEL)
    for told in shard.run():
        assert len(shard.streams) < 8
        absent += "pump 0" not in shard.streams
        streams = told.streams
    shard.close()
    assert absent > 4 and streams == 8
    assert output(out) == output(tmp_path / "all")
    ranked, whole = (OpenedFleet(p, MODEL).ranked() for p in (out, tmp_path / "all"))
    assert ranked == whole


@pytest.mark.usefixtures("small")
def test_a_table_is_written_once(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parquet by a shard that met no trouble, and by two that are left: the same table."""
    monkeypatch.setattr(output_module, "PART", 150)  # so that some parts come before checkpoints
    tables = []
    for name, shards in (("quiet", 1), ("left", 2)):
        begin(folder / "plant.csv", tmp_path / name, shards, form="parquet")
        for number in range(shards):
            leave_often(tmp_path / name, number, 7) if shards > 1 else finish(tmp_path / name, 1)
        found = polars.read_parquet(tmp_path / name / "estimates-*/*.parquet")
        tables.append(found.sort("key", "row"))
    assert len(list((tmp_path / "left").glob("estimates-*/*"))) > 4
    assert tables[0].equals(tables[1])
    lines = [json.loads(line) for line in output(folder / "whole")]
    assert tables[0].columns == list(lines[0])
    assert tables[0]["time"].dtype == polars.Datetime("us")
    again = list(lines_of(tmp_path / "left", "parquet", ["pump 3"]))
    again.sort(key=lambda line: line["row"])
    for mine, line in zip(again, (v for v in lines if v["key"] == "pump 3"), strict=True):
        for name, value in line.items():
            told = float(f"{mine[name]:.9g}") if isinstance(mine[name], float) else mine[name]
            assert told == value, name


@pytest.mark.usefixtures("small")
def test_shards_may_become_more_or_fewer(folder: Path, tmp_path: Path) -> None:
    """In the midst of the source, with shards that are not equally far."""
    out = tmp_path / "run"
    fleet = begin(folder / "plant.csv", out, 2)
    for number, batches in ((0, 2), (1, 4)):
        shard = Shard(out, number, MODEL)
        for _ in zip(range(batches), shard.run(), strict=False):
            pass
        shard.save()
        shard.close()

    def onward(place: Any) -> Any:
        for number in range(2):
            shard = Shard(out, number, MODEL)
            yield from shard.run(place)
            shard.close()

    fleet = reshard(str(out), fleet, 3, onward)
    assert fleet.shards == 3
    finish(out, 3)
    assert output(out) == output(folder / "whole")
    ranked, whole = (OpenedFleet(p, MODEL).ranked() for p in (out, folder / "whole"))
    assert ranked == whole


def test_one_shard_more_takes_its_share() -> None:
    """And no other key moves."""
    keys = [f"meter-{i}" for i in range(2000)]
    before, after = ([owner(key, n) for key in keys] for n in (4, 5))
    moved = [b for a, b in zip(before, after, strict=True) if a != b]
    assert set(moved) == {4}
    # a fifth of them, within five standard errors
    assert abs(len(moved) - 400) < 5 * (2000 * 0.2 * 0.8) ** 0.5


def test_bad_rows_are_told_and_kept(folder: Path, tmp_path: Path) -> None:
    """No key, no number, the same time twice, too few cells."""
    text = (folder / "plant.csv").read_text()
    bad = [
        "2026-01-06T01:00:00,,1,2",
        "2026-01-06T01:00:00,pump 0,broken,2",
        "2026-01-06T01:00:00,pump 0,1,2",
        "2026-01-06T02:00:00,pump 1",
    ]
    source, out = tmp_path / "bad.csv", tmp_path / "run"
    source.write_text(text + "\n".join(bad) + "\n")
    begin(source, out, 1, bad="missing")
    finish(out, 1)
    opened = OpenedFleet(out, MODEL)
    assert opened.counts.bad == {"no_key": 1, "text": 1, "repeated": 1, "ragged": 1}
    assert len((out / "rejected-0-0.jsonl").read_text().splitlines()) == 4
    assert "1 row without a key; the first: " in opened.counts.describe()[0]
    strict = tmp_path / "strict"
    begin(source, strict, 1)
    with pytest.raises(DataError, match=r"column 'sensor': got nothing, expected a key"):
        finish(strict, 1)


def test_any_text_may_be_a_key(folder: Path, tmp_path: Path) -> None:
    """Paths, quotes, line ends, code for pages; every row is told of or left out in words."""
    keys = [
        "../../x",
        'a"b',
        "two\nlines",
        "x" * 9000,
        "nai\u0308ve",
        "<script>",
        "%s",
        "nan",
        "\x1b[1m",
    ]
    source, out = tmp_path / "keys.jsonl", tmp_path / "run"
    rows = [(t, key) for t in range(3) for key in (*keys, "", " nan ", None)]
    lines = [
        {"time": f"2026-01-0{t + 1}", "sensor": key, "flow": t, "heat": 1.5} for t, key in rows
    ]
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    begin(source, out, 1, bad="skip")
    finish(out, 1)
    told = [json.loads(line)["key"] for line in output(out)]
    assert sorted(told) == sorted(3 * keys)
    opened = OpenedFleet(out, MODEL)
    assert opened.counts.bad == {"no_key": 6, "repeated": 3}
    assert len((out / "rejected-0-0.jsonl").read_text().splitlines()) == 9
    page = write_pages(opened, len(keys)).read_text()
    assert "<script>" not in page.partition("<h2")[2].replace("<script src", "")
    assert len(list((out / "streams").iterdir())) == len(keys)
    assert {path.name for path in tmp_path.iterdir()} == {"keys.jsonl", "run"}


def test_a_damaged_checkpoint_gives_way_to_the_one_before(folder: Path, tmp_path: Path) -> None:
    """And with both lost it is refused in words."""
    out = tmp_path / "run"
    begin(folder / "plant.csv", out, 1)
    finish(out, 1)
    segments = sorted((out / "shard-0-0").glob("segment-*"))
    segments[-1].write_bytes(segments[-1].read_bytes()[:-1])
    finish(out, 1)
    assert output(out) == output(folder / "whole")
    for path in (out / "shard-0-0").glob("segment-*"):
        path.write_bytes(b"")
    with pytest.raises(ValueError, match="damaged or cut short"):
        Shard(out, 0, MODEL)


def test_questions_are_answered(folder: Path) -> None:
    """Ranks, a forecast, and a key that is not there."""
    opened = OpenedFleet(folder / "whole", MODEL)
    ranked = opened.ranked()
    assert len(ranked) == KEYS and {"key", "failure", "coverage"} <= ranked[0].keys()
    assert {row["key"] for row in ranked if row["columns"] < 2} == {"pump 3"}
    assert next(row for row in ranked if row["key"] == "pump 2")["episodes"] == 1
    for row in ranked:  # counted as by a run, from the lines of the stream
        lines = list(lines_of(folder / "whole", "jsonl", [row["key"]]))
        raised: dict[str, list[int]] = {}
        for line in sorted(lines, key=lambda line: line["row"]):
            for sentence in line["alarms"]:
                raised.setdefault(sentence, []).append(line["row"])
        assert row["episodes"] == len(episodes(raised))
    assert opened.sentences()[-1].endswith("in some of the columns: 1.")
    stream = opened.stream("pump 0")
    assert stream.forecast([None] * 3, 0.9).shape == (3, 2, 3)
    with pytest.raises(Refusal, match=r"did you mean 'pump 0'"):
        opened.stream("pump0")
    with pytest.raises(Refusal, match=r"expected fleet\.json"):
        OpenedFleet(folder)
