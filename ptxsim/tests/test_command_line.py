"""python -m ptxsim check and count: whole .cu files and PTX, arguments, exit codes."""

import json

import numpy as np
import pytest

import ptxsim
from ptxsim.__main__ import FOUND, REFUSED, argument, main
from ptxsim.compile import nvrtc
from ptxsim.host_code import device_code, launches

KERNEL = """__global__ void scale(float* x, float factor, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n) x[i] *= factor;
}
"""
PROGRAM = rf"""#include <stdio.h>
#include <vector>
#include <float.h>
#include "cuda_runtime.h"
using namespace std;
#define CHECK(call) do {{ if (call) printf("%s {{\n", #call); }} while (0)
__constant__ float weights[2] = {{1.0f, FLT_MAX}};
__constant__ uint32_t most = UINT_MAX;
const int ONE = 1;
const float TWO = 2.0f, FOUR = TWO * TWO;
#define HD __host__ \
    __device__
HD float twice(float x) {{ return x * TWO; }}
class Report {{ std::vector<float> times; std::string name() {{ return title; }} }};
void print(const std::string& text, FILE* to);
template <typename T> void start(T x) {{ print("", 0); }}
template void start<float>(float x);
static const char* title = "a }}";
vector<int> sizes = {{1, 2}};
struct alignas(8) Pair {{ int a; int b() const {{ return a; }} }};
namespace inner {{
template <typename T> __device__ T same(T x) {{ return x * ONE; }}
void report(int n) {{ if (n) {{ printf("}}"); }} }}
}}
{KERNEL}
int main(int argc, char** argv)
{{
    float* x;
    CHECK(cudaMalloc(&x, 400)); // }}
    scale<<<(100 + 127) / 128, 128>>>(x, 2.0f, 100);
}}
"""
LINE = PROGRAM[: PROGRAM.index("if (i <= n)")].count("\n") + 1
SHAPE = ["--grid", "1", "--block", "128", "--arg", "float32[100]", "--arg", "2.0"]


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program.cu"
    path.write_text(PROGRAM)
    return path


def test_a_whole_program_keeps_its_device_code_and_its_lines():
    code, options = device_code(PROGRAM)
    assert options == ("-default-device",)
    assert code.count("\n") == PROGRAM.count("\n")
    for kept in (
        KERNEL.strip(), "float weights[2]", "ONE = 1", "constexpr float TWO", "HD float twice",
        "struct alignas(8) Pair", "T same(T x)",
    ):  # fmt: skip
        assert kept in code
    for gone in ("using", "main", "title", "sizes", "report", "<<<", "Report", "FILE", "start"):
        assert gone not in code.replace("// ", "")
    assert device_code(KERNEL) == (KERNEL, ())
    assert device_code(f"// as main() does\n{KERNEL}")[1] == ()
    shape = "(100 + 127) / 128, 128"
    assert launches(PROGRAM) == [(PROGRAM[: PROGRAM.index("<<<")].count("\n") + 1, "scale", shape)]


def test_host_functions_and_unknown_headers_of_its_headers_are_set_aside(tmp_path):
    helper = "#include <sys/unheard_of.h>\nvoid report() { open(); }\n__constant__ int ONE = 1;"
    (tmp_path / "helper.h").write_text(helper)
    path = tmp_path / "program.cu"
    program = PROGRAM.replace("const int ONE = 1;", "")
    path.write_text(f'#include "helper.h" // \xe0\n{program}', encoding="latin-1")
    x = np.ones(100, np.float32)
    ptxsim.launch(path, "scale", 1, 128, [x, 2.0, 100])
    assert (x == 2).all()


def test_a_program_is_launched_as_it_is():
    x = np.arange(101, dtype=np.float32)
    run = ptxsim.launch(PROGRAM, "scale", 1, 128, [x, 2.0, 100], check=True)
    assert run.findings == [] and x[100] == 200


def test_findings_are_printed_with_their_lines(program, capsys):
    assert main(["check", str(program), *SHAPE, "--arg", "100"]) == FOUND
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{program}:{LINE}: out-of-bounds read") and last == "2 findings"
    assert main(["check", str(program), *SHAPE, "--arg", "99"]) == 0
    assert capsys.readouterr().out == "0 findings\n"


def test_json_and_sarif(program, tmp_path, capsys):
    report = tmp_path / "report.sarif"
    main(["check", str(program), *SHAPE, "--arg", "100", "--json", "--sarif", str(report)])
    assert [finding["line"] for finding in json.loads(capsys.readouterr().out)] == [LINE] * 2
    assert len(json.loads(report.read_text())["runs"][0]["results"]) == 2
    assert list(tmp_path.glob("*.part")) == []


def test_counters_of_cuda_and_of_ptx(program, tmp_path, capsys):
    assert main(["count", str(program), *SHAPE, "--arg", "99"]) == 0
    counted = capsys.readouterr().out
    assert "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum  13\n" in counted
    ptx = tmp_path / "scale.ptx"
    ptx.write_text(nvrtc.translate_source(KERNEL, "scale.cu").ptx)
    assert main(["count", str(ptx), *SHAPE, "--arg", "99"]) == 0
    assert "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum  13\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    "given, message",
    [
        (["--arg", "seven"], "--arg seven is no number, array, .npy file or null"),
        ([], "n is missing"),
        (["--arg", "99", "--kernel", "other"], "has no kernel 'other'"),
    ],
)
def test_what_cannot_be_launched_is_said_and_has_its_exit_code(program, capsys, given, message):
    assert main(["check", str(program), *SHAPE, *given]) == REFUSED
    assert message in capsys.readouterr().err


def test_of_several_kernels_one_is_named(program, capsys):
    program.write_text(PROGRAM + KERNEL.replace("scale", "other"))
    assert main(["check", str(program), *SHAPE, "--arg", "1"]) == REFUSED
    error = capsys.readouterr().err
    assert "--kernel: scale, other" in error and "scale<<<(100 + 127) / 128, 128>>>" in error


def test_arguments(tmp_path):
    np.save(tmp_path / "x.npy", np.eye(2))
    np.testing.assert_array_equal(argument(str(tmp_path / "x.npy"), 0), np.eye(2))
    assert argument("null", 0) is None and argument("-3", 0) == -3 and argument("0x10", 0) == 16
    assert argument("float16[2,3]", 0).shape == (2, 3)
    assert not argument("zeros:int32[4]", 0).any() and argument("int32[4]", 1).dtype == np.int32
    assert argument("bfloat16[4]", 0).dtype.name == "bfloat16"
    assert argument("uninitialised:float32[4]", 0).unwritten.all()
    assert (argument("float32[9]", 1) == argument("float32[9]", 1)).all()
