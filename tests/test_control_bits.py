"""Control bits: their layout, compared with what nvdisasm says otherwise."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemmlab.cuda.disassembler import BARRIERS, SHIFT, WIDTH, Control, parse
from gemmlab.kernel import prebuilt
from gemmlab.ladder import RUNGS
from gemmlab.sass import loops

BARRIER = st.none() | st.integers(0, BARRIERS - 1)
CONTROLS = st.builds(
    Control, stall=st.integers(0, 15), yields=st.booleans(), write_barrier=BARRIER,
    read_barrier=BARRIER, waits_for=st.sets(st.integers(0, BARRIERS - 1)).map(sorted).map(tuple),
    reuse=st.sets(st.integers(0, 2)).map(sorted).map(tuple),
)  # fmt: skip


@given(CONTROLS, st.integers(0, 2**64 - 1))
def test_what_is_put_into_a_word_is_read_from_it_and_nothing_else_changes(control, upper):
    put = control.put_into(upper)
    assert Control.of(put) == control == Control.of(control.bits << SHIFT)
    assert (put ^ upper) & ~(((1 << WIDTH) - 1) << SHIFT) == 0


@pytest.mark.parametrize(
    "upper, control",
    (
        # Upper words as nvdisasm prints them, of instructions whose text says what they need.
        (0x000FE20003800000, Control(stall=1)),  # BSSY
        (0x000FEA0003C00000, Control(stall=5)),  # a call
        (0x000E240000000800, Control(stall=2, write_barrier=0)),  # LDC R1: its user waits for 0
        (0x000E220000002100, Control(stall=1, write_barrier=0)),  # S2R
        (0x001FEA0003C00000, Control(stall=5, waits_for=(0,))),
    ),
)
def test_the_words_that_nvdisasm_prints_are_decoded(upper, control):
    assert Control.of(upper) == control


@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
def test_every_listing_has_them_and_reuse_stands_in_the_text_too(rung):
    """nvdisasm writes .reuse beside an operand: by another way than our reading of the bits."""
    code = parse(prebuilt.read(loops.path_of(rung.name))["listing"])
    assert code and all(instruction.control is not None for instruction in code)
    for instruction in code:
        if instruction.operation == "FFMA" and not instruction.control.yields:
            named = {read.place - 1 for read in instruction.reads if read.reuse}
            assert named == set(instruction.control.reuse), instruction
