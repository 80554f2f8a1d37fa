"""What the simulator takes for one instruction, ptxas makes one of: its machine code shows it."""

import re
from collections import Counter
from functools import lru_cache

import numpy as np
import pytest
import record_contraction as recorder
import test_wgmma
from test_contraction import simulated

from gemmlab.cuda import disassembler
from ptxsim import ptx
from ptxsim.arithmetic import double, halves, multiply_add, rounding
from ptxsim.compile import nvrtc
from ptxsim.contraction import contracted

f4, f8 = np.float32, np.float64
BEYOND = {"MUFU", "SHFL", "BSSY", "CALL", "FSEL", "SEL", "F2F", "I2F", "F2I"}
OPERATIONS = {
    "f32": ("FADD", "FMUL", "FFMA"),
    "f64": ("DADD", "DMUL", "DFMA"),
    "f16x2": ("HADD2", "HMUL2", "HFMA2"),
    "bf16x2": ("HADD2", "HMUL2", "HFMA2"),
}


@lru_cache
def machine_code(source: str, arch: str = "sm_90a", options=()) -> str:
    program = nvrtc.compile_source(source, "kernel.cu", arch=arch, options=options)
    return disassembler.disassemble(program.cubin)


@np.errstate(all="ignore")
def executed(code: list[disassembler.Instruction], kind: str, x: np.ndarray, count: int):
    """The results (threads, count) of straight-line machine code on inputs x, as bits."""
    words, registers = x.itemsize, {"RZ": np.zeros(len(x), x.dtype)}
    y = np.zeros((len(x), count), x.dtype)

    def offset(address: str) -> int:
        return int((re.search(r"\+(0x[0-9a-f]+)\]$", address) or [0, "0"])[1], 16) // words

    def bits(text: str) -> np.ndarray:
        text = text.removesuffix(".reuse").replace("RZ.H0_H0", "RZ")
        if text[0] == "-":
            return halves_or_not(kind, np.negative, bits(text[1:]))
        if text[0] == "|":
            return halves_or_not(kind, np.abs, bits(text[1:-1]))
        return registers[text] if text[0] == "R" else number(kind, text, x)

    for instruction in code:
        name, flags = instruction.operation, set(instruction.opcode.split(".")[1:])
        if name == "LDG":
            registers[instruction.operands[0]] = x[:, offset(instruction.operands[1])]
        elif name == "STG":
            y[:, offset(instruction.operands[0])] = bits(instruction.operands[1])
        elif name in OPERATIONS[kind]:
            text = ", ".join(instruction.operands[1:])
            if kind.endswith("x2"):  # a number for both halves stands there twice
                text = re.sub(r"\b(\d\S*), \1", r"\1", text)
            operands = [bits(operand) for operand in text.split(", ")]
            registers[instruction.operands[0]] = computed(kind, "MUL" in name, flags, *operands)
    return y


def halves_or_not(kind: str, function, x: np.ndarray) -> np.ndarray:
    if kind in ("f32", "f64"):
        return function(x.view(kind.replace("f32", "f4").replace("f64", "f8"))).view(x.dtype)
    return x ^ np.uint32(0x80008000)  # of pairs there is no magnitude among the programs


def number(kind: str, text: str, like: np.ndarray) -> np.ndarray:
    """A number in the code, for all threads."""
    if kind.endswith("x2"):
        assert text == "1"
        return np.full(len(like), 0x3F803F80 if kind == "bf16x2" else 0x3C003C00, np.uint32)
    return np.full(len(like), float(text), f"f{like.itemsize}").view(like.dtype)


def computed(kind: str, product: bool, flags: set[str], a, b, *c) -> np.ndarray:
    """a * b, a + b or a * b + c, once rounded, as bits."""
    if kind.endswith("x2"):
        function = halves.multiply_add if c else halves.multiply if product else halves.add
        how = {"name": kind[:-2], "ftz": "FTZ" in flags, "limit": "sat" if "SAT" in flags else None}
        parts = [[(x >> shift).astype(np.uint16) for x in (a, b, *c)] for shift in (0, 16)]
        low, high = (function(*part, **how).astype(np.uint32) for part in parts)
        return low | high << 16
    a, b, *c = (x.view("f4" if kind == "f32" else "f8") for x in (a, b, *c))
    if c and kind == "f64":
        result = double.double_fma(a, b, *c, "rn")
    elif c:
        result = multiply_add.fma(f8(a), f8(b), *c)
    else:
        result = a * b if product else a + b
    if "SAT" in flags:
        result = rounding.saturate(result)
    return result.view(f"u{result.itemsize}")


@pytest.mark.parametrize(
    ("ptx_type", "count", "length", "more", "arch"),
    [
        ("f32", 40, 12, ("neg", "abs", "mul.rn", "add.rn", "add.sat", "mul.sat"), "sm_90a"),
        ("f32", 15, 40, (), "sm_90a"),
        ("f32", 30, 12, ("ftz", "neg", "add.rn"), "sm_90a"),
        ("f32", 20, 12, ("ftz",), "sm_80"),
        ("f64", 30, 12, ("neg", "abs", "add.rn"), "sm_90a"),
        ("f16x2", 30, 12, ("neg", "mul.rn", "add.sat"), "sm_90a"),
        ("bf16x2", 20, 12, (), "sm_90a"),
    ],
)  # fmt: skip
def test_the_machine_code_computes_the_same_bits(ptx_type, count, length, more, arch):
    """Where the simulator fuses other products, a few of the 64 threads have other results."""
    made = recorder.programs(ptx_type, length * count, count, length, more)
    programs = {f"k{i}": program for i, program in enumerate(made)}
    source, _ = recorder.module(programs)
    listing, x = machine_code(source, arch), recorder.inputs(ptx_type)
    fused = 0
    for name, program in programs.items():
        code = disassembler.parse(disassembler.section(listing, name))
        want = executed(code, ptx_type, x, len(program.results))
        got, run = simulated(source, name, program)
        if not run.notes:  # the sum of two equal products
            assert got.tobytes() == want.tobytes(), (name, program)
        fused += any("FMA" in instruction.opcode for instruction in code)
    assert fused > count / 2


@pytest.mark.parametrize("group", ["fast", "plain", "apart", "double"])
def test_cuda_computes_the_same_bits_as_its_machine_code(group):
    texts = recorder.groups()[group]
    source, options = recorder.module(texts)
    listing, straight = machine_code(source, options=options), 0
    for name, text in texts.items():
        code = disassembler.parse(disassembler.section(listing, name))
        used = {instruction.operation for instruction in code}
        if not used & BEYOND and not any(instruction.predicate for instruction in code):
            x = recorder.inputs(text.ptx_type)
            want = executed(code, text.ptx_type, x, len(text.results))
            assert simulated(source, name, text, options)[0].tobytes() == want.tobytes(), name
            straight += 1
    assert straight >= 8


# What follows must be as the machine code has it: how many multiply-adds, products and sums. `p`
# and `s` are a product and a sum that ptxas may fuse; what stands between them decides.
P, S = (
    f'asm volatile("{name}.f32 %0, %1, %2;" : "=f"({target}) : "f"({first}), "f"({second}));'
    for name, target, first, second in (("mul", "p", "a", "b"), ("add", "s", "p", "c"))
)
LONG_BRANCH = "if (a > n) { y[1] = c; __syncthreads(); y[2] = b; MORE }"
BETWEEN = {
    "nothing": P + S,
    "a barrier": f"{P} __syncthreads(); {S}",
    "a store": f"{P} y[1] = c; {S}",
    "a shuffle": f"{P} c = __shfl_xor_sync(~0u, c, 1); {S}",
    "a branch": P + LONG_BRANCH.replace("MORE", "") + S,
    "the sum in a branch": P + LONG_BRANCH.replace("MORE", S),
    "the sum in a short branch": f"{P} if (a > n) {{ {S} }}",
    "the product in a short branch": f"p = c; if (a > n) {{ {P} }} {S}",
    "a sum in both branches": f"{P} if (a > n) {{ {S} y[1] = c; __threadfence(); }} else {{ {S} }}",
    "a use in another block": f"{P} {S} if (a > n) {{ __syncthreads(); y[1] = p; }}",
    "a return": f"{P} y[1] = b; if (a > n) return; {S}",
    "a product before a loop":
        f"{P}\n#pragma unroll 1\nfor (int i = 0; i < n; ++i) {{ {S} y[i] = s; }}",
    "a loop around both":
        f"\n#pragma unroll 1\nfor (int i = 0; i < n; ++i) {{ {P} {S} y[i] = s; a = y[i + 9]; }}",
    "the product of the turn before":
        f"p = a;\n#pragma unroll 1\nfor (int i = 0; i < n; ++i) {{ {S} a = s; {P} }}",
    "a division of integers": f"{P} y[n / int(c)] = 0; {S}",
    "a call": f"{P} y[1] = called(c); {S}",
    "a square's magnitude": 'asm volatile("{.reg .f32 t; mul.f32 t, %1, %1; abs.f32 t, t;'
        ' add.f32 %0, t, %2; }" : "=f"(s) : "f"(a), "f"(c));',
    "a guarded sum": 'asm volatile("{.reg .pred q; .reg .f32 t; setp.gt.f32 q, %1, %2;'
        ' mul.f32 t, %1, %2; mov.f32 %0, %3; @q add.f32 %0, t, %3; }" : "=f"(s) : "f"(a), "f"(b),'
        ' "f"(c));',
    "a guarded product": 'asm volatile("{.reg .pred q; .reg .f32 t; setp.gt.f32 q, %1, %2;'
        ' mov.f32 t, %3; @q mul.f32 t, %1, %2; add.f32 %0, t, %3; }" : "=f"(s) : "f"(a), "f"(b),'
        ' "f"(c));',
    "a jump to the next line": 'asm volatile("{.reg .pred q; .reg .f32 t; setp.gt.f32 q, %1, %2;'
        ' mul.f32 t, %1, %2; @q bra next; next: add.f32 %0, t, %3; }" : "=f"(s) : "f"(a), "f"(b),'
        ' "f"(c));',
    "bits": 'asm volatile("{.reg .f32 t; .reg .b32 u; mul.f32 t, %1, %2; mov.b32 u, t;'
        ' mov.b32 t, u; add.f32 %0, t, %3; }" : "=f"(s) : "f"(a), "f"(b), "f"(c));',
}  # fmt: skip
CALLED = "__device__ __noinline__ float called(float x) { return x * x + 1; }\n"
NAMES = {"fma": "FFMA", "mul": "FMUL", "add": "FADD", "sub": "FADD"}


def between(arch: str) -> str:
    return CALLED + "".join(
        f'extern "C" __global__ void k{i}(const float* __restrict__ x, float* y, int n) {{\n'
        "    x += threadIdx.x; y += 9 * threadIdx.x; float a = x[0], b = x[99], c = x[999];\n"
        f"    float p = b, s = c;\n    {text}\n    y[0] = s;\n}}\n"
        for i, text in enumerate(BETWEEN.values())
    )


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_what_stands_between_decides_as_in_the_machine_code(arch):
    source = between(arch)
    program, listing = (
        nvrtc.compile_source(source, "kernel.cu", arch=arch),
        machine_code(source, arch),
    )
    kernels, counts = ptx.parse(program.ptx, "kernel.cu"), {}
    for i, name in enumerate(BETWEEN):
        code = disassembler.parse(disassembler.section(listing, f"k{i}"))
        want = Counter(
            instruction.operation for instruction in code if instruction.operation in NAMES.values()
        )
        kernel, notes = contracted(kernels[f"k{i}"])
        got = Counter(
            NAMES.get(instruction.name)
            for instruction in kernel.instructions
            if instruction.parts[-1] == "f32"
        )
        del got[None]
        counts[name] = (got, want)
        assert notes == ()
    assert {name: got for name, (got, _) in counts.items()} == {
        name: want for name, (_, want) in counts.items()
    }
    fused = {name for name, (got, _) in counts.items() if got["FFMA"]}
    assert len(fused) > 5 and len(BETWEEN) - len(fused) > 5


def test_a_factor_that_is_overwritten_before_the_sum_still_counts():
    program = recorder.Program(
        "f32",
        (
            "mov.b32 t0, x0;", "mov.b32 t1, x1;", "mul.f32 t2, t0, t1;", "mov.b32 t0, x2;",
            "mul.f32 t1, t1, t1;", "add.f32 t3, t2, t0;", "sub.f32 t1, t3, t1;",
            "mul.f32 t3, x3, x4;", "sub.f32 t3, t0, t3;",
        ),
        ("t1", "t3"),
    )  # fmt: skip
    source = program.source("k")
    code = disassembler.parse(disassembler.section(machine_code(source), "k"))
    got, _ = simulated(source, "k", program)
    want = executed(code, "f32", recorder.inputs("f32"), 2)
    assert got.tobytes() == want.tobytes()
    assert Counter(instruction.operation for instruction in code)["FFMA"] == 3


@pytest.mark.parametrize("options", [("-G",), ("--ptxas-options=-O0",), ("-fmad=false",)])
def test_nothing_is_fused_where_options_forbid_it(options):
    text = recorder.Text("f32", recorder.BODIES["difference"], options)
    source, options = recorder.module({"k": text})
    got, _ = simulated(source, "k", text, options)
    a, b, c = recorder.inputs("f32").view(f4).T[:3]
    assert got.tobytes() == (a * b - c * b).tobytes()
    code = disassembler.parse(disassembler.section(machine_code(source, options=options), "k"))
    assert not any(instruction.operation == "FFMA" for instruction in code)


@pytest.mark.parametrize("name", ["s32 s8 u8 n8 satfinite", "s32 u8 s8 n8 registers satfinite"])
def test_satfinite_before_and_behind_the_types_is_the_same_machine_code(name):
    form, _ = test_wgmma.FORMS[name]
    texts = test_wgmma.source(form), test_wgmma.behind_the_types(form)
    before, behind = (
        [
            str(instruction)
            for instruction in disassembler.parse(
                disassembler.section(machine_code(text), form.entry)
            )
        ]
        for text in texts
    )
    assert before == behind and any("IGMMA" in line for line in before)
