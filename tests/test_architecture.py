"""The picture of the rooms is that of the imports, and every room is in the table."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def graph() -> ModuleType:
    spec = importlib.util.spec_from_file_location("graph", ROOT / "docs" / "_site" / "graph.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_picture_is_that_of_the_imports(graph: ModuleType) -> None:
    drawn = graph.svg(graph.essential(graph.imports()))
    assert graph.PICTURE.read_text() == drawn, "imports have changed: python docs/_site/graph.py"


def test_every_room_is_in_the_table(graph: ModuleType) -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    told = set(re.findall(r"^\| `rmcvi\.([\w.]+)` \|", page, re.M))
    assert told == {name for edge in graph.imports() for name in edge}


def test_only_what_a_longer_way_says_is_left_out(graph: ModuleType) -> None:
    edges = {("a", "b"), ("b", "c"), ("a", "c"), ("c", "d"), ("a", "d"), ("e", "d")}
    assert graph.essential(edges) == {("a", "b"), ("b", "c"), ("c", "d"), ("e", "d")}
    assert graph.levels(edges) == {"a": 3, "b": 2, "c": 1, "d": 0, "e": 1}
