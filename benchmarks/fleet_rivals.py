"""The same rows by `rmcvi fleet` and by what engines have for keyed state: run by hand.

    python benchmarks/fleet_rivals.py [--streams 20] [--short 100] [--long 2100] [WAY ..]

Ways: fleet, process (`rmcvi learn` for each stream), ray (Ray Data, `map_batches` by an actor that
holds a `Live` for each key), spark (`applyInPandasWithState` over files, the state a checkpoint of
`Live`, four micro-batches). Each way learns every stream twice, with `--short` and with `--long`
rows; the difference is what rows cost, the rest is the start. What counts is the processor time of
all processes that a way starts, daemons included, looked up ten times a second. Programs
are compiled in a first run that does not count. Needs ray, pandas and pyspark (with Java) beside
rmcvi; neither listens outside of this machine if it is run in `unshare --net` with loopback up.
"""

import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

import numpy as np

ADOPT = 36
"""Of prctl: who loses his parent becomes our child, daemons of engines included."""
BATCHES = 4
"""Files of a source: engines take one after the other."""
WAYS = ("fleet", "process", "ray", "spark")


def make_rows(folder: Path, streams: int, rows: int) -> None:
    """`part-*.csv` with all streams, `s*.csv` with one each."""
    rng, t = np.random.default_rng(0), np.arange(rows)
    values = 10 + 3 * np.sin(2 * np.pi * t / 24)[:, None] + rng.normal(size=(rows, streams))
    times = np.datetime_as_string(np.datetime64("2026-01-01") + t.astype("m8[h]"), unit="s")
    lines = [[f"{times[i]},s{k},{values[i, k]:.5f}" for k in range(streams)] for i in t]
    head = "time,sensor,level"
    for number, some in enumerate(np.array_split(t, BATCHES)):
        text = "\n".join([head, *(line for i in some for line in lines[i])])
        (folder / f"part-{number}.csv").write_text(text + "\n")
    whole = [head, *(line for row in lines for line in row)]
    (folder / "all.csv").write_text("\n".join(whole) + "\n")
    for k in range(streams):
        (folder / f"s{k}.csv").write_text("\n".join([head, *(row[k] for row in lines)]) + "\n")


def live() -> Any:
    """The learner of one stream, as in the fleet."""
    import rmcvi

    return rmcvi.Live(["level"], learner=rmcvi.SeasonalLearner(1, period=24, long_period=168))


def run_fleet(folder: Path, streams: int) -> None:
    """All streams by one shard."""
    words = ["--key", "sensor", "--columns", "level", "--season", "24,168", "--shards", "1"]
    command = ["-m", "rmcvi", "fleet", str(folder / "all.csv"), *words, "--out", str(folder / "f")]
    subprocess.run([sys.executable, *command, "--quiet"], check=True)


def run_process(folder: Path, streams: int) -> None:
    """A run for each stream."""
    for k in range(streams):
        words = ["--columns", "level", "--season", "24,168", "--out", str(folder / f"o{k}")]
        command = ["-m", "rmcvi", "learn", str(folder / f"s{k}.csv"), *words, "--quiet"]
        subprocess.run([sys.executable, *command], check=True)


def told_of(one: Any, key: str, values: Any) -> Any:
    """Learn some rows of a stream; what is told of them as a table."""
    import pandas

    found = one.learn_many(np.asarray(values, float).reshape(-1, 1))
    parts = {"mean": found.mean[:, 0], "low": found.low[:, 0], "high": found.high[:, 0]}
    return pandas.DataFrame({"sensor": key, **parts})


class Learn:
    """A stage of Ray Data: a learner for each key."""

    def __init__(self) -> None:
        self._of: dict[str, Any] = {}

    def __call__(self, batch: Any) -> Any:
        """Rows of any keys, in the order of the source."""
        import pandas

        told = []
        for key, rows in batch.groupby("sensor", sort=False):
            if key not in self._of:
                self._of[key] = live()
            told.append(told_of(self._of[key], key, rows["level"]))
        return pandas.concat(told)


def run_ray(folder: Path, streams: int) -> None:
    """Ray Data."""
    import ray

    ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    rows = ray.data.read_csv([str(folder / f"part-{n}.csv") for n in range(BATCHES)])
    size = len((folder / "part-0.csv").read_text().splitlines())
    actor = ray.data.ActorPoolStrategy(size=1)
    told = rows.map_batches(Learn, batch_format="pandas", batch_size=size, compute=actor)
    told.write_json(str(folder / "ray"))
    ray.shutdown()


def learn_in_spark(key: Any, batches: Any, state: Any) -> Any:
    """What Spark calls for each key and micro-batch."""
    one, path = live(), f"/dev/shm/{uuid.uuid4().hex}"
    try:
        if state.exists:
            Path(path).write_bytes(state.get[0])
            one.load(path)
        for rows in batches:
            yield told_of(one, key[0], rows.sort_values("time")["level"])
        one.save(path)
        state.update((Path(path).read_bytes(),))
    finally:
        Path(path).unlink(missing_ok=True)


def run_spark(folder: Path, streams: int) -> None:
    """Structured streaming, one core."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = spark.config("spark.sql.shuffle.partitions", "1").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    source = spark.readStream.schema("time string, sensor string, level double")
    rows = source.option("header", True).option("maxFilesPerTrigger", 1)
    rows = rows.csv(str(folder), pathGlobFilter="part-*.csv")
    out = "sensor string, mean double, low double, high double"
    told = rows.groupBy("sensor").applyInPandasWithState(
        learn_in_spark, out, "state binary", "append", "NoTimeout"
    )
    write = told.writeStream.format("json").option("checkpointLocation", str(folder / "check"))
    write.trigger(availableNow=True).start(str(folder / "spark")).awaitTermination()
    spark.stop()


def used(known: dict[str, float]) -> None:
    """Processor seconds so far of each process that comes from this one."""
    tick, parents, times = (
        os.sysconf("SC_CLK_TCK"),
        dict[int, int](),
        dict[int, tuple[str, float]](),
    )
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        number = int(path.name)
        parents[number] = int(words[1])
        times[number] = f"{number}-{words[19]}", (int(words[11]) + int(words[12])) / tick
    for number, (name, seconds) in times.items():
        above = parents[number]
        while above in parents and above != os.getpid():
            above = parents[above]
        if above == os.getpid():
            known[name] = seconds


def measure(way: str, streams: int, rows: int) -> float:
    """Processor seconds of a way."""
    with tempfile.TemporaryDirectory() as name:
        make_rows(Path(name), streams, rows)
        known = dict[str, float]()
        command = [sys.executable, __file__, "--inside", way, name, "--streams", str(streams)]
        with open(f"{name}/log", "w") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
            while process.poll() is None:
                used(known)
                time.sleep(0.1)
        if process.returncode:
            raise RuntimeError(Path(f"{name}/log").read_text()[-2000:])
    return sum(known.values())


def main() -> None:
    """Print a line of JSON for each way."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ways", nargs="*", default=[], help=f"of {', '.join(WAYS)}")
    parser.add_argument("--streams", type=int, default=20)
    parser.add_argument("--short", type=int, default=100)
    parser.add_argument("--long", type=int, default=2100)
    parser.add_argument("--inside", nargs=2, metavar=("WAY", "FOLDER"))
    given = parser.parse_args()
    if given.inside:
        way, folder = given.inside
        globals()[f"run_{way}"](Path(folder), given.streams)
        return
    ctypes.CDLL(None).prctl(ADOPT, 1, 0, 0, 0)
    for way in given.ways or WAYS:
        measure(way, 2, given.short)  # fills the cache of compiled programs
        short, long = (measure(way, given.streams, n) for n in (given.short, given.long))
        row = (long - short) / (given.streams * (given.long - given.short))
        start = short - row * given.streams * given.short
        told = {"way": way, "streams": given.streams, "row_us": row * 1e6, "start_s": start}
        told |= {"short_s": short, "long_s": long}
        print(json.dumps(told | {"load": os.getloadavg()[0]}), flush=True)


if __name__ == "__main__":
    main()
