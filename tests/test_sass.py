"""SASS: reading a listing, the trip through the inner loop, register banks, table and listing."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemmlab import cli
from gemmlab.cuda.disassembler import Instruction, NoListing, parse, section
from gemmlab.kernel import prebuilt
from gemmlab.kernel.fingerprint import code_hash
from gemmlab.ladder import RUNGS, SINGLE, IllegalSetting, settings_for
from gemmlab.lessons.fp32_summit.rung import RUNG as FP32_SUMMIT
from gemmlab.loading import load
from gemmlab.records import registry, runs
from gemmlab.sass import loops
from gemmlab.sass.inner_loop import BANKS, WINDOW, fetches, inner_loop, reused, waits
from ptxsim.architectures import SIMULATED_ARCH
from ptxsim.compile import nvrtc
from ptxsim.metrics import FMA_METRIC, METRICS

FIRST = "05_thread_tile_2d"  # the first to use each register several times in a row
PRODUCTS = [rung for rung in RUNGS if rung.precision is SINGLE]
LARGE = (4096, 4096, 4096)


# ---- reading a listing ---------------------------------------------------------------------------

LISTING = """\
	.target	sm_90a
	.section	.text.other,"ax",@progbits
other:
        /*0000*/                   EXIT ;
	.section	.text.mine,"ax",@progbits
        .type           mine,@function
mine:
.text.mine:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
.L_x_1:
.L_x_0:
        /*0010*/              @!P0 LDG.E.128.CONSTANT R28, desc[UR8][R102.64+0x10] ;
	//## File "mine.cu", line 7
        /*0020*/                   FFMA.FTZ R6, -R7.reuse, |R8|, RZ ;
        /*0030*/               @P0 BRA P1, `(.L_x_0) ;
        /*0040*/                   ISETP.GE.AND P0, PT, R4, UR4, PT ;
        /*0050*/                   NOP;
        /*0060*/                   EXIT ;
"""


def test_a_listing_becomes_instructions():
    instructions = parse(section(LISTING, "mine"))
    assert [instruction.address for instruction in instructions] == list(range(0, 0x70, 0x10))
    load_, fma, branch, compare, nothing = instructions[1:6]
    assert (load_.predicate, load_.opcode, load_.operation) == ("!P0", "LDG.E.128.CONSTANT", "LDG")
    assert load_.operands == ("R28", "desc[UR8][R102.64+0x10]")
    assert (branch.predicate, branch.target) == ("P0", 0x10)
    assert compare.operands == ("P0", "PT", "R4", "UR4", "PT") and compare.target is None
    assert (nothing.opcode, nothing.operands) == ("NOP", ())
    assert str(fma) == "FFMA.FTZ R6, -R7.reuse, |R8|, RZ"
    # The destination is not read, and RZ is no register.
    assert [(read.place, read.register, read.reuse) for read in fma.reads] == [
        (1, 7, True), (2, 8, False),
    ]  # fmt: skip
    assert [read.register for read in compare.reads] == [4]


SOURCE = """
extern "C" __global__ void chain(float* x, int n)
{
    float a = x[0], b = x[1], c = x[2];
    #pragma unroll 4
    for (int i = 0; i < n; ++i) c = fmaf(a, c, b);
    x[3] = c;
}
"""


def test_a_cubin_is_disassembled_and_its_loop_found():
    program = nvrtc.compile_anew(SOURCE, "chain.cu", arch="sm_90")
    trip = loops.analyse(program.cubin, "chain")
    assert trip.opcodes["FFMA"] in (4, 8, 16) and trip.opcodes["BRA"] >= 1
    with pytest.raises(NoListing, match="no kernel 'chains'"):
        loops.analyse(program.cubin, "chains")
    with pytest.raises(NoListing, match="cannot read 11 bytes as a cubin"):
        loops.analyse(b"not a cubin", "chain")


# ---- the inner loop ------------------------------------------------------------------------------


def program(*lines: str) -> list[Instruction]:
    """Instructions from lines such as "@P0 BRA end" and labels such as "end:"."""
    written, at = [], 0
    for line in lines:
        if line.endswith(":"):
            written.append(f".L_{line}")
            continue
        *head, last = line.split(" ")
        if any(word in ("BRA", "BSSY") for word in head):
            line = " ".join([*head, f"`(.L_{last})"])
        written.append(f"/*{at:04x}*/ {line} ;")
        at += 16
    return parse("\n".join(written))


def slots(*lines: str) -> list[str]:
    return [str(instruction) for instruction in inner_loop(program(*lines)).instructions]


def test_the_loop_with_the_most_multiply_adds_is_taken_without_the_loops_around_it():
    loop = slots(
        "outer:", "IADD3 R1, R1, 0x1, RZ",
        "inner:", "FFMA R2, R3, R4, R2", "FFMA R5, R6, R7, R5", "@P0 BRA inner",
        "FFMA R2, R3, R4, R2", "@P1 BRA outer",
        "tail:", "FFMA R2, R3, R4, R2", "@P2 BRA tail", "EXIT", "end:", "BRA end",
    )  # fmt: skip
    assert [line.split(" ")[0] for line in loop] == ["FFMA", "FFMA", "@P0"]


def test_of_two_loops_with_as_many_multiply_adds_the_shorter_one_is_taken():
    any_size = ("any:", "FFMA R2, R3, R4, R2", "ISETP.GE.AND P1, PT, R9, R8, PT", "@P0 BRA any")
    whole = ("whole:", "FFMA R5, R6, R7, R5", "@P0 BRA whole")
    for lines in ((*any_size, *whole, "EXIT"), (*whole, *any_size, "EXIT")):
        assert slots(*lines) == ["FFMA R5, R6, R7, R5", "@P0 BRA `(.L_whole)"]


LAST = ("FFMA R2, R3, R4, R2", "@P6 BRA top", "EXIT")


def test_a_tile_inside_the_matrix_goes_the_short_way_that_copies():
    loop = slots(
        "top:", "@P0 BRA whole", "ISETP.GE.AND P1, PT, R9, R8, PT", "@!P1 LDG.E R20, [R10]",
        "BRA both", "whole:", "LDG.E R20, [R10]", "both:", *LAST,
    )  # fmt: skip
    assert loop[:2] == ["@P0 BRA `(.L_whole)", "LDG.E R20, [R10]"] and len(loop) == 4


@pytest.mark.parametrize(
    "rung",
    [rung for rung in PRODUCTS if rung.name >= FIRST],
    ids=lambda rung: rung.name,
)
def test_a_trip_has_the_loads_and_stores_that_the_gpu_counts(rung):
    """Per multiply-add: so the way through the loop is that of nearly all blocks."""
    kernel = load(rung.name)
    try:
        _, counted = runs.counters_at(kernel, *LARGE)
    except registry.NoRecord:
        pytest.skip(f"no counters of {rung.name} are recorded at 4096³")
    trip = loops.loop(kernel, SIMULATED_ARCH).opcodes
    # Of 12 a part of K has few trips, and beginning and join are a hundredth of it. Of what 22
    # loads from global memory parts of tiles are; other warps of it copy A, a float for 256 sums.
    outside = {"rel": 0.02, "abs": 1e-4} if rung.name == "12_split_k" else {"rel": 0.01}
    elsewhere = {METRICS["global", "load"][0]: 1 / 256} if rung is FP32_SUMMIT else {}
    adds = counted[FMA_METRIC] / 32
    assert adds == kernel.rung.batch * 4096**3 / 32
    for opcodes, metric in (
        (("LDS",), METRICS["shared", "load"][0]),
        (("STS",), METRICS["shared", "store"][0]),
        (("LDG", "LDGSTS"), METRICS["global", "load"][0]),
    ):
        per_fma = sum(trip[opcode] for opcode in opcodes) / trip["FFMA"] + elsewhere.get(metric, 0)
        if metric in elsewhere:
            outside = {"rel": 0.02}
        assert per_fma == pytest.approx(counted[metric] / adds, **outside), (opcodes, metric)


# ---- register banks ------------------------------------------------------------------------------


def adds(*operands: str) -> tuple[Instruction, ...]:
    return tuple(program(*(f"FFMA {operand}" for operand in operands)))


def test_an_operand_is_reused_at_the_same_place_of_the_next_instruction():
    def places(*lines):
        return reused(program(*lines))[-1]

    first = "FFMA R1, R2.reuse, R4, R1"
    assert places(first, "FFMA R3, R2, R6, R3") == {1}
    assert places(first, "FFMA R3, R6, R2, R3") == set()  # at another place
    assert places("FFMA R1, R2, R4, R1", "FFMA R3, R2, R6, R3") == set()  # not marked
    assert places(first, "FFMA R3, R8, R6, R3") == set()  # another register
    assert places(first, "LDS.128 R20, [R9]", "FFMA R3, R2, R6, R3") == {1}
    assert places(first, "FADD R9, R10, R11", "FFMA R3, R2, R6, R3") == set()


registers = st.integers(0, 9).map(lambda number: "RZ" if number == 9 else f"R{number}")
operands = st.tuples(registers, st.sampled_from(["", ".reuse"])).map(
    lambda numbers: numbers[0] + (numbers[1] if numbers[0] != "RZ" else "")
)
lines = st.one_of(
    st.tuples(registers, operands, operands, operands).map(lambda all: f"FFMA {', '.join(all)}"),
    st.sampled_from(["LDS.128 R4, [R8]", "IADD3 R1, R2.reuse, R3, RZ", "BAR.SYNC 0x0"]),
)


def cycle_by_cycle(fetched: list[set[int]]) -> list[int]:
    """The waits once more: each read takes the first cycle in which its bank serves no other."""
    served, issue, rows = set(), -1, []
    for wanted in fetched:
        earliest = issue = issue + 1
        while True:
            trial = set(served)
            for number in wanted:
                cycle = max([issue, *(c + 1 for bank, c in trial if bank == number % BANKS)])
                trial.add((number % BANKS, cycle))
            if all(cycle < issue + WINDOW for _, cycle in trial - served):
                break
            issue += 1
        served = trial
        rows.append(issue - earliest)
    return rows


@given(st.lists(lines, min_size=1, max_size=30))
def test_waits_are_those_of_a_count_cycle_by_cycle(written):
    instructions = program(*written)
    fetched, lost = fetches(instructions), waits(instructions)
    assert lost == cycle_by_cycle(fetched)
    for bank in range(BANKS):
        reads = sum(number % BANKS == bank for wanted in fetched for number in wanted)
        assert len(written) + sum(lost) + WINDOW - 1 >= reads


# ---- what is kept with the project ---------------------------------------------------------------


@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
def test_the_kept_sass_is_of_the_kernel_as_it_is(rung):
    kept = prebuilt.read(loops.path_of(rung.name))
    assert kept["code"] == code_hash(rung.path, settings_for(rung, {})), "run `make compiled`"


def test_the_kept_sass_is_what_the_compiler_makes():
    rung = next(rung for rung in RUNGS if rung.name == FIRST)
    ours, new = (
        inner_loop(parse(made["listing"]))
        for made in (prebuilt.read(loops.path_of(rung.name)), loops.make_listing(rung))
    )
    assert ours.mix == new.mix and ours.reuse_share == pytest.approx(new.reuse_share, abs=0.05)


def test_an_architecture_that_the_settings_do_not_run_on_is_refused():
    with pytest.raises(IllegalSetting, match="needs sm_80"):
        loops.loop(load("09_double_buffering", STAGES=3), "sm_75")


# ---- for a reader --------------------------------------------------------------------------------


def test_a_listing_begins_with_the_multiply_adds_and_names_the_banks():
    kernel = load("09_double_buffering")
    trip = loops.loop(kernel).instructions
    first = next(at for at, instruction in enumerate(trip) if instruction.operation == "FFMA")
    rows = loops.rows_of(loops.loop(kernel), range(first, first + 6))
    for slot, row in enumerate(rows, first):
        number, instruction, *banks, stay, _ = row
        assert (number, instruction) == (str(slot), str(trip[slot]))
        for bank, words in enumerate(banks):
            assert all(int(name[1:]) % 2 == bank for name in words.split())
        named = Counter(" ".join([*banks, stay]).split())
        assert named == Counter({f"R{read.register}" for read in trip[slot].reads})
    text, page = (shown := loops.listing(kernel, 6)).text, shown.markup
    numbers = [line.split()[0] for line in text.splitlines()[1:]]
    assert numbers == [str(slot) for slot in range(first, first + 6)]
    assert page.count("<tr") == 7 and page.count("font-weight: 700") == text.count(".reuse")


def test_the_command_prints_the_numbers_and_a_listing(capsys):
    assert cli.main(["sass", "09_double_buffering"]) == cli.OK
    printed = capsys.readouterr().out
    trip = loops.loop(load("09_double_buffering"))
    assert "sm_90a: one trip through the inner loop" in printed
    words = printed.splitlines()[1].split()
    assert words == ["multiply-adds", "512", f"{51200 / len(trip):.1f}", "%"]
