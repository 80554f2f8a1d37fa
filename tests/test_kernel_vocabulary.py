"""One vocabulary in kernels/, one wrapper for one instruction, headers that stand on their own."""

import re
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

import pytest

from gemmlab.folders import kernel_file, kernel_files
from gemmlab.kernel.compiler import require_compiles
from gemmlab.kernel.flat import PIECE, bare
from gemmlab.ladder import OTHERS, RUNGS
from ptxsim.architectures import SIMULATED_ARCH
from tools import headers

HEADERS = [path for path in kernel_files() if path.suffix == ".cuh"]
TEXTS = {path: path.read_text(encoding="utf-8") for path in kernel_files()}
PAGE = headers.PAGE.read_text(encoding="utf-8")
BY_NUMBER = {rung.name[:2]: rung for rung in (*OTHERS, *RUNGS)}
PTX = re.compile(
    r"\b(?:cp\.async|mbarrier|wgmma|mma\.sync|griddepcontrol|barrier\.cluster|bar\.sync|fence|mapa"
    r"|setmaxnreg|stmatrix|ldmatrix|prefetch|atom|red|ld\.acquire|st\.release)\b[\w.:]*"
)


def name_of(path: Path) -> str:
    return path.name


@cache
def users() -> dict[str, str]:
    """Of each header, as the table says it."""
    return {path.name: who for path, _, who in headers.rows()}


# ---- names ---------------------------------------------------------------------------------------


def identifiers(path: Path) -> set[str]:
    return set(re.findall(r"[A-Za-z_]\w*", bare(TEXTS[path])))


def test_a_parameter_hides_no_struct_and_no_macro():
    """Templates' parameters: those of functions are lower case."""
    hidden = {}
    for path, text in TEXTS.items():
        code = bare(text)
        names = re.findall(r"(?:int|bool|class|typename) (\w+)\s*[,>=]", " ".join(
            re.findall(r"template\s*<[^{;(]*?>", code)
        ))  # fmt: skip
        defined = set()
        for name in {path.name, *headers.included(path)}:
            other = bare(next(text for path, text in TEXTS.items() if path.name == name))
            defined |= set(re.findall(r"^\s*#\s*define\s+(\w+)", other, re.M))
            defined |= set(re.findall(r"^struct\s+(\w+)", other, re.M))
        if both := set(names) & defined:
            hidden[path.name] = sorted(both)
    assert hidden == {}


def test_the_table_has_each_word_once():
    table = PAGE.partition("## Vocabulary")[2].partition("\n## ")[0]
    words = [
        word
        for row in re.findall(r"^\| (`.*?) \| \S", table, re.M)
        for word in re.findall(r"`([^`]+)`", row)
    ]
    assert len(words) > 30 and Counter(words).most_common(1)[0][1] == 1
    used = set().union(*map(identifiers, TEXTS))
    for word in words:
        stem = word.removesuffix("…").lower().rstrip("_")
        assert any(stem in name.lower() for name in used) or stem in " ".join(TEXTS.values()), word


# ---- headers -------------------------------------------------------------------------------------


def test_the_table_of_headers_is_that_of_the_files():
    assert headers.renewed(PAGE) == PAGE, "run `python -m tools.headers`"
    assert all(what.endswith(".") for _, what, _ in headers.rows())


def test_users_are_those_that_include_it():
    texts = {path.name: TEXTS[path] for path in TEXTS}
    for rung in RUNGS:
        for name in re.findall(r'#include "(.+?)"', texts[rung.path.name]):
            assert rung.name[:2] in users()[name].split(", ")
            for other in re.findall(r'#include "(.+?)"', texts[name]):
                assert rung.name[:2] in users()[other].split(", ")


def test_what_one_rung_alone_uses_is_in_its_folder():
    for path in HEADERS:
        if path.parent.name != "common":
            assert users()[path.name].startswith((path.parent.name[:2], "none")), path.name


# Parts of the files that include them, to be left out by a reader: they use what stands before.
SPLIT_OFF = {
    "tile_layouts.cuh", "tile_rows.cuh", "tma_epilogue.cuh", "tensor_epilogue.cuh",
    "join_by_lanes.cuh", "other_joins.cuh", "thin.cuh",
}  # fmt: skip


@pytest.mark.parametrize(
    "path", [path for path in HEADERS if path.name not in SPLIT_OFF], ids=name_of
)
def test_a_header_stands_on_its_own(path):
    """With the settings and constants of a rung that includes it."""
    assert "#pragma once" in TEXTS[path] and TEXTS[path].startswith("// ")
    numbers = [name for name in (users()[path.name][:2], path.parent.name[:2]) if name in BY_NUMBER]
    rung = BY_NUMBER[[*numbers, "10"][0]]
    sizes = re.findall(r'#include "(\w+_sizes\.cuh)"', TEXTS[rung.path])
    settings = TEXTS[rung.path] + "".join(TEXTS[kernel_file(name)] for name in sizes)
    constants = re.findall(r"^#define (\w+) (\d+)\b", settings, re.M)
    macros = dict(constants) | rung.defaults
    arch = rung.only_arch or SIMULATED_ARCH
    require_compiles(f'#include "{path.name}"\n', "kernel.cu", arch=arch, macros=macros)


def test_an_instruction_has_one_wrapper():
    where = defaultdict(set)
    for path in HEADERS:
        code = re.sub(r"^\s*#\s*include.*", "", TEXTS[path], flags=re.M)
        for piece in PIECE.finditer(code):
            for instruction in PTX.findall(piece["literal"] or ""):
                # Of these one for each size of elements, and for each division of registers.
                if not instruction.startswith(("wgmma.mma_async", "setmaxnreg")):
                    where[instruction].add(path.name)
    assert {name: sorted(files) for name, files in where.items() if len(files) > 1} == {}
