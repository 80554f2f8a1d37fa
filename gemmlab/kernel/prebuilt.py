"""What NVRTC made of the rungs, kept with the project: nobody has to wait for it, or to have it.

`kernels/compiled/` holds a file for every rung: for each of its settings that ship the PTX for the
architecture that is simulated, and what ptxas says of registers and shared memory; for the default
setting the latter for all architectures. `python -m gemmlab compile` makes them, and tests tell
which are not of the code as it is.

All settings would be many megabytes, for each version of a kernel. Those ship to which MOVES moves
of sliders lead from the default, or one where that makes more than MOST; and by shipped.csv what
notebooks and gl.matmul load besides, and what so many moves lead to from there.
"""

import hashlib
import json
import logging
import lzma
import re
import sys
from functools import cache, lru_cache
from pathlib import Path

from tqdm.auto import tqdm

from gemmlab import files, ladder
from gemmlab.cuda.options import options_for
from gemmlab.folders import KERNELS, kernel_file
from gemmlab.kernel.fingerprint import code_hash
from gemmlab.ladder import OTHERS, PIECES_PROBE, RUNGS, Rung, Settings
from gemmlab.ladder.probes import LANES_MACROS, LANES_PROBE
from gemmlab.lessons import modules
from gemmlab.processes import workers
from ptxsim.architectures import ARCHS, SIMULATED_ARCH
from ptxsim.compile import nvrtc
from ptxsim.compile.nvrtc import NoCompiler, Program

FOLDER = KERNELS / "compiled"
MOVES, MOST = 2, 32
INSTALL = (
    "run `make lab`, which installs everything into .venv of the clone; or in an environment of "
    'your own, in a clone, pip install -e ./ptxsim -e ".[simulator]"'
)
MACRO = re.compile(r"-D(\w+)=(-?\d+)")
LEVEL = re.compile(r"--ptxas-options=-O\d")  # goes with a macro, see options.py
OWN_FILE = '"the kernel file"'  # stands in the PTX for the name that the caller gives
PROBES: dict[str, tuple[Settings, ...]] = {  # the settings of each that are compiled
    **{probe.name: (probe.macros,) for probe in (ladder.CEILINGS, ladder.TENSOR_CEILING)},
    PIECES_PROBE: ({},), LANES_PROBE: (LANES_MACROS,),
}  # fmt: skip
for _lesson in modules("rung"):
    PROBES |= getattr(_lesson, "PROBES", {})
NAMES = (*PROBES, *(rung.name for rung in (*RUNGS, *OTHERS)))

Compiled = dict[str, dict[str, dict[str, str]]]
"""{kernel's key: {arch: {"log": …, "ptx": …}}}, the PTX for the simulated architecture alone."""


def find(source: str, filename: str, arch: str, options: tuple[str, ...]) -> Program:
    """What NVRTC would make of these; without PTX for other architectures than the simulated one.
    Raises NoCompiler, saying what is there and what to install."""
    name = _names().get(source)
    macros = _macros(options)
    compiled = {} if name is None or macros is None else stored(name).get(_key(source, macros), {})
    if arch not in compiled:
        there = f" for {arch}; it is there for {', '.join(compiled)}" if compiled else ""
        on_linux = "use Linux or Windows, where `make lab` installs NVRTC"
        cure = on_linux if sys.platform == "darwin" else INSTALL
        raise NoCompiler(
            f"NVRTC, the compiler of CUDA C++, is not installed, and {filename} with this text and "
            f"these settings is not among the compiled kernels that come with GEMM Lab{there}. "
            "These are the unchanged rungs with their default settings, settings one or two moves "
            "of a slider away, and those that the notebooks show. For anything else "
            f"{cure}; no GPU is needed."
        )
    text = _renumbered(compiled[arch].get("ptx", ""), False).replace(OWN_FILE, f'"{filename}"')
    return Program(ptx=text, cubin=b"", log=compiled[arch]["log"])


def build(name: str) -> Compiled:
    """Compile one rung or probe with all settings that ship, on all cores. The first settings are
    compiled for all of archs_of, the others for the simulated one."""
    source = kernel_file(f"{name}.cu").read_text(encoding="utf-8")
    wanted = [
        (source, name, chosen, arch)
        for at, chosen in enumerate(all_settings(name))
        for arch in (archs_of(name) if at == 0 else (simulated_arch(name),))
    ]
    compiled: Compiled = {}
    with workers() as pool:
        results = [pool.submit(_compile, *each) for each in wanted]
        bar = tqdm(results, desc=name, disable=None)
        for (_, _, chosen, arch), result in zip(wanted, bar, strict=True):
            compiled.setdefault(_key(source, chosen), {})[arch] = result.result()
    return compiled


def all_settings(name: str) -> list[Settings]:
    """What is compiled of a rung or probe: its default settings, then all others that ship."""
    return [*PROBES[name]] if name in PROBES else [*_shipped(ladder.find(name)).values()]


def ships(rung: Rung, settings: Settings) -> bool:
    """Whether the rung comes compiled with these settings."""
    return frozenset(rung.macros(settings).items()) in _shipped(rung)


@cache
def _shipped(rung: Rung) -> dict[frozenset[tuple[str, int]], Settings]:
    """What the rung is compiled with, by what is in it; the defaults first."""
    every = [rung.defaults]
    if rung in RUNGS:
        every += ladder.near(rung, rung.defaults, MOVES, MOST)
    for row in files.rows_beside(__file__, "shipped.csv"):
        if row["rung"] == rung.name:
            shown, moves = ladder.read_settings(row["settings"]), int(row["moves"])
            shown = ladder.settings_for(rung, shown)
            every += ladder.near(rung, shown, moves) if moves else [shown]
    return {frozenset(macros.items()): macros for macros in map(rung.macros, every)}


def archs_of(name: str) -> tuple[str, ...]:
    """What the default settings of a rung are compiled for: all that they run on."""
    if name in PROBES and name not in (ladder.CEILINGS.name, PIECES_PROBE):
        return (SIMULATED_ARCH,)
    simulated, rungs = simulated_arch(name), _rungs(name)
    archs = ARCHS if simulated in ARCHS else (simulated,)
    return tuple(a for a in archs if all(r.runs_on(ladder.settings_for(r, {}), a) for r in rungs))


def simulated_arch(name: str) -> str:
    """For which a rung or probe is compiled where there is no GPU."""
    return next((rung.only_arch for rung in _rungs(name) if rung.only_arch), SIMULATED_ARCH)


def _rungs(name: str) -> list[Rung]:
    return [rung for rung in (*RUNGS, *OTHERS) if rung.name == name]


def write(compiled: Compiled | dict[str, str], path: Path) -> None:
    """Write one rung's file; the same content gives the same file. Raises OSError."""
    text = json.dumps(compiled, sort_keys=True)
    files.write(path, lzma.compress(text.encode(), preset=9))
    read.cache_clear()


def path_of(name: str) -> Path:
    return FOLDER / f"{name}.json.xz"


def has(rung: Rung, text: str) -> bool:
    """Whether this text, with the headers that it includes, is what was compiled of the rung."""
    return _key(text, rung.defaults) in stored(rung.name)


def stored(name: str) -> Compiled:
    """What is stored of one rung; nothing where there is no file, or a damaged one."""
    return read(path_of(name))


@lru_cache
def read(path: Path) -> dict:
    """What a file that `write` wrote holds; nothing where there is no file. Of a damaged file
    nothing, and a line on standard error, once, that says so."""
    try:
        return json.loads(lzma.decompress(path.read_bytes()))
    except FileNotFoundError:
        return {}
    except (OSError, EOFError, lzma.LZMAError, ValueError) as error:
        logging.getLogger(__name__).warning(
            f"{path} is damaged ({error}): restore it with `git checkout -- {path}`, or compile it "
            "again with `make compiled`."
        )
        return {}


def _compile(source: str, name: str, settings: Settings, arch: str) -> dict[str, str]:
    program = nvrtc.compile_anew(source, f"{name}.cu", arch=arch, options=options_for(settings))
    report = [line for line in program.log.splitlines() if line.startswith("ptxas")]
    result = {"log": "\n".join(line for line in report if "Compile time" not in line) + "\n"}
    if arch == simulated_arch(name):
        result["ptx"] = _renumbered(_portable(program.ptx, f"{name}.cu"), True)
    return result


def _key(source: str, macros: dict[str, int]) -> str:
    """Of the whole text, for the PTX names its lines, and of headers and settings."""
    content = source + code_hash(source, macros)
    return hashlib.sha256(content.encode()).hexdigest()[:16]


@lru_cache
def _names() -> dict[str, str]:
    """The whole text of each file in kernels/ that is compiled -> its name."""
    return {kernel_file(f"{name}.cu").read_text(encoding="utf-8"): name for name in NAMES}


def _macros(options: tuple[str, ...]) -> Settings | None:
    """The settings among NVRTC's options; None where there are other options than a rung has."""
    matches = {option: MACRO.fullmatch(option) for option in options}
    others = {option for option, match in matches.items() if not (match or LEVEL.fullmatch(option))}
    if others.difference(options_for({})):
        return None
    return {match[1]: int(match[2]) for match in matches.values() if match}


def _renumbered(ptx: str, shortened: bool) -> str:
    """The PTX with the number of each register as a difference from the one of its kind before, or
    back: the steps of an unrolled loop are alike then, and take two thirds of the bytes."""
    last: dict[str, int] = {}

    def renumber(match: re.Match[str]) -> str:
        kind, before = match[1], last.get(match[1], 0)
        last[kind] = int(match[2]) + (0 if shortened else before)
        return f"{kind}{last[kind] - before:+}" if shortened else f"{kind}{last[kind]}"

    sign = "" if shortened else "[+-]"
    return re.sub(rf"(%[a-z]+)({sign}\d+)\b", renumber, ptx)


def _portable(ptx: str, filename: str) -> str:
    """The PTX without folders of this machine in its table of files."""
    short = re.sub(r'(\.file\s+\d+ )"[^"]*?([^"/\\]+)"', r'\1"\2"', ptx)
    return short.replace(f'"{filename}"', OWN_FILE)
