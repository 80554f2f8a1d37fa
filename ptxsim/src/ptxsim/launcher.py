"""One launch: the kernel compiled, its arguments placed, all its blocks run; and what it did."""

from __future__ import annotations

import re
import reprlib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from ptxsim import arguments, limits, machine, ptx, textures
from ptxsim.architectures import SIMULATED_ARCH
from ptxsim.arithmetic import exactness, float32
from ptxsim.compile import headers, nvrtc
from ptxsim.compile.nvrtc import CompileError, NoCompiler
from ptxsim.contraction import Note, are_fused, contracted
from ptxsim.counting import BoxCopy, FactorRead, Recorded, TensorUse, WarpAccess
from ptxsim.grid import run as run_blocks
from ptxsim.host_code import device_code
from ptxsim.limits import LaunchError, TakesTooLong
from ptxsim.machine import Check, Finding, TooLong
from ptxsim.memory.global_memory import Uninitialised
from ptxsim.metrics import FMA_METRIC, LineCount, Totals
from ptxsim.other_gpus import notes_for
from ptxsim.ptx import KEPT_KERNELS
from ptxsim.textures import Surface
from ptxsim.threads.layout import Triple


@dataclass(frozen=True)
class Step:
    """One instruction as a warp executed it, and what it asked of memory, mostly nothing.

    `at`: when, in the order in which the simulator executed the block; warps that executed it
    together have it in common.
    """

    opcode: str
    line: int
    at: int
    accesses: tuple[WarpAccess, ...]
    boxes: tuple[BoxCopy, ...]


_translation = lru_cache(maxsize=KEPT_KERNELS)(machine.Translation)

# Paths of CUDA's own headers: of a toolkit, a wheel, CuPy, and what is built into NVRTC.
OF_CUDA = re.compile(r"/(?:cuda[^/]*|cu\d+)/(?:targets/[^/]+/)?include/|/_?cccl/|\b__nv_nvrtc")


@dataclass
class Run:
    """The result of a launch.

    `counters`: totals by Nsight Compute's metric names, and `lines`: the same traffic by source
    line and array; both are empty without `count=True`. A name that the simulator does not count
    raises a KeyError with the nearest names. `findings`: the kernel's mistakes, empty for a correct
    kernel. `notes`: lines whose results may differ from a GPU's in the last bits, and what is not
    known of another GPU than the H200; a correct kernel may have notes, too. `unexecuted`: source
    lines with code that no thread reached. `elapsed_s`: the time of the simulation, on the wall or
    in processor time, whichever is less. `multiply_adds`: those of float32 units and tensor cores
    together, with `count=True`.
    """

    counters: Totals
    lines: list[LineCount]
    findings: list[Finding]
    notes: list[Note]
    elapsed_s: float
    unexecuted: list[int] = field(default_factory=list)
    multiply_adds: int = 0
    _again: machine.PreparedLaunch | None = field(repr=False, default=None)
    _seen: dict = field(repr=False, default_factory=dict)  # block -> Recorded

    def accesses(self, block: Triple = (0, 0, 0), warp: int | None = None) -> list[WarpAccess]:
        """Every memory access of one block, or of one of its warps, in the order of execution.

        The block runs once more for this, on copies of the arrays as the launch left them, unless
        it was the last one named in `blocks`.
        """
        accesses = self._recorded(block).accesses
        return [access for access in accesses if warp is None or access.warp == warp]

    def boxes(self, block: Triple = (0, 0, 0), warp: int | None = None) -> list[BoxCopy]:
        """What threads of one block, or of one of its warps, had copied by tensor maps, in order.

        Found as `accesses` is.
        """
        boxes = self._recorded(block).boxes
        return [box for box in boxes if warp is None or box.warp == warp]

    def factors(self, block: Triple = (0, 0, 0), group: int | None = None) -> list[FactorRead]:
        """The shared memory that wgmmas of one block, or of one of its warpgroups, read.

        A product reads A, unless that is in registers, and then B. Found like `accesses`.
        """
        factors = self._recorded(block).factors
        return [read for read in factors if group is None or read.group == group]

    def tensor_uses(self, block: Triple = (0, 0, 0), warp: int | None = None) -> list[TensorUse]:
        """Loads and stores of one block's tensor memory, copies to it and products that add up in
        it, in order; or those by one warp. Found like `accesses`."""
        uses = self._recorded(block).tensor
        return [use for use in uses if warp is None or use.warp == warp]

    def opcode(self, access: WarpAccess) -> str:
        """Of the instruction that made an access, such as "ld.global.f32"."""
        return self._kept().kernel.instructions[access.index].opcode

    def instructions(self, block: Triple = (0, 0, 0), warp: int = 0) -> list[Step]:
        """The instructions that one warp executed, in order. Found like `accesses`."""
        seen, instructions = self._recorded(block), self._kept().kernel.instructions
        accesses, boxes, stretches = seen.accesses, seen.boxes, seen.stretches
        steps = []
        for at, stretch in enumerate(stretches):
            if not stretch.warps[warp]:
                continue
            after = stretches[at + 1] if at + 1 < len(stretches) else None
            end_access, end_box = (after.first_access, after.first_box) if after else (None, None)
            begun = accesses[stretch.first_access : end_access], boxes[stretch.first_box : end_box]
            of_warp = [_by_index(each for each in all_ if each.warp == warp) for all_ in begun]
            for index in range(stretch.start, stretch.end):
                made, brought = (tuple(by_index.get(index, ())) for by_index in of_warp)
                instruction = instructions[index]
                steps.append(Step(instruction.opcode, instruction.line, at, made, brought))
        return steps

    def _recorded(self, block: Triple) -> Recorded:
        check_block(block, self._kept().grid)
        block = block[0], block[1], block[2]  # not a list
        if block not in self._seen:
            _, _, self._seen[block] = run_blocks(self._kept(), [block], record=block)
        return self._seen[block]

    def _kept(self) -> machine.PreparedLaunch:
        if self._again is None:
            raise LaunchError("accesses() needs a run with count=True")
        return self._again


def _by_index(made: Iterable[Any]) -> dict[int, list[Any]]:
    by_index: dict[int, list[Any]] = {}
    for each in made:
        by_index.setdefault(each.index, []).append(each)
    return by_index


def check_block(block: Triple, grid: Triple) -> None:
    if np.shape(block) != (3,) or any(not 0 <= i < n for i, n in zip(block, grid, strict=True)):
        raise LaunchError(f"block {block} is not in the grid {grid}: name it as (x, y, z)")


def launch(
    source: str | Path,
    entry: str,
    grid: int | tuple[int, ...],
    block: int | tuple[int, ...],
    args: Sequence[Any],
    *,
    arch: str = SIMULATED_ARCH,
    options: tuple[str, ...] = (),
    shared_bytes: int = 0,
    cluster: tuple[int, ...] | None = None,
    count: bool = False,
    check: Check = False,
    blocks: list[tuple[int, int, int]] | None = None,
    limit_s: float | None = 120.0,
    variables: dict[str, np.ndarray] | None = None,
    by_symbol: bool = False,
    names: tuple[str, ...] = (),
) -> Run:
    """Run the kernel `entry` of `source`, CUDA C++ text or the Path of a file.

    `arch`: the architecture, such as "sm_80", by default an H200's. Its limits hold, and its tensor
    cores' sums; what is not known of it is in `notes` of the result.
    Headers that a file includes in quotes are looked up in its own folder first. `grid`, `block`:
    the numbers of blocks, and of threads in a block, along x, y and z; 1 by default. `entry`: a
    name, with the arguments of a template if it is one, such as "scale<float, 4>". `by_symbol`:
    `entry` is the name in the PTX, as a GPU's driver would take it. `names`: names of the arguments
    in messages, if not those in `source`.

    `args`: C-contiguous NumPy arrays, which are the device's memory and are changed in place;
    scalars; None for a null pointer; tensors of PyTorch and others through DLPack. An array has
    the element type of the pointer in the source, if that is one of CUDA's own types.
    `uninitialised(array)` is memory that has not been written yet, `read_only(array)` memory
    that the kernel must not write, `Part` a pointer into an array, `Pointers` an array of
    pointers, `Texture` and `Surface` what CUDA's objects of these names are. For a structure by
    value pass a `Structure` of its members, a NumPy scalar or bytes of its size; a `TensorMap` if
    it is one of 128 bytes. `variables`: values of
    `__constant__` and `__device__` variables, an array of the same number of bytes for each
    name, changed in place, so that the next launch can use it again. Other variables have their
    declared values. `options`: for NVRTC, such as "-DTILE=16". `shared_bytes`: dynamic shared
    memory. `cluster`: in blocks, if not that of __cluster_dims__.

    `count`: count requests, sectors, wavefronts and more. `check`: look for races,
    uninitialised reads and missed barriers too, which takes longer; "strict": also for what the
    PTX ISA demands and most published kernels do without. `blocks`: run only these (x, y, z), in
    this order. `limit_s`: a launch that will take more seconds is refused, once
    its speed is known, and leaves the arrays as they were, as Ctrl-C does; None for no limit:
    then Ctrl-C leaves what was written so far.

    The kernel's output goes to sys.stdout, the first 100 lines of it.

    Raises CompileError, NoCompiler, LaunchError (before anything runs), TakesTooLong (also a
    LaunchError), PtxError for PTX that cannot be read, such as a call of an unknown function, or
    for recursion through a pointer, and UnknownInstruction. Mistakes of the kernel, such as an
    access out of bounds, are in `findings` of the result. If the last bits of results may differ
    from the GPU's, `notes` of the result say so, and so does a warning.
    """
    text, filename, options = _source(source, tuple(options))
    kernel = _find(text, filename, arch, options, entry, by_symbol)
    if not re.search(rf"\b{re.escape(arguments.source_name(entry))}\s*\(", text):  # in a header
        text = "\n".join(content for _, content in headers.included(text, options))
    declared = arguments.of_kernel(text, entry, len(kernel.parameters), tuple(names))
    return _run(
        kernel, declared, are_fused(options), entry, grid, block, args, arch, shared_bytes, cluster,
        count, check, blocks, limit_s, variables,
    )  # fmt: skip


def launch_ptx(
    text: str,
    entry: str,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    args: Sequence[Any],
    *,
    shared_bytes: int = 0,
    cluster: tuple[int, ...] | None = None,
    count: bool = False,
    check: Check = False,
    blocks: list[tuple[int, int, int]] | None = None,
    limit_s: float | None = 120.0,
    variables: dict[str, np.ndarray] | None = None,
    names: tuple[str, ...] = (),
) -> Run:
    """Run the kernel `entry` of PTX, whatever compiler made it; no NVRTC is needed.

    The architecture is that of `.target`. Lines are those of the file that the PTX names first, a
    Python file for example; of PTX without line numbers, they are its own. Arrays are not compared
    with the types of pointers, which PTX does not have. The other arguments, the result and what is
    raised are those of `launch`, but for CompileError and NoCompiler.
    """
    target = re.search(r"^\s*\.target\s+(\w+)(.*)", text, re.M) if isinstance(text, str) else None
    if target is None:
        raise LaunchError(f"{reprlib.repr(text)} is not PTX: it has no .target")
    kernels = _parsed(text)
    if entry not in kernels:
        there = ", ".join(kernels) or "none"
        raise LaunchError(f"the PTX has no kernel '{entry}'; it has {there}")
    kernel = kernels[entry]
    declared = arguments.of_kernel("", entry, len(kernel.parameters), tuple(names))
    return _run(
        kernel, declared, "debug" not in target[2], entry, grid, block, args, target[1],
        shared_bytes, cluster, count, check, blocks, limit_s, variables,
    )  # fmt: skip


def _run(
    kernel: ptx.Kernel, declared: list[arguments.Parameter], is_fused: bool, entry: str, grid: Any,
    block: Any, args: Sequence[Any], arch: str, shared_bytes: int, cluster: Any, count: bool,
    check: Check, blocks: Any, limit_s: float | None, variables: dict[str, np.ndarray] | None,
) -> Run:  # fmt: skip
    args = [arguments.shared_with_numpy(arg) for arg in args]
    notes: tuple[Note, ...] = ()
    if is_fused:
        kernel, notes = contracted(kernel)
    for note in notes:
        warnings.warn(str(note), stacklevel=3)
    notes += tuple(notes_for(kernel, arch, count))
    if check not in (True, False, "strict"):
        raise LaunchError(f'check is {check!r}: pass True, False or "strict"')
    limits.check_limit(limit_s)
    grid = limits.shape("grid", grid, limits.MAX_GRID)
    block = limits.shape("block", block, limits.MAX_BLOCK)
    limits.check_threads(kernel, block)
    limits.check_memory(kernel, shared_bytes, arch)
    cluster = limits.cluster_shape(kernel, cluster, grid, arch)
    variables = dict(variables or {})
    memory, parameters, maps = arguments.bind(kernel, args, declared, variables)
    marked = arguments.given_arrays(args)
    for buffer, arg in zip(memory.buffers, marked, strict=True):
        if check and isinstance(arg, Uninitialised):
            memory.unwritten[buffer.base] = arg.unwritten
    arrays, mapped = list(map(arguments.plain, marked)), [used.map.array for used in maps.values()]
    for used in maps.values():
        used.look_for_unwritten(memory)
    given: list = [*arrays, *(value for value in parameters.values() if value.dtype == np.float32)]
    given += [np.ascontiguousarray(array) for array in mapped]
    given += [np.frombuffer(v.initial, np.uint8) for v in kernel.variables.values()]
    given += memory.given()
    floats = map(exactness.as_float32, given)
    may_be_subnormal = any(float32.has_subnormal(value) for value in floats if value.size)
    prepared = machine.PreparedLaunch(
        kernel=kernel, grid=grid, block=block, parameters=parameters, memory=memory,
        shared_bytes=kernel.shared_bytes + shared_bytes, dynamic_bytes=shared_bytes,
        translation=_translation(kernel, may_be_subnormal),
        known_sums=exactness.known_sums(given), count=count, check=check, cluster=cluster,
        arch=arch, maps=maps, images=textures.reached_by(kernel),
    )  # fmt: skip
    for indices in blocks or []:
        check_block(indices, grid)
    changed = [a for a, b in zip(arrays, memory.buffers, strict=True) if not b.read_only]
    changed += [*mapped, *variables.values()]
    changed += [each.array for each in prepared.images.values() if isinstance(each, Surface)]
    before = [(array, array.copy()) for array in changed] if limit_s is not None else []
    record = (blocks[-1][0], blocks[-1][1], blocks[-1][2]) if count and blocks else None
    deadline = machine.Deadline(inf if limit_s is None else limit_s)
    try:
        counter, findings, seen = run_blocks(prepared, blocks, record, deadline)
    except BaseException as error:  # Ctrl-C too
        for array, old in before:
            array[...] = old
        if not isinstance(error, TooLong):
            raise
        raise TakesTooLong(
            f"kernel '{entry}' on a grid of {grid} blocks was given {limit_s:g} seconds and takes "
            f"{error}: run a smaller problem, some blocks only (blocks=[(0, 0, 0)]), wait for it "
            "(limit_s=None), or look for a loop that goes on for ever",
            str(error),
        ) from None
    elapsed_s, unexecuted = deadline.elapsed, _unexecuted(kernel, counter.executed)
    if not count:
        return Run(Totals(), [], findings, list(notes), elapsed_s, unexecuted)
    done = counter.events[FMA_METRIC] + counter.tensor_multiply_adds
    again = arguments.copy(prepared, args)
    totals, lines = counter.totals(), counter.lines()
    run = Run(totals, lines, findings, list(notes), elapsed_s, unexecuted, done, again)
    if record:
        run._seen[record] = seen
    return run


def _unexecuted(kernel: ptx.Kernel, executed: set[int]) -> list[int]:
    """Lines all of whose instructions are in other basic blocks than those that were `executed`."""
    lines: tuple[set[int], set[int]] = set(), set()
    for start, block in kernel.blocks.items():
        lines[start in executed].update(i.line for i in kernel.instructions[start : block.end])
    return sorted(lines[False] - lines[True] - {0})


def _find(
    text: str, filename: str, arch: str, options: tuple[str, ...], entry: str, by_symbol: bool
) -> ptx.Kernel:
    own_headers = headers.included(text, options)
    kernels, _ = _compiled(text, filename, arch, options, own_headers)
    matching = [k for k in kernels if k == entry or (not by_symbol and _is_plainly(k, entry))]
    if len(matching) != 1 and not by_symbol and arguments.source_name(entry) in text:
        try:
            kernels, lowered = _compiled(text, filename, arch, options, own_headers, entry)
        except CompileError:
            if "<" in entry:
                raise
        else:
            matching = [lowered]
    if len(matching) != 1:
        there = ", ".join(kernels) or "none"
        raise LaunchError(f"{filename} has no kernel '{entry}'; it has {there}")
    return kernels[matching[0]]


def _is_plainly(mangled: str, name: str) -> bool:
    """Whether a mangled name is that of a kernel `name` outside of namespaces, of no template."""
    begin = f"_Z{len(name)}{name}"
    return mangled.startswith(begin) and not mangled.startswith(begin + "I")


@lru_cache(maxsize=KEPT_KERNELS)
def _compiled(
    text: str, filename: str, arch: str, options: tuple[str, ...],
    own_headers: tuple[tuple[str, str], ...], expression: str = "",
) -> tuple[Mapping[str, ptx.Kernel], str]:  # fmt: skip
    """The kernels, and the name among them of what the expression names."""
    names = (expression,) if expression else ()
    program = nvrtc.translate_source(text, filename, arch=arch, options=options, names=names)
    if not program.ptx:
        raise NoCompiler(f"no PTX of {filename} for {arch} is here, nor NVRTC to compile it")
    paths = frozenset(p for p in ptx.FILE.findall(program.ptx) if not OF_CUDA.search(p))
    return ptx.parse(program.ptx, filename, paths), program.lowered.get(expression, "")


@lru_cache(maxsize=KEPT_KERNELS)
def _parsed(text: str) -> Mapping[str, ptx.Kernel]:
    """The kernels of PTX, with the lines of the first file that it names, or its own."""
    paths = ptx.FILE.findall(text)
    if not paths:
        text, paths = ptx.with_its_own_lines(text), [ptx.ITSELF]
    else:
        # LLVM adds to a statement of inline assembly the lines of the text that it has for it,
        # which the source, such as one of Triton's, need not have.
        text = ptx.ASSEMBLY.sub(lambda inline: re.sub(r"\.loc\s[^\n]*", "", inline[0]), text)
    return ptx.parse(text, PurePath(paths[0]).name, frozenset(paths[1:]))


def _source(source: str | Path, options: tuple[str, ...]) -> tuple[str, str, tuple[str, ...]]:
    """The text, what its file is called, and the options with the folder of that file."""
    if isinstance(source, Path):
        folder = f"-I{source.parent}"
        text = source.read_text(encoding="utf-8", errors="replace")  # comments may be in Latin-1
        text, options = device_code(text, options)
        more = () if folder in options or not headers.INCLUDE.search(text) else (folder,)
        return text, source.name, (*more, *options)
    if not isinstance(source, str):
        raise LaunchError(
            f"source is {reprlib.repr(source)}, of type {type(source).__name__}: pass CUDA C++ as "
            "str, or the pathlib.Path of a file"
        )
    if headers.is_name_of_file(source):
        raise LaunchError(
            f"source is {source!r}, which is not CUDA C++ but the name of a file: pass "
            f"Path({source!r})"
        )
    text, options = device_code(source, options)
    return text, "kernel.cu", options
