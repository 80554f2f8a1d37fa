"""What kernels of all kinds of authors use: calls, printing, structures, variables, templates."""

import numpy as np
import pytest

import ptxsim
from ptxsim import CompileError, LaunchError, PtxError, Structure, UnknownInstruction
from ptxsim.compile.headers import core_libraries

f4 = np.float32


def run(source, args, *, entry="k", threads=32, blocks=1, **how):
    how = {"check": True, **how}
    return ptxsim.launch(source, entry, (blocks, 1, 1), (threads, 1, 1), args, **how)


# --- functions ------------------------------------------------------------------------------------

CALLS = """struct Pair { float a; double b; int c[3]; };
__device__ __noinline__ float twice(float x) { return x + x; }
__device__ __noinline__ Pair make(float x, Pair p, int n) {
    Pair q = p;
    if (n > 5) return q;
    q.a = twice(x) + twice(q.a); q.b *= n; q.c[n % 3] = 100 + n;
    return q;
}
extern "C" __global__ void k(float* a, double* b, int* c) {
    const int t = threadIdx.x;
    Pair p = {1.0f + t, 2.0 + t, {t, t + 1, t + 2}};
    if (t % 2) p = make(0.5f, p, t);
    a[t] = p.a; b[t] = p.b; c[t] = p.c[0] * 10000 + p.c[1] * 100 + p.c[2];
}"""


def test_functions_are_called_with_numbers_and_structures():
    a, b, c = np.zeros(8, f4), np.zeros(8), np.zeros(8, np.int32)
    assert not run(CALLS, [a, b, c], threads=8).findings
    for t in range(8):
        pair, triple = [1.0 + t, 2.0 + t], [t, t + 1, t + 2]
        if t % 2 and t <= 5:
            pair, triple[t % 3] = [1.0 + 2 * pair[0], pair[1] * t], 100 + t
        assert [a[t], b[t]] == pair and c[t] == triple[0] * 10000 + triple[1] * 100 + triple[2]


NARROW = """__device__ __noinline__ unsigned char mix(
    unsigned char a, float b, short c, signed char d, bool e) {
    return e ? int(a * b) + c - d : a ^ d; }
extern "C" __global__ void k(unsigned char* a, const short* c, const signed char* d, int* e) {
    const int t = threadIdx.x; e[t] = -mix(a[t], 1.5f, c[t], d[t], t & 1); }"""


def test_integers_of_8_and_16_bits_are_given_and_returned():
    random = np.random.default_rng(0)
    a, d = random.integers(0, 120, 32).astype(np.uint8), random.integers(-20, 0, 32).astype(np.int8)
    c, e = random.integers(-5, 30, 32).astype(np.int16), np.zeros(32, np.int32)
    assert not run(NARROW, [a, c, d, e]).findings
    assert (c < 0).any()
    odd = (1.5 * a).astype(int) + c - d
    expected = np.where(np.arange(32) % 2, odd, a ^ d.view(np.uint8))
    assert (-e == expected % 256).all()


TWO = """__device__ __noinline__ int down(int n) { return n < 2 ? n : down(n - 1) + down(n - 2); }
extern "C" __global__ void asks(int* x) { x[0] = down(x[0]); }
__device__ int other(int n) { return n; }
extern "C" __global__ void points(int* x) {
    int (*f)(int) = x[0] > 3 ? other : down; x[0] = f(x[1]); }
extern "C" __global__ void takes(int** x) { x[0] = (int*)malloc(4); }
extern "C" __global__ void fine(int* x) { x[threadIdx.x] = 7; }"""


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("asks", r"kernel 'asks', line 1: calls \w*down\w*, which calls itself: .* no recursion"),
        ("points", r"kernel 'points', line 1: calls \w*down\w*, which calls itself"),
        ("takes", "kernel 'takes', line 6: calls malloc, a function that the simulator does not"),
    ],
)
def test_a_call_that_is_not_known_is_a_sentence_and_spares_the_other_kernels(entry, message):
    x = np.zeros(32, np.int32)
    with pytest.raises(PtxError, match=message):
        run(TWO, [x], entry=entry)
    assert not x.any()
    assert not run(TWO, [x], entry="fine").findings and (x == 7).all()


POINTERS = """typedef float (*Operation)(float, float);
struct Step { char count; Operation operation; };
__device__ float sum(float a, float b) { return a + b; }
__device__ float product(float a, float b) { return a * b; }
__device__ float larger(float a, float b) {
    for (int i = 0; i < 3; ++i) if (a < b + i) return b;
    return a;
}
__device__ float negative(float a) { return -a; }
__device__ Operation table[] = {sum, product, larger};
__constant__ Step steps[] = {{1, sum}, {2, product}, {3, larger}};
__device__ float (*single)(float) = negative;

#define KERNEL(name, ...) \\
    extern "C" __global__ void name(const int* which, float* a, const float* b) { \\
        const int t = blockIdx.x * blockDim.x + threadIdx.x, n = which[t]; __VA_ARGS__ }

KERNEL(in_global, a[t] = table[n](a[t], b[t]);)
KERNEL(in_constant, a[t] = steps[n].operation(a[t], b[t]);)
KERNEL(in_local, Operation mine[] = {sum, product, larger}; a[t] = mine[n](a[t], b[t]);)
KERNEL(in_shared, __shared__ Operation mine[3]; if (threadIdx.x < 3) mine[threadIdx.x] = table[n];
       __syncthreads(); a[t] = mine[n](a[t], b[t]);)
KERNEL(as_value, Operation mine = n == 0 ? sum : n == 1 ? product : larger;
       a[t] = mine(a[t], b[t]);)
KERNEL(if_any, if (Operation mine = n < 3 ? table[n] : nullptr) a[t] = mine(a[t], b[t]);)
KERNEL(wrong, a[t] = (n < 3 ? table[n] : (Operation)b)(a[t], b[t]);)
KERNEL(other_type, a[t] = (n < 3 ? table[n] : (Operation)single)(a[t], b[t]);)
"""


@pytest.mark.parametrize(
    "how", [{"check": False}, {"check": True}, {"check": False, "count": True}]
)
@pytest.mark.parametrize(
    "entry", ["in_global", "in_constant", "in_local", "in_shared", "as_value", "if_any"]
)
def test_threads_of_a_warp_call_different_functions_through_pointers(entry, how):
    random = np.random.default_rng(0)
    which = random.integers(0, 4 if entry == "if_any" else 3, 128).astype(np.int32)
    which[[0, 1, 2, 64, 65, 66]] = [0, 1, 2] * 2  # the entries of the table in shared memory
    a, b = random.standard_normal((2, 128)).astype(f4)
    expected = np.choose(which, [a + b, a * b, np.where(a < b + 2, b, a), a])
    assert not run(POINTERS, [which, a, b], entry=entry, threads=64, blocks=2, **how).findings
    assert (a == expected).all()


@pytest.mark.parametrize("entry", ["wrong", "other_type"])
def test_a_pointer_that_leads_to_no_such_function_is_found_and_the_thread_ends(entry):
    which = np.array([0, 1, 2, 3] * 8, np.int32)
    a, b = np.full(32, 2, f4), np.full(32, 5, f4)
    (finding,) = run(POINTERS, [which, a, b], entry=entry).findings
    assert (finding.kind, finding.thread, finding.lanes) == ("call of no function", (3, 0, 0), 8)
    assert finding.line == next(
        n for n, line in enumerate(POINTERS.splitlines(), 1) if f"({entry}," in line
    )
    assert a.reshape(8, 4).tolist() == [[7, 10, 5, 2]] * 8


def test_a_pointer_that_one_kernel_stores_is_an_argument_of_another():
    source = """typedef float (*Operation)(float);
    __device__ float negative(float a) { return -a; }
    __device__ float twice(float a) { return 2 * a; }
    __device__ Operation table[] = {negative, twice};
    extern "C" __global__ void get(Operation* operations) {
        operations[threadIdx.x] = table[threadIdx.x]; }
    extern "C" __global__ void k(float* a, Operation operation) {
        a[threadIdx.x] = operation(a[threadIdx.x]); }"""
    operations, a = np.zeros(2, np.int64), np.arange(32, dtype=f4)
    run(source, [operations], entry="get", threads=2)
    for operation in operations:
        assert not run(source, [a, operation]).findings
    assert (a == -2 * np.arange(32)).all()


METHODS = """struct Shape { int scale; __device__ virtual int area(int n) const { return 0; } };
struct Square : Shape { __device__ int area(int n) const override { return scale * n * n; } };
struct Row : Shape { __device__ int area(int n) const override { return scale * n; } };
__device__ __noinline__ int area(const Shape& shape, int n) { return shape.area(n); }
extern "C" __global__ void k(int* out) {
    const int t = threadIdx.x;
    Square square; Row row; Shape shape;
    square.scale = 3; row.scale = 5;
    out[t] = area(t % 3 == 0 ? square : t % 3 == 1 ? (const Shape&)row : shape, t);
}"""


def test_virtual_functions_are_called():
    out, t = np.full(64, -1, np.int32), np.arange(64)
    assert not run(METHODS, [out], threads=64).findings
    assert (out == np.choose(t % 3, [3 * t * t, 5 * t, 0 * t])).all()


TARGETS = """.version 8.0
.target sm_90a
.address_size 64
.func (.param .b32 out) less(.param .b32 in)
{ .reg .b32 r; ld.param.b32 r, [in]; sub.s32 r, r, 1; st.param.b32 [out], r; ret; }
.func (.param .b32 out) more(.param .b32 in)
{ .reg .b32 r; ld.param.b32 r, [in]; add.s32 r, r, 1; st.param.b32 [out], r; ret; }
.visible .entry k(.param .u64 data)
{
    .reg .pred odd, high;
    .reg .b32 t, value;
    .reg .b64 address, offset, function;
    ld.param.u64 address, [data];
    mov.u32 t, %tid.x;
    mul.wide.u32 offset, t, 4;
    add.u64 address, address, offset;
    ld.global.b32 value, [address];
    and.b32 t, t, 1;
    setp.eq.u32 odd, t, 1;
    setp.gt.s32 high, value, 9;
    mov.u64 function, less;
    @odd mov.u64 function, more;
    {
        .param .b32 given; .param .b32 result;
        st.param.b32 [given], value;
        st.param.b32 [result], value;
        known: .calltargets TARGETS;
        @!high call (result), function, (given), known;
        ld.param.b32 value, [result];
    }
    st.global.b32 [address], value;
    ret;
}"""


def test_a_guarded_call_reaches_the_targets_that_are_named_and_no_others():
    x = np.arange(16, dtype=np.int32)
    text = TARGETS.replace("TARGETS", "less, more")
    assert not ptxsim.launch_ptx(text, "k", 1, 16, [x], check=True).findings
    assert x.tolist() == [-1, 2, 1, 4, 3, 6, 5, 8, 7, 10, 10, 11, 12, 13, 14, 15]
    text = TARGETS.replace("TARGETS", "less")
    (finding,) = ptxsim.launch_ptx(text, "k", 1, 16, [x], check=True).findings
    assert (finding.kind, finding.thread, finding.lanes) == ("call of no function", (1, 0, 0), 4)


ITSELF = """typedef int (*Step)(int);
__device__ int half(int n);
__device__ int last(int n) { return 10 * n; }
__device__ Step steps[] = {last, half};
__device__ int half(int n) { return steps[n > 4](n / 2); }
extern "C" __global__ void k(int* x) { x[threadIdx.x] = steps[1](x[threadIdx.x]); }"""


def test_recursion_through_a_pointer_is_an_error_once_a_thread_comes_there():
    x = np.arange(5, dtype=np.int32)
    assert not run(ITSELF, [x], threads=5).findings
    assert x.tolist() == [0, 0, 10, 10, 20]
    with pytest.raises(
        PtxError, match=r"'k', line 5: calls a function .* pointer, which calls itself"
    ):
        run(ITSELF, [x := np.array([3, 9], np.int32)], threads=2)
    assert x.tolist() == [3, 9]


# --- printing, and ends ---------------------------------------------------------------------------


def test_printf_prints_as_c_does(capsys):
    source = r"""extern "C" __global__ void k(int n) {
        const int t = threadIdx.x;
        if (t == 1 || t == 30)
            printf("%d|%5d|%-4u|%04x|%+.2f|%e|%g|%s|%c|%lld|%llu|%hhd|%*d|%%\n",
                   t, -t, t, 200 + t, t / 3.0, 1e10 * t, 0.5f, n ? "yes" : "no", 'a' + 1,
                   -(1ll << 40), ~0ull, 300, 6, n);
        if (t == 31) printf("no values\n");
    }"""
    assert not run(source, [5]).findings
    lines = [
        f"{t}|{-t:5d}|{t:<4d}|{200 + t:04x}|{t / 3:+.2f}|{1e10 * t:e}|0.5|yes|b|{-(2**40)}|"
        f"{2**64 - 1}|44|     5|%\n"
        for t in (1, 30)
    ]
    assert capsys.readouterr().out == "".join(lines) + "no values\n"


@pytest.mark.parametrize(("blocks", "times", "more"), [(1, 3, 0), (1, 4, 28), (600, 2, 38300)])
def test_the_first_lines_are_printed_and_the_others_are_counted(blocks, times, more, capsys):
    source = """extern "C" __global__ void k(int times) {
        for (int i = 0; i < times; ++i) printf("%d: %d\\n", i, threadIdx.x);
    }"""
    run(source, [times], blocks=blocks, check=False)
    *lines, last = capsys.readouterr().out.splitlines()
    assert lines[:32] == [f"0: {lane}" for lane in range(32)]
    if more:
        assert len(lines) == 100 and last == f"… and {more:,} more lines of what the kernel prints"
    else:
        assert (len(lines), last) == (95, "2: 31")


def test_blocks_that_are_traced_again_print_once(capsys):
    source = 'extern "C" __global__ void k(float* x) { if (!threadIdx.x) printf("x"); x[0] = 1; }'
    x = np.zeros(1, f4)
    done = run(source, [x], blocks=3, check=False, count=True)
    assert done.accesses((1, 0, 0)) and capsys.readouterr().out == "xxx"


def test_an_assertion_that_does_not_hold_is_a_finding_and_ends_the_thread():
    source = """extern "C" __global__ void k(int* x, int n) {
        assert(threadIdx.x < n);
        x[threadIdx.x] = 1;
    }"""
    x = np.zeros(32, np.int32)
    (finding,) = run(source, [x, 29]).findings
    assert (finding.kind, finding.line, finding.thread) == ("failed assertion", 2, (29, 0, 0))
    assert finding.lanes == 3 and "`threadIdx.x < n` does not hold, kernel.cu:2" in finding.what
    assert x.tolist() == [1] * 29 + [0] * 3


def test_a_trap_is_a_finding_and_ends_the_thread():
    source = """extern "C" __global__ void k(int* x) {
        if (threadIdx.x == 3) __trap();
        x[threadIdx.x] = 1;
    }"""
    x = np.zeros(32, np.int32)
    (finding,) = run(source, [x]).findings
    assert (finding.kind, finding.line, finding.thread, finding.lanes) == ("trap", 2, (3, 0, 0), 1)
    assert x[3] == 0 and x.sum() == 31


# --- structures -----------------------------------------------------------------------------------

STRUCTURE = """struct Inner { char small; short two[2]; };
struct Given { char tag; float* out; Inner inner; double factor; const int* in; float w[5]; };
extern "C" __global__ void k(Given g, int n) {
    const int t = threadIdx.x;
    g.out[t] = g.tag + g.inner.small * g.factor + g.inner.two[t % 2] + g.in[t] * n + g.w[t % 5];
}"""


def test_a_structure_is_put_together_from_its_members():
    out, numbers = np.zeros(32, f4), np.arange(32, dtype=np.int32)
    weights = np.arange(5, dtype=f4) / 4
    inner = Structure(np.int8(3), np.int16(-7), np.int16(90))
    given = Structure(np.int8(1), out, inner, np.float64(2.5), ptxsim.read_only(numbers), *weights)
    assert given.size == 64 and given.alignment == 8
    assert not run(STRUCTURE, [given, 2]).findings
    t = np.arange(32)
    assert np.array_equal(
        out, (1 + 7.5 + np.where(t % 2, 90, -7) + 2 * t + weights[t % 5]).astype(f4)
    )


def test_a_structure_may_be_a_numpy_scalar_or_bytes():
    source = """struct Two { short a; int b; };
    extern "C" __global__ void k(Two two, int* x, short* half) { x[0] = two.a * 1000 + two.b; }"""
    dtype = np.dtype([("a", "i2"), ("b", "i4")], align=True)
    for given in (np.array((3, 7), dtype)[()], np.array((3, 7), dtype).tobytes()):
        x = np.zeros(1, np.int32)
        run(source, [given, x, 0], threads=1)
        assert x[0] == 3007


def test_a_half_is_a_structure_of_two_bytes():
    source = """struct __align__(2) half { unsigned short bits; };
    extern "C" __global__ void k(half h, unsigned* x) { x[0] = h.bits; }"""
    x = np.zeros(1, np.uint32)
    run(source, [np.float16(1.5), x], threads=1)
    assert x[0] == 0x3E00
    with pytest.raises(LaunchError, match=r"h = 1.5 cannot be a structure of 2 bytes"):
        run(source, [1.5, x], threads=1)
    with pytest.raises(LaunchError, match="h is a structure of 2 bytes, not of 4"):
        run(source, [f4(1.5), x], threads=1)


def test_a_member_of_no_size_is_refused():
    with pytest.raises(TypeError, match=r"member 1 of a Structure is 3, whose size is not known"):
        Structure(np.zeros(2), 3)


def test_an_index_into_a_structure_is_taken_at_run_time():
    source = """struct Table { int n[40]; };
    extern "C" __global__ void k(const __grid_constant__ Table t, int* x) {
        x[threadIdx.x] = t.n[(x[threadIdx.x] * 7) % 40]; }"""
    x, table = np.arange(32, dtype=np.int32), np.arange(40, dtype=np.int32) ** 2
    assert not run(source, [table.tobytes(), x]).findings
    assert np.array_equal(x, table[np.arange(32) * 7 % 40])


# --- variables ------------------------------------------------------------------------------------

VARIABLES = """__constant__ float factor[4];
__device__ int counted = 5;
namespace inner { __device__ double far[2]; }
extern "C" __global__ void k(float* x) {
    x[threadIdx.x] *= factor[threadIdx.x % 4];
    atomicAdd(&counted, 1);
    if (threadIdx.x == 0) inner::far[1] += 0.5;
}"""


def test_variables_are_given_and_keep_what_the_kernel_writes():
    x, factor = np.ones(32, f4), np.arange(4, dtype=f4)
    kept = {"factor": factor, "counted": np.array([100], np.int32), "far": np.zeros(2)}
    for _ in range(2):
        run(VARIABLES, [x], variables=kept)
    assert np.array_equal(x, np.tile(factor**2, 8))
    assert kept["counted"][0] == 164 and kept["far"].tolist() == [0, 1]
    y = np.ones(32, f4)
    run(VARIABLES, [y])  # as declared
    assert not y.any()


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"other": np.zeros(4, f4)}, "no single variable 'other' in use; it has .*factor"),
        ({"factor": np.zeros(5, f4)}, "variable factor has 16 bytes, the array 20"),
        ({"factor": np.zeros((4, 2), f4)[:, 0]}, "variable factor is not C-contiguous"),
        ({"factor": 1.0}, "variable factor is 1.0: pass a NumPy array"),
        ({"factor": np.zeros(4, ">f4")}, "variable factor is an array of >f4, whose bytes"),
    ],
)
def test_a_variable_that_does_not_fit_is_refused(variables, message):
    x = np.ones(32, f4)
    with pytest.raises(LaunchError, match=message):
        run(VARIABLES, [x], variables=variables)
    assert (x == 1).all()


# --- names ----------------------------------------------------------------------------------------

TEMPLATE = """namespace mine { struct Third { static const int value = 3; };
template <typename T, int N> __global__ void scale(T* x, T factor) {
    x[threadIdx.x] *= factor * N; } }
__global__ void plain(float* x) { x[threadIdx.x] = 4; }
__global__ void plain2(float* x, int n) { x[threadIdx.x] = n; }"""


def test_templates_and_kernels_without_extern_c_are_found_by_name():
    x = np.ones(32)
    run(TEMPLATE, [x, 2.0], entry="mine::scale<double, mine::Third::value>")
    assert (x == 6).all()
    y = np.ones(32, f4)
    run(TEMPLATE, [y, 2.0], entry="mine::scale<float, 5>")
    assert (y == 10).all()
    run(TEMPLATE, [y], entry="plain")
    assert (y == 4).all()
    run(TEMPLATE, [y, 9], entry="_Z6plain2Pfi")
    assert (y == 9).all()


def test_a_name_that_is_not_there_is_refused():
    with pytest.raises(LaunchError, match=r"no kernel 'other'; it has _Z5plainPf, _Z6plain2Pfi"):
        run(TEMPLATE, [], entry="other")
    with pytest.raises(LaunchError, match=r"no kernel 'plain'; it has"):
        run(TEMPLATE, [], entry="plain", by_symbol=True)
    with pytest.raises(CompileError, match="does not compile"):
        run(TEMPLATE, [], entry="mine::scale<nothing, 1>")


# --- special registers, numbers, addresses --------------------------------------------------------


def test_clocks_count_instructions_and_go_forward():
    source = """extern "C" __global__ void k(long long* out, int n) {
        const long long begun = clock64(); const unsigned low = clock();
        float x = n; for (int i = 0; i < n; ++i) x = x * 1.5f + i;
        unsigned long long t; asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
        out[0] = clock64() - begun; out[1] = (unsigned)clock() - low;
        out[2] = t - begun; out[3] = x;
    }"""
    short, long = np.zeros(4, np.int64), np.zeros(4, np.int64)
    run(source, [short, 1], threads=1)
    run(source, [long, 50], threads=1)
    assert (short[:3] > 0).all() and (long[:2] > short[:2] + 49).all()


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("tex.2d.v4.f32.f32 {t, t, t, t}, [l, {t, t}], {r, r};", "a texture .* an offset"),
        ("tex.2dms.v4.f32.s32 {t, t, t, t}, [l, {r, r, r, r}];", "samples"),
        ("txq.num_mipmap_levels.b32 r, [l];", "other than its size"),
        ("sust.p.1d.v4.b32.trap [l, {r}], {r, r, r, r};", "a surface .* converts"),
        ("sured.b.add.1d.u32.trap [l, {r}], r;", "a surface .* adds"),
    ],
)
def test_other_forms_of_textures_and_surfaces_are_refused_in_words(statement, message):
    source = f"""extern "C" __global__ void k(float* x) {{
        asm volatile("{{ .reg .f32 t; .reg .b32 r; .reg .b64 l; {statement} }}"); }}"""
    with pytest.raises(UnknownInstruction, match=rf"line 2: .*{message}"):
        run(source, [np.zeros(1, f4)])


def test_a_copy_whose_source_is_ignored_brings_zeros():
    source = """extern "C" __global__ void k(const float* g, float* out) {
        __shared__ __align__(16) float s[64];
        const int t = threadIdx.x;
        s[2 * t] = s[2 * t + 1] = 7;
        __syncthreads();
        const unsigned to = (unsigned)__cvta_generic_to_shared(s + 2 * t);
        asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0;"
                     " cp.async.ca.shared.global [%0], [%1], 8, p; }"
                     :: "r"(to), "l"(t % 3 ? g + 2 * t : nullptr),
                     "r"((int)(t % 3 == 0)) : "memory");
        asm volatile("cp.async.wait_all;" ::: "memory");
        __syncthreads();
        out[t] = s[t]; out[32 + t] = s[32 + t];
    }"""
    g, out = np.arange(1, 65, dtype=f4), np.zeros(64, f4)
    assert not run(source, [g, out]).findings
    assert np.array_equal(out, np.where(np.arange(64) // 2 % 3, g, 0))


def test_many_threads_may_initialise_an_mbarrier_alike():
    source = """extern "C" __global__ void k(int* out) {
        __shared__ unsigned long long b;
        const unsigned at = (unsigned)__cvta_generic_to_shared(&b);
        asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(at), "r"(COUNT) : "memory");
        __syncthreads();
        asm volatile("{ .reg .b64 s; mbarrier.arrive.shared.b64 s, [%0]; }" :: "r"(at) : "memory");
        asm volatile("{ .reg .pred d; again: mbarrier.try_wait.parity.shared.b64 d, [%0], 0;"
                     " @!d bra again; }" :: "r"(at) : "memory");
        out[threadIdx.x] = 1;
    }"""
    out = np.zeros(64, np.int32)
    assert not run(source, [out], threads=64, options=("-DCOUNT=64",)).findings and out.all()
    differ = run(source, [out], threads=64, options=("-DCOUNT=64+threadIdx.x/32",)).findings
    assert {"write-after-write race"} <= {finding.kind for finding in differ}


@pytest.mark.parametrize(
    ("order", "kinds"), [("acq_rel", set()), ("relaxed", {"read-after-write race"})]
)
def test_who_counts_down_last_knows_what_the_others_did(order, kinds):
    """Also where all count in the same instruction, one lane of each warp."""
    source = """extern "C" __global__ void k(int* out) {
        __shared__ int left, seen[4];
        const int warp = threadIdx.x / 32;
        if (threadIdx.x == 0) left = 4;
        __syncthreads();
        if (threadIdx.x % 32 != 0) return;
        seen[warp] = 10 + warp;
        int before;
        asm volatile("atom.ORDER.cta.shared.add.s32 %0, [%1], -1;" : "=r"(before)
                     : "r"((unsigned)__cvta_generic_to_shared(&left)) : "memory");
        if (before == 1) for (int i = 0; i < 4; ++i) out[i] = seen[i];
    }"""
    out = np.zeros(4, np.int32)
    findings = run(source.replace("ORDER", order), [out], threads=128).findings
    assert {finding.kind for finding in findings} == kinds
    assert out.tolist() == [10, 11, 12, 13]


# --- CUDA's C++ library ---------------------------------------------------------------------------

GROUPS = "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;\n"
LIBRARY = {
    "tiles": (
        GROUPS,
        """auto tile = cg::tiled_partition<8>(cg::this_thread_block());
        int v = t; for (int o = 4; o; o /= 2) v += tile.shfl_down(v, o);
        x[t] = tile.shfl(v, 0);""",
        np.repeat(np.arange(32).reshape(4, 8).sum(axis=1), 8),
    ),
    "grid": (
        GROUPS,
        """if (t == 0) atomicAdd(x + 40, 7);
        cg::this_grid().sync();
        x[t] = x[40];""",
        [14] * 32,
    ),
    "barrier": (
        "#include <cuda/barrier>\n",
        """__shared__ cuda::barrier<cuda::thread_scope_block> b;
        if (t == 0) init(&b, 32);
        __syncthreads();
        x[t] = t; b.arrive_and_wait(); const int other = x[31 - t]; b.arrive_and_wait();
        x[t] = other;""",
        np.arange(31, -1, -1),
    ),
    "pipeline": (
        "#include <cuda/pipeline>\n",
        """__shared__ int s[32]; auto p = cuda::make_pipeline();
        p.producer_acquire();
        cuda::memcpy_async(s + t, x + 64 + t, sizeof(int), p);
        p.producer_commit(); p.consumer_wait(); x[t] = s[t]; p.consumer_release();""",
        np.arange(64, 96),
    ),
}


@pytest.mark.skipif(core_libraries() is None, reason="CUDA's C++ library is not here")
@pytest.mark.parametrize("name", LIBRARY)
def test_cudas_cpp_library_compiles_and_runs(name):
    begin, body, expected = LIBRARY[name]
    source = f'{begin}extern "C" __global__ void k(int* x) {{ const int t = threadIdx.x; {body} }}'
    x = np.arange(96, dtype=np.int32)
    x[:64] = 0
    assert not run(source, [x], blocks=2 if name == "grid" else 1).findings
    assert x[:32].tolist() == list(expected)


@pytest.mark.skipif(core_libraries() is None, reason="CUDA's C++ library is not here")
def test_groups_larger_than_a_warp_meet_in_reserved_memory():
    source = (
        GROUPS
        + """#include <cooperative_groups/reduce.h>
    extern "C" __global__ void k(int* x) {
        auto tile = cg::tiled_partition<64>(cg::this_thread_block());
        __shared__ int s[256];
        const int t = threadIdx.x;
        s[t] = t;
        tile.sync();
        x[t] = s[t / 64 * 64 + 63 - t % 64];
        x[256 + t] = cg::reduce(tile, t, cg::plus<int>());
        x[512 + t] = tile.shfl(x[t], 5);
    }"""
    )
    x, t = np.zeros((3, 256), np.int32), np.arange(256)
    assert not run(source, [x], threads=256, limit_s=60).findings
    assert np.array_equal(x[0], t // 64 * 64 + 63 - t % 64)
    assert np.array_equal(x[1], np.repeat(t.reshape(4, 64).sum(axis=1), 64))
    assert np.array_equal(x[2], t // 64 * 64 + 58)
