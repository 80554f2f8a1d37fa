"""The packages of gemmlab import downwards only, the core no lesson; each says what it is for."""

import ast
import re
from pathlib import Path

import pytest
from test_package import vague_names

import gemmlab
from gemmlab.folders import NOTEBOOKS

HOUSE = Path(gemmlab.__file__).parent
# From the ground up: each may import from those before it, and from itself.
FLOORS = (
    "folders", "files", "processes", "_version", "report", "simulator", "cuda", "ladder", "kernel",
    "sass", "measure", "records", "loading",
    "products", "analysis", "plots", "notebook", "lessons", "cli", "__init__",
    "__main__",
)  # fmt: skip
# In the order of the ladder: each may import from those before it.
# By the numbers of their notebooks.
LESSONS = [path.stem.partition("_")[2] for path in sorted(NOTEBOOKS.glob("[0-9]*.ipynb"))]
MOST_MODULES = 18
FILES = sorted(HOUSE.rglob("*.py"))


def floor(module: str) -> str:
    """The package or module right below gemmlab that a dotted name belongs to."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def imports(path: Path, text: str) -> list[tuple[int, str]]:
    """Line and full name of what a file imports of gemmlab, wherever it does."""
    package = ["gemmlab", *path.relative_to(HOUSE).parts[:-1]]
    imported = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            imported += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            source = ".".join([*base, *filter(None, [node.module])])
            if source == "gemmlab":
                imported += [(node.lineno, f"gemmlab.{alias.name}") for alias in node.names]
            else:
                imported.append((node.lineno, source))
    return [(line, name) for line, name in imported if name.split(".")[0] == "gemmlab"]


def breaches(path: Path, text: str) -> list[str]:
    """What a file imports from above itself."""
    parts = path.relative_to(HOUSE).parts
    return [
        f"{'/'.join(parts)}:{line} imports {name}"
        for line, name in imports(path, text)
        if not may_import(parts, name)
    ]


def may_import(importer: tuple[str, ...], name: str) -> bool:
    """`importer`: the parts of its path. All may ask gemmlab.lessons which modules there are."""
    package, imported = importer[0].removesuffix(".py"), name.split(".")
    if imported[1:2] == ["lessons"]:
        if len(imported) == 2 or imported[2] == "modules":
            return True
        if package == "lessons" and len(importer) > 2:
            return LESSONS.index(imported[2]) <= LESSONS.index(importer[1])
        return False
    return FLOORS.index(floor(name)) <= FLOORS.index(package)


def test_every_entry_has_its_floor():
    entries = {entry.stem for entry in HOUSE.iterdir() if entry.suffix == ".py" or (entry / "__init__.py").is_file()}  # fmt: skip # noqa: E501
    assert entries == set(FLOORS)


@pytest.mark.parametrize("path", FILES, ids=lambda path: "/".join(path.relative_to(HOUSE).parts))
def test_imports_lead_downwards(path):
    assert breaches(path, path.read_text(encoding="utf-8")) == []


def test_the_package_needs_no_tools():
    """They are in no wheel."""
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"^\s*(from|import) tools\b", text, re.MULTILINE), path


@pytest.mark.parametrize("folder", ["gemmlab", "tests", "tools", "benchmarks"])
def test_names_say_what_they_hold(folder):
    texts = {path: path.read_text("utf-8") for path in (HOUSE.parent / folder).rglob("*.py")}
    assert {path.name: names for path in texts if (names := vague_names(texts[path]))} == {}


def test_an_import_from_above_is_found():
    kernel = HOUSE / "kernel" / "kernel.py"
    for text in (
        "from gemmlab.records import runs",
        "from gemmlab import plots",
        "from .. import plots",
        "from ..records.runs import replay",
        "def f():\n    import gemmlab.notebook.heat",
        "import gemmlab",
    ):
        assert len(breaches(kernel, text)) == 1, text
    for text in ("from . import trace", "from gemmlab.cuda import device", "import numpy"):
        assert breaches(kernel, text) == []


@pytest.mark.parametrize(
    "package", sorted({path.parent for path in FILES}), ids=lambda path: path.name
)
def test_a_package_says_what_it_is_for_and_is_not_crowded(package):
    doc = ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8")))
    assert doc and doc.splitlines()[0].endswith(".")
    modules = [path for path in package.glob("*.py") if path.name != "__init__.py"]
    assert len(modules) <= MOST_MODULES


def test_no_module_imports_itself_through_others():
    """At import: what is imported inside of functions may wait."""
    names = {".".join(("gemmlab", *path.relative_to(HOUSE).with_suffix("").parts)): path for path in FILES}  # fmt: skip # noqa: E501
    edges = {}
    for name, path in names.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        top = ast.Module(
            [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)], []
        )
        imported = set()
        for node in top.body:
            for _, source in imports(path, ast.unparse(node)):
                whole = [f"{source}.{alias.name}" for alias in getattr(node, "names", ())]
                imported |= {module for module in (*whole, source) if module in names}
        edges[name] = imported - {name}
    done, way = set(), []

    def visit(name: str) -> None:
        if name in way:
            raise AssertionError(" → ".join([*way[way.index(name) :], name]))
        if name in done:
            return
        way.append(name)
        for other in sorted(edges[name]):
            visit(other)
        way.pop()
        done.add(name)

    for name in names:
        visit(name)
