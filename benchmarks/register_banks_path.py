"""Measure the path from 09_double_buffering to 10_register_banks, step by step, against cuBLAS.

    python benchmarks/register_banks_path.py

needs a GPU and nvdisasm. Every step of gemmlab.paths is verified, timed in turn with cuBLAS as any
kernel is, and taken apart; results/<gpu>-path.csv gets a row for each step and shape. What is there
already of the same code stays, unless --again is given; what belongs to no step is left out.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pandas

from gemmlab import ladder, outer_products, paths, sass, tables
from gemmlab.compiler import Compiled, options_for, resources
from gemmlab.device import require_gpu, software_versions
from gemmlab.simulator import nvrtc
from gemmlab.timing import compare, gflops

NAME = "10_register_banks"
PAIRS = {4096: 20, 8192: 10}  # of launches, by M
KEY = ["code", "m", "n", "k"]


def compiled(step: paths.Step) -> Compiled:
    """Compile in another process; CuPy keeps what it compiles on disk, where the first finds it."""
    kernel = step.kernel()
    kernel.prepare()
    options = options_for(kernel.settings)
    anew = nvrtc.compile_anew(kernel.text, step.path.name, arch=kernel.arch, options=options)
    return Compiled(kernel.arch, anew.ptx, anew.cubin, resources(anew.log))


def measured(step: paths.Step, found: Compiled) -> list[dict[str, object]]:
    """The rows of one step, one for each shape."""
    kernel, versions = step.kernel(found), software_versions()
    taken = found.entries[kernel.rung.entry]
    loop = sass.analyse(found.cubin, kernel.rung.entry, sass.adds_per_tile(kernel))
    about = {
        "path": NAME,
        "file": step.path.relative_to(paths.ROOT).as_posix(),
        "settings": ladder.written(kernel.settings),
        "registers": taken.registers,
        "spilled_bytes": taken.spill_store_bytes + taken.spill_load_bytes,
        **outer_products.of_registers(loop),
        "code": step.code,
        **{name: versions[name] for name in ("driver", "cuda", "nvrtc", "cublas")},
    }
    rows = []
    for m, n, k in paths.SHAPES:
        run = compare(kernel, m, n, k, pairs=PAIRS[m])
        rows.append({
            **about, "m": m, "n": n, "k": k, "tflops": run.gflops / 1e3,
            "pct_cublas": 100 * run.ratio.median, "pct_cublas_q1": 100 * run.ratio.q1,
            "pct_cublas_q3": 100 * run.ratio.q3, "noise_q1": 100 * run.noise.q1,
            "noise_q3": 100 * run.noise.q3,
            "cublas_tflops": gflops(m, n, k, run.cublas_ms.median) / 1e3,
            "sm_clock_mhz": run.sm_clock_mhz, "power_w": run.power_w, "gpu": run.gpu,
            "recorded": run.recorded,
        })  # fmt: skip
        print(f"{step.title}, {m}: {run.gflops / 1e3:.1f} TFLOP/s, "
              f"{100 * run.ratio.median:.1f} % of cuBLAS", flush=True)  # fmt: skip
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--again", action="store_true", help="measure what is there already, too")
    again = parser.parse_args().again
    path = paths.file_of(require_gpu("Measuring the path").slug)
    steps = paths.steps(NAME)
    there = pandas.read_csv(path) if path.is_file() else pandas.DataFrame(columns=paths.COLUMNS)
    there = there[there["code"].isin([step.code for step in steps])]
    known = {code for code, rows in there.groupby("code") if len(rows) == len(paths.SHAPES)}
    wanted = [step for step in steps if again or step.code not in known]
    # NVRTC takes a second or two for each, so other processes compile them all first.
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        programs = dict(
            zip([step.code for step in wanted], pool.map(compiled, wanted), strict=True)
        )
    table = pandas.DataFrame(columns=paths.COLUMNS)
    for step in steps:
        rows = there[there["code"] == step.code]
        if step.code in programs:
            rows = pandas.DataFrame(measured(step, programs[step.code]), columns=paths.COLUMNS)
        table = pandas.concat([part for part in (table, rows) if len(part)])
        # Whole after each step: an interruption loses no more than the step in hand.
        whole = pandas.concat([table, there]).drop_duplicates(KEY).infer_objects()
        tables.write(whole, path, paths.COLUMNS)
    print(path)


if __name__ == "__main__":
    main()
