"""Loads that the GPU's assembler merges, and those that it adds, on small kernels.

What is expected was read from the SASS that ptxas of CUDA 13.0 makes for sm_90a: each test says
which LDS instructions stand there. A letter is a load as it stands in SASS: w is LDS (a word), d
is LDS.64, q is LDS.128, and i is an idle load, "@!PT LDS RZ, [RZ]".
"""

from collections import Counter

import numpy as np
import pytest

import ptxsim

LOADS = "smsp__inst_executed_op_shared_ld.sum"
WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"
WIDTHS = {4: "w", 8: "d", 16: "q"}
START = "s[t] = in[t]; __syncthreads();"
ALIGNED = "const int b = (n * t) & ~3;"  # ptxas sees that b is a multiple of 4, and no more of it


def run(body, start=START, array="float s[1024]"):
    """Run one warp with n = m = 0. Returns (out, the run)."""
    source = f"""
    extern "C" __global__ void k(float* out, const float* in, int n, int m) {{
        __shared__ {array};
        const int t = threadIdx.x;
        {start}
        {body}
    }}"""
    out, data = np.zeros(32, np.float32), np.arange(64, dtype=np.float32)
    done = ptxsim.launch(source, "k", (1, 1, 1), (32, 1, 1), [out, data, 0, 0], count=True)
    assert not done.findings
    return out, done


def loads(done) -> str:
    """The loads of one run, as letters; those that no lane executes have no addresses."""
    accesses = [a for a in done.accesses() if (a.space, a.operation) == ("shared", "load")]
    moving = "".join(sorted(WIDTHS[access.size] for access in accesses))
    idle = done.counters[LOADS] - len(accesses)
    shared = [line for line in done.lines if (line.space, line.operation) == ("shared", "load")]
    assert sum(line.requests for line in shared) == done.counters[LOADS]
    assert sum(line.units for line in shared) == done.counters[WAVEFRONTS]
    assert sum(line.bytes_asked for line in shared) == sum(32 * access.size for access in accesses)
    return moving + "i" * idle


def total(*words: int) -> str:
    return "out[t] = " + " + ".join(f"s[b + {i}]" for i in words) + ";"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((0, 1), "d"),  # LDS.64 [b]
        ((1, 2), "ww"),  # across the middle: 8 bytes there are not aligned
        ((0, 2), "ww"),
        ((0, 1, 2), "q"),  # three of four: the fourth word is loaded too
        ((1, 2, 3), "q"), ((0, 1, 2, 3), "q"), ((3, 2, 1, 0), "q"), ((1, 2, 3, 4), "qw"),
        ((3, 4, 5), "dw"), ((1, 2, 3, 4, 5), "dq"), ((0, 1, 2, 5, 6, 7), "qq"),
    ],
)  # fmt: skip
def test_words_of_16_aligned_bytes(words, expected):
    _, done = run(ALIGNED + total(*words))
    assert loads(done) == expected


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        ("n * t", "wwww"),
        ("(n * t) & ~1", "dd"),
        ("(n * t) & ~3", "q"),
        ("n << 2", "q"),
        ("(2 * n) * (2 * m)", "q"),
        ("(4 * t) ^ (8 * n)", "q"),
        ("(t / 8) * 32 + (t % 8) * 4", "q"),
        ("n > m ? 4 * t : 8 * n", "q"),
        ("min(4 * t, 4 * n)", "wwww"),  # ptxas does not look through a minimum
    ],
)
def test_only_loads_known_to_be_aligned_are_merged(index, expected):
    _, done = run(f"const int b = {index};" + total(0, 1, 2, 3))
    assert loads(done) == expected


@pytest.mark.parametrize(("stride", "expected"), [(36, "q"), (34, "dw"), (33, "www"), (40, "q")])
def test_padded_rows(stride, expected):
    """With 33 no two words, with 34 pairs, with 36 quads lie aligned in each row."""
    # PTX: three loads from one register, at +4, +8 and +12.
    _, done = run(f"const int b = {stride} * t;" + total(1, 2, 3), array="float s[40 * 32]")
    assert loads(done) == expected


@pytest.mark.parametrize(
    ("between", "expected"),
    [
        ("s[m] = 7;", "dd"),
        ("__syncthreads();", "dd"),
        ("__threadfence_block();", "dd"),
        ("atomicAdd(&s[m], 1.0f);", "dd"),
        ('asm volatile("cp.async.wait_all;" ::: "memory");', "dd"),
        ('asm volatile("cp.async.commit_group;" ::: "memory");', "q"),
        ("out[t] = x;", "q"),
        ("x = __shfl_xor_sync(~0u, x, 1);", "q"),
        ('asm volatile("" ::: "memory");', "q"),  # leaves nothing in the PTX
    ],
)
def test_not_across_what_writes_shared_memory_or_orders_it(between, expected):
    body = f"float x = s[b] + s[b + 1]; {between} out[t] = x + s[b + 2] + s[b + 3];"
    _, done = run(ALIGNED + body)
    letters = loads(done)
    if "atomicAdd(&s" in between:  # an atomic may count as a load of its own
        letters = "".join(c for c in letters if c == "d")
    assert letters == expected


def test_volatile_loads_stay():
    _, done = run(ALIGNED + total(0, 1, 2, 3), array="volatile float s[1024]")
    assert loads(done) == "wwww"


@pytest.mark.parametrize(
    ("array", "start", "body", "expected"),
    [
        ("double s[512]", START, "out[t] = s[b] + s[b + 1];", "q"),
        ("short s[512]", START, "out[t] = s[b] + s[b + 1] + s[b + 2] + s[b + 3];", None),
        (
            "float2 s[512]", "s[t] = make_float2(in[t], in[t + 1]); __syncthreads();",
            "const float2 x = s[b], y = s[b + 1]; out[t] = x.x + x.y * y.x + y.y;", "q",
        ),
    ],
)  # fmt: skip
def test_other_types(array, start, body, expected):
    """Doubles and pairs merge too, LDS.128; 16-bit numbers stay four LDS.S16."""
    _, done = run(ALIGNED + body, start, array)
    if expected is None:
        assert Counter(a.size for a in done.accesses() if a.operation == "load") == {4: 1, 2: 4}
    else:
        assert loads(done) == expected


def test_an_array_that_begins_unaligned():
    """p has 12 bytes, so s begins at byte 12: three words of p merge, those of s do not."""
    start = "s[t] = in[t]; if (t < 3) p[t] = in[t]; __syncthreads();"
    body = ALIGNED + "out[t] = s[b] + s[b + 1] + s[b + 2] + s[b + 3] + p[0] + p[1] + p[2];"
    _, done = run(body, start, "float p[3]; __shared__ float s[1024]")
    assert loads(done) == "qwwww"  # LDS.128 [UR4]; LDS [R4], [R4+0x4], [R4+0x8], [R4+0xc]


@pytest.mark.parametrize(
    ("step", "expected"),
    [(4, "qqqq"), (6, "dddddd"), (5, "w" * 16)],  # in the loop LDS.128; two LDS.64; four LDS
)
def test_a_loop_that_keeps_the_alignment(step, expected):
    four = "x += s[i] * s[i + 1] + s[i + 2] * s[i + 3];"
    loop = f"float x = 0;\n#pragma unroll 1\nfor (int i = 0; i < n + 16; i += {step}) {four}"
    assert loads(run(f"{loop} out[t] = x;")[1]) == expected


def test_the_result_and_the_wavefronts_of_a_merged_load():
    start = "s[t] = in[t]; s[t + 32] = in[t + 32]; __syncthreads();"
    out, done = run("const int b = (4 * t) & 31;" + total(0, 1, 2, 3), start)
    first = 4 * np.arange(32) % 32
    expected = sum(first + i for i in range(4)).astype(np.float32)
    assert (out == expected).all()
    (access,) = [a for a in done.accesses() if (a.space, a.operation) == ("shared", "load")]
    assert (access.addresses == 4 * first).all() and access.size == 16
    # Each quarter of the warp reads the same 128 bytes, on its own a wavefront.
    assert done.counters[LOADS] == 1 and done.counters[WAVEFRONTS] == 4


@pytest.mark.parametrize(
    ("then", "idle"),
    [
        ("", 3),
        ("copy(s + 32 + t, in + t);", 3),
        ("commit(); copy(s + 32 + t, in + t);", 3),
        ("wait(); copy(s + 32 + t, in + t);", 3),
        ("s[64 + m] = 1; copy(s + 32 + t, in + t);", 6),
        ("wait(); __syncthreads(); s[64 + t] = s[t ^ 1]; copy(s + 32 + t, in + t);", 6),
    ],
)
def test_idle_loads_before_asynchronous_copies(then, idle):
    source = """
    __device__ void copy(float* to, const float* from) {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;"
                     :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory");
    }
    __device__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
    __device__ void wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }
    extern "C" __global__ void k(float* out, const float* in, int m) {
        __shared__ float s[192];
        const int t = threadIdx.x;
        copy(s + t, in + t);
        THEN
        wait();
        __syncthreads();
        out[t] = s[t ^ 33];
    }""".replace("THEN", then)
    out = np.zeros(96, np.float32)
    data = np.arange(160, dtype=np.float32)
    done = ptxsim.launch(source, "k", (1, 1, 1), (96, 1, 1), [out, data, 0], count=True)
    assert not done.findings
    loads_of_source = 3 * (1 + then.count("s[t ^ 1]"))
    assert done.counters[LOADS] == loads_of_source + 3 * idle, "in each of three warps"
    assert done.counters[WAVEFRONTS] == loads_of_source
