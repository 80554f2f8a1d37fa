"""Record what an NVIDIA GPU computes of products and sums that its assembler may fuse.

    python ptxsim/hardware/record_contraction.py OUTDIR

writes OUTDIR/contraction.npz: inputs by type, and results of every kernel, as bits. Needs CuPy, a
GPU of compute capability 9.0 and, for kernels with halves, CUDA's headers.

Most kernels are generated: a dozen PTX instructions on five numbers of each thread, whose results
nearly cancel where products and sums meet, so that a fused multiply-add gives other bits. The
others are CUDA C++, some with --use_fast_math.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

THREADS = 64
INPUTS = 5
COMMAND = "python ptxsim/hardware/record_contraction.py OUTDIR"


@dataclass(frozen=True)
class Kind:
    """A type of numbers: in C, as an operand of inline assembly, and in NumPy, as bits."""

    c_type: str
    letter: str
    bits: type


KINDS = {
    "f32": Kind("float", "f", np.uint32),
    "f64": Kind("double", "d", np.uint64),
    "f16": Kind("unsigned short", "h", np.uint16),
    "bf16": Kind("unsigned short", "h", np.uint16),
    "f16x2": Kind("unsigned", "r", np.uint32),
    "bf16x2": Kind("unsigned", "r", np.uint32),
}
OPERATIONS = ["mul"] * 10 + ["add", "sub"] * 5 + ["fma", "mov"]
# What more there is of some types; of .ftz and .sat: of the instructions that have them.
MORE = {
    "f32": ["neg", "abs", "mul.rn", "add.rn", "add.sat", "mul.sat", "div.approx"],
    "f32 mixed": ["neg", "add.rn", "div.approx", "div.full"],
    "f64": ["neg", "abs", "mul.rn", "add.rn"],
    "f16": ["neg", "mul.rn"],
    "f16x2": ["neg", "mul.rn", "add.sat"],
}
SOURCES = {"mul": 2, "add": 2, "sub": 2, "div": 2, "fma": 3, "mov": 1, "neg": 1, "abs": 1}
RECENT = 5  # sources are mostly among so many last results


@dataclass(frozen=True)
class Program:
    """Straight-line PTX on `x0`, `x1`, …, with results in registers `t0`, `t1`, …"""

    ptx_type: str
    lines: tuple[str, ...]
    results: tuple[str, ...]
    options: tuple[str, ...] = ()

    def source(self, name: str) -> str:
        """A kernel of (inputs (threads, INPUTS), results (threads, len(self.results)))."""
        kind, count = KINDS[self.ptx_type], len(self.results)
        places = {f"x{i}": f"%{count + i}" for i in range(INPUTS)}
        registers = f".reg .b{8 * np.dtype(kind.bits).itemsize} t<{len(self.lines)}>; "
        ends = [f"mov.b{8 * np.dtype(kind.bits).itemsize} %{i}, {t};"
                for i, t in enumerate(self.results)]  # fmt: skip
        text = re.sub(r"\bx\d", lambda match: places[match[0]], " ".join([*self.lines, *ends]))
        loads = "".join(f"    const {kind.c_type} x{i} = x[{i}];\n" for i in range(INPUTS))
        outputs = ", ".join(f'"={kind.letter}"(y[{i}])' for i in range(count))
        given = ", ".join(f'"{kind.letter}"(x{i})' for i in range(INPUTS))
        return (
            f'extern "C" __global__ void {name}(const {kind.c_type}* __restrict__ in, '
            f"{kind.c_type}* out) {{\n"
            f"    const {kind.c_type}* x = in + {INPUTS} * threadIdx.x;\n{loads}"
            f"    {kind.c_type} y[{count}];\n"
            f'    asm("{{ {registers}{text} }}" : {outputs} : {given});\n'
            f"    for (int i = 0; i < {count}; ++i) out[{count} * threadIdx.x + i] = y[i];\n}}\n"
        )


def programs(ptx_type: str, seed: int, count: int, length: int, more=()) -> list[Program]:
    """Generated ones. `more`: operations besides those of all types; "ftz": nearly all have it."""
    random = np.random.RandomState(seed)  # whose numbers never change
    ftz, more = "ftz" in more, [word for word in more if word != "ftz"]
    return [_program(ptx_type, random, length, more, ftz) for _ in range(count)]


def _program(ptx_type: str, random, length: int, more: list[str], ftz: bool) -> Program:
    operations, bits = OPERATIONS + more, 8 * np.dtype(KINDS[ptx_type].bits).itemsize
    known, lines, unused = [f"x{i}" for i in range(INPUTS)], [], []
    for number in range(length):
        operation = operations[random.randint(len(operations))]
        name, *flags = operation.split(".")
        places = [
            random.randint(len(known)) if random.randint(5) < 2
            else len(known) - 1 - random.randint(RECENT)
            for _ in range(SOURCES[name])
        ]  # fmt: skip
        sources = [known[place] for place in places]
        if name == "fma":
            flags = ["rn"]
        if ftz and name not in ("mov", "neg", "abs") and random.randint(8):
            flags.insert(len(flags) - ("sat" in flags), "ftz")
        opcode = f"mov.b{bits}" if name == "mov" else ".".join([name, *flags, ptx_type])
        lines.append(f"{opcode} t{number}, {', '.join(sources)};")
        unused = [name for name in unused if name not in sources] + [f"t{number}"]
        known.append(f"t{number}")
    also = [f"t{i}" for i in range(length) if random.randint(12) == 0 and f"t{i}" not in unused]
    return Program(ptx_type, tuple(lines), tuple(unused + also))


def inputs(ptx_type: str) -> np.ndarray:
    """(THREADS, INPUTS) bits: numbers near 1 and -1, with all their digits."""
    random = np.random.RandomState(THREADS)
    shape = (2, THREADS, INPUTS)
    x = random.uniform(0.75, 1.25, shape) * random.choice([-1, 1], shape)
    if ptx_type == "f64":
        return x[0].view(np.uint64)
    single = x.astype(np.float32).view(np.uint32)
    if ptx_type == "f32":
        return single[0]
    halves = single >> 16 if "bf16" in ptx_type else x.astype(np.float16).view(np.uint16)
    low, high = halves.astype(np.uint32)
    return low | high << 16 if ptx_type.endswith("x2") else low.astype(np.uint16)


# --- CUDA C++ -------------------------------------------------------------------------------------

FAST, PLAIN, APART = ("--use_fast_math",), (), ("-fmad=false",)
WARP_SUM = "for (int i = 16; i; i /= 2) {0} += __shfl_xor_sync(~0u, {0}, i);"
WARP_MAX = "for (int i = 16; i; i /= 2) {0} = fmaxf({0}, __shfl_xor_sync(~0u, {0}, i));"
# The body of a kernel, on numbers a, b, c, d, e of the thread.
BODIES = {
    "difference": "y[0] = a * b - c * b;",
    "complex": "y[0] = a * c - b * d; y[1] = a * d + b * c;",
    "minors": "y[0] = a * (b * c - d * e) - b * (a * c - d * d) + c * (a * e - b * d);",
    "shared_product": "const T p = a * b; y[0] = p + c; y[1] = p - d * e; y[2] = e - p;",
    "kept_product": "const T p = a * b; y[0] = p + c; y[1] = p;",
    "interpolation": "y[0] = a + c * (b - a); y[1] = (1 - c) * a + c * b;",
    "distance": "const T u = a - b, v = c - d; y[0] = u * u + v * v - e * e;",
    "barrier": "const T p = a * b; __syncthreads(); y[0] = p + c;",
    "branch": "const T p = a * b, q = c * d; if (threadIdx.x % 3) y[0] = p + c; else y[0] = q - p;",
    "other_block": "const T p = a * b; y[0] = p + c; if (threadIdx.x % 3) y[1] = p - d;",
    "choice": "const T p = threadIdx.x % 2 ? a * b : c * d; y[0] = p + e;",
    "loop": """T sum = e, f = a;
        #pragma unroll 1
        for (int i = 0; i < 5; ++i) { sum = sum * b - f * c; f = f * d - a * b; }
        y[0] = sum; y[1] = f;""",
    "unrolled": """T sum = 0, f = a;
        #pragma unroll
        for (int i = 0; i < 8; ++i) { sum += f * b - c * d; f *= e; }
        y[0] = sum;""",
}
FLOAT_BODIES = {
    "softmax": f"""float s = a * b * 0.125f, m = s; {WARP_MAX.format("m")}
        const float p = exp2f(s * 1.44269504f - m * 1.44269504f);
        float sum = p; {WARP_SUM.format("sum")}
        y[0] = p / sum; y[1] = p / sum * c + d; y[2] = e - p / sum;""",
    "attention": """float m = a, sum = 1.0f, acc0 = b, acc1 = c;
        #pragma unroll 1
        for (int key = 0; key < 6; ++key) {
            float s = a * in[key] + b * in[key + 7]; s = s * 0.3f - c * d;
            const float next = fmaxf(m, s), correction = exp2f(m - next), p = exp2f(s - next);
            sum = sum * correction + p;
            acc0 = acc0 * correction + p * in[key + 20]; acc1 = acc1 * correction - p * e;
            m = next;
        }
        y[0] = acc0 / sum; y[1] = acc1 / sum; y[2] = acc0 / sum - acc1 / sum;""",
    "normalised": f"""float mean = a, square = a * a;
        {WARP_SUM.format("mean")} {WARP_SUM.format("square")}
        mean *= 0.03125f; const float variance = square * 0.03125f - mean * mean;
        y[0] = (a - mean) * rsqrtf(variance + 1e-5f) * b + c;""",
    "sigmoid": "y[0] = a * b / (1.0f + exp2f(-c * d)) - e; y[1] = a / b + c * d;",
    "quotients": "y[0] = a / b - c / d; y[1] = a / b * c - d * e; y[2] = sqrtf(d * d) + a * b;",
    "rounded": "y[0] = __fmul_rn(a, b) + c; y[1] = __fadd_rn(a * b, c);"
    " y[2] = __fmaf_rn(a, b, c * d);",
    "division_between": "const float p = a * b; const int q = int(threadIdx.x) / int(1e3f * d * d);"
    " y[0] = p + q * c; y[1] = e - p;",
    "clamped": "y[0] = __saturatef(a * b - c * d); y[1] = __saturatef(a * b) - c;",
    "mixed": "const double p = double(a) * b; y[0] = float(p - double(c) * d);"
    " y[1] = a * b - float(p);",
}
HALF_BODIES = {
    "difference": "y[0] = a * b - c * b; y[1] = a * b + c; y[2] = c - a * b;",
    "intrinsics": "y[0] = __hadd(__hmul(a, b), c); y[1] = __hadd_rn(__hmul(a, b), c);"
    " y[2] = __hsub(__hmul_rn(a, b), __hmul(d, e)); y[3] = __hfma(a, b, __hmul(c, d));",
    "shared_product": "const T p = a * b; y[0] = p + c; y[1] = p - d * e; y[2] = e - p;",
    "negated": "y[0] = -(a * b) + c; y[1] = -(a * b) - d * e;",
}


@dataclass(frozen=True)
class Text:
    """A kernel in CUDA C++, compiled with these options; `ptx_type`: of inputs and results."""

    ptx_type: str
    body: str
    options: tuple[str, ...]

    @property
    def results(self) -> range:
        return range(1 + max(int(n) for n in re.findall(r"y\[(\d)\]", self.body)))

    def source(self, name: str) -> str:
        """As Program.source."""
        header, c_type = {
            "f32": ("", "float"), "f64": ("", "double"),
            "f16": ("#include <cuda_fp16.h>\n", "__half"),
            "bf16": ("#include <cuda_bf16.h>\n", "__nv_bfloat16"),
        }[self.ptx_type]  # fmt: skip
        numbers = ", ".join(f"{letter} = x[{i}]" for i, letter in enumerate("abcde"))
        text = (
            f'extern "C" __global__ void {name}(const T* __restrict__ in, T* out) {{\n'
            f"    const T* x = in + {INPUTS} * threadIdx.x;\n    const T {numbers};\n"
            f"    T* y = out + {len(self.results)} * threadIdx.x;\n    {self.body}\n}}\n"
        )
        return header + re.sub(r"\bT\b", c_type, text)


# --- all of them ----------------------------------------------------------------------------------


def groups() -> dict[str, dict[str, Program | Text]]:
    """By group the kernels by name. Those of a group have the same options, and make one module."""
    by_group: dict[str, dict[str, Program | Text]] = {}

    def add(group: str, made) -> None:
        by_group[group] = {f"{group}_{i}": kernel for i, kernel in enumerate(made)}

    add("single", programs("f32", 1, 40, 12, MORE["f32"]))
    add("single_long", programs("f32", 2, 15, 30))
    add("single_flushed", programs("f32", 3, 40, 12, ["ftz", *MORE["f32 mixed"]]))
    for seed, ptx_type in enumerate(("f64", "f16", "bf16", "f16x2", "bf16x2"), start=4):
        add(ptx_type, programs(ptx_type, seed, 20, 12, MORE.get(ptx_type, ())))
    for name, options in (("fast", FAST), ("plain", PLAIN), ("apart", APART)):
        by_group[name] = {f"{name}_{body}": Text("f32", text, options)
                       for body, text in (BODIES | FLOAT_BODIES).items()}  # fmt: skip
    by_group["double"] = {
        f"double_{name}": Text("f64", text, PLAIN) for name, text in BODIES.items()
    }
    for ptx_type in ("f16", "bf16"):
        group = f"cuda_{ptx_type}"
        by_group[group] = {f"{group}_{name}": Text(ptx_type, text, PLAIN)
                        for name, text in HALF_BODIES.items()}  # fmt: skip
    return by_group


def module(kernels: dict[str, Program | Text]) -> tuple[str, tuple[str, ...]]:
    """(source, options)"""
    (options,) = {kernel.options for kernel in kernels.values()}
    return "".join(kernel.source(name) for name, kernel in kernels.items()), options


def results(kernel: Program | Text, x: np.ndarray) -> np.ndarray:
    """Room for the results, (THREADS, results) zeros."""
    return np.zeros((THREADS, len(kernel.results)), x.dtype)


def main(outdir: Path) -> None:
    import cupy

    from record_arithmetic import provenance

    arrays = {f"inputs {ptx_type}": inputs(ptx_type) for ptx_type in KINDS}
    about = {**provenance(cupy), "command": COMMAND, "failed": {}}
    for group, kernels in groups().items():
        source, options = module(kernels)
        try:
            loaded = cupy.RawModule(code=source, options=("-std=c++17", *options))
            for name, kernel in kernels.items():
                x = cupy.asarray(arrays[f"inputs {kernel.ptx_type}"])
                y = cupy.asarray(results(kernel, x))
                loaded.get_function(name)((1,), (THREADS,), (x, y))
                arrays[name] = y.get()
        except Exception as error:  # the others are worth having
            about["failed"][group] = str(error)[:2000]
        print(group, about["failed"].get(group, "recorded"), flush=True)
        np.savez_compressed(outdir / "contraction.npz", **arrays, about=np.array(json.dumps(about)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
