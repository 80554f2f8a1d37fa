"""Record what blocks of a cluster, and blocks that wait for one another, do on an NVIDIA GPU.

    python ptxsim/hardware/record_clusters.py OUTDIR    writes OUTDIR/clusters.npz

The kernels are those of tests/kernels/clusters.cu and of REDUCTIONS below. The file holds, as
`NAME I`, what argument I of the case NAME was afterwards, or of large ones the SHA-256 of their
bytes; in `counters` what Nsight Compute counted of the cases of COUNTED, and in `sectors` of single
boxes of record_copies.py, one number for each corner; and in `about` which GPU it was. Needs ncu,
CuPy and a GPU of compute capability 9.0 or later; a cubin of SOURCE can be given as CUBIN in the
environment, where there is no time to compile. The simulator runs the same kernels on the same
arrays: see test_clusters.py.
"""

from __future__ import annotations

import csv
import ctypes
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import record_copies
from record_copies import Boxes, encode, in_processes, pattern

KERNELS = Path(__file__).resolve().parents[1] / "tests" / "kernels" / "clusters.cu"
OPTIONS = ("-arch=sm_90a", "-ftz=true", "-lineinfo", "-std=c++17")
LIMIT_S = 40  # of one process that runs cases; the case that hangs is left out
MOST_BYTES = 1 << 13  # of an array that is kept whole
NON_PORTABLE = 14  # CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED

# Operation and type of a reduction by copy -> its suffix. To global memory, and to a cluster's.
TO_GLOBAL = {
    **{f"{how} {kind}": f"{how}.{kind}" for kind in ("b32", "b64") for how in ("and", "or", "xor")},
    **{f"{how} {kind}": f"{how}.{kind}" for kind in ("u32", "s32", "u64", "s64")
       for how in ("min", "max")},
    **{f"add {kind}": f"add.{kind}" for kind in ("u32", "s32", "u64", "f32", "f64")},
    **{f"{how} u32": f"{how}.u32" for how in ("inc", "dec")},
    **{f"{how} {kind}": f"{how}.{kind}" for kind in ("f16", "bf16") for how in ("min", "max")},
    **{f"add {kind}": f"add.noftz.{kind}" for kind in ("f16", "bf16")},
}  # fmt: skip
TO_CLUSTER = {
    **{f"{how} b32": f"{how}.b32" for how in ("and", "or", "xor")},
    **{f"{how} {kind}": f"{how}.{kind}" for kind in ("u32", "s32")
       for how in ("add", "min", "max")},
    **{f"{how} u32": f"{how}.u32" for how in ("inc", "dec")},
    "add u64": "add.u64",
}  # fmt: skip
BY_TENSOR = ("add", "min", "max", "inc", "dec", "and", "or", "xor")
# What a tensor map's type can be reduced by. An NVIDIA H200 refuses float32 by min, int64 by xor.
TENSOR_TYPES = {
    "uint32": BY_TENSOR, "int32": ("add", "min", "max", "and"),
    "uint64": ("add", "min", "max", "and", "or", "xor"), "int64": ("min", "max"),
    "float16": ("add", "min", "max"), "float32": ("add",), "float64": ("add",),
}  # fmt: skip

# Two blocks, each with 512 bytes of its own; each adds them to what is there.
GLOBAL_REDUCTION = """
PLAIN to_global_{name}(const u32* in, u32* out)
{{
    __shared__ __align__(128) u32 box[128];
    for (int i = threadIdx.x; i < 128; i += blockDim.x) box[i] = in[128 * blockIdx.x + i];
    fence();
    __syncthreads();
    if (threadIdx.x == 0) {{
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.{suffix} [%0], [%1], 512;"
                     :: "l"(out + 128 * blockIdx.x), "r"(place(box)) : "memory");
        finish();
    }}
}}
"""
# Each block adds its own to the next block's, in shared memory.
CLUSTER_REDUCTION = """
KERNEL(2) to_cluster_{name}(const u32* in, u32* out)
{{
    __shared__ __align__(128) u32 box[128], to[128];
    __shared__ mbarrier full;
    const u32 t = threadIdx.x, there = 1 - rank();
    for (int i = t; i < 128; i += blockDim.x)
        box[i] = in[128 * blockIdx.x + i], to[i] = out[128 * blockIdx.x + i];
    if (t == 0) {{ init(&full, 1); expect(&full, 512); }}
    fence();
    sync();
    if (t == 0)
        asm volatile("cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
                     ".{suffix} [%0], [%1], 512, [%2];" :: "r"(at(place(to), there)),
                     "r"(place(box)), "r"(at(place(&full), there)) : "memory");
    wait(&full, 0);
    for (int i = t; i < 128; i += blockDim.x) out[128 * blockIdx.x + i] = to[i];
    sync();
}}
"""
# A box of 512 bytes to two places each, parts of which are outside.
TENSOR_REDUCTION = """
PLAIN by_tensor_{name}(const __grid_constant__ TensorMap map, const u32* in, const int* corners)
{{
    extern __shared__ __align__(1024) u32 memory[];
    for (int i = threadIdx.x; i < 128; i += blockDim.x) memory[i] = in[128 * blockIdx.x + i];
    fence();
    __syncthreads();
    const int* at = corners + 2 * blockIdx.x;
    if (threadIdx.x == 0) {{
        asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.{name}.tile.bulk_group "
                     "[%0, {{%1, %2}}], [%3];"
                     :: "l"(&map), "r"(at[0]), "r"(at[1]), "r"(place(memory)) : "memory");
        finish();
    }}
}}
"""


def _name(case: str) -> str:
    return case.replace(" ", "_")


REDUCTIONS = "".join(
    [GLOBAL_REDUCTION.format(name=_name(n), suffix=s) for n, s in TO_GLOBAL.items()]
    + [CLUSTER_REDUCTION.format(name=_name(n), suffix=s) for n, s in TO_CLUSTER.items()]
    + [TENSOR_REDUCTION.format(name=n) for n in BY_TENSOR]
)
SIXTEEN = """
KERNEL(16) sixteen(u32* out)
{
    __shared__ u32 sum;
    if (threadIdx.x == 0) sum = 0;
    sync();
    if (threadIdx.x < 16)
        asm volatile("red.relaxed.cluster.shared::cluster.add.u32 [%0], %1;"
                     :: "r"(at(place(&sum), threadIdx.x)), "r"(1 << rank()) : "memory");
    sync();
    if (threadIdx.x == 0) out[blockIdx.x] = sum + 1000000 * rank();
}
"""


def source() -> str:
    return KERNELS.read_text(encoding="utf-8") + REDUCTIONS + SIXTEEN


# What is counted, of the cases below and of boxes.
METRICS = tuple(
    [f"smsp__sass_inst_executed_op_{what}.sum" for what in (
        "tma_ld", "tma_st", "tma_red", "dshared_tma_st", "dshared_tma_red", "dshared_ld",
        "dshared_st", "dshared_stas", "dshared_redas")]
    + ["l1tex__m_xbar2l1tex_read_sectors_mem_global_op_tma_ld.sum"]
    + [f"l1tex__m_l1tex2xbar_write_sectors_mem_{what}.sum" for what in (
        "global_op_tma_st", "global_op_tma_red", "dshared_op_tma_st", "dshared_op_tma_red")]
)  # fmt: skip
COUNTED = (
    "far loads", "far stores", "async stores", "async reductions", "far copy", "shared stretches",
    "ring", "to global add f32", "to cluster add u32", "by tensor add float32",
    "by tensor add float16", "maps in memory", "far arrivals", "far bytes",
)  # fmt: skip


def counted_boxes() -> dict[str, Boxes]:
    """Boxes by name, loads and stores; each is counted at each of its corners."""
    boxes = {f"load {name}": case for name, case in record_copies.loads().items()
             if not name.startswith(("type", "nan")) and "uint8" not in name
             and "float64" not in name}  # fmt: skip
    return boxes | {f"store {name}": case for name, case in record_copies.stores().items()}


@dataclass(frozen=True)
class Case:
    """One launch. `args`: makes arrays, NumPy scalars and (Boxes, array) for a tensor map.

    `seen`: the arguments whose arrays are recorded; `cluster`: more blocks than are portable.
    """

    entry: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    args: Callable[[], list]
    seen: tuple[int, ...]
    shared_bytes: int = 0
    non_portable: bool = False


@dataclass(frozen=True)
class Maps:
    """Tensor maps in global memory, one of each of (Boxes, array)."""

    maps: list


def _zeros(*shape, dtype="u4") -> np.ndarray:
    return np.zeros(shape, dtype)


def _plain() -> dict[str, Case]:
    i4 = np.int32
    many = 300  # blocks that wait for one another; more than one SM each
    return {
        "ranks": Case("ranks", (4, 4, 2), (1,), lambda: [_zeros(32, 15)], (0,)),
        "addresses": Case("addresses", (8,), (4,),
                          lambda: [_zeros(8, 4, 5), _zeros(8, 4, 4, dtype="u8")], (0,)),
        "far loads": Case("far_loads", (8,), (64,), lambda: [_zeros(8, 64, 16)], (0,)),
        "far stores": Case("far_stores", (16,), (64,), lambda: [_zeros(16, 512)], (0,)),
        "far atomics": Case("far_atomics", (8,), (96,), lambda: [_zeros(2, 24, dtype="u8")], (0,)),
        "barriers": Case("barriers", (8,), (128,), lambda: [_zeros(8, 96, 2)], (0,)),
        "far arrivals": Case("far_arrivals", (8,), (64,), lambda: [_zeros(8, 5, 64)], (0,)),
        "far bytes": Case("far_bytes", (4,), (32,), lambda: [_zeros(4, 32)], (0,)),
        "async stores": Case("async_stores", (8,), (64,), lambda: [_zeros(8, 512)], (0,)),
        "async reductions": Case("async_reductions", (4,), (64,),
                                 lambda: [_zeros(4, 16, dtype="u8")], (0,)),
        "far copy": Case("far_copy", (8,), (64,), lambda: [_zeros(8, 256)], (0,)),
        "shared stretches": Case(
            "shared_stretches", (8,), (64,),
            lambda: [pattern("uint32", (8, 64)).copy(), _zeros(8, 256)], (1,)),
        **{f"shared boxes {swizzle}": Case(
            "shared_boxes", (8,), (64,), lambda s=swizzle: [
                (Boxes("float32", (40, 60), (8, 32), (), s), pattern("float32", (40, 60)).copy()),
                _zeros(8, 1024)], (1,), 4096) for swizzle in ("none", "128B")},
        "ring": Case("ring", (6,), (160,), lambda: [
            np.arange(3 * 7 * 128, dtype="f4") % 1013, _zeros(6, 128, dtype="f4"), i4(7)], (1,)),
        "sixteen": Case("sixteen", (32,), (32,), lambda: [_zeros(32)], (0,), non_portable=True),
        "policies": Case("policies", (1,), (32,), lambda: [
            np.arange(256, dtype="f4"), _zeros(136, dtype="f4"), _zeros(6, dtype="u8")], (1, 2)),
        "maps in memory": Case("maps_in_memory", (3,), (64,), lambda: [
            Maps([(Boxes("uint32", (6, 16), (4, 16), ()), pattern("uint32", (6, 16)).copy()),
                  (Boxes("uint32", (3, 20), (4, 16), (), "64B"),
                   pattern("uint32", (3, 20)).copy() + np.uint32(1)),
                  (Boxes("float32", (9, 24), (4, 16), (), fill="nan"),
                   pattern("float32", (9, 24)).copy())]), _zeros(3, 64)], (1,)),
        "locked": Case("locked", (many,), (32,), lambda: [
            _zeros(1, dtype="i4"), _zeros(1, dtype="u8"), _zeros(many)], (0, 1, 2)),
        "lock in warp": Case("lock_in_warp", (4,), (64,), lambda: [
            _zeros(1, dtype="i4"), _zeros(1, dtype="i4")], (0, 1)),
        "in turn": Case("in_turn", (100,), (64,), lambda: [
            _zeros(1, dtype="i4"), _zeros(100, 64, dtype="i4")], (0, 1)),
        "steps": Case("steps", (264,), (256,), lambda: [
            pattern("uint32", (264 * 256,)).copy(), _zeros(264 * 256), _zeros(1), i4(9)], (2,)),
        "few steps": Case("steps", (64,), (96,), lambda: [
            pattern("uint32", (64 * 96,)).copy(), _zeros(64 * 96), _zeros(1), i4(10)], (0, 1)),
        "look back": Case("look_back", (500,), (128,), lambda: [
            pattern("uint32", (500, 128)) >> 12, _zeros(500, 128), _zeros(1),
            _zeros(500, dtype="u8")], (1,)),
        "in order": Case("in_order", (3, 11), (64,), lambda: [
            (np.arange(11 * 192, dtype="f4") % 37) / 3, _zeros(192, dtype="f4"),
            _zeros(3, dtype="i4"), i4(11)], (1, 2)),
        "flag in block": Case("flag_in_block", (2,), (64,), lambda: [_zeros(32, dtype="i4")], (0,)),
    }  # fmt: skip


def _reductions() -> dict[str, Case]:
    """On any bits at all; two neighbours of out get the same, so that a mistake in width shows."""
    reductions = {}
    for name in TO_GLOBAL:
        reductions[f"to global {name}"] = Case(
            f"to_global_{_name(name)}", (2,), (32,), lambda: [_bits(1), _bits(2)], (1,)
        )
    for name in TO_CLUSTER:
        reductions[f"to cluster {name}"] = Case(
            f"to_cluster_{_name(name)}", (2,), (32,), lambda: [_bits(1), _bits(2)], (1,)
        )
    for dtype, operations in TENSOR_TYPES.items():
        row = 64 // np.dtype(dtype).itemsize
        for how in operations:
            reductions[f"by tensor {how} {dtype}"] = Case(
                f"by_tensor_{how}",
                (3,),
                (32,),
                lambda d=dtype, r=row: [
                    (Boxes(d, (20, 3 * r), (8, r), ()), _bits(2, 20 * 48).view(d).reshape(20, -1)),
                    _bits(1, 3 * 128),
                    np.array([[0, 1], [r, 14], [2 * r, 4]], "i4"),
                ],
                (0,),
                1024,
            )
    return reductions  # fmt: skip


def _bits(seed: int, count: int = 256) -> np.ndarray:
    """Any bits, with awkward floats of each width among them, float32 near the subnormals too."""
    words = np.random.PCG64(seed).random_raw(count).astype("u4")
    awkward = np.array(
        [
            0, 0x80000000, 0x7F800000, 0xFF800000, 1, 0x80000001, 0x007FFFFF, 0x00800000,
            0x80800001, 0x3F800000, 0xBF800000, 0x7F7FFFFF, 0x03FF0001, 0x7C00FC00, 0x80000000,
            0x7BFF0400,
        ],
        "u4",
    )  # fmt: skip
    words[1::3] = awkward[(np.arange(len(words[1::3])) * (2 * seed + 1) + seed) % len(awkward)]
    return words


def cases() -> dict[str, Case]:
    return _plain() | _reductions()


# --- recording ------------------------------------------------------------------------------------


def on_gpu(cupy, module, case: Case) -> dict[int, np.ndarray]:
    given, kept, arrays = [], [], {}
    for number, arg in enumerate(case.args()):
        if isinstance(arg, tuple):
            box, array = arg
            arrays[number] = on = cupy.asarray(array)
            code, tensor_map = encode(box, on)
            assert not code, f"cuTensorMapEncodeTiled returned {code} for {box}"
            given.append(tensor_map)
        elif isinstance(arg, Maps):
            made = []
            for box, array in arg.maps:
                kept.append(on := cupy.asarray(array))
                code, tensor_map = encode(box, on)
                assert not code, f"cuTensorMapEncodeTiled returned {code} for {box}"
                made.append(np.frombuffer(tensor_map.tobytes(), "u1"))
            given.append(cupy.asarray(np.stack(made)))
        elif isinstance(arg, np.ndarray):
            arrays[number] = cupy.asarray(arg)
            given.append(arrays[number])
        else:
            given.append(arg)
    function = module.get_function(case.entry)
    if case.non_portable:
        set_attribute = ctypes.CDLL("libcuda.so.1").cuFuncSetAttribute
        code = set_attribute(ctypes.c_void_p(function.kernel.ptr), NON_PORTABLE, 1)
        assert not code, f"cuFuncSetAttribute returned {code}"
    function(case.grid, case.block, tuple(given), shared_mem=case.shared_bytes)
    cupy.cuda.runtime.deviceSynchronize()
    return {number: cupy.asnumpy(arrays[number]) for number in case.seen}


def kept(array: np.ndarray) -> np.ndarray:
    """What the file holds of an array."""
    if array.nbytes <= MOST_BYTES:
        return array
    return np.array(hashlib.sha256(array.tobytes()).hexdigest())


def some(path: Path, without: set[str]) -> None:
    """Record what `path` does not have yet; it is whole after each case."""
    import cupy

    from record_arithmetic import provenance

    if "CUBIN" in os.environ:
        module = cupy.RawModule(path=os.environ["CUBIN"])
    else:
        module = cupy.RawModule(code=source(), options=OPTIONS)
    results = dict(np.load(path)) if path.exists() else {}
    about = {**provenance(cupy), "command": "python ptxsim/hardware/record_clusters.py OUTDIR"}
    results["about"] = np.array(json.dumps(about))
    for name, case in cases().items():
        if name in without or f"{name} {case.seen[0]}" in results:
            continue
        print(name, flush=True)
        for number, array in on_gpu(cupy, module, case).items():
            results[f"{name} {number}"] = kept(array)
        np.savez_compressed(path.with_suffix(".tmp.npz"), **results)
        path.with_suffix(".tmp.npz").replace(path)


def main(outdir: Path) -> None:
    path = outdir / "clusters.npz"
    in_processes(__file__, path, LIMIT_S)
    results = dict(np.load(path)) | {name: np.array(json.dumps(v)) for name, v in counts().items()}
    np.savez_compressed(path, **results)


def launched() -> None:
    """Launch what is counted, and print what each launch belongs to."""
    import cupy

    boxes = cupy.RawModule(code=record_copies.SOURCE, options=("-arch=sm_90a", "-std=c++17"))
    for name, case in counted_boxes().items():
        launch = record_copies._load if name.startswith("load") else record_copies._store
        for corner in case.corners:
            print(name, flush=True)
            launch(cupy, boxes, replace(case, corners=(corner,)))
    module = cupy.RawModule(code=source(), options=OPTIONS)
    for name in COUNTED:
        print(name, flush=True)
        on_gpu(cupy, module, cases()[name])


def counts() -> dict[str, dict]:
    """`counters` and `sectors` of the file, by Nsight Compute."""
    command = ["ncu", "--clock-control", "none", "--csv", "--page", "raw", "--metrics",
               ",".join(METRICS), sys.executable, __file__, "--launched"]  # fmt: skip
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = list(csv.reader(line for line in output.splitlines() if line.startswith('"')))
    known = {*counted_boxes(), *COUNTED}
    names = [line for line in output.splitlines() if line in known]
    counters, sectors = {}, {}
    for name, row in zip(names, rows[2:], strict=True):  # behind the metrics and their units
        values = {m: int(row[rows[0].index(m)].replace(",", "")) for m in METRICS}
        if name in COUNTED:
            counters[name] = {metric: value for metric, value in values.items() if value}
        else:
            every = sum(value for metric, value in values.items() if "sectors" in metric)
            sectors.setdefault(name, []).append(every)
    return {"counters": counters, "sectors": sectors}


if __name__ == "__main__":
    if sys.argv[1] == "--launched":
        launched()
    elif sys.argv[1] == "--some":
        some(Path(sys.argv[2]), set(json.loads(sys.argv[3])))
    else:
        main(Path(sys.argv[1]))
