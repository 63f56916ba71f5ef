"""A growing file; `sleep` is where the rest of the world happens."""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rmcvi.app.sources import DataError, Pace, Schema, read


class World:
    """Does one thing whenever the reader waits, and says stop when nothing is left to do."""

    def __init__(self, *actions: Callable[[], Any]):
        self.actions = list(actions)
        self.over = False

    def sleep(self, seconds: float) -> None:
        if self.actions:
            self.actions.pop(0)()
        else:
            self.over = True

    def stop(self) -> bool:
        return self.over


def _append(file: Path, text: str) -> Callable[[], None]:
    def act() -> None:
        with file.open("a") as stream:
            stream.write(text)

    return act


def _follow(file: Path, world: World, **options: Any) -> list[tuple[float | None, list[float]]]:
    stream = read(file, follow=True, pace=Pace(world.stop, world.sleep), **options)
    return [(row.time, row.y.tolist()) for row in stream]


def test_whole_lines_as_they_come(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("t,a\n1,1.")
    world = World(
        _append(file, "5\n2,2.5\n"),
        lambda: None,
        _append(file, "3,3"),
        _append(file, ".5\n4,4.5\n5,5"),
    )
    rows = _follow(file, world)
    assert rows == [(1.0, [1.5]), (2.0, [2.5]), (3.0, [3.5]), (4.0, [4.5])]


def test_an_empty_file_is_waited_for(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("")
    world = World(_append(file, "t,a\n"), _append(file, "1,1.5\n"), _append(file, "2,2.5\n"))
    assert _follow(file, world) == [(1.0, [1.5]), (2.0, [2.5])]
    with pytest.raises(DataError, match="no rows"):
        (tmp_path / "b.csv").write_text("")
        _follow(tmp_path / "b.csv", World())


def test_truncation_starts_again(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("t,a\n1,1.5\n2,2.5\n3,3.5\n4,")
    world = World(lambda: file.write_text("t,a\n5,5.5\n"), _append(file, "6,6.5\n"))
    rows = _follow(file, world, gaps="ignore")
    assert rows == [(1.0, [1.5]), (2.0, [2.5]), (3.0, [3.5]), (5.0, [5.5]), (6.0, [6.5])]


def test_rotation_takes_up_the_new_file(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("t,a\n1,1.5\n2,2.5\n")

    def rotate() -> None:
        _append(file, "3,3.5")()
        os.rename(file, tmp_path / "a.csv.1")

    world = World(rotate, lambda: file.write_text("t,a\n4,4.5\n5,5.5\n6,6.5\n7,7.5\n"))
    rows = _follow(file, world)
    assert rows == [(float(i), [i + 0.5]) for i in range(1, 8)]


def test_following_resumes(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("t,a\n1,1.5\n2,2.5\n3,")
    world = World()
    stream = read(file, follow=True, pace=Pace(world.stop, world.sleep))
    last = list(stream)[-1]
    _append(file, "3.5\n")()
    again = World(_append(file, "4,4.5\n"))
    schema = Schema.from_json(stream.schema.to_json())
    rows = _follow(file, again, schema=schema, after=last.position)
    assert rows == [(3.0, [3.5]), (4.0, [4.5])]


def _rows(first: int, last: int) -> str:
    return "".join(f"{i},{i}.5\n" for i in range(first, last))


def test_a_file_written_anew_beyond_our_place_is_another_one(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("t,a\n" + _rows(0, 5))
    world = World(lambda: file.write_text("t,a\n" + _rows(10, 20)))
    stream = read(file, follow=True, pace=Pace(world.stop, world.sleep), gaps="ignore")
    assert [row.time for row in stream] == [*range(5), *range(10, 20)]
    assert stream.counts.renewed == 1


def test_rotated_while_nobody_looked_starts_at_the_top(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("t,a\n" + _rows(0, 5))
    world = World()
    stream = read(file, follow=True, pace=Pace(world.stop, world.sleep))
    last = list(stream)[-1].position
    assert last is not None
    for rows in (_rows(5, 7), _rows(5, 30)):  # shorter, longer
        file.write_text("t,a\n" + rows)
        world = World()
        again = read(
            file, stream.schema, after=last, follow=True, pace=Pace(world.stop, world.sleep)
        )
        assert [row.time for row in again] == [float(line.split(",")[0]) for line in rows.split()]
        assert again.counts.renewed == 1
        assert "another file took its name" in " ".join(again.counts.describe())


@pytest.mark.parametrize("bad", ['5,"5.5\n', "5," + "5" * (1 << 20) + "\n"])
def test_one_bad_record_does_not_stop_a_service(tmp_path: Path, bad: str) -> None:
    file = tmp_path / "a.csv"
    file.write_text("t,a\n" + _rows(0, 5))
    world = World(_append(file, bad), _append(file, _rows(6, 60)), _append(file, _rows(60, 120)))
    options: dict[str, Any] = {"follow": True, "on_bad_row": "skip", "gaps": "dt"}
    stream = read(file, pace=Pace(world.stop, world.sleep), **options)
    rows = list(stream)
    assert [row.time for row in rows] == [*range(5), *range(6, 120)]
    assert stream.counts.bad == {"unreadable": 1} and stream.counts.skipped == 1
    (rejected,) = stream.rejected
    assert rejected.place == f"{file}, line 7" and bad.startswith(rejected.text)
    assert len(rejected.text) <= 500
    world = World()
    resumed = read(
        file, stream.schema, pace=Pace(world.stop, world.sleep), after=rows[7].position, **options
    )
    assert [row.time for row in resumed] == [row.time for row in rows[8:]]


def test_an_open_quote_at_the_end_is_waited_for(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("t,a,b\n1,1.5,x\n2,2.5,y\n" + '3,3.5,"z\n4,4.5')
    for follow in (True, False):
        world = World()
        stream = read(file, follow=follow, pace=Pace(world.stop, world.sleep))
        rows = list(stream)
        assert [row.time for row in rows] == [1.0, 2.0] and stream.counts.unfinished == 1
    _append(file, '"\n5,5.5,z\n')()
    rest = read(file, stream.schema, after=rows[-1].position, gaps="ignore")
    assert [row.time for row in rest] == [3.0, 5.0]


def test_a_writer_in_another_thread(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("t,a\n0,0.5\n1,1.5\n")
    begun, turn = threading.Event(), threading.Event()

    def write() -> None:
        begun.wait()
        with file.open("ab", buffering=0) as stream:
            for i in range(2, 40):
                for byte in f"{i},{i}.5\n".encode():
                    stream.write(bytes([byte]))
        turn.set()

    writer = threading.Thread(target=write)
    writer.start()

    def sleep(seconds: float) -> None:
        begun.set()
        turn.wait()

    rows = []
    stream = read(file, follow=True, pace=Pace(lambda: len(rows) == 40, sleep))
    for row in stream:
        rows.append(row.time)
    writer.join()
    assert rows == list(range(40))


def test_what_cannot_be_followed(tmp_path: Path) -> None:
    for source in (tmp_path, tmp_path / "a.parquet"):
        (tmp_path / "a.parquet").write_bytes(b"PAR1")
        with pytest.raises(DataError, match="cannot be followed"):
            read(source, follow=True)
    with pytest.raises(DataError, match="no such file"):
        read(tmp_path / "b.csv", follow=True)
