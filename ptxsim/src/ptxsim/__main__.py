"""python -m ptxsim check|count FILE --grid … --block … --arg …: one launch, from the shell."""

from __future__ import annotations

import argparse
import ast
import re
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import ptxsim
from ptxsim.architectures import SIMULATED_ARCH
from ptxsim.host_code import launches
from ptxsim.launcher import Run
from ptxsim.testing import as_json, as_sarif

ARRAY = re.compile(r"(zeros:)?(\w+)\[([\d, ]+)\]")
ARGUMENTS = """
Each --arg is one argument of the kernel, in order:
  100, -3, 0x10, 2.5   a number
  null                 a null pointer
  float32[64,64]       an array of random numbers: normal ones, small integers, always the same
  zeros:float32[100]   an array of zeros
  uninitialised:float32[100]   an array that nobody has written yet
  data.npy             an array from a file of NumPy
"""
FOUND, REFUSED = 1, 2  # exit codes: findings; what cannot be launched


def main(arguments: Sequence[str] | None = None) -> int:
    """0 where nothing is wrong, 1 for findings, 2 for what cannot be launched."""
    options = _parser().parse_args(arguments)
    try:
        run = _run(options)
    except (ptxsim.CompileError, ptxsim.LaunchError, ptxsim.NoCompiler, ptxsim.PtxError,
            ptxsim.UnknownInstruction, OSError, ValueError) as error:  # fmt: skip
        print(f"ptxsim: {error}", file=sys.stderr)
        return REFUSED
    if options.command == "count":
        _print_counts(run)
        return 0
    if options.sarif:
        _write(options.sarif, as_sarif(run.findings, options.file))
    if options.json:
        print(as_json(run.findings))
    else:
        for finding in run.findings:
            header, line = finding.place
            print(f"{header or options.file}:{line}: {finding}")
        lines = ", ".join(map(str, run.unexecuted))
        print(
            f"{len(run.findings)} findings" + (f"; never executed: lines {lines}" if lines else "")
        )
    return FOUND if run.findings else 0


def _parser() -> argparse.ArgumentParser:
    how: Any = {"epilog": ARGUMENTS, "formatter_class": argparse.RawDescriptionHelpFormatter}
    what = "Runs a CUDA kernel without a GPU: CUDA C++ or PTX."
    parser = argparse.ArgumentParser("python -m ptxsim", description=what, **how)
    commands = parser.add_subparsers(dest="command", required=True)
    of_all = argparse.ArgumentParser(add_help=False)
    of_all.add_argument(
        "file", type=Path, help="a .cu or .ptx file; of a whole program the kernels"
    )
    of_all.add_argument("--kernel", help="its name; may be left out where there is only one")
    of_all.add_argument("--grid", type=_shape, required=True, help="blocks: 8, or 4,4,1")
    of_all.add_argument("--block", type=_shape, required=True, help="threads: 128, or 16,16")
    of_all.add_argument("--cluster", type=_shape, help="blocks of a cluster")
    of_all.add_argument("--arg", action="append", default=[], metavar="VALUE", help="see below")
    of_all.add_argument("--shared", type=int, default=0, help="bytes of dynamic shared memory")
    of_all.add_argument("--arch", default=SIMULATED_ARCH, help=f"by default {SIMULATED_ARCH}")
    of_all.add_argument(
        "--option", action="append", default=[], help="for NVRTC, such as --option=-DTILE=16"
    )
    what = "look for races, bad accesses and lost barriers"
    check = commands.add_parser("check", parents=[of_all], help=what, **how)
    check.add_argument(
        "--strict", dest="value", action="store_const", const="strict", default=True,
        help="also for what the PTX ISA demands and most published kernels do without",
    )  # fmt: skip
    check.add_argument("--json", action="store_true", help="print the findings as JSON")
    check.add_argument("--sarif", type=Path, help="write them to this file, for a code host")
    what = "count sectors, bank conflicts and the like"
    commands.add_parser("count", parents=[of_all], help=what, **how).set_defaults(value=True)
    return parser


def _shape(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def _run(options: argparse.Namespace) -> Run:
    text = options.file.read_text(encoding="utf-8", errors="replace")
    is_ptx = options.file.suffix == ".ptx"
    args = [argument(value, at) for at, value in enumerate(options.arg)]
    how: dict[str, Any] = {
        "shared_bytes": options.shared, "cluster": options.cluster,
        options.command: options.value,
    }  # fmt: skip
    kernel = options.kernel or _only_kernel(text, is_ptx)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if options.command == "count" else "default")
        if is_ptx:
            return ptxsim.launch_ptx(text, kernel, options.grid, options.block, args, **how)
        how |= {"arch": options.arch, "options": tuple(options.option)}
        return ptxsim.launch(options.file, kernel, options.grid, options.block, args, **how)


def _only_kernel(text: str, is_ptx: bool) -> str:
    pattern = r"\.entry\s+(\w+)" if is_ptx else r"\b__global__\b[^;{]*?\b(\w+)\s*\("
    bare = re.sub(r"__launch_bounds__\s*\([^)]*\)|//[^\n]*", " ", text)
    names = dict.fromkeys(re.findall(pattern, bare))
    if len(names) == 1:
        return next(iter(names))
    launched = [f"line {line}: {name}<<<{shape}>>>" for line, name, shape in launches(text)]
    raise ValueError(
        f"there are {len(names)} kernels: name one with --kernel: {', '.join(names)}"
        + (f" (launched at {'; '.join(launched)})" if launched else "")
    )


def argument(text: str, seed: int) -> Any:
    """What an --arg means. Raises ValueError, and OSError for a file that cannot be read."""
    if text == "null":
        return None
    if text.endswith(".npy"):
        return np.load(text)
    unwritten = text.removeprefix("uninitialised:")
    if match := ARRAY.fullmatch(unwritten):
        zeros, name, extents = match.groups()
        try:
            dtype = np.dtype(name)
        except TypeError:
            import ml_dtypes  # only for its types: bfloat16, float8_e4m3fn, …

            dtype = np.dtype(getattr(ml_dtypes, name))
        shape = tuple(int(part) for part in extents.split(","))
        if zeros or unwritten != text:
            array = np.zeros(shape, dtype)
            return array if unwritten == text else ptxsim.uninitialised(array)
        random = np.random.default_rng(seed)
        if dtype.kind in "iub":
            return random.integers(0, 10, shape).astype(dtype)
        return random.standard_normal(shape).astype(dtype)
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, ValueError):
        value = None
    if type(value) not in (int, float):
        raise ValueError(f"--arg {text} is no number, array, .npy file or null; see --help")
    return value


def _print_counts(run: Run) -> None:
    for metric, number in sorted(run.counters.items()):
        if number:
            print(f"{metric}  {number:,}")
    print(f"\n{'line':>5}  {'what':24} {'array':24} {'requests':>10} {'sectors or wavefronts':>22}")
    for line in run.lines:
        what = f"{line.space} {line.operation}"
        print(f"{line.line:5}  {what:24} {line.array:24} {line.requests:10,} {line.units:22,}")


def _write(path: Path, text: str) -> None:
    """Under a temporary name first, so that nobody reads half of it."""
    part = path.with_name(f"{path.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


if __name__ == "__main__":
    sys.exit(main())
