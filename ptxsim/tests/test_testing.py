"""What tests of kernels use: the fixture, assertions on counters, two launches compared, SARIF."""

import json

import numpy as np
import pytest

import ptxsim
from ptxsim import testing

TRANSPOSE = """extern "C" __global__ void transpose(const float* x, float* out, int n)
{
    __shared__ float tile[32][WIDTH];
    tile[threadIdx.y][threadIdx.x] = x[threadIdx.y * n + threadIdx.x];
    __syncthreads();
    out[threadIdx.y * n + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}
"""
pytest_plugins = ["pytester"]


def transposed(width, source=TRANSPOSE, **how):
    x = np.arange(1024, dtype=np.float32).reshape(32, 32)
    args = [x, np.zeros_like(x), 32]
    options = (f"-DWIDTH={width}",)
    return ptxsim.launch(source, "transpose", 1, (32, 32), args, options=options, **how)


def test_bank_conflicts_are_named_with_their_line():
    testing.assert_bank_conflicts(transposed(33, count=True))
    conflicting = transposed(32, count=True)
    with pytest.raises(AssertionError, match=r"992 bank conflicts of loads, not 5:\s+line 6: 1024"):
        testing.assert_bank_conflicts(conflicting, loads=5)
    testing.assert_bank_conflicts(conflicting, loads=992)


def test_conflicts_of_stores_are_those_of_stores():
    by_columns = TRANSPOSE.replace("[threadIdx.y][threadIdx.x] =", "[threadIdx.x][threadIdx.y] =")
    with pytest.raises(AssertionError, match=r"992 bank conflicts of stores, not 0:\s+line 4"):
        testing.assert_bank_conflicts(transposed(32, by_columns, count=True), loads=992)


def test_sectors_of_one_array_and_of_all():
    run = transposed(33, count=True)
    testing.assert_sectors(run, "x", loads=128)
    testing.assert_sectors(run, loads=128, stores=128)
    with pytest.raises(AssertionError, match="128 sectors of out by stores, not 127"):
        testing.assert_sectors(run, "out", stores=127)
    with pytest.raises(KeyError, match="nothing of y is moved, only of out, x"):
        testing.assert_sectors(run, "y", loads=0)


def test_two_launches_differ_where_the_padding_counts():
    changes = testing.compared(transposed(32, count=True), transposed(33, count=True))
    assert changes[testing.CONFLICTS.format("ld")] == (992, 0)
    assert not [metric for metric in changes if "global" in metric]


def test_what_was_not_counted_is_an_error():
    with pytest.raises(KeyError, match="count=True"):
        testing.assert_bank_conflicts(transposed(33))


def test_lines_that_no_thread_came_to_are_named():
    source = """extern "C" __global__ void k(float* x, int n)
    {
        if (n > 100) {
            x[0] = 1;
        }
        x[1] = 2;
    }"""
    x = np.zeros(2, np.float32)
    assert ptxsim.launch(source, "k", 1, 1, [x, 5]).unexecuted == [4]
    assert ptxsim.launch(source, "k", 1, 1, [x, 500]).unexecuted == []


def test_findings_as_json_and_as_sarif():
    hasty = TRANSPOSE.replace("__syncthreads();", "")
    findings = transposed(33, hasty, check=True).findings
    (finding,) = json.loads(testing.as_json(findings))
    assert finding["kind"] == "read-after-write race" and finding["line"] == 6
    report = json.loads(testing.as_sarif(findings, "kernels/transpose.cu"))
    (run,) = report["runs"]
    (result,) = run["results"]
    assert result["ruleId"] == "read-after-write race" == run["tool"]["driver"]["rules"][0]["id"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "kernels/transpose.cu"
    assert place["region"]["startLine"] == 6
    assert json.loads(testing.as_sarif([], "a.cu"))["runs"][0]["results"] == []


@pytest.mark.parametrize("barrier, outcome", [("__syncthreads();", "passed"), ("", "failed")])
def test_a_test_with_the_fixture_fails_where_there_are_findings(pytester, barrier, outcome):
    pytester.makepyfile(f"""
        import numpy as np
        def test_kernel(launch_kernel):
            x = np.zeros((32, 32), np.float32)
            source = {TRANSPOSE.replace("__syncthreads();", barrier)!r}
            args = [x, x.copy(), 32]
            launch_kernel(source, "transpose", 1, (32, 32), args, options=("-DWIDTH=33",))
    """)
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(**{outcome: 1})
    if outcome == "failed":
        result.stdout.fnmatch_lines(["*read-after-write race in kernel 'transpose', line 6*"])


def test_the_fixture_launches_by_other_functions(launch_kernel):
    with pytest.raises(ptxsim.LaunchError, match="is not PTX"):
        launch_kernel("int i;", "k", 1, 1, [], by=ptxsim.launch_ptx)
