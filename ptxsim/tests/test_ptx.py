"""Reading PTX: scopes, source lines, liveness, and errors that say what was not understood."""

import numpy as np
import pytest

import ptxsim
from ptxsim import ptx
from ptxsim.compile import nvrtc
from ptxsim.ptx import PtxError, Register, Vector

HEADER = ".version 9.0\n.target sm_90a\n.address_size 64\n"


def parse(body: str, parameters: str = ".param .u64 k_param_0") -> ptx.Kernel:
    text = f"{HEADER}.visible .entry k(\n{parameters}\n)\n{{\n{body}\n}}\n"
    return ptx.parse(text + '.file 1 "/somewhere/mine.cu"\n.file 2 "/x/other.h"\n', "mine.cu")["k"]


def compiled(source: str, arch: str = "sm_90a", options: tuple = ()) -> ptx.Kernel:
    program = nvrtc.compile_source(source, "mine.cu", arch=arch, options=options)
    return ptx.parse(program.ptx, "mine.cu")["k"]


# --- scopes ---------------------------------------------------------------------------------------


def test_inline_assembly_declares_registers_and_labels_anew():
    """Twice the same block of assembly, with the same names, around a loop of its own."""
    asm = """asm volatile("{ .reg .pred p; .reg .s32 n; mov.s32 n, %1; mov.s32 %0, 0;"
        " again: add.s32 %0, %0, n; sub.s32 n, n, 1; setp.ne.s32 p, n, 0; @p bra again; }"
        : "=&r"(sum) : "r"(count));"""
    source = f"""extern "C" __global__ void k(int* out, int a, int b) {{
        int sum, count = a + threadIdx.x;
        {asm}
        out[threadIdx.x] = sum;
        count = b;
        {asm}
        out[threadIdx.x] += 1000 * sum;
    }}"""
    kernel = compiled(source)
    assert len({name for name in kernel.labels if name.startswith("again@")}) == 2
    assert len({name for name in kernel.registers if name.startswith("n@")}) == 2
    out = np.zeros(5, np.int32)
    assert not ptxsim.launch(source, "k", (1, 1, 1), (5, 1, 1), [out, 3, 4]).findings
    assert out.tolist() == [sum(range(3 + t + 1)) + 1000 * 10 for t in range(5)]


@pytest.mark.parametrize("space", [" ", "", "\n\t"])
def test_operands_may_follow_an_opcode_without_a_space(space):
    kernel = parse(f"""
        .reg .b32 a, b; .reg .b64 at; .reg .pred p;
        ld.global.v2.u32{space}{{a,b}},[at];
        @p ld.global.v2.u32{space}{{a,b}},[at];
        ret;""")
    for load in kernel.instructions[:2]:
        assert load.opcode == "ld.global.v2.u32"
        assert load.operands[0] == Vector((Register("a"), Register("b")))


def test_an_inner_name_hides_an_outer_one_until_its_brace():
    kernel = parse("""
        .reg .b32 a, b;
        mov.u32 a, 1;
        { .reg .b32 a; mov.u32 a, 2; mov.u32 b, a; }
        mov.u32 b, a;
        ret;""")
    outer, inner, from_inner, from_outer = kernel.instructions[:4]
    assert outer.operands[0] == from_outer.operands[1] == Register("a")
    assert inner.operands[0] == from_inner.operands[1] != Register("a")
    assert from_inner.operands[0] == from_outer.operands[0] == Register("b")


def test_a_label_may_stand_after_its_branch_and_at_the_end():
    kernel = parse("bra.uni end;\nret;\nend:", "")
    assert kernel.blocks[0].target == 2 and kernel.blocks[0].successors == ()


# --- lines ----------------------------------------------------------------------------------------

INLINED = """#line 1 "other.h"
__device__ float from_header(const float* p) { return p[7]; }
#line 2 "mine.cu"
__device__ float helper(const float* p)
{
    return p[3];
}
extern "C" __global__ void k(const float* in, float* out)
{
    float a = in[5];
    float b = helper(in);
    float c = from_header(in);
    out[0] = a + b + c;
}"""


def test_every_access_is_at_the_readers_line():
    kernel = compiled(INLINED)
    loads = [i for i in kernel.instructions if i.parts[:2] == ("ld", "global")]
    loads = {i.operands[1].offset: i.line for i in loads}
    stores = [i.line for i in kernel.instructions if i.name == "st"]
    # The own helper's line; for the header's function the line that calls it.
    assert loads[4 * 5] == 8 and loads[4 * 3] == 4 and loads[4 * 7] == 10
    assert stores == [11]


def test_line_0_and_foreign_files_do_not_count():
    kernel = parse("""
        .reg .b32 r;
        .loc 1 12 5
        mov.u32 r, 1;
        .loc 1 0 3
        mov.u32 r, 2;
        .loc 2 99 1
        mov.u32 r, 3;
        .loc 2 99 1, function_name $L__info_string0, inlined_at 1 14 2
        mov.u32 r, 4;
        .loc 1 20 1, function_name $L__info_string0, inlined_at 1 15 2
        mov.u32 r, 5;
        ret;""")
    assert [i.line for i in kernel.instructions[:5]] == [12, 12, 12, 14, 20]


# --- instructions, blocks, liveness ---------------------------------------------------------------


def test_parameters_of_newer_compilers_are_read():
    parameters = """.param .u64 .ptr .align 1 k_param_0,
        .param .u64 .ptr .global .align 16 k_param_1,
        .param .align 8 .b8 k_param_2[16],
        .param .f32 k_param_3"""
    assert parse("ret;", parameters).parameters == [
        ("k_param_0", "u64"), ("k_param_1", "u64"),
            ("k_param_2", "structure 8 16"), ("k_param_3", "f32"),
    ]  # fmt: skip


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (".loc 1 7 1\ncall.uni malloc, (depot);\nret;", "line 7: calls malloc, a function that"),
        (
            ".loc 1 7 1\n.reg .b64 r;\ncall r, (depot), prototype;\nret;",
            "line 7: not understood: call r, .depot., prototype",
        ),
        ("ts: .branchtargets a, b;\nret;", "not understood: .branchtargets a, b"),
        (".reg .b32 r;\nadd.s32 r,, r;\nret;", "an operand is missing"),
        (".reg .b64 r;\nld.global.f32 r, [r*4];\nret;", r"not understood: \[r\*4\]"),
        ("bra.uni nowhere;", "no label for: bra.uni nowhere"),
        ("ret", "not understood: ret"),
        ("ret; {", "kernel 'k' has no end"),
    ],
)
def test_malformed_ptx_is_quoted(body, message):
    with pytest.raises(PtxError, match=message):
        parse(body)
