"""The simulator's checks: each kind of mistake planted, its right counterpart, random programs."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ptxsim import launch, ptx, uninitialised
from ptxsim.checks import checker
from ptxsim.checks.checker import Checker
from ptxsim.checks.clocks import BlockClocks, ThreadClocks
from ptxsim.checks.program import flags_of
from ptxsim.compile import nvrtc
from ptxsim.threads.barriers import Opened
from ptxsim.threads.layout import Layout

THREADS = 64


def source(body):
    """A kernel; the lines of `body` are numbered from 1."""
    return f'extern "C" __global__ void k(int* out, int zero) {{ {body} }}'


def check(body, threads=(THREADS, 1, 1), blocks=1, **how):
    """The findings in a kernel with this body."""
    out = np.zeros(blocks * int(np.prod(threads)), np.int32)
    return launch(source(body), "k", (blocks, 1, 1), threads, [out, 0], check=True, **how).findings


def assert_finding(findings, kind, line, block, thread, what, lanes=None):
    (finding,) = [f for f in findings if (f.kind, f.line) == (kind, line)]
    assert (finding.kernel, finding.block, finding.thread) == ("k", block, thread)
    assert finding.what == what
    assert lanes is None or finding.lanes == lanes


START = """const int t = threadIdx.x;
    __shared__ int s[64], other[64];
    s[t] = t;
"""  # lines 1 to 3; what is added begins in line 4

# name -> (body, (kind, line, thread, what, lanes))
RACES = {
    "no barrier before a read": (
        "out[t] = s[63 - t];",
        ("read-after-write race", 4, 0, "s[63] written by thread (63, 0, 0) in line 3", 64),
    ),
    "no barrier before a write": (
        "__syncthreads();\nint v = s[t ^ 1];\ns[t] = v + 5;\nout[t] = v;",
        ("write-after-read race", 6, 0, "s[0] read by thread (1, 0, 0) in line 5", 64),
    ),
    "a barrier of the warp between two warps": (
        "__syncwarp();\nout[t] = s[t ^ 32];",
        ("read-after-write race", 5, 0, "s[32] written by thread (32, 0, 0) in line 3", 64),
    ),
    "lanes of a warp do not wait for each other": (
        "__syncthreads();\nint v = s[t ^ 1];\n__shfl_xor_sync(~0u, v, 1);\ns[t] = -v;\nout[t] = v;",
        ("write-after-read race", 7, 0, "s[0] read by thread (1, 0, 0) in line 5", 64),
    ),
    "an atomic after a read": (
        "__syncthreads();\nint v = s[0];\natomicAdd(&s[0], 1);\nout[t] = v;",
        ("write-after-read race", 6, 0, "s[0] read by thread (63, 0, 0) in line 5", 64),
    ),
    "a read after an atomic": (
        "__syncthreads();\natomicAdd(&s[t / 2], 1);\nout[t] = s[t / 2];",
        ("read-after-write race", 6, 0, "s[0] updated by thread (1, 0, 0) in line 5", 64),
    ),
    "a write after an atomic": (
        "__syncthreads();\natomicAdd(&s[t / 2], 1);\ns[t / 2] = 9;\nout[t] = t;",
        ("write-after-write race", 6, 0, "s[0] updated by thread (1, 0, 0) in line 5", 64),
    ),
    "part of a wider element": (
        "__syncthreads();\n((char*)other)[t] = t;\nout[t] = ((short*)other)[t / 2];",
        ("read-after-write race", 6, 0, "other[0] written by thread (1, 0, 0) in line 5", 64),
    ),
}


@pytest.mark.parametrize("name", RACES)
def test_a_race_is_found_with_both_threads_and_lines(name):
    body, (kind, line, thread, what, lanes) = RACES[name]
    whole = f"{what} with no barrier between"
    findings = check(START + body, blocks=2)
    assert_finding(findings, kind, line, (0, 0, 0), (thread, 0, 0), whole, 2 * lanes)


RIGHT = {
    "a barrier before a read": "__syncthreads();\nout[t] = s[63 - t];",
    "barriers on both sides": (
        "for (int i = 0; i < 3; ++i) {\n__syncthreads();\nint v = s[t ^ 1];\n__syncthreads();\n"
        "s[t] = v + 5; }"
    ),
    "bytes of one word": "__syncthreads();\n((char*)other)[t] = t;\nout[t] = ((char*)other)[t];",
    "many set one flag": (
        "if (t % 3 == 0) s[t] = t;\n__shared__ int flag;\nif (t > zero + 7) flag = 1;\n"
        "else if (t < 5) flag = 1;\n__syncthreads();\nout[t] = flag;"
    ),
    "two halves of a warp meet from two branches": (
        "if (t % 32 < 16) { __syncwarp(); other[t] = s[t + 16]; __syncwarp(); s[t] = 2; }\n"
        "else { __syncwarp(); other[t] = s[t - 16]; __syncwarp(); s[t] = 3; }"
    ),
    "arriving tells what was done before": (
        'if (t < 32) asm volatile("bar.arrive 1, 64;" ::: "memory");\n'
        'else { asm volatile("bar.sync 1, 64;" ::: "memory"); s[t - 32] = 3; }'
    ),
    "atomics beside atomics": (
        "__syncthreads();\natomicAdd(&s[t / 16], 1);\natomicMax(&s[t / 4], 1);\n__syncthreads();\n"
        "out[t] = s[t / 16];"
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_kernel_has_no_finding(name):
    assert check(START + RIGHT[name], blocks=3) == []


def test_lanes_of_one_store_may_write_the_same_value_but_not_different_ones():
    body = "__shared__ int s[8]; s[threadIdx.x / 8] = {};\n__syncthreads();\nout[0] = s[zero];"
    assert check(body.replace("{}", "threadIdx.x / 8")) == []
    assert_finding(
        check(body.replace("{}", "threadIdx.x")), "write-after-write race", 1,
        (0, 0, 0), (0, 0, 0),
        "s[0] written by thread (7, 0, 0) in the same instruction, with another value", 56,
    )  # fmt: skip


def test_arrays_and_threads_of_two_dimensions_and_dynamic_memory_are_named():
    body = """
    __shared__ float first[3][5];
    extern __shared__ double more[];
    first[threadIdx.y][threadIdx.x] = more[threadIdx.x] = 1.0f;
    if (threadIdx.y == 2) out[0] = first[threadIdx.y - 1][threadIdx.x] + more[threadIdx.x];
    """
    findings = check(body, threads=(5, 3, 1), shared_bytes=40)
    what = "first[5] written by thread (0, 1, 0) in line 4 with no barrier between"
    assert_finding(findings, "read-after-write race", 5, (0, 0, 0), (0, 2, 0), what, 5)
    body = """
    extern __shared__ double more[];
    if (threadIdx.x != 3) more[threadIdx.x] = 1.0f;
    __syncthreads();
    out[threadIdx.x] = more[threadIdx.x];
    """
    findings = check(body, threads=(5, 1, 1), shared_bytes=40, blocks=2)
    what = "more[3] was never written"
    assert_finding(findings, "uninitialised read", 5, (0, 0, 0), (3, 0, 0), what, 2)


# --- barriers ---------------------------------------------------------------------------------


def test_nobody_waits_for_threads_that_have_returned():
    body = START + "if (t >= 61) return;\n__syncthreads();\nout[t] = s[t];"
    assert check(body) == []
    last = START + "__syncthreads();\nout[t] = s[t];\nif (t < 3) return;\nout[t] = 1;"
    assert check(last) == []
    loop = START + "for (int i = 0; i < 5; ++i) {\nif (t > 50 + i) return;\n__syncthreads();\n}"
    assert check(loop + "\nout[t] = s[t];") == []


def test_threads_that_go_round_a_barrier_and_return_are_named():
    what = "went another way and returned, and never comes to this barrier, where others wait"
    round_it = START + "if (t < 61) __syncthreads();\nout[t] = s[t];"
    assert_finding(check(round_it), "missed barrier", 4, (0, 0, 0), (61, 0, 0), what, 3)
    trips = START + "for (int i = 0; i < t; ++i)\n__syncthreads();\nout[t] = s[t];"
    assert "missed barrier" in {finding.kind for finding in check(trips)}


def test_part_of_a_warp_at_a_barrier_with_a_count_is_found():
    odd = 'if (t % 2) asm volatile("bar.sync 1, 32;" ::: "memory");\nelse '
    what = "does not come to this barrier, where others of its warp wait"
    findings = check(START + odd + 'asm volatile("bar.sync 2, 32;" ::: "memory");\nout[t] = s[t];')
    assert_finding(findings, "divergent barrier", 4, (0, 0, 0), (0, 0, 0), what, 32)


@pytest.mark.parametrize(
    ("count", "thread", "what"),
    [
        ("48 + zero", 0, "the barrier is for 48 threads, which is no multiple of 32"),
        ("t < 32 ? 64 : 32", 32, "barrier 1 is for 32 threads here and for 64 elsewhere"),
    ],
)
def test_a_count_that_does_not_fit_is_found(count, thread, what):
    body = START + f'asm volatile("bar.sync 1, %0;" :: "r"({count}) : "memory");\nout[t] = s[t];'
    findings = check(body)
    assert_finding(findings, "wrong barrier count", 4, (0, 0, 0), (thread, 0, 0), what)


# --- memory that nobody wrote -----------------------------------------------------------------


def test_shared_memory_that_nobody_wrote_is_found():
    body = START + "if (t != 50) other[t] = 1;\n__syncthreads();\nout[t] = other[63 - t] + s[t];"
    what = "other[50] was never written"
    findings = check(body, blocks=2)
    assert_finding(findings, "uninitialised read", 6, (0, 0, 0), (13, 0, 0), what, 2)


def test_global_memory_that_nobody_wrote_is_found():
    text = """extern "C" __global__ void k(float* C, const float* A, float beta) {
        const int i = blockIdx.x * 32 + threadIdx.x;
        if (i < 40) C[i] = A[i];
        else C[i] = A[i] + beta * C[i];
        A += C[i] > 1e30f;
        C[i] = A[i];
    }"""
    A, C = np.ones(64, np.float32), np.zeros(64, np.float32)
    args = [uninitialised(C), A, 0.0]
    findings = launch(text, "k", (2, 1, 1), (32, 1, 1), args, check=True).findings
    what = "C[40] was never written"
    assert_finding(findings, "uninitialised read", 4, (1, 0, 0), (8, 0, 0), what, 24)
    assert len(findings) == 1 and (C == 1).all()
    assert launch(text, "k", (2, 1, 1), (32, 1, 1), [C, A, 0.0], check=True).findings == []
    assert launch(text, "k", (2, 1, 1), (32, 1, 1), args).findings == []


def test_local_memory_that_nobody_wrote_is_found():
    body = """
    int mine[8];
    for (int i = 0; i < 6 + zero; ++i) mine[(i + threadIdx.x) % 8] = i;
    out[threadIdx.x] = mine[(1 + threadIdx.x * zero) % (6 + zero)];
    """
    assert_finding(
        check(body), "uninitialised read", 4, (0, 0, 0), (2, 0, 0),
        "local memory[1] was never written", 16,
    )  # fmt: skip
    assert check(body.replace("i < 6", "i < 8")) == []


def test_every_memory_is_followed_through_pointers_that_may_lead_to_any():
    before = "__constant__ int table[4] = {1, 2, 3, 4};\n__device__ int more[4] = {1, 2, 3, 4};\n"
    body = """
    __shared__ int s[64];
    int mine[4];
    const int t = threadIdx.x;
    for (int i = 0; i < 4; ++i) mine[(i + t) % 4] = i * table[i] + more[(i + t) % 4];
    int* any = t % 2 ? s + t : mine + t % 4;
    *any = 7;
    __syncthreads();
    out[t] = *any + table[t % 4] + mine[t % 4] + (t == zero + {} ? s[t] : 0);
    """
    args = [np.zeros(64, np.int32), 0]

    def findings(thread):
        text = before + source(body.replace("{}", thread))
        return launch(text, "k", (1, 1, 1), (64, 1, 1), args, check=True).findings

    assert findings("9") == []
    what = "s[10] was never written"
    assert_finding(findings("10"), "uninitialised read", 11, (0, 0, 0), (10, 0, 0), what, 1)


def test_a_load_that_the_compiler_does_too_early_counts_for_those_who_use_it():
    """`t == 9 ? total : 0` becomes a load by all lanes, and a choice."""
    body = """
    __shared__ int total, unused;
    const int t = threadIdx.x;
    if (out[0] == 5) unused = out[2];
    if (t == 9) total = out[1];
    asm volatile("" ::: "memory");
    out[t] = (t == {} ? total : 0) + (out[0] == 5 ? unused : 0);
    """
    assert check(body.replace("{}", "9")) == []
    what = "total written by thread (9, 0, 0) in line 5 with no barrier between"
    findings = check(body.replace("{}", "8"))
    assert_finding(findings, "read-after-write race", 7, (0, 0, 0), (8, 0, 0), what, 1)


def test_an_exchange_whose_result_is_not_used_is_a_write():
    body = """__shared__ int sum; {}
    __syncthreads();
    atomicAdd(&sum, 1);
    __syncthreads();"""
    assert check(body.replace("{}", "atomicExch(&sum, 0);")) == []
    findings = check(body.replace("{}", "out[0] = atomicExch(&sum, 0);"))
    assert_finding(findings, "uninitialised read", 1, (0, 0, 0), (0, 0, 0), "sum was never written")


# --- places -----------------------------------------------------------------------------------


def test_a_lane_outside_does_not_hide_what_the_others_write():
    body = START + "if (t > 0) other[t + 1] = t;\n__syncthreads();\nif (t > 1) out[t] = other[t];"
    assert [finding.kind for finding in check(body)] == ["out-of-bounds write"]


# --- what costs much, and long runs -----------------------------------------------------------

POLLS = {  # name -> (body, whether its loop waits for what other threads write)
    "a histogram": ("for (int i = t; i < 900; i += 64) atomicAdd(&s[out[i] & 63], 1);", False),
    "a scan": (
        "volatile int* all = s;\nfor (int far = 1; far < 64; far *= 2) {\n"
        "    const int sum = all[t] + all[max(t - far, 0)];\n    __syncthreads();\n"
        "    all[t] = sum;\n    __syncthreads();\n}", False,
    ),
    "places until there are none": (
        "for (int i = t; i < 900; i += 64) {\n    const int place = atomicAdd(&s[0], 1);\n"
        "    if (place > 63) break;\n    other[place] = i;\n}", True,
    ),
    "a flag": (
        "volatile int* all = s;\nif (t == 32) all[0] = 7;\nif (t == 0) while (all[0] != 7) { }",
        True,
    ),
    "a lock": (
        "bool done = false;\nwhile (!done) {\n    if (atomicCAS(&s[0], 0, 1) == 0) {\n"
        "        other[0] += 1;\n        done = true;\n        __threadfence_block();\n"
        "        atomicExch(&s[0], 0);\n    }\n}", True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", POLLS)
def test_only_a_loop_that_depends_on_what_it_reads_waits_for_others(name):
    """Flags make the checks keep a clock for each thread and order every access on its own."""
    body, waits = POLLS[name]
    program = nvrtc.compile_source(source(START + body), "k.cu", arch="sm_90a", options=())
    kernel = ptx.parse(program.ptx, "k.cu")["k"]
    assert bool(flags_of(kernel)[0]) == waits


@pytest.fixture(params=[BlockClocks, ThreadClocks])
def late(request, monkeypatch):
    """Clocks as they are after 2**15 accesses: a record of a time and a thread is 2**31 then."""

    class Late(request.param):
        def __init__(self, layout):
            super().__init__(layout)
            for _ in range(1 << 15):
                self.tick(0)

    by_thread = request.param is ThreadClocks
    monkeypatch.setattr(checker, request.param.__name__, Late)
    monkeypatch.setattr(checker, "needs_thread_clocks", lambda launch: by_thread)


def test_after_very_many_accesses_a_race_is_found_and_no_other(late):
    assert check(START + RIGHT["barriers on both sides"]) == []
    (finding,) = check(START + RACES["no barrier before a read"][0])
    assert finding.kind == "read-after-write race" and "s[63] written by thread (63" in finding.what


# --- asynchronous copies, as copies.py tells of them ------------------------------------------


class Block:
    """A Checker that is told what happens, in a kernel of one block of 64 threads.

    Instruction i stands in line i. `tile` is an array of 1024 bytes from byte 64 on.
    """

    def __init__(self):
        names = ["mbarrier.init.shared.b64", *["any.b32"] * 30]
        instructions = [ptx.Instruction(i, name, (), i, "") for i, name in enumerate(names)]
        shared = {"_ZZ1kE4tile": ptx.Variable(64, 1024)}
        self.layout, self.alive = Layout(((0, 1),) * 3, (64, 1, 1), (1, 1, 1)), True
        kernel = ptx.Kernel("k", [], shared=shared, instructions=instructions)
        self.launch = SimpleNamespace(
            kernel=kernel, shared_bytes=1088, cluster=(1, 1, 1), check=True
        )
        self.checker, self.findings = Checker(self), []
        self.thread = np.arange(64)
        self.everyone = self.layout.thread_number
        self.access(0, "store", 64 + 16 * self.thread, 16)
        self.meet(1)

    def find(self, kind, index, what, lanes):
        self.findings.append((kind, index, int(np.argmax(lanes)), what))

    def line(self, index):
        return self.launch.kernel.instructions[index].line

    def only(self, *threads):
        return np.isin(self.thread, threads)

    def happen(self, index, what, thread, *rest):
        """One of `happenings`."""
        lane = self.only(thread) if thread is not None else None
        if what in ("read", "write"):
            operation = {"read": "load", "write": "store"}[what]
            self.access(index, operation, 64 + 16 * rest[0], 16, lane)
        elif what == "copy":
            self.checker.copy_counts(8 * rest[1], lane)
            self.checker.copy_started(index, 64 + 16 * rest[0], 16, lane)
            self.checker.copy_landed(index, 64 + 16 * rest[0], 16, lane, barrier=8 * rest[1])
        elif what == "arrive":
            self.checker.mbarrier_arrive(index, 8 * rest[0], lane)
        elif what == "complete":
            self.checker.phase_completed(8 * rest[0], np.array([True]))
        elif what == "acquire":
            self.checker.mbarrier_look(index, 8 * rest[0], lane)
            self.checker.mbarrier_acquire(index, 8 * rest[0], lane)
        else:
            self.meet(index)

    def access(self, index, operation, addresses, size, mask=True):
        self.checker.access(index, "shared", operation, np.asarray(addresses), size, mask)

    def meet(self, index):
        go = Opened(0, np.array([True]), True, True, {index + 1: True}, [])
        self.checker.arrive(index, 0, None, True, waits=True)
        self.checker.open(go)


def block_with_mbarriers():
    block = Block()
    for barrier in (0, 8, 16):
        block.access(2, "store", barrier, 8, block.only(0))
    block.meet(3)
    return block


# What happens in a block, one after the other: (what, thread, place or mbarrier, …).
happenings = st.one_of(
    st.tuples(st.sampled_from(["read", "write"]), st.integers(0, 3), st.integers(0, 2)),
    st.tuples(st.just("copy"), st.integers(0, 3), st.integers(0, 2), st.integers(0, 1)),
    st.tuples(st.sampled_from(["arrive", "acquire"]), st.integers(0, 3), st.integers(0, 1)),
    st.tuples(st.just("complete"), st.just(-1), st.integers(0, 1)),
    st.just(("meet", None, None)),
)


def any_race(happened):
    """Whether two accesses of one place, one of them a write, are joined by no chain of events.

    A copy is an event of its thread, and beside it a write that leads to nothing but to those who
    see a later phase of its mbarrier.
    """
    count, before = len(happened), leads(happened)
    touches = [
        (i + count * (what == "copy"), rest[0], what != "read")
        for i, (what, _, *rest) in enumerate(happened) if what in ("read", "write", "copy")
    ]  # fmt: skip
    return any(
        place == other and (writes or also) and not before[i, j]
        for n, (i, place, writes) in enumerate(touches)
        for j, other, also in touches[n + 1 :]
    )


def leads(happened, by_copies=False):
    """[i, j]: whether event i leads to j; count + i is the write of copy i. `by_copies`: also what
    is before the start of a copy leads to those who see its mbarrier's phase."""
    count = len(happened)
    before = np.eye(2 * count, dtype=bool)
    for j, (what, thread, *rest) in enumerate(happened):
        before[j, count + j] = what == "copy"
        for i in range(j):
            earlier, by, *where = happened[i]
            if -1 not in (by, thread) and (by == thread or "meet" in (what, earlier)):
                before[i, j] = True
            phases = [event[0] == "complete" and event[2] == rest[-1] for event in happened[i:j]]
            if what == "acquire" and rest[0] == where[-1] and any(phases):
                before[i, j] |= earlier == "arrive" or (by_copies and earlier == "copy")
                before[count + i, j] |= earlier == "copy"
                before[i, j] |= earlier == "complete"
    for middle in range(2 * count):
        before |= before[:, [middle]] & before[[middle], :]
    return before


def any_missed(happened):
    """Whether a wait may be for another phase: either the phase before is not known to be complete,
    or nothing that the phase after waits for comes behind the wait."""
    before, orders = leads(happened), leads(happened, by_copies=True)
    for mbarrier in (0, 1):
        of_phase = [[]]  # what each waits for; the last one is not complete
        waits = []  # (event, number of the phase)
        completions = []
        for i, (what, _, *rest) in enumerate(happened):
            if what in ("arrive", "copy") and rest[-1] == mbarrier:
                of_phase[-1].append(i)
            elif what == "complete" and rest[0] == mbarrier:
                completions.append(i)
                of_phase.append([])
            elif what == "acquire" and rest[0] == mbarrier:
                waits.append((i, len(completions) - 1))
        for i, phase in waits:
            if phase > 0:
                counted = of_phase[phase - 1]
                copies = any(happened[j][0] == "copy" for j in counted)
                came = [j for j in range(i) if happened[j][1] in (happened[i][1], None)]
                known = before[:, came].any(axis=1)  # before it waits
                if not known[completions[phase - 1]] and (copies or not known[counted].all()):
                    return True
            if len(completions) > phase + 1:
                behind = [j for each in of_phase[: phase + 2] for j in each]
                if not orders[i, behind].any():
                    return True
    return False


@settings(deadline=None, max_examples=200)
@given(st.lists(happenings, min_size=2, max_size=14))
@example([("copy", 0, 0, 0), ("complete", -1, 0), ("acquire", 1, 0), ("read", 1, 0)])
@example([("copy", 0, 0, 0), ("complete", -1, 1), ("acquire", 1, 1), ("read", 1, 0)])
@example([("write", 1, 0), ("arrive", 1, 0), ("acquire", 0, 0), ("read", 0, 0)])
def test_races_of_copies_and_mbarriers_are_those_of_brute_force(happened):
    block = block_with_mbarriers()
    for index, event in enumerate(happened, start=4):
        block.happen(index, *event)
    assert any("race" in kind for kind, *_ in block.findings) == any_race(happened)


# Two warps, for which each warp's first thread does all.
of_phases = st.one_of(
    st.tuples(st.sampled_from(["arrive", "acquire"]), st.sampled_from([0, 32]), st.integers(0, 1)),
    st.tuples(st.just("copy"), st.sampled_from([0, 32]), st.integers(0, 2), st.integers(0, 1)),
    st.tuples(st.just("complete"), st.just(-1), st.integers(0, 1)),
    st.just(("meet", None, None)),
)


@settings(deadline=None, max_examples=200)
@given(st.lists(of_phases, min_size=4, max_size=20))
@example([("acquire", 0, 0), ("complete", -1, 0)])
@example([("acquire", 0, 0), ("arrive", 0, 0), ("complete", -1, 0)])
@example([("arrive", 0, 0), *[("complete", -1, 0)] * 2, ("acquire", 32, 0)])
@example([("copy", 0, 0, 0), *[("complete", -1, 0)] * 2, ("acquire", 0, 0)])
def test_waits_for_a_phase_that_may_be_missed_are_those_of_brute_force(happened):
    block = block_with_mbarriers()
    for index, event in enumerate(happened, start=4):
        block.happen(index, *event)
    kinds = {kind for kind, *_ in block.findings}
    assert ("mbarrier phase may be missed" in kinds) == any_missed(happened)


# --- random programs --------------------------------------------------------------------------

# Each step of a program is one of these; the kernel interprets it, so it is compiled only once.
INTERPRETER = """extern "C" __global__ void k(
        const int* kind, const int* code, int* out, int steps) {
    __shared__ alignas(16) short s[8];
    const int t = threadIdx.x, T = blockDim.x;
    if (t < 8) s[t] = 0;
    __syncthreads();
    int sum = 0;
    for (int step = 0; step < steps; ++step) {
        const int what = kind[step], mine = code[step * T + t];
        const int place = mine & 7, value = 1 + step * T + t;
        if (what == 0) {
            if ((mine >> 4) == 1) sum += s[place];
            if ((mine >> 4) == 2) s[place] = value;
            if ((mine >> 4) == 3) sum += ((int*)s)[place / 2];
            if ((mine >> 4) == 4) ((int*)s)[place / 2] = value | value << 16;
        }
        if (what == 1) __syncthreads();
#ifdef PARTS
        if (what == 2) __syncwarp();
        if (what == 3) { if (t % 32 < 16) __syncwarp(0xffff); else __syncwarp(0xffff0000); }
        const int number = step + 1;  // a barrier of its own for each step
        if (what == 4 && mine) asm volatile("bar.sync %0, 64;" :: "r"(number) : "memory");
        if (what == 5 && mine == 1) asm volatile("bar.arrive %0, 64;" :: "r"(number) : "memory");
        if (what == 5 && mine == 2) asm volatile("bar.sync %0, 64;" :: "r"(number) : "memory");
#endif
    }
    out[t] = sum;
}"""
COUNT = 96  # threads: three warps
LANES = (0, 1, 15, 16, 31, 32, 33, 64, 70, 95)  # those that access memory


@dataclass(frozen=True)
class Access:
    step: int
    thread: int
    code: int  # 1: read, 2: write a short; 3, 4: the same of an int
    place: int

    def shorts(self):
        first = self.place if self.code < 3 else self.place // 2 * 2
        return {first} if self.code < 3 else {first, first + 1}

    def races(self, other):
        writes = self.code in (2, 4) or other.code in (2, 4)
        return writes and bool(self.shorts() & other.shorts())


accesses = st.dictionaries(
    st.sampled_from(LANES), st.tuples(st.integers(1, 4), st.integers(0, 7)), min_size=1, max_size=3
)
pairs = st.permutations([0, 1, 2]).map(lambda warps: tuple(warps[:2]))
block_steps = st.one_of(accesses, st.just("block"))
of_pairs = [st.tuples(st.just(what), pairs) for what in ("two", "arrive")]
all_steps = st.one_of(accesses, accesses, st.sampled_from(["block", "warp", "half"]), *of_pairs)


def meetings(step):
    """The sets of threads (that tell, that learn) in a step of synchronisation."""
    everyone = set(range(COUNT))
    if step == "block":
        return [(everyone, everyone)]
    if step in ("warp", "half"):
        size = 32 if step == "warp" else 16
        groups = [set(range(i, i + size)) for i in range(0, COUNT, size)]
        return [(group, group) for group in groups]
    how, (a, b) = step
    a, b = (set(range(32 * warp, 32 * warp + 32)) for warp in (a, b))
    return [(a | b, a | b)] if how == "two" else [(a | b, b)]


def unordered_pairs(program):
    """Every pair of accesses that race, by following each access through all that comes after."""
    done = [
        Access(i, thread, *what)
        for i, step in enumerate(program) if isinstance(step, dict)
        for thread, what in step.items()
    ]  # fmt: skip
    pairs = []
    for first in done:
        knows = {first.thread}
        reached = {first.step: set(knows)}  # who knows of `first` when a step begins
        for i in range(first.step, len(program)):
            reached[i] = set(knows)
            if not isinstance(program[i], dict):
                for tell, learn in meetings(program[i]):
                    if tell & reached[i]:
                        knows |= learn
        pairs += [
            (first, second)
            for second in done
            if second.step >= first.step and second.thread not in reached[second.step]
            and (second.step, second.thread) != (first.step, first.thread) and first.races(second)
        ]  # fmt: skip
    return pairs


def run_program(program, *options):
    """The findings of the interpreter on a program."""
    kind, code = np.zeros(len(program), np.int32), np.zeros((len(program), COUNT), np.int32)
    numbers = {"block": 1, "warp": 2, "half": 3, "two": 4, "arrive": 5}
    for i, step in enumerate(program):
        if isinstance(step, dict):
            for thread, (what, place) in step.items():
                code[i, thread] = what << 4 | place
            continue
        kind[i] = numbers[step if isinstance(step, str) else step[0]]
        if not isinstance(step, str):
            for role, warp in zip((1, 2), step[1], strict=True):
                code[i, 32 * warp : 32 * warp + 32] = role
    out = np.zeros(COUNT, np.int32)
    args = [kind, code, out, len(program)]
    run = launch(INTERPRETER, "k", (1, 1, 1), (COUNT, 1, 1), args, options=options, check=True)
    return run.findings


def assert_as_brute_force(program, *options):
    findings, racing = run_program(program, *options), unordered_pairs(program)
    assert bool(findings) == bool(racing)
    threads = {frozenset((a.thread, b.thread)) for a, b in racing}
    for finding in findings:
        assert finding.kind.endswith("race")
        other = int(finding.what.split("thread (")[1].split(",")[0])
        assert frozenset((finding.thread[0], other)) in threads


@settings(deadline=None, max_examples=100)
@given(st.lists(block_steps, min_size=1, max_size=8))
def test_races_between_barriers_of_the_block_are_those_of_brute_force(program):
    assert_as_brute_force(program)


@settings(deadline=None, max_examples=150)
@given(st.lists(all_steps, min_size=2, max_size=12))
@example([{0: (2, 0)}, ("two", (0, 1)), ("two", (1, 2)), {70: (1, 0)}])
@example([{0: (2, 0)}, ("two", (1, 2)), ("two", (0, 1)), {70: (1, 0)}])
def test_races_between_barriers_of_all_kinds_are_those_of_brute_force(program):
    assert_as_brute_force(program, "-DPARTS")
