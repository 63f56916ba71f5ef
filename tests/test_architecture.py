"""The house: the picture of its imports, the table of its rooms, and rules that hold everywhere."""

import ast
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


SOURCES = sorted((ROOT / "src" / "rmcvi").rglob("*.py"))
LONG = {"learners/chunk.py"}
"""Files of a few lines more than 300, next to be split."""
SETTINGS = "its settings: keywords with defaults, documented one by one, of which a user sets few"
MANY_ARGUMENTS = {
    "OnlineEstimator": SETTINGS,
    "SeasonalLearner": SETTINGS,
    "RecursiveLeastSquares": SETTINGS,
    "OnlineLSTM": SETTINGS,
    "RMCVI": SETTINGS,
    "RecurrentFamily": SETTINGS,
    "NeuralGaussian": SETTINGS,
    "ChaoticRNN": SETTINGS,
    "LinearGaussian": "the eight matrices and vectors of the model",
    "train_offline": SETTINGS,
    "read": "what a person may know about a file, as in other libraries' readers",
}
"""Functions and constructors of more than seven arguments, and why."""


@pytest.fixture(scope="module")
def parsed() -> dict[str, ast.Module]:
    return {_name(path): ast.parse(path.read_text()) for path in SOURCES}


def _name(path: Path) -> str:
    return path.relative_to(ROOT / "src" / "rmcvi").as_posix()


def test_a_file_has_about_300_lines() -> None:
    long = {_name(path) for path in SOURCES if len(path.read_text().splitlines()) > 300}
    assert long <= LONG


def test_more_than_seven_arguments_are_an_object(parsed: dict[str, ast.Module]) -> None:
    found = set()
    for tree in parsed.values():
        inner = [(node, "") for node in tree.body]
        while inner:
            node, owner = inner.pop()
            inner += [(part, getattr(node, "name", "")) for part in getattr(node, "body", ())]
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                a = node.args
                names = {v.arg for v in (*a.posonlyargs, *a.args, *a.kwonlyargs)}
                if len(names - {"self", "cls"}) > 7:
                    found.add(owner if node.name == "__init__" else node.name)
    assert found == set(MANY_ARGUMENTS)


def test_nobody_asks_a_model_a_family_or_a_learner_for_its_class(
    parsed: dict[str, ast.Module],
) -> None:
    """But for `checks`, which refuses what is none, and the rooms of the classes themselves."""
    kinds = re.compile(r"(Model|Family|Learner|Gaussian|Tilted|Estimator)$")
    asked = [
        f"{name}:{node.lineno}: {ast.unparse(node)}"
        for name, tree in parsed.items()
        if name.split("/")[0] not in ("models", "families", "checks")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        if node.func.id == "isinstance" and kinds.search(ast.unparse(node.args[1]))
    ]
    assert asked == []
