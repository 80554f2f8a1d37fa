"""Run the kernels of public repositories in the simulator: plain, counted and checked.

    python benchmarks/public_corpus.py FOLDER [FOLDER …] [--seconds 20] [--list FILE]

Takes every kernel of every .cu file below the folders, with arrays of random numbers for pointers
and 64 for integers, and compares the arrays that the three launches leave, byte by byte. What a
kernel computes is not looked at, so a launch need not make sense: it must be refused, or leave the
same three times, and never end in an error of Python. Prints how many did what; FILE gets a line
for each kernel. Ends with 1 where one is wrong. No source is kept.
"""

from __future__ import annotations

import argparse
import re
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import ptxsim
from ptxsim import arguments
from ptxsim.host_code import device_code

ELEMENTS, INTEGER, NUMBER = 1 << 18, 64, 0.5  # of each array; scalars
SHARED_BYTES = 32 << 10  # dynamic
KERNEL = re.compile(r"__global__[^;{}]*?\b(?!__launch_bounds__)(\w+)\s*\([^;{}]*?\)\s*\{")
INSTANCE = r"\b{}\s*(<[\w\s,:]+>)\s*<<<"
HALVES = {"half", "__half", "half2", "__half2", "__nv_bfloat16", "__nv_bfloat162", "nv_bfloat16"}
NO_LAUNCH = (ptxsim.LaunchError, ptxsim.UnknownInstruction, ptxsim.PtxError)
WRONG = {"differs", "error of Python"}


def cases(file: Path) -> Iterator[tuple[str, str, bool]]:
    """(kernel, with the arguments of its template; body; whether a template without arguments)."""
    text = file.read_text(encoding="utf-8", errors="replace")
    for kernel in KERNEL.finditer(text):
        begin = text.rfind("}", 0, kernel.start()) + 1
        is_template = "template" in text[begin : kernel.start()]
        instance = re.search(INSTANCE.format(kernel[1]), text)
        entry = kernel[1] + (instance[1] if is_template and instance else "")
        yield entry, text[kernel.start() :], is_template and not instance


def argument(parameter: arguments.Parameter, random: np.random.Generator):
    declared = " ".join(word for word in parameter.declared.split() if word != "const")
    if "*" in declared or parameter.element:
        name = parameter.element or declared.rstrip("* ")
        if name in HALVES:
            return random.standard_normal(ELEMENTS).astype(np.float16).view(np.uint16)
        dtype = np.dtype(parameter.usual if parameter.element else "f4")
        if dtype.kind in "iub":
            return random.integers(0, 4, ELEMENTS).astype(dtype)
        return random.standard_normal(ELEMENTS).astype(dtype)
    if declared in ("float", "double"):
        return np.dtype(declared).type(NUMBER)
    return INTEGER


def outcome(file: Path, entry: str, body: str, options: tuple[str, ...], seconds: float) -> str:
    text, _ = device_code(file.read_text(encoding="utf-8", errors="replace"), options)
    parameters = arguments.of_source(text, entry)
    block = (16, 16) if "threadIdx.y" in body else (256,)
    grid = (2,) * (1 + max("blockIdx.y" in body, 2 * ("blockIdx.z" in body)))
    results, findings = [], []
    for mode in ({}, {"count": True}, {"check": True}):
        how = {"options": options, "limit_s": seconds, **mode}
        random = np.random.default_rng(0)
        args = [argument(parameter, random) for parameter in parameters]
        shared = SHARED_BYTES if "extern __shared__" in body else 0
        run = ptxsim.launch(file, entry, grid, block, args, shared_bytes=shared, **how)
        results.append([arg.tobytes() for arg in args if isinstance(arg, np.ndarray)])
        findings += [finding.kind for finding in run.findings]
    same = results[0] == results[1] == results[2]
    kinds = ", ".join(sorted(set(findings)))
    if kinds:
        return f"same, with findings: {kinds}" if same else f"differs, with findings: {kinds}"
    return "same" if same else "differs"


def judged(file: Path, entry: str, body: str, options: tuple[str, ...], seconds: float) -> str:
    try:
        return outcome(file, entry, body, options, seconds)
    except ptxsim.CompileError as error:
        return f"does not compile: {str(error).splitlines()[2]}"
    except ptxsim.TakesTooLong:
        return "takes too long"
    except NO_LAUNCH as error:
        return f"refused: {error}"
    except Exception:
        return "error of Python: " + traceback.format_exc().replace("\n", " | ")


def main() -> int:
    parser = argparse.ArgumentParser(description="Public kernels: plain, counted and checked.")
    parser.add_argument("folder", nargs="+", type=Path)
    parser.add_argument("--seconds", type=float, default=20, help="for one launch")
    parser.add_argument("--list", type=Path, help="gets a line for each kernel")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    counts: Counter[str] = Counter()
    lines = []
    for folder in given.folder:
        includes = (
            folder,
            folder / "common",
            folder / "Common",
            folder / "include",
            folder / "src",
        )
        options = tuple(f"-I{place}" for place in includes if place.is_dir())
        for file in sorted(folder.rglob("*.cu")):
            for entry, body, is_open in cases(file):
                outcome = (
                    "a template" if is_open else judged(file, entry, body, options, given.seconds)
                )
                counts[outcome.partition(":")[0]] += 1
                lines.append(f"{file.relative_to(folder)}: {entry}: {outcome}")
                print(lines[-1][:160], file=sys.stderr)
    if given.list:
        given.list.write_text("\n".join(lines) + "\n", encoding="utf-8")
    for what, count in counts.most_common():
        print(f"{count:5} {what}")
    return int(any(counts[what] for what in WRONG))


if __name__ == "__main__":
    sys.exit(main())
