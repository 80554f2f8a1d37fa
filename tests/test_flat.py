"""A kernel in one piece: what is resolved, what stays, what is refused."""

import re

import pytest

import gemmlab as gl
from gemmlab import cli
from gemmlab.kernel import flat
from gemmlab.kernel.flat import value_of

MACROS = {
    "BM": "128", "HALF": "BM / 2", "SUM": "1 + 2", "LOOP": "LOOP + 1", "CALL": None, "EMPTY": "",
}  # fmt: skip


# ---- conditions ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("BM > 64 && HALF == 64", 1), ("SUM * 2", 5), ("LOOP", 1), ("NOTHING", 0), ("!BM", 0),
        ("!BM == 0", 1), ("!(BM > 64) || SUM != 3", 0), ("7 / 2", 3), ("10 - 4 - 3", 3),
        ("defined BM && !defined(NOTHING)", 1), ("defined EMPTY", 1), ("(1 || 0) && 0", 0),
        ("0 && 1 / 0", 0), ("__CUDA_ARCH__ >= 900", 1),
    ],
)  # fmt: skip
def test_an_expression_has_the_value_that_c_gives_it(expression, value):
    assert value_of(expression, {**MACROS, "__CUDA_ARCH__": "900"}) == value


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        *((text, "cannot be computed") for text in (
            "", "1 +", "(1", "1 2", "0 ? 2 : 3", "1 / 0", "08", "1.5", "'a'", "import os", "EMPTY",
            "* 3", "~0", "3u", "!((1))",
        )),
        ("CALL(1)", "CALL is a macro with parameters"),
        ("__CUDACC__", "only the compiler knows __CUDACC__"),
    ],
)  # fmt: skip
def test_an_invalid_expression_is_refused(expression, message):
    with pytest.raises(ValueError, match=message):
        value_of(expression, MACROS)


# ---- what is left of a text ----------------------------------------------------------------------


def left(text: str, **given: int) -> str:
    return flat.flat(text, given)


def test_a_setting_has_its_value_and_its_comment_where_they_were():
    text = """\
#ifndef BM
#define BM 128                                   // rows
#endif
#ifndef PAD
#define PAD 0
#endif
constexpr int SIZE = BM + PAD;
static_assert(SIZE > 0, "");
"""
    assert left(text, BM=64, PTXAS=3).splitlines()[:3] == [
        "#define BM 64                                    // rows",
        "#define PAD 0",
        "constexpr int SIZE = BM + PAD;",
    ]
    assert left(text + text, BM=8, PAD=12).count("#define PAD 12\n") == 1


def test_of_several_branches_only_the_true_one_stays():
    text = """\
#if KIND == 0
int zero;
#elif KIND == 1
#ifdef WIDE
int wide;
#else
int one;
#endif
#elif KIND < 3
int two;
#else
int more;  /* #if
#else */
#endif
const char* text = "#endif // no comment"; int last;
"""
    for kind, name in enumerate(("zero", "one", "two", "more")):
        declared = re.findall(r"int (\w+)", left(text, KIND=kind))
        assert declared == [name, "last"]
    assert "int wide" in left(text, KIND=1, WIDE=0) and "// no comment" in left(text)


def test_unused_definitions_are_removed_with_their_comments():
    text = """\
// ---- sums ----

// Of two.
__device__ float both(float a, float b) { return a + b; }

// ---- unused ----

// A pair.
struct Pair {
    int first;
};

// ---- kernel ----

constexpr int A = 1, B = 2;
constexpr int D = 4;

extern "C" __global__ void kernel(float* x) { x[B] = both(x[0], x[1]); }
"""
    assert (
        left(text)
        == """\
// ---- sums ----

// Of two.
__device__ float both(float a, float b) { return a + b; }

// ---- kernel ----

constexpr int A = 1, B = 2;

extern "C" __global__ void kernel(float* x) { x[B] = both(x[0], x[1]); }
"""
    )


# ---- headers -------------------------------------------------------------------------------------


@pytest.fixture
def headers(tmp_path, monkeypatch):
    monkeypatch.setattr(flat, "kernel_file", lambda name: tmp_path / name)
    monkeypatch.setattr(flat, "_first_rungs", dict)

    def write(**texts: str) -> None:
        for name, text in texts.items():
            (tmp_path / f"{name}.cuh").write_text(text)

    return write


def banner(name: str) -> str:
    return f"// ---- {name}.cuh ".ljust(100, "-")


def test_headers_stand_where_they_are_first_included(headers):
    headers(
        inner="// Inner.\n#pragma once\n\nint inner;\n",
        outer='// Outer.\n#pragma once\n\n#include "inner.cuh"\n\nint outer;\n',
        gone="// Gone.\n#pragma once\n\n__device__ int nobody() { return 0; }\n",
    )
    includes = "".join(f'#include "{name}.cuh"\n' for name in ("outer", "inner", "gone"))
    assert left(f"// Head.\n#include <mma.h>\n{includes}\nint own;\n") == "\n".join([
        "// Head.", "#include <mma.h>", "", banner("inner"), "// Inner.", "", "int inner;", "",
        banner("outer"), "// Outer.", "", "int outer;", "",
        "// ---- the text ".ljust(100, "-"), "int own;", "",
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("rung", "file", "since"),
    [("16_tma_wgmma", "mbarrier.cuh", "10"), ("17_warp_specialized", "tma.cuh", "16")],
)
def test_a_listing_says_since_when_a_reader_knows_a_header(rung, file, since):
    text = gl.load(rung).listing().text
    assert f"// ---- {file} (since {since}) -" in text
    assert f"// ---- {rung}.cu -" in text


def test_a_header_without_pragma_once_comes_each_time(headers):
    headers(part="int x[N];\n")
    text = '#define N 1\n#include "part.cuh"\n#undef N\n#define N 2\n#include "part.cuh"\n'
    assert left(text).count("int x[N];") == 2


# ---- where it is shown ---------------------------------------------------------------------------


def test_a_kernel_lists_itself_for_its_settings():
    kernel = gl.load("03_shared_memory", TILE=16)
    shown = kernel.listing()
    assert "#define TILE 16 " in shown.text and "#ifndef" not in shown.text
    assert shown.numbers[-1] == shown.text.count("\n") + 1 and "<pre" in shown._repr_html_()
    assert kernel.source().text.splitlines()[:6] == shown.text.splitlines()[:6]
    for old, new in (("__CUDA_ARCH__ >= 900", "sm_90a"), ("__CUDA_ARCH__ < 900", "sm_80")):
        text = f"#if {old}\nint yes;\n#endif\n"
        assert flat.flat(text, {}, new) == "int yes;\n"


def test_the_command_prints_it_and_counts_lines(capsys):
    assert cli.main(["show", "03_shared_memory", "TILE=16"]) == 0
    shown, err = capsys.readouterr()
    assert shown == gl.load("03_shared_memory", TILE=16).listing().text + "\n"
    assert err == f"{shown.count(chr(10))} lines, {flat.counts(shown)[1]} of them code\n"
    assert cli.main(["show", "00_sm_clock"]) == 0 and "read_clocks" in capsys.readouterr().out


def test_lines_of_code_are_those_without_comments_and_blanks():
    assert flat.counts('// a\n\nint x;  // b\n/* c\n*/ int y;\nconst char* z = "//";\n') == (6, 3)
