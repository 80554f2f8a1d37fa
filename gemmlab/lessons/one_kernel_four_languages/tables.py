"""What the kernels of each language do, as the simulator counts and traces it."""

import re
from functools import cache

import numpy as np
import pandas

from gemmlab.kernel.operands import Operands
from gemmlab.ladder import SINGLE, Precision, Problem
from gemmlab.lessons.one_kernel_four_languages.measure import CUBLAS, SMALL
from gemmlab.lessons.one_kernel_four_languages.programs import CUDA, PROGRAMS, RUNGS
from gemmlab.loading import load
from ptxsim import Run

LSU, TMA = "l1tex__t_sectors_pipe_lsu_mem_global_op", "mem_global_op_tma"
SHARED, CONFLICTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op", "l1tex__data_bank_conflicts"
COUNTERS = {
    "global sectors loaded": (f"{LSU}_ld.sum", f"l1tex__m_xbar2l1tex_read_sectors_{TMA}_ld.sum"),
    "global sectors stored": (f"{LSU}_st.sum", f"l1tex__m_l1tex2xbar_write_sectors_{TMA}_st.sum"),
    "shared-memory loads": ("smsp__inst_executed_op_shared_ld.sum",),
    "wavefronts of loads": (f"{SHARED}_ld.sum",),
    "conflicts of loads": (f"{CONFLICTS}_pipe_lsu_mem_shared_op_ld.sum",),
    "shared-memory stores": ("smsp__inst_executed_op_shared_st.sum",),
    "wavefronts of stores": (f"{SHARED}_st.sum",),
    "conflicts of stores": (f"{CONFLICTS}_pipe_lsu_mem_shared_op_st.sum",),
    "wavefronts of wgmma": (f"{SHARED}_gmma.sum",),
}
INSTRUCTIONS = {SINGLE: "fma."}  # what multiplies; else wgmma
STATIC = re.compile(r"\.shared \.align \d+ \.b8 \w+\[(\d+)\]")


@cache
def _runs(precision: Precision) -> dict[str, tuple[Run, int]]:
    """By language: C = A @ B of SMALL, and the shared memory of a block in bytes."""
    kernel, (m, n, k) = load(RUNGS[precision]), SMALL
    problem = Problem(m, n, k)
    (run,) = kernel.simulate(Operands.from_seed(problem, precision, 0), 1.0, 0.0, count=True)
    static = kernel.compiled.entries[kernel.rung.entry(kernel.settings)].shared_bytes
    runs = {CUDA: (run, static + kernel.launches(problem)[0].shared_bytes)}
    for program in (program for program in PROGRAMS if program.precision is precision):
        run, launch = program.simulate(*program.random(m, n, k), count=True), program.launch(m, n)
        static = sum(map(int, STATIC.findall(program.ptx)))
        runs[program.language] = run, static + launch.shared_bytes
    return runs


def counts(dtype: str) -> pandas.DataFrame:
    """Of "float32" or "float16", a column for each language: COUNTERS, and what a warp executes."""
    (precision,) = (each for each in RUNGS if each.name == dtype)
    columns = {}
    for language, (run, shared_bytes) in _runs(precision).items():
        column = {
            what: sum(int(run.counters[name]) for name in names) for what, names in COUNTERS.items()
        }
        opcodes = [step.opcode for step in run.instructions()]
        multiply = sum(o.startswith(INSTRUCTIONS.get(precision, "wgmma.mma")) for o in opcodes)
        column["instructions of a warp"] = len(opcodes)
        column["of these multiply"] = multiply
        columns[language] = column | {"shared memory, bytes": shared_bytes}
    table = pandas.DataFrame(columns)
    return table[(table != 0).any(axis=1)]


def owners() -> dict[str, np.ndarray]:
    """By language: which thread stores each element of the first 128×128 of C, float32; traced."""
    (_, n, _), tile = SMALL, (128, 128)
    maps = {}
    for language, (run, _) in _runs(SINGLE).items():
        threads = np.full(tile, -1)
        for access in run.accesses():
            if (access.space, access.operation) == ("global", "store"):
                lanes = np.flatnonzero(access.active)
                for word in range(access.size // 4):
                    row, column = np.divmod(access.addresses[lanes] // 4 + word, n)
                    threads[row, column] = 32 * access.warp + lanes
        maps[language] = threads
    return maps


def beside_cuda(table: pandas.DataFrame) -> pandas.DataFrame:
    """How many times as long as CUDA C++ each kernel takes, a column for each M, and the registers
    of a thread; rows by dtype and language. `table`: as measure.TABLE has it."""
    of = table[table["language"] != CUBLAS].set_index(["dtype", "language", "m"])
    us = of["us"].unstack("m").reindex(of.index.droplevel("m").unique())
    theirs = us.xs(CUDA, level="language").reindex(us.index, level="dtype")
    times = (us / theirs).rename(columns="times as long at {}³".format)
    return times.assign(registers=of["registers"].groupby(level=[0, 1]).first())
