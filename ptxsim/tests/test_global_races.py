"""Races in global memory: found within a block and between blocks, and not where there is order."""

import numpy as np
import pytest

import ptxsim

f4, i4 = np.float32, np.int32


def kinds(body, grid, block, args, *, names="float* a", before=""):
    source = f'{before}extern "C" __global__ void k({names})\n{{\n{body}\n}}'
    run = ptxsim.launch(source, "k", grid, block, args, check=True)
    return [finding.kind for finding in run.findings], run.findings


AT = "const int i = blockIdx.x * blockDim.x + threadIdx.x;"


@pytest.mark.parametrize(
    "body, grid, block",
    [
        ("a[0] = a[0] + 1;", 8, 1),  # blocks add to one place
        (f"{AT} a[i + 1] += a[i];", 1, 64),  # threads of a block read what others write
        (f"{AT} a[i + 1] += a[i];", 2, 32),  # and of two blocks
        ("a[0] = threadIdx.x;", 1, 64),  # one store, different values
        ("a[0] = blockIdx.x;", 4, 1),
        (f"{AT} a[i] = i; a[i ^ 1] = 0;", 1, 64),  # lanes of a warp, with nothing between
        ("if (threadIdx.x == 0) a[0] = 2; else a[threadIdx.x] = a[0];", 1, 64),
    ],
)
def test_races_are_found(body, grid, block):
    kinds_found, _ = kinds(body, grid, block, [np.ones(256, f4)])
    assert kinds_found and all("race" in kind for kind in kinds_found)


@pytest.mark.parametrize(
    "body, grid, block",
    [
        ("a[0] = 7;", 4, 64),  # the same value
        (f"{AT} a[i] = i; __syncthreads(); a[128 + i] = a[i ^ 63];", 1, 64),
        (f"{AT} a[i] += 1; a[i] *= 2;", 4, 64),
        (f"{AT} a[i] = i; __syncwarp(); a[i + 64] = a[i ^ 1];", 1, 64),
        ("atomicAdd(&a[threadIdx.x % 4], 1.0f);", 4, 64),
        ("if (a[0] < 100) atomicAdd(&a[0], 1.0f);", 4, 64),  # read by the way
        ("((volatile float*)a)[0] = threadIdx.x;", 2, 64),  # a flag
        (f"{AT} ((char*)a)[i] = i;", 4, 64),  # bytes of one float
    ],
)
def test_what_is_in_order_is_no_race(body, grid, block):
    assert kinds(body, grid, block, [np.ones(256, f4)])[0] == []


def test_bytes_of_one_word_race_only_where_they_overlap():
    body = f"{AT} ((short*)a)[i] = i; if (i == 5) ((char*)a)[11] = 9;"
    _, findings = kinds(body, 1, 8, [np.zeros(16, i4)], names="int* a")
    assert findings == []  # the same thread
    _, findings = kinds(body.replace("i == 5", "i == 4"), 1, 8, [np.zeros(16, i4)], names="int* a")
    assert [finding.kind for finding in findings] == ["write-after-write race"]
    assert "a[2] was written by thread (5, 0, 0)" in findings[0].what


LAST_BLOCK = """
    __shared__ bool last;
    if (threadIdx.x == 0) part[blockIdx.x] = x[blockIdx.x];
    {fence}
    if (threadIdx.x == 0) last = {count} == gridDim.x - 1;
    __syncthreads();
    if (last && threadIdx.x < 2) {{
        float sum = 0;
        for (int i = threadIdx.x; i < gridDim.x; i += 2) sum += part[i];
        out[threadIdx.x] = sum;
    }}"""
COUNT = "atomicAdd(n, 1)"
RELEASING = """__device__ int counted(int* n)
{ int old; asm volatile("atom.add.acq_rel.gpu.global.s32 %0, [%1], 1;" : "=r"(old) : "l"(n));
  return old; }
"""


@pytest.mark.parametrize(
    "fence, count, before, expected",
    [
        ("", COUNT, "", ["read-after-write race"]),
        ("__threadfence_block();", COUNT, "", ["read-after-write race"]),
        ("__threadfence();", COUNT, "", []),
        ("", "counted(n)", RELEASING, []),
    ],
)
def test_the_last_block_knows_the_others_by_a_fence_and_a_counter(fence, count, before, expected):
    args = [np.ones(8, f4), np.zeros(8, f4), np.zeros(1, i4), np.zeros(2, f4)]
    body = LAST_BLOCK.format(fence=fence, count=count)
    names = "const float* x, float* part, int* n, float* out"
    kinds_found, findings = kinds(body, 8, 32, args, names=names, before=before)
    assert kinds_found == expected
    if findings:
        assert "part[0] was written by thread (0, 0, 0) of block (0, 0, 0) in line" in str(
            findings[0]
        )
        assert "with no fence and flag between" in str(findings[0])


@pytest.mark.parametrize("kind, expected", [("volatile ", []), ("", ["write-after-read race"])])
def test_a_flag_is_polled(kind, expected):
    body = f"""
    {kind}int* flag = n;
    if (blockIdx.x == 0) {{ a[0] = 5; __threadfence(); *flag = 1; }}
    else {{ while (*flag == 0) __threadfence(); a[1] = a[0]; }}"""
    args = [np.zeros(2, f4), np.zeros(1, i4)]
    kinds_found, _ = kinds(body, 2, 1, args, names="float* a, int* n")
    assert [kind for kind in kinds_found if "race" in kind] == expected or not kind
    assert kind == "" or args[0][1] == 5


def test_blocks_of_a_cluster_meet_at_its_barrier():
    body = """
    a[threadIdx.x + 32 * blockIdx.x] = threadIdx.x;
    {}
    a[64 + threadIdx.x + 32 * blockIdx.x] = a[threadIdx.x + 32 * (1 - blockIdx.x)];"""
    meets = 'asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;");'
    source = 'extern "C" __global__ void __cluster_dims__(2) k(float* a)\n{%s\n}'
    for barrier, count in ((meets, 0), ("", 1)):
        text = source % body.format(barrier)
        run = ptxsim.launch(text, "k", 2, 32, [np.zeros(128, f4)], check=True)
        assert len(run.findings) == count, run.findings


def test_launches_do_not_race_with_each_other():
    a = np.zeros(64, f4)
    for _ in range(2):
        assert kinds(f"{AT} a[63 - i] = i;", 2, 32, [a])[0] == []
