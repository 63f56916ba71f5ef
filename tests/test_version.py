"""The version stands in one place; nothing else says another one."""

import re
import tomllib
from pathlib import Path

import rmcvi
from rmcvi.version import __version__

ROOT = Path(__file__).parents[1]


def test_one_source() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["tool"]["hatch"]["version"]["path"] == "src/rmcvi/version.py"
    assert "version" in project["project"]["dynamic"] and "version" not in project["project"]
    assert rmcvi.__version__ == __version__


def test_the_citation_agrees() -> None:
    told = re.findall(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.M)
    assert told == [__version__]


def test_changes_begin_with_this_version() -> None:
    """By its first two numbers; a version in the making is not released."""
    newest = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.M)[0]
    number, _, rest = newest.partition(", ")
    assert __version__.split(".")[:2] == number.split(".")[:2]
    assert (rest == "unreleased") == ("dev" in __version__)
