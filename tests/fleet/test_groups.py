"""Streams of different columns: each is learned as in a fleet of its own kind, to the byte."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest

from rmcvi.app.fleet import shard as shard_module
from rmcvi.app.fleet.column_sets import column_sets
from rmcvi.app.fleet.opened import OpenedFleet
from rmcvi.app.sources import first_stream, read
from tests.fleet._fleets import CHEAP, MODEL, begin, finish, leave_often, output

ROWS, CHANGE = 60, 40
KINDS = {"pump": ("flow", "heat"), "meter": ("power",), "odd": ("power",)}
SETS = (("power",), ("flow", "heat"))
EVERY = ("flow", "heat", "power")


def write(path: Path, kinds: tuple[str, ...], columns: tuple[str, ...]) -> Path:
    """Three streams of each kind, of 'odd' one, which has flow as well after some rows."""
    rng, lines = np.random.default_rng(1), [",".join(("time", "sensor", *columns))]
    for t in range(ROWS):
        for kind, own in KINDS.items():
            for k in range(1 if kind == "odd" else 3):
                has = (*own, "flow") if kind == "odd" and t >= CHANGE else own
                values = {name: f"{rng.normal():.4f}" for name in EVERY}
                lost = rng.uniform() < 0.1 and t not in (0, CHANGE)
                cells = [values[n] if n in has and not lost else "" for n in columns]
                day = f"2026-01-{1 + t // 24:02d}T{t % 24:02d}:00:00"
                if kind in kinds:
                    lines.append(f"{day},{kind} {k},{','.join(cells)}")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """All kinds in one source, and a fleet that met no trouble."""
    folder = tmp_path_factory.mktemp("kinds")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(folder)
        (folder / "cheap_fleet.py").write_text(CHEAP)
        begin(write(folder / "all.csv", tuple(KINDS), EVERY), folder / "whole", 1, sets=SETS)
        finish(folder / "whole", 1)
        yield folder


def lines_of(out: Path, kind: str) -> list[Any]:
    return [line for line in output(out) if json.loads(line)["key"].startswith(kind)]


@pytest.mark.parametrize("kind", ["pump", "meter"])
def test_a_kind_is_learned_as_if_alone(folder: Path, tmp_path: Path, kind: str) -> None:
    """The lines of a fleet that has only these streams and columns."""
    source = write(tmp_path / "alone.csv", (kind,), KINDS[kind])
    begin(source, tmp_path / "run", 1)
    finish(tmp_path / "run", 1)
    assert len(lines_of(folder / "whole", kind)) == 3 * ROWS
    assert lines_of(folder / "whole", kind) == output(tmp_path / "run")


def test_a_stream_with_a_new_column_goes_over(folder: Path) -> None:
    """Nothing is lost, its rows are counted on, and it is said."""
    lines = [json.loads(line) for line in lines_of(folder / "whole", "odd")]
    assert [line["row"] for line in lines] == list(range(1, ROWS + 1))
    assert [("flow" in line, "heat" in line) for line in lines] == [
        (i >= CHANGE, i >= CHANGE) for i in range(ROWS)
    ]
    assert lines[-1]["flow.mean"] is not None and lines[-1]["heat.mean"] is None
    opened = OpenedFleet(folder / "whole", MODEL)
    assert opened.counts.bad == {"columns": 1}
    said = f"the first: 'odd 0' has flow, heat from row {CHANGE + 1} on"
    assert said in " ".join(opened.counts.describe())
    assert opened.stream("odd 0").rows == ROWS
    assert opened.stream("meter 1").forecast([None] * 2, 0.9).shape == (2, 1, 3)
    told = " ".join(opened.sentences())
    assert "power (3 streams); flow, heat (3 streams); flow, heat, power (1 streams)" in told
    assert "never had a value in some of the columns: 1." in told


@pytest.mark.parametrize("shards", [1, 2])
def test_cuts_and_shards_change_nothing(
    folder: Path, tmp_path: Path, shards: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Left at any batch; streams leave the memory, and come back to their group."""
    for name, value in (("ROWS", 30), ("STREAM_ROWS", 1), ("SHARE", 0.0)):
        monkeypatch.setattr(shard_module, name, value)
    begin(folder / "all.csv", tmp_path / "run", shards, sets=SETS)
    for number in range(shards):
        leave_often(tmp_path / "run", number, 7 + number, drop=0.5)
    assert output(tmp_path / "run") == output(folder / "whole")
    assert OpenedFleet(tmp_path / "run", MODEL).counts.bad == {"columns": 1}


def test_parquet_has_all_columns(folder: Path, tmp_path: Path) -> None:
    """Those of other kinds are null."""
    begin(folder / "all.csv", tmp_path / "run", 1, sets=SETS, form="parquet")
    finish(tmp_path / "run", 1)
    table = polars.read_parquet(tmp_path / "run" / "estimates-0-0" / "*.parquet")
    meters = table.filter(polars.col("key").str.starts_with("meter"))
    assert len(table) == 7 * ROWS and len(meters) == 3 * ROWS
    assert meters["flow.mean"].null_count() == 3 * ROWS
    power = [json.loads(line)["power.mean"] for line in lines_of(folder / "whole", "meter")]
    found = meters.sort("key", "row")["power.mean"].to_list()
    np.testing.assert_allclose(np.array(found, float), np.array(power, float), rtol=1e-8)


def test_kinds_are_found_in_the_first_rows(folder: Path, tmp_path: Path) -> None:
    """The smallest first; a kind of few streams is none, and columns of all are one."""

    def found(path: Path) -> list[list[int]]:
        stream = read(path, ignored=["sensor"])
        return column_sets(
            stream.source, first_stream(stream, "sensor").schema, "sensor", stream.rules
        )

    assert found(folder / "all.csv") == [[2], [0, 1], [0, 2], [0, 1, 2]]
    same = write(tmp_path / "same.csv", ("pump",), KINDS["pump"])
    assert found(same) == [[0, 1]]
    rows = [f"2026-01-01T00:00:00,{k},1.5,{'' if k == 7 else 2}" for k in range(30)]
    later = [row.replace("T00", "T01") for row in rows]
    (tmp_path / "few.csv").write_text("\n".join(["time,sensor,a,b", *rows, *later]) + "\n")
    assert found(tmp_path / "few.csv") == [[0, 1]]
