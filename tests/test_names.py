"""The names of the package: those that are found when they are used are those that are declared."""

import ast
from pathlib import Path

import rmcvi


def test_what_is_declared_is_found():
    tree = ast.parse(Path(str(rmcvi.__file__)).read_text())
    declared = {
        alias.asname: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module != "typing"
        for alias in node.names
    }
    rooms = {name for name, home in declared.items() if home == "rmcvi"}
    homes = {name: home for name, home in declared.items() if home != "rmcvi"}
    assert homes.pop("__version__") == "rmcvi.version"
    assert homes == rmcvi._HOMES
    assert rooms <= set(rmcvi._ROOMS)
    assert all(hasattr(rmcvi, str(name)) for name in declared)
    assert set(rmcvi._ROOMS) | set(homes) <= set(dir(rmcvi))
    assert not hasattr(rmcvi, "nonsense")
