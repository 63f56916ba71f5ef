"""Resumed = uninterrupted, to the bit; every damaged file and every misfit is told apart."""

import errno
import json
import os
import resource
import signal
import time
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
import optax
import pytest

import rmcvi
from rmcvi.baselines import Persistence
from rmcvi.learners import migrations
from rmcvi.learners.checkpoint import CheckpointError, load, save
from tests.learners._files import bits, contents, failing, refusal, sealed, start
from tests.learners._resumed import QUICK, observation, small_learner
from tests.learners._resumed import main as learn

STEPS, SAVED_AT = 9, 4


class Run(NamedTuple):
    learner: rmcvi.OnlineEstimator
    states: list[rmcvi.LearnerState]
    path: Path
    content: bytes


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """An uninterrupted run, saved in the middle."""
    learner = small_learner(**QUICK)
    states = [learner.init(jax.random.key(1))]
    for t in range(STEPS):
        states.append(learner.update(states[-1], observation(t))[0])
    path = tmp_path_factory.mktemp("run") / "run.ckpt"
    save(path, learner, states[SAVED_AT], {"offset": SAVED_AT, "mean": [0.1, None]})
    return Run(learner, states, path, path.read_bytes())


def test_round_trip(run: Run):
    state, extra = load(str(run.path), run.learner)
    assert bits(state) == bits(run.states[SAVED_AT])
    assert jax.tree.structure(state) == jax.tree.structure(run.states[SAVED_AT])
    assert state.key == run.states[SAVED_AT].key
    assert extra == {"offset": SAVED_AT, "mean": [0.1, None]}


def test_resumed_is_uninterrupted(run: Run):
    state, extra = load(run.path, run.learner)
    for t in range(extra["offset"], STEPS):
        state, _ = run.learner.update(state, observation(t))
        assert bits(state) == bits(run.states[t + 1])


def test_all_that_is_watched_is_kept(tmp_path: Path):
    """The states of every monitor too, from arbitrary values (Live's are learned and resumed)."""
    learner, rng = small_learner(), np.random.default_rng(0)

    def other(leaf: jax.Array) -> Any:
        inexact = jax.numpy.issubdtype(leaf.dtype, jax.numpy.inexact)
        return rng.normal(size=leaf.shape).astype(leaf.dtype) if inexact else leaf

    state = jax.tree.map(other, learner.init(jax.random.key(1)))
    save(tmp_path / "all", learner, state)
    assert bits(load(tmp_path / "all", learner)[0]) == bits(state)


def test_the_file_depends_on_the_state_alone(run: Run, tmp_path: Path):
    state, extra = load(run.path, run.learner)
    save(tmp_path / "again", small_learner(**QUICK), state, extra)
    assert (tmp_path / "again").read_bytes() == run.content


def test_the_file_is_readable_without_us(run: Run):
    first, header, _ = run.content.split(b"\n", 2)
    told = json.loads(header)
    assert first == b"rmcvi checkpoint 1 %012d %015d" % (len(header) + 1, len(run.content))
    assert told["rmcvi"] == rmcvi.__version__
    start = len(first) + len(header) + 2
    leaves = jax.tree.leaves(eqx.filter(run.states[SAVED_AT], eqx.is_inexact_array))
    rows = [row for row in told["leaves"] if row["dtype"] == "float64"]
    for row, leaf in zip(rows, leaves, strict=True):
        data = run.content[start + row["offset"] :][: row["length"]]
        stored = np.frombuffer(data, "<f8").reshape(row["shape"])
        np.testing.assert_array_equal(stored, np.asarray(leaf))


def test_other_kinds_of_key(run: Run, tmp_path: Path):
    state = run.learner.init(jax.random.key(1, impl="rbg"))
    save(tmp_path / "rbg", run.learner, state)
    loaded, extra = load(tmp_path / "rbg", run.learner)
    assert bits(loaded) == bits(state)
    assert extra == {}


@pytest.mark.parametrize("length", [1, 16, 17, 30, 48, 49, 1000, -500, -32, -1])
def test_truncated(run: Run, tmp_path: Path, length: int):
    path = tmp_path / "short"
    path.write_bytes(run.content[:length])
    size, first = path.stat().st_size, run.content.index(b"\n")
    expected = len(run.content) if size > first else "a first line and more"
    message = refusal(path, run.learner)
    assert f": truncated: got {size} bytes, expected {expected}. Restore it" in message


def test_one_flipped_bit(run: Run, tmp_path: Path):
    rng, scratch = np.random.default_rng(0), tmp_path / "file"
    told = [f"{scratch}: {what}" for what in ("damaged: checksum", "truncated", "not an rmcvi")]
    for place in [*range(60), *rng.integers(len(run.content), size=200)]:
        damaged = bytearray(run.content)
        damaged[place] ^= 1 << rng.integers(8)
        scratch.write_bytes(damaged)
        assert refusal(scratch, run.learner).startswith(tuple(told))


def test_flipped_bits_in_the_first_line_header_leaves_and_checksum(run: Run, tmp_path: Path):
    second = run.content.index(b"\n") + 1
    for place in (18, second - 1, second, second + 2000, len(run.content) - 100, -32, -1):
        damaged = bytearray(run.content)
        damaged[place] ^= 2
        (tmp_path / "file").write_bytes(damaged)
        message = refusal(tmp_path / "file", run.learner)
        assert f"damaged: checksum differs over its {len(damaged)} bytes" in message


def test_something_appended(run: Run, tmp_path: Path):
    (tmp_path / "long").write_bytes(run.content + b"\n")
    assert "damaged: checksum differs" in refusal(tmp_path / "long", run.learner)


@pytest.mark.parametrize("content", [b"t,y\n0,1.5\n", b"\x00" * 5000, b"\n", b"rmcvi chess\n"])
def test_foreign(run: Run, tmp_path: Path, content: bytes):
    path = tmp_path / "data.csv"
    path.write_bytes(content)
    assert "not an rmcvi checkpoint. Check the path" in refusal(path, run.learner)
    with pytest.raises(CheckpointError, match=r"so it is not overwritten\. Save under another"):
        save(path, run.learner, run.states[0])
    assert path.read_bytes() == content


def test_empty_missing_and_directory(run: Run, tmp_path: Path):
    (tmp_path / "empty").touch()
    assert "(the file is empty)" in refusal(tmp_path / "empty", run.learner)
    missing = refusal(tmp_path / "missing", run.learner)
    assert "cannot be read: No such file or directory. Check the path" in missing
    (tmp_path / "folder").mkdir()
    assert "cannot be read: Is a directory" in refusal(tmp_path / "folder", run.learner)
    with pytest.raises(OSError, match="folder"):
        save(tmp_path / "folder", run.learner, run.states[0])
    save(tmp_path / "empty", run.learner, run.states[0])
    assert bits(load(tmp_path / "empty", run.learner)[0]) == bits(run.states[0])
    assert {p.name for p in tmp_path.iterdir()} == {"empty", "folder"}


def test_newer_version(run: Run, tmp_path: Path):
    newer = run.content[:-32].replace(b"checkpoint 1 ", b"checkpoint 2 ", 1)
    (tmp_path / "newer").write_bytes(sealed(newer))
    message = refusal(tmp_path / "newer", run.learner)
    assert "written by format version 2, this is 1. Load it with the release" in message


def test_written_by_another_release(run: Run, tmp_path: Path):
    ours = f'"rmcvi": "{rmcvi.__version__}"'.encode()
    other = ours.replace(rmcvi.__version__.encode(), b"0" * len(rmcvi.__version__))
    (tmp_path / "other").write_bytes(sealed(run.content[:-32].replace(ours, other)))
    assert bits(load(tmp_path / "other", run.learner)[0]) == bits(run.states[SAVED_AT])
    message = refusal(tmp_path / "other", small_learner(particles=5, **QUICK))
    assert message.endswith(
        f"(rmcvi {'0' * len(rmcvi.__version__)} wrote it, this is {rmcvi.__version__})."
    )


@pytest.mark.parametrize(
    ("options", "entries"),
    [
        ({"particles": 5}, ["recursion.num_particles: file has 4, learner has 5"]),
        ({"window": 4}, ["recursion.window: file has 3, learner has 4"]),
        (
            {"particles": 5, "window": 4},
            [
                "recursion.num_particles: file has 4, learner has 5",
                "recursion.window: file has 3, learner has 4",
            ],
        ),
        (
            {"trainable": rmcvi.Trainable(model=False)},
            ["model.transition: file has float64[1] trained, learner has float64[1] frozen"],
        ),
        ({"optimiser": optax.sgd}, ["ScaleByAdamState, learner has EmptyState"]),
    ],
)
def test_other_configuration(run: Run, options: dict[str, Any], entries: list[str]):
    message = refusal(run.path, small_learner(**QUICK, **options))
    assert ": configuration differs: " in message
    assert message.endswith(
        "Build the learner as it was when the file was written, or start a new run elsewhere."
    )
    for entry in entries:
        assert entry in message
    if "particles" in options or "window" in options:
        assert message.count("learner has") == len(entries)


def test_other_width(run: Run):
    message = refusal(run.path, small_learner(hidden=5, **QUICK))
    assert (
        "family.cell.layers[0].weight: file has float64[4,10] trained, learner has float64[5,10]"
        in message
    )


def test_other_frozen_weights(run: Run, tmp_path: Path):
    frozen = rmcvi.Trainable(model=False)
    learner = small_learner(**QUICK, trainable=frozen)
    state = learner.init(jax.random.key(1))
    save(tmp_path / "frozen", learner, state)
    assert bits(load(tmp_path / "frozen", learner)[0]) == bits(state)
    message = refusal(tmp_path / "frozen", small_learner(**QUICK, trainable=frozen, transition=0.9))
    assert "model.transition: file has float64[1] frozen, sha256 " in message
    assert message.count("learner has") == 1


def test_trained_values_do_not_count(run: Run):
    state, _ = load(run.path, small_learner(transition=0.9, **QUICK))
    assert bits(state) == bits(run.states[SAVED_AT])


def test_other_precision(run: Run):
    with jax.enable_x64(False):
        message = refusal(run.path, small_learner(**QUICK))
    assert "configuration differs: precision: file has float64, learner has float32; " in message
    assert message.endswith("more. Set jax_enable_x64 as in the process that wrote the file.")


def test_wrong_calls(run: Run, tmp_path: Path):
    with pytest.raises(ValueError, match=r"^extra: .*, expected values that JSON can hold"):
        save(tmp_path / "x", run.learner, run.states[0], {"mean": np.zeros(2)})
    with pytest.raises(ValueError, match=r"^state: got one that the learner could not load: state"):
        save(tmp_path / "x", small_learner(particles=5, **QUICK), run.states[0])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_the_old_file_survives_a_failing_save(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
):
    path = tmp_path / "run.ckpt"
    path.write_bytes(run.content)
    with monkeypatch.context() as patch:
        patch.setattr(os, step, failing(errno.ENOSPC))
        with pytest.raises(OSError, match="No space left"):
            save(path, run.learner, run.states[-1])
    assert path.read_bytes() == run.content
    assert list(tmp_path.iterdir()) == [path]


def test_the_old_file_survives_a_full_disk(run: Run, tmp_path: Path):
    path = tmp_path / "run.ckpt"
    path.write_bytes(run.content)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(run.content) // 2, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            save(path, run.learner, run.states[-1])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == run.content
    assert list(tmp_path.iterdir()) == [path]


def test_stale_temporaries_are_cleaned_up(run: Run, tmp_path: Path):
    path, others = tmp_path / "run[1].ckpt", tmp_path / ".run1.ckpt.0123abcd.tmp"
    (tmp_path / ".run[1].ckpt.0123abcd.tmp").write_bytes(run.content[:100])
    others.touch()
    save(path, run.learner, run.states[0])
    assert set(tmp_path.iterdir()) == {path, others}


def test_a_link_is_followed(run: Run, tmp_path: Path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    save(tmp_path / "link", run.learner, run.states[0])
    assert (tmp_path / "link").is_symlink()
    assert bits(load(tmp_path / "file", run.learner)[0]) == bits(run.states[0])


@pytest.mark.slow
@pytest.mark.parametrize("kills", [1, pytest.param(5, marks=pytest.mark.long)])
def test_killed_processes_lose_nothing(tmp_path: Path, kills: int):
    """Processes are killed while they learn and save; the last file is the uninterrupted one's."""
    steps, rng = 300, np.random.default_rng(0)
    whole, path = tmp_path / "whole" / "run.ckpt", tmp_path / "killed" / "run.ckpt"
    whole.parent.mkdir()
    path.parent.mkdir()
    with jax.enable_x64(False):  # as in a process of its own
        learn(whole, steps)
    for _ in range(kills):
        before = contents(path.parent)
        process = start(path, steps)
        while process.poll() is None and contents(path.parent).get(path) == before.get(path):
            time.sleep(0.01)
        time.sleep(rng.uniform(0.0, 0.3))
        process.kill()
        assert process.wait() == -signal.SIGKILL
        header = json.loads(path.read_bytes().split(b"\n", 2)[1])
        assert 0 < header["extra"]["offset"] < steps
    with jax.enable_x64(False):
        learn(path, steps)
    assert path.read_bytes() == whole.read_bytes()
    assert list(path.parent.iterdir()) == [path]
    message = refusal(path, Persistence(2))
    assert "precision: file has float32, learner has float64" in message


class Before(eqx.Module):
    """A state as an older release called it."""

    level: jax.Array


class After(eqx.Module):
    """The same, renamed, its field as well."""

    mean: jax.Array


class Keeps(rmcvi.AbstractLearner):
    """A learner that only has a state."""

    dim_obs: int = eqx.field(static=True, default=1)
    dim_input: int = eqx.field(static=True, default=0)
    level: float = eqx.field(static=True, default=0.9)

    def init(self, key: Any) -> Any:
        del key
        return [After(jax.numpy.ones(1))]

    def step(self, state: Any, y: Any, inputs: Any) -> Any:
        raise NotImplementedError


class Kept(Keeps):
    """The same in an older release."""

    def init(self, key: Any) -> Any:
        del key
        return [Before(jax.numpy.ones(1))]


def test_renamed_classes_and_fields(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """An old file is read once migrations are registered, not before; a newer one never is."""
    path = tmp_path / "old"
    save(path, Kept(), [Before(jax.numpy.full(1, 3.0))])
    with pytest.raises(CheckpointError, match="file has Before, learner has After"):
        load(path, Keeps())
    now = migrations.SCHEMA
    registry = {
        ("Before", now): migrations.field_renamed("level", "mean"),
        ("Before", now + 1): migrations.renamed("After"),
    }
    monkeypatch.setattr(migrations, "MIGRATIONS", registry)
    monkeypatch.setattr(migrations, "SCHEMA", now + 2)
    (state,), _ = load(path, Keeps())
    assert isinstance(state, After) and float(state.mean[0]) == 3.0
    monkeypatch.setattr(migrations, "SCHEMA", now - 1)
    with pytest.raises(CheckpointError, match=f"written with schema {now}, this is {now - 1}"):
        load(path, Keeps())
