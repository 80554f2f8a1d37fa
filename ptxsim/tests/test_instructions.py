"""Single instructions against recorded results of an NVIDIA H200, and the table of them."""

import json
import re
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

import ptxsim
import record_arithmetic as recorder
from ptxsim.arithmetic import special_functions
from ptxsim.instructions import TABLE
from ptxsim.ptx import LEAVES_BLOCK

HERE = Path(__file__).parent
f4 = np.float32

# Name of an approximate function -> the largest difference from the hardware, in units in the last
# place of the result, that was met over all operands (see record_arithmetic.py) or, where there are
# 64 bits, over the recorded ones. The others are exact.
UNITS = {
    "lg2.approx": 2, "rsqrt.approx.f64": 2,
    "rcp.approx.ftz.f64": 2**32, "rsqrt.approx.ftz.f64": 2**32,  # one unit of the upper word
    "tanh.approx.f16": 1, "tanh.approx.f16x2": 1, "tanh.approx.bf16": 1, "tanh.approx.bf16x2": 1,
}  # fmt: skip
# Functions that are near in absolute terms instead: the largest difference.
ERRORS = {"sin.approx": 2**-21, "cos.approx": 2**-21, "tanh.approx.f32": 2**-16}
LOGARITHM_ERROR = 2**-22  # where the logarithm is below 1


@lru_cache
def record() -> dict[str, np.ndarray]:
    return recorder.read(HERE / "recorded" / "arithmetic.npz")


def bound(table, name: str):
    keys = [key for key in table if name == key or re.match(rf"{key}(\.ftz)?\.f32$", name)]
    return table[max(keys, key=len)] if keys else None


def is_exact(name: str) -> bool:
    return bound(UNITS, name) is None and bound(ERRORS, name) is None


# --- recorded results -----------------------------------------------------------------------------


def simulated(forms) -> dict[str, np.ndarray]:
    def launch(text, kernel, x):
        out = np.zeros(len(x), np.uint64)
        grid = (-(-len(x) // 128), 1, 1)
        done = ptxsim.launch(text, kernel, grid, (128, 1, 1), [x, out, len(x)])
        assert not done.findings
        return out

    return recorder.results(forms, launch, record())


def parts(kind: str, bits: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """The single numbers of a result."""
    if kind in ("f16x2", "bf16x2"):
        low, high = bits.astype(np.uint16), (bits >> 16).astype(np.uint16)
        return [(kind[:-2], low), (kind[:-2], high)]
    return [(kind, bits)]


def as_float(kind: str, bits: np.ndarray) -> np.ndarray:
    if kind == "bf16":
        return (bits.astype(np.uint32) << 16).view(f4)
    return bits.view(f"f{bits.itemsize}")


def is_nan(kind: str, bits: np.ndarray) -> np.ndarray:
    floats = kind.startswith(("f", "bf"))
    return np.isnan(as_float(kind, bits)) if floats else np.zeros(bits.shape, bool)


def equal(kind: str, got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Bit for bit, but any NaN is as good as another."""
    same = np.ones(got.shape, bool)
    pairs = zip(parts(kind, got), parts(kind, expected), strict=True)
    for (number_type, a), (_, b) in pairs:
        same &= (a == b) | (is_nan(number_type, a) & is_nan(number_type, b))
    return same


@pytest.mark.parametrize("group", recorder.GROUPS)
def test_every_exact_instruction_gives_what_the_hardware_gave(group):
    forms = [form for form in recorder.FORMS.values() if form.group == group]
    for name, got in simulated([form for form in forms if is_exact(form.name)]).items():
        expected, operands = record()[f"result {name}"], record()[recorder.operands_key(name)]
        wrong = np.flatnonzero(~equal(recorder.FORMS[name].result, got, expected))
        assert not wrong.size, [
            f"{name} {[hex(x) for x in operands[i].tolist()]}: {got[i]:#x}, not {expected[i]:#x}"
            for i in wrong[:5]
        ]


APPROXIMATE = [form for form in recorder.FORMS.values() if not is_exact(form.name)]


@lru_cache
def approximations() -> dict[str, np.ndarray]:
    return simulated(APPROXIMATE)


@pytest.mark.parametrize("name", [form.name for form in APPROXIMATE])
def test_every_approximate_function_is_as_near_as_it_says(name):
    kind = recorder.FORMS[name].result
    units, error = bound(UNITS, name), bound(ERRORS, name)
    both = (parts(kind, bits) for bits in (approximations()[name], record()[f"result {name}"]))
    for (number_type, got), (_, expected) in zip(*both, strict=True):
        a, b = (np.isfinite(as_float(number_type, bits)) for bits in (got, expected))
        number = a & b
        # Of NaN and infinities nothing is approximate.
        assert equal(number_type, got, expected)[~number].all()
        a, b = (as_float(number_type, bits)[number].astype(float) for bits in (got, expected))
        if error is not None:
            assert (np.abs(a - b) <= error).all()
            continue
        pairs = zip(got[number].tolist(), expected[number].tolist(), strict=True)
        near = [abs(x - y) <= units for x, y in pairs]
        if name.startswith("lg2"):
            near |= (np.abs(b) < 1) & (np.abs(a - b) <= LOGARITHM_ERROR)
        assert np.all(near)


@pytest.mark.parametrize("name", recorder.DIGESTS)
def test_a_function_is_exact_for_millions_of_operands(name):
    function = {
        "rcp": special_functions.reciprocal, "sqrt": special_functions.root,
        "rsqrt": special_functions.reciprocal_root, "ex2": special_functions.power,
    }[name.split(".")[0]]  # fmt: skip
    with np.errstate(all="ignore"):
        result = np.asarray(function(recorder.spread().view(f4)), f4)
    expected = json.loads(str(record()["about"]))["digests"][name]
    assert recorder.digest(result.view(np.uint32)) == expected


def test_the_bounds_hold_for_all_operands():
    """Of functions of a float32: what a sweep over all 2**32 operands found."""
    sweep = json.loads(str(record()["about"]))["sweep"]
    assert set(sweep) == set(recorder.EXACT)
    for name, differences in sweep.items():
        error, units = bound(ERRORS, name), bound(UNITS, name)
        if name.startswith("lg2"):
            assert differences["units_from_1"] <= units
            assert differences["error_below_1"] <= LOGARITHM_ERROR
        else:
            assert differences["error"] <= error


# --- the table in the documentation ---------------------------------------------------------------


def documented() -> list[str]:
    """The names in the first column of the tables of docs/instructions.md."""
    text = (HERE.parent / "docs" / "instructions.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*?) \|", text, re.M)
    return [name for row in rows for name in re.findall(r"`(\w+)`", row)]


def test_the_table_names_what_the_simulator_knows():
    names = documented()
    assert len(names) == len(set(names))
    assert set(names) == set(TABLE) | LEAVES_BLOCK


def test_every_arithmetic_instruction_has_recorded_results():
    """All that the documentation calls exact or near, apart from those of memory and warps."""
    text = (HERE.parent / "docs" / "instructions.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*?) \|.*\| recorded \|$", text, re.M)
    names = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    recorded = {re.match(r"\w+", name)[0] for name in recorder.FORMS}
    chained = {"addc", "subc", "madc"}  # the second of two instructions
    assert names == recorded | chained


# --- the usual functions --------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(len(recorder.LIBRARY)), ids=recorder.LIBRARY)
def test_functions_of_the_library_give_what_the_hardware_gave(number):
    x = recorder.library_operands()
    y = np.zeros_like(x)
    source, grid = recorder.LIBRARY_SOURCE, (2**7, 1, 1)
    assert not ptxsim.launch(source, f"k{number}", grid, (256, 1, 1), [x, y]).findings
    expected = json.loads(str(record()["about"]))["library"][recorder.LIBRARY[number]]
    assert recorder.digest(y.view(np.uint32)) == expected
