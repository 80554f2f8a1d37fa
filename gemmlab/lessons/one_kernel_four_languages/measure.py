"""One product in four languages, timed in turn beside cuBLAS, and its bits beside the simulator's.

    python -m gemmlab record four_languages

times the kernels of programs.py and the rungs with their idea; results/<gpu>/four_languages.csv.
What Triton, CuTe DSL and Numba made was compiled to PTX beforehand; the driver here makes machine
code of it. Every kernel is verified at the very sizes. A small product of each is compared, bit by
bit, with what the simulator makes of the same PTX.
"""

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from gemmlab import ladder
from gemmlab.cuda.cublas import Cublas
from gemmlab.cuda.device import require_gpu
from gemmlab.cuda.driver import PackedLaunch
from gemmlab.kernel.bounds import error_bound, reference
from gemmlab.kernel.fingerprint import Fingerprint, digest_of, of_rung
from gemmlab.kernel.kernel import Kernel
from gemmlab.kernel.operands import Operands
from gemmlab.kernel.verify import VerificationError
from gemmlab.ladder import HALF, SINGLE, Precision, Problem, Target
from gemmlab.lessons.one_kernel_four_languages.programs import CUDA, PROGRAMS, RUNGS, Program
from gemmlab.loading import load
from gemmlab.measure.in_turn import Side, in_rounds, make_sets
from gemmlab.measure.timing import Spread
from gemmlab.records import registry
from gemmlab.records.registry import POSITIVE, SIZE, TEXT, WHOLE, Row, Say, Table
from gemmlab.records.runs import spread, taken

NAME = "four_languages"
CUBLAS = "cuBLAS"
SIZES = (4096, 8192)
SMALL = (256, 512, 192)  # M, N, K of the product whose bits are compared
ROUNDS = 11
ROWS_CHECKED = 64


def _measured(say: Say) -> Iterator[Row]:
    """Raises VerificationError for a kernel that multiplies wrongly."""
    import cupy

    require_gpu("Timing the four languages")
    stream = cupy.cuda.Stream(non_blocking=True)
    for precision in (SINGLE, HALF):
        kernel = load(RUNGS[precision])
        programs = [program for program in PROGRAMS if program.precision is precision]
        once = {"alpha": 1.0, "beta": 0.0}
        ways = {kernel.name: (partial(kernel.simulate, **once), partial(kernel.prepared, **once))}
        for program in programs:
            ways[program.name] = partial(_simulated, program), partial(_prepared, program, stream)
        with stream:
            differ = {name: _differing(precision, *way, stream) for name, way in ways.items()}
        for name, count in differ.items():
            say(f"{name}: {count} of {SMALL[0] * SMALL[1]} elements differ from the simulator's")
        for size in SIZES:
            cupy.get_default_memory_pool().free_all_blocks()
            with stream, Cublas(stream, precision.name) as cublas:
                yield from _rows(precision, size, kernel, programs, cublas, stream, differ, say)


def _rows(
    precision: Precision, size: int, kernel: Kernel, programs: list[Program], cublas: Cublas,
    stream: Any, differ: dict[str, int], say: Say,
) -> Iterator[Row]:  # fmt: skip
    """Of one type and size: each kernel, and cuBLAS."""
    problem = Problem(size, size, size)
    ((A, B, C),) = make_sets(problem, 1, precision)
    operands = Operands(problem, precision, A, B, C)
    launches: dict[str, Callable[[], None]] = {
        CUBLAS: lambda: cublas.launch_into(A, B, C),
        kernel.name: kernel.prepared(operands, 1.0, 0.0),
    }
    facts: dict[str, Row] = {
        CUBLAS: {"language": CUBLAS, "settings": "its first choice"},
        kernel.name: {"language": CUDA, "settings": ladder.written(kernel.settings)}
        | taken(kernel),
    }  # fmt: skip
    for program in programs:
        function = program.function()
        launches[program.name] = _prepared(program, stream, operands)
        facts[program.name] = {
            "language": program.language, "settings": program.made_by,
            "registers": function.num_regs, "spilled_bytes": function.local_size_bytes,
        }  # fmt: skip
    for name, launch in launches.items():
        _require_right(name, launch, operands, stream)
    sides = [Side(launch, [()], stream) for launch in launches.values()]
    for side in sides:
        side.plan()
    times, state = in_rounds(sides, ROUNDS, f"{precision.name} {size}")
    of_cublas = times[0]
    for name, ms in zip(launches, times, strict=True):
        us = Spread.of([1e3 * each for each in ms], min)
        share = Spread.of([100 * b / a for a, b in zip(ms, of_cublas, strict=True)], max)
        say(f"{precision.name} {size}: {name}: {us.median:.1f} us, {share.median:.1f} % of cuBLAS")
        yield {
            "kernel": name, "dtype": precision.name, "m": size, "n": size, "k": size,
            "registers": 0, "spilled_bytes": 0, **facts[name], **spread("us", us),
            "tflops": 2 * size**3 / us.median / 1e6, **spread("pct_cublas", share),
            "elements_compared": 0 if name == CUBLAS else SMALL[0] * SMALL[1],
            "elements_differ": differ.get(name, 0), "rounds": len(ms),
            "sm_clock_mhz": state.sm_clock_mhz, "power_w": state.power_w,
        }  # fmt: skip


def _prepared(program: Program, stream: Any, operands: Operands) -> Callable[[], None]:
    A, B, C = operands.A, operands.B, operands.C
    function, how = program.function(), program.launch(*C.shape)
    launch = PackedLaunch(
        function, how.grid, how.block, program.arguments(A, B, C), how.shared_bytes
    )

    def run(_kept: object = (function, A, B, C)) -> None:
        launch(stream.ptr)

    return run


def _simulated(program: Program, operands: Operands) -> None:
    program.simulate(operands.A, operands.B, operands.C)


def _require_right(name: str, launch: Callable[[], None], operands: Operands, stream: Any) -> None:
    """Launch it, and look at some rows of C. Raises VerificationError."""
    import cupy

    precision, size = operands.precision, len(operands.C)
    operands.C.view(precision.c.bits).fill(precision.c.guard)
    launch()
    stream.synchronize()
    where = f"{name} at {operands.problem}"
    if not bool(cupy.isfinite(operands.C).all()):
        raise VerificationError(f"{where}: C is not finite everywhere")
    rows = cupy.asarray(np.linspace(0, size - 1, ROWS_CHECKED).astype(int))
    A, B, C = operands.A[rows], operands.B, operands.C[rows]
    bound = error_bound(A, B, None, 1.0, 0.0, precision)
    if not bool((abs(C - reference(A, B, None, 1.0, 0.0)) <= bound).all()):
        raise VerificationError(f"{where}: C is not A @ B")


def _differing(
    precision: Precision, simulate: Callable[[Operands], Any],
    prepare: Callable[[Operands], Callable[[], None]], stream: Any,
) -> int:  # fmt: skip
    """How many elements of a small product have other bits than the simulator's."""
    import cupy

    given = Operands.from_seed(Problem(*SMALL), precision, 0)
    on_gpu = replace(given, **{name: cupy.asarray(X) for name, X in given.arrays().items()})
    prepare(on_gpu)()
    stream.synchronize()
    simulate(given)
    bits = precision.c.bits
    return int((cupy.asnumpy(on_gpu.C).view(bits) != given.C.view(bits)).sum())


def _fingerprint(row: Any, on: Target) -> Fingerprint | None:
    """Of the kernel of a row, whatever lines its source has; None of one that is gone."""
    if row.kernel == CUBLAS:
        return Fingerprint({}, {}, registry.LIBRARY)
    if row.kernel in RUNGS.values():
        problem = Problem(int(row.m), int(row.n), int(row.k))
        rung = ladder.find(row.kernel)
        return of_rung(rung, ladder.read_settings(row.settings), [problem], on)
    program = next((program for program in PROGRAMS if program.name == row.kernel), None)
    if program is None:
        return None
    code = re.sub(r"^\s*\.loc\s.*\n|//.*", "", program.ptx, flags=re.M)
    digest = hashlib.sha256(code.encode()).hexdigest()
    launched = digest_of([program.launch(int(row.m), int(row.n))])
    return Fingerprint({f"{program.name}.ptx": digest[:16]}, {}, f"sha256:{digest}", launched)


TABLE = Table(
    name=NAME, file=f"{NAME}.csv", key=("kernel", "dtype", "m", "settings"),
    columns={
        **TEXT("kernel", "language", "dtype", "settings"), **SIZE("m", "n", "k"),
        **WHOLE("registers", "spilled_bytes"), **POSITIVE("us", "us_q1", "us_q3", "tflops"),
        **POSITIVE("pct_cublas", "pct_cublas_q1", "pct_cublas_q3"),
        **WHOLE("elements_compared", "elements_differ"), **SIZE("rounds"),
        **registry.REPORTED("sm_clock_mhz", "power_w"), **registry.WITH_CUBLAS,
    },
    measure=_measured, fingerprint_of=_fingerprint,
)  # fmt: skip
EVIDENCE = (TABLE,)
