"""The documentation is executed, and what it or the sources point to is there."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
PAGES = sorted((ROOT / "docs").rglob("*.md")) + sorted(ROOT.glob("*.md"))
THEORY = ROOT / "docs" / "theory"

PYTHON = re.compile(r"^```python\n(.*?)^```", re.S | re.M)
FENCED = re.compile(r"^```.*?^```", re.S | re.M)
CODE = re.compile(r"`[^`\n]+`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.M)
UNIT = re.compile(r"/etc/systemd/system/([\w-]+\.service)`:\n\n((?:    .*\n|\n)+)")
PAGE = re.compile(r"docs/[\w/.-]+\.md")
SOURCE = re.compile(r"`((?:[\w-]+/)+\w+\.py)`")
TAG = re.compile(r"\\tag\{([A-Z]\d+)\}")
ROW = re.compile(r"^\| ([AB]\d+) \|", re.M)
LABEL = r"[ABCDEFINRSW]\d{1,2}"
CITATION = re.compile(rf"\(({LABEL}(?:(?:, | and | to |-){LABEL})*)\)|errata ({LABEL})")
BRACKETS = [(r"\{", r"\}"), (r"\\lbrace\b", r"\\rbrace\b"), (r"\\left\b", r"\\right\b")]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def script(page: Path) -> str:
    """The python blocks of a page, each on its own lines: tracebacks then name the page's lines."""
    text = page.read_text()
    lines = [""] * text.count("\n")
    for block in PYTHON.finditer(text):
        first = text.count("\n", 0, block.start(1))
        for offset, line in enumerate(block[1].splitlines()):
            lines[first + offset] = line
    return "\n".join(lines)


def prose(page: Path) -> str:
    """A page without its code, which may contain anything."""
    return CODE.sub("", FENCED.sub("", page.read_text()))


def slugs(page: Path) -> set[str]:
    """Anchors as GitHub derives them from headings."""
    headings = HEADING.findall(FENCED.sub("", page.read_text()))
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


def citations(text: str) -> Iterator[str]:
    """Labels cited as (W3), (R11, R12), (F4 to F6) or errata A5."""
    for match in CITATION.finditer(text):
        yield from re.findall(LABEL, match[0])


def tags() -> list[str]:
    return [tag for page in sorted(THEORY.glob("*.md")) for tag in TAG.findall(page.read_text())]


def points() -> list[str]:
    return ROW.findall((THEORY / "corrections.md").read_text())


RUNNABLE = [
    page
    for page in [*sorted((ROOT / "docs").glob("*/*.md")), ROOT / "README.md"]
    if PYTHON.search(page.read_text())
]
TUTORIALS = [page for page in RUNNABLE if page.parent.name == "tutorials"]
QUICK = [page for page in RUNNABLE if page not in TUTORIALS]


def test_there_are_tutorials_and_guides() -> None:
    folders = {page.parent.name for page in RUNNABLE}
    assert {"tutorials", "guides"} <= folders


def test_every_page_is_in_the_contents() -> None:
    listed = set(re.findall(r"^\s+- ([\w/.-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M))
    assert listed == {
        str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")
    }


def test_every_public_room_has_a_page() -> None:
    rooms = re.findall(
        r"^    from rmcvi import (\w+) as",
        (ROOT / "src" / "rmcvi" / "__init__.py").read_text(),
        re.M,
    )
    assert rooms
    inside = {"app": ["app.sources", "app.report"], "lab": ["lab.compare"]}
    for room in [inner for name in rooms for inner in inside.get(name, [name])]:
        page = ROOT / "docs" / "reference" / f"{room.split('.')[-1]}.md"
        assert f"\n::: rmcvi.{room}\n" in page.read_text()


ALL_PAGES = """
import json, os, runpy, sys, traceback

raised = {}
for file in sys.argv[1:]:
    os.chdir(os.path.dirname(file))
    try:
        runpy.run_path(file, run_name="__main__")
    except Exception:
        raised[file] = traceback.format_exc()
print("\\n" + json.dumps(raised))
"""


@cache
def raised(*pages: Path) -> dict[Path, str | None]:
    """What each page raised, as a reader would see it: default JAX, no hooks, warnings as errors.

    One process for all of them, a folder and a module for each.
    """
    with TemporaryDirectory() as folder:
        files = {page: Path(folder) / page.stem / f"{page.stem}.py" for page in pages}
        for page, file in files.items():
            file.parent.mkdir()
            file.write_text(script(page))
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", ALL_PAGES, *map(str, files.values())],
            env=environment | {"MPLBACKEND": "Agg"},
            capture_output=True,
            text=True,
            timeout=1200,
        )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    told = json.loads(done.stdout.splitlines()[-1])
    return {page: told.get(str(file)) for page, file in files.items()}


@pytest.mark.slow
@pytest.mark.parametrize("page", QUICK, ids=name)
def test_python_blocks_run(page: Path) -> None:
    found = raised(*QUICK)[page]
    assert found is None, f"{name(page)}\n{found}"


@pytest.mark.long
@pytest.mark.parametrize("page", TUTORIALS, ids=name)
def test_tutorials_run(page: Path) -> None:
    found = raised(page)[page]
    assert found is None, f"{name(page)}\n{found}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_relative_links_resolve(page: Path) -> None:
    for link in LINK.findall(prose(page)):
        if re.match(r"\w+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{name(page)}: {link}"
        assert not anchor or anchor in slugs(target), f"{name(page)}: no heading for {link}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_named_source_files_exist(page: Path) -> None:
    """Paths in code spans are relative to the repository or to the package."""
    for path in SOURCE.findall(FENCED.sub("", page.read_text())):
        found = [base / path for base in (ROOT, ROOT / "src" / "rmcvi")]
        assert any(file.exists() for file in found), f"{name(page)}: {path}"


def test_equation_numbers_are_unique() -> None:
    numbers = tags()
    assert numbers and len(numbers) == len(set(numbers))
    assert len(points()) == len(set(points())) == 26


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=name)
def test_pages_cite_numbers_that_exist(page: Path) -> None:
    assert set(citations(prose(page))) <= {*tags(), *points()}


@pytest.mark.parametrize("page", sorted(THEORY.glob("*.md")), ids=name)
def test_mathematics_is_balanced(page: Path) -> None:
    """Every brace is closed, and no formula holds what Markdown would take for its own."""
    displays = re.findall(r"^```math\n(.*?)^```", page.read_text(), re.S | re.M)
    inline = re.findall(r"\$([^$]+)\$", prose(page))
    for formula in [*displays, *inline]:
        for left, right in BRACKETS:
            opened, closed = len(re.findall(left, formula)), len(re.findall(right, formula))
            assert opened == closed, f"{name(page)}: {formula}"
    for formula in inline:
        assert not re.search(r"[})\]]_\w|\||\\[,;!{}]", formula), f"{name(page)}: {formula}"


@pytest.mark.parametrize("source", SOURCES, ids=name)
def test_sources_cite_what_exists(source: Path) -> None:
    text = source.read_text()
    for page in PAGE.findall(text):
        assert (ROOT / page).exists(), f"{name(source)}: {page}"
    cited = set(citations(text))
    assert cited <= {*tags(), *points()}, f"{name(source)}: {cited - {*tags(), *points()}}"


def test_promises_name_tests_that_exist() -> None:
    """A file without a folder lies beside the one named before it, a test in that file."""
    page, file, count = (ROOT / "docs" / "promises.md").read_text(), ROOT / "tests", 0
    for name in re.findall(r"`((?:tests/|test_)[\w/]+\.py(?:::\w+)?|::test_\w+)`", page):
        path, _, test = name.partition("::")
        if path:
            file = ROOT / path if "/" in path else file.parent / path
        assert file.is_file(), name
        assert f"def {test}(" in file.read_text() or not test, name
        count += 1
    assert count > 60


def test_units_are_taken_by_systemd(tmp_path: Path) -> None:
    """All but the program, which is not installed there, as `systemd-analyze` reads them."""
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("Debian's systemd is not installed")
    found = {n: text for page in PAGES for n, text in UNIT.findall(page.read_text())}
    assert sorted(found) == ["rmcvi-air.service", "rmcvi-plant.service"]
    for unit, text in found.items():
        lines = [line.removeprefix("    ") for line in text.splitlines()]
        whole = "\n".join(lines).replace("/opt/rmcvi/bin/rmcvi", "/bin/true") + "\n"
        (tmp_path / unit).write_text(whole)
        words = [program, "verify", str(tmp_path / unit)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60.0)
        assert (done.returncode, done.stderr) == (0, "")
