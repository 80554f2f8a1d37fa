"""Tables of this lesson: tensor memory as a block used it, its waits, and what others measured."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

import pandas

from gemmlab.files import rows_beside
from gemmlab.kernel.flat import flat
from gemmlab.kernel.kernel import Kernel, from_source
from gemmlab.kernel.trace import Trace
from gemmlab.lessons.blackwell.kernels import BLACKWELL, EPILOGUE_WARPS, HALVES, LANES
from gemmlab.loading import load
from gemmlab.report import Shown

PRODUCER, MULTIPLIER = EPILOGUE_WARPS, EPILOGUE_WARPS + 1  # warps
ROLES = {PRODUCER: "producer", MULTIPLIER: "multiplier", 0: "epilogue"}  # 0: one of its warps
PRODUCT = "product"  # among the operations of tensor memory
# What each mbarrier says, who or what arrives at it, and who waits there.
BARRIERS = {
    "empty": ("the stage is empty", "tensor cores (commit)"),
    "full": ("the stage is full", "TMA, by its bytes, and the producer"),
    "sums_empty": ("the half is empty", f"{EPILOGUE_WARPS} warps of the epilogue"),
    "sums_full": ("the half is full", "tensor cores (commit)"),
}  # fmt: skip
# Other waits, by how their opcodes begin: what for, and who or what ends them.
WAITS = {
    "tcgen05.wait::ld": ("its sums are in registers", "tensor memory"),
    "cp.async.bulk.wait_group.read": ("its store buffer is free", "TMA, which has read it"),
}


@dataclass(frozen=True)
class Use:
    """What a block did in tensor memory at a time: products of one tile in a row, `count` of them,
    all in the same cells; or a load of equally many columns by each of `warps`. `tile`: the
    block's, from 0 on; `half`: of its columns."""

    operation: str
    tile: int
    half: int
    columns: range
    warps: tuple[int, ...]
    count: int = 1


def tensor_uses(trace: Trace, block: tuple[int, int, int] = (0, 0, 0)) -> list[Use]:
    """Of a block of 26, in the order in which the simulator executed it."""
    every = trace.run.tensor_uses(block)
    half_columns = max(use.columns.stop for use in every) // HALVES
    tile, of_half, uses = -1, dict[int, int](), list[Use]()
    for use in every:
        half, last = use.columns.start // half_columns, uses[-1] if uses else None
        if use.operation == PRODUCT and of_half.get(half) != tile:
            tile += 1
            of_half[half] = tile
        now = Use(use.operation, of_half[half], half, use.columns, (use.warp,))
        if last and replace(now, warps=last.warps, count=last.count) == last:
            if use.operation == PRODUCT:
                uses[-1] = replace(last, count=last.count + 1)
                continue
            if use.warp not in last.warps:
                uses[-1] = replace(last, warps=(*last.warps, use.warp))
                continue
        uses.append(now)
    return uses


DEADLOCK = "deadlock"  # where it is found, other findings follow from it
# Statements of the kernel and its headers: what stands there, in any number of lines, and what is
# left of it.
STATEMENTS = {
    row["what"]: (row["old"], row["new"]) for row in rows_beside(__file__, "left_out.csv")
}
# What comes behind a wait, by how opcodes begin.
USES = ("mbarrier.arrive", "tcgen05.mma", "tcgen05.ld", "tcgen05.wait", "cp.async")


def waits(trace: Trace, block: tuple[int, int, int] = (0, 0, 0)) -> pandas.DataFrame:
    """What each role of a block waits for, who ends the wait, and how often one warp of it did.

    trace: of 26. A wait that polls an mbarrier several times counts once; those of the producer
    for the last stages, before the block ends, do not count.
    """
    lines = BLACKWELL.path.read_text(encoding="utf-8").splitlines()
    counts = Counter[tuple[str, str, str]]()
    for warp, role in ROLES.items():
        polled = dict[str, None]()  # in this order
        for step in trace.run.instructions(block, warp):
            if step.opcode.startswith("mbarrier.try_wait"):
                polled |= dict.fromkeys(re.findall(r"mbarrier_wait\((\w+)", lines[step.line - 1]))
            elif step.opcode.startswith(USES):
                counts.update((role, *BARRIERS[name]) for name in polled)
                polled.clear()
                for opcode, words in WAITS.items():
                    counts[(role, *words)] += step.opcode.startswith(opcode)
    rows = [(*words, count) for words, count in counts.items() if count]
    return pandas.DataFrame(rows, columns=["who", "waits until", "ended by", "times"])


def beside(kernel: Kernel, before: Kernel) -> pandas.DataFrame:
    """What 26 has and what 18 has, as compiled: a row for each fact."""
    return pandas.DataFrame({each.name: _facts(each) for each in (before, kernel)})


def _facts(kernel: Kernel) -> dict[str, int]:
    entry = kernel.rung.entry(kernel.settings)
    body = kernel.compiled.ptx.partition(f".entry {entry}(")[2].partition(".entry")[0]
    opcodes = Counter(re.findall(r"\b((?:wgmma|tcgen05|setmaxnreg)\.[a-z_]+)", body))
    product = re.search(r"wgmma\.mma_async\S*m64n(\d+)k", body)
    rows, columns = kernel.rung.tile(kernel.settings)
    return {
        "threads of a block": kernel.rung.block(kernel.settings)[0],
        "threads that start a product": 128 if product else 1,
        "FLOP of one instruction": 2 * (64 if product else rows) * columns * 16,
        "registers of a thread": kernel.taken(kernel.arch).registers,
        "sums of a thread while it multiplies": int(product[1]) // 2 if product else 0,
        "setmaxnreg": opcodes["setmaxnreg.inc"] + opcodes["setmaxnreg.dec"],
        "fences of the tensor cores": opcodes["wgmma.fence"] + opcodes["tcgen05.fence"],
        "waits for groups of products": opcodes["wgmma.wait_group"],
        "commits to an mbarrier": opcodes["tcgen05.commit"],
    }


def first_lane(warp: int) -> int:
    """Of those that a warp of a block reaches."""
    return LANES // EPILOGUE_WARPS * (warp % EPILOGUE_WARPS)


def check_descriptor(yours: Callable[[int, int], int]) -> None:
    """Say whether a function of rows and columns gives the instruction descriptors of 26 as it is
    compiled for three tiles."""
    for settings in ({"BN": 64}, {}, {"CTAS": 2}):
        kernel = load(BLACKWELL.name, **settings)
        rows, columns = LANES * kernel.settings["CTAS"], kernel.settings["BN"]
        expected, got = _descriptor(kernel.compiled.ptx), yours(rows, columns)
        if got != expected:
            print(f"Not yet: for {rows} rows and {columns} columns it is not {got:#010x}.")
            return
    print("Right: all three are as in the compiled kernels.")


def _descriptor(ptx: str) -> int:
    """The constant that the first tcgen05.mma is given, in a register or by itself."""
    (given,) = re.findall(r"tcgen05\.mma\S+ \[\S+\], \S+, \S+, (\S+),", ptx)[:1]
    constants = dict(re.findall(r"mov\.b32\s+(%r\d+), (-?\d+);", ptx))
    return int(constants.get(given, given)) % 2**32


def changed(kernel: Kernel, old: str, new: str) -> Kernel:
    """26 or 27 with `new` for `old`, which stands once in it or its headers, in any lines."""
    text = flat(kernel.rung.path, kernel.macros, kernel.arch)
    text = re.sub(re.escape(old).replace(r"\ ", r"\s+"), new, text)
    return from_source(text, kernel.name, **kernel.settings)


def left_out(kernel: Kernel) -> pandas.DataFrame:
    """Of STATEMENTS, what kernel.check() finds where one is missing: in the first case that fails,
    a deadlock, or else the kind of the first finding."""
    kind_of = {}
    for what, (old, new) in STATEMENTS.items():
        cases = changed(kernel, old, new).check().cases
        kinds = [[finding.kind for finding in case.findings] for case in cases]
        first = next(filter(None, kinds), ["nothing"])
        kind_of[what] = DEADLOCK if DEADLOCK in first else first[0]
    return pandas.Series(kind_of, name="the check finds").rename_axis("without").to_frame()


def published() -> Shown:
    """Shares of cuBLAS that others have measured on Blackwell, with the shape and the address."""
    table = pandas.DataFrame(rows_beside(__file__, "published.csv"))
    table["M×N×K"] = table["m"] + "×" + table["n"] + "×" + table["k"]
    table = table.rename(columns={"pct_cublas": "% of cuBLAS"})
    shown = table[["source", "kernel", "M×N×K", "% of cuBLAS"]]
    named = [f'<a href="{row.url}">{row.source}</a>' for row in table.itertuples(index=False)]
    markup = shown.assign(source=named).to_html(index=False, escape=False)
    return Shown(shown.to_string(index=False), markup)
