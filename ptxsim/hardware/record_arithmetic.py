"""Record what an NVIDIA GPU computes: operands and results of single PTX instructions.

    python ptxsim/hardware/record_arithmetic.py OUTDIR

writes OUTDIR/arithmetic.npz, and for the approximate functions prints the largest difference from
the exact value over all operands (16 and 32 bits) or many (pairs). Needs CuPy and a GPU of compute
capability 9.0 or later.

Each form is an instruction with the kinds of its result and operands. It becomes a small kernel
whose inline assembly is that instruction alone, so no compiler stands between. The simulator runs
the same kernels on the same operands: see test_instructions.py.
"""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import dataclass
from datetime import date
from itertools import product
from pathlib import Path

import numpy as np

BITS = {
    "f16": 16, "bf16": 16, "i16": 16, "e2": 16,
    "f32": 32, "f16x2": 32, "bf16x2": 32, "i32": 32, "shift": 32, "bytes": 32, "select": 32,
    "f64": 64, "i64": 64,
    "pred": 1,
}  # fmt: skip
C_TYPES = {16: ("unsigned short", "h"), 32: ("unsigned", "r"), 64: ("unsigned long long", "l")}


@dataclass(frozen=True)
class Form:
    """An instruction: `text` with {d}, {0}, {1}, … for the result and the operands."""

    group: str
    name: str  # of the instruction with its modifiers, and unique
    text: str
    result: str
    operands: tuple[str, ...]


FORMS: dict[str, Form] = {}


def form(group: str, opcode: str, result: str, *operands: str, text: str | None = None) -> None:
    places = ", ".join(["{d}", *(f"{{{i}}}" for i in range(len(operands)))])
    assert opcode not in FORMS, opcode
    FORMS[opcode] = Form(group, opcode, text or f"{opcode} {places};", result, operands)


def each(group: str, pattern: str, result: str, *operands: str) -> None:
    """`pattern` holds choices: "add.{rn,rz}{,.ftz}.f32"."""
    pieces = [piece.split("}") for piece in pattern.split("{")]
    choices = [piece[0].split(",") for piece in pieces[1:]]
    tails = [piece[1] for piece in pieces[1:]]
    for chosen in product(*choices):
        opcode = pieces[0][0] + "".join(c + t for c, t in zip(chosen, tails, strict=True))
        form(group, opcode, result, *operands)


ROUNDINGS = "{rn,rz,rm,rp}"
COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge"]
FLOAT_COMPARISONS = [*COMPARISONS, "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"]


def float32() -> None:
    f = "f32"
    for name in ("add", "sub", "mul"):
        each("float32", f"{name}.{ROUNDINGS}{{,.ftz}}.f32", f, f, f)
        each("float32", f"{name}.rn{{,.ftz}}.sat.f32", f, f, f)
        form("float32", f"{name}.rz.ftz.sat.f32", f, f, f)
        form("float32", f"{name}.ftz.f32", f, f, f)
    each("float32", f"fma.{ROUNDINGS}{{,.ftz}}.f32", f, f, f, f)
    each("float32", "fma.rn{,.ftz}.sat.f32", f, f, f, f)
    form("float32", "fma.rm.ftz.sat.f32", f, f, f, f)
    each("float32", f"div.{ROUNDINGS}{{,.ftz}}.f32", f, f, f)
    each("float32", f"{{rcp,sqrt}}.{ROUNDINGS}{{,.ftz}}.f32", f, f)
    each("float32", "{neg,abs}{,.ftz}.f32", f, f)
    form("float32", "copysign.f32", f, f, f)
    each("float32", "{min,max}{,.ftz}{,.NaN}{,.xorsign.abs}.f32", f, f, f)
    each("float32", "testp.{finite,infinite,number,notanumber,normal,subnormal}.f32", "pred", f)
    for comparison in FLOAT_COMPARISONS:
        each("float32", f"setp.{comparison}{{,.ftz}}.f32", "pred", f, f)
    each("float32", "setp.{lt,equ}.{and,or,xor}.ftz.f32", "pred", f, f, "pred")
    each("float32", "set.{lt,neu}{,.ftz}.{u32,s32,f32}.f32", "i32", f, f)
    each("float32", "slct{,.ftz}.{b32,f32}.f32", f, f, f, f)
    form("float32", "selp.f32", f, f, f, "pred")


def float64() -> None:
    d = "f64"
    for name in ("add", "sub", "mul", "div"):
        each("float64", f"{name}.{ROUNDINGS}.f64", d, d, d)
    each("float64", f"fma.{ROUNDINGS}.f64", d, d, d, d)
    each("float64", f"{{rcp,sqrt}}.{ROUNDINGS}.f64", d, d)
    each("float64", "{neg,abs}.f64", d, d)
    each("float64", "{min,max,copysign}.f64", d, d, d)
    each("float64", "testp.{finite,infinite,number,notanumber,normal,subnormal}.f64", "pred", d)
    for comparison in FLOAT_COMPARISONS:
        form("float64", f"setp.{comparison}.f64", "pred", d, d)
    form("float64", "slct.f64.f32", d, d, d, "f32")


def integers() -> None:
    g = "integers"
    for bits in (16, 32, 64):
        i = f"i{bits}"
        for sign in "us":
            t = f"{sign}{bits}"
            each(g, f"{{add,sub,div,rem,min,max,mul.lo,mul.hi}}.{t}", i, i, i)
            each(g, f"{{mad.lo,mad.hi,sad}}.{t}", i, i, i, i)
            form(g, f"shr.{t}", i, i, "shift")
            for comparison in COMPARISONS:
                form(g, f"setp.{comparison}.{t}", "pred", i, i)
            if bits < 64:
                wide = f"i{2 * bits}"
                form(g, f"mul.wide.{t}", wide, i, i)
                form(g, f"mad.wide.{t}", wide, i, i, wide)
            if bits > 16:
                each(g, f"bfind{{,.shiftamt}}.{t}", "i32", i)
                form(g, f"bfe.{t}", i, i, "shift", "shift")
            form(g, f"selp.{t}", i, i, i, "pred")
            form(g, f"set.lt.u32.{t}", "i32", i, i)
            form(g, f"slct.{t}.s32", i, i, i, "i32")
        each(g, f"{{neg,abs}}.s{bits}", i, i)
        each(g, f"{{and,or,xor}}.b{bits}", i, i, i)
        each(g, f"{{not,cnot}}.b{bits}", i, i)
        each(g, f"{{shl,shr}}.b{bits}", i, i, "shift")
        each(g, f"setp.{{eq,ne}}.b{bits}", "pred", i, i)
        if bits > 16:
            each(g, f"{{popc,clz}}.b{bits}", "i32", i)
            form(g, f"brev.b{bits}", i, i)
            form(g, f"bfi.b{bits}", i, i, i, "shift", "shift")
    i = "i32"
    each(g, "setp.{lo,ls,hi,hs}.u32", "pred", i, i)
    each(g, "setp.{lt,ne}.{and,or,xor}.s32", "pred", i, i, "pred")
    each(g, "{add,sub}.sat.s32", i, i, i)
    form(g, "mad.hi.sat.s32", i, i, i, i)
    each(g, "mul24.{lo,hi}.{u32,s32}", i, i, i)
    each(g, "mad24.{lo,hi}.{u32,s32}", i, i, i, i)
    form(g, "mad24.hi.sat.s32", i, i, i, i)
    each(g, "shf.{l,r}.{wrap,clamp}.b32", i, i, i, "shift")
    each(g, "prmt.b32{,.f4e,.b4e,.rc8,.ecl,.ecr,.rc16}", i, i, i, "select")
    each(g, "szext.{wrap,clamp}.{u32,s32}", i, i, "shift")
    each(g, "bmsk.{wrap,clamp}.b32", i, "shift", "shift")
    each(g, "dp4a.{u32,s32}.{u32,s32}", i, "bytes", "bytes", i)
    each(g, "dp2a.{lo,hi}.{u32,s32}.{u32,s32}", i, "bytes", "bytes", i)
    each(g, "{min,max}.s32.relu", i, i, i)
    each(g, "{add,min,max}.{u16x2,s16x2}", i, i, i)
    each(g, "{min,max}.s16x2.relu", i, i, i)
    for table in (0xB2, 0x96, 0xE8, 0x3C, 0x1D):
        text = f"lop3.b32 {{d}}, {{0}}, {{1}}, {{2}}, {table};"
        form(g, f"lop3.b32 {table:#x}", i, i, i, i, text=text)
    # Two words each: the carry of the lower ones, which are (0, 1), goes into the upper (2, 3).
    for sign, (low, high) in product("us", [("add", "addc"), ("sub", "subc")]):
        form(
            g, f"{low}.cc.{sign}32 {high}", i, i, i, i, i,
            text=f"{{{{ .reg .b32 t; {low}.cc.{sign}32 t, {{0}}, {{1}}; "
            f"{high}.cc.{sign}32 t, {{2}}, {{3}}; {high}.{sign}32 {{d}}, t, 0; }}}}",
        )  # fmt: skip
        form(
            g, f"{low}.cc.{sign}64 {high}", "i64", "i64", "i64", "i64", "i64",
            text=f"{{{{ .reg .b64 t; {low}.cc.{sign}64 t, {{0}}, {{1}}; "
            f"{high}.{sign}64 {{d}}, {{2}}, {{3}}; }}}}",
        )  # fmt: skip
    for sign in "us":
        form(
            g, f"mad.cc.{sign}32 madc add", i, i, i, i, i,
            text=f"{{{{ .reg .b32 t; mad.lo.cc.{sign}32 t, {{0}}, {{1}}, {{2}}; "
            f"madc.hi.cc.{sign}32 t, {{0}}, {{1}}, {{3}}; addc.{sign}32 {{d}}, t, 1; }}}}",
        )  # fmt: skip


def halves() -> None:
    g = "halves"
    for h in ("f16", "bf16", "f16x2", "bf16x2"):
        ftz = "{,.ftz}" if h.startswith("f") else ""
        for name in ("add", "sub", "mul"):
            each(g, f"{name}.rn{ftz}.{h}", h, h, h)
            if h.startswith("f"):
                each(g, f"{name}.{{sat,ftz.sat}}.{h}", h, h, h)
        each(g, f"fma.rn{ftz}{{,.relu}}.{h}", h, h, h, h)
        if h.startswith("f"):
            each(g, f"fma.rn{ftz}.sat.{h}", h, h, h, h)
        each(g, f"{{neg,abs}}{ftz}.{h}", h, h)
        each(g, f"{{min,max}}{ftz}{{,.NaN}}{{,.xorsign.abs}}.{h}", h, h, h)
        if "x2" not in h:
            for comparison in FLOAT_COMPARISONS:
                each(g, f"setp.{comparison}{ftz}.{h}", "pred", h, h)
            each(g, f"set.{{lt,neu}}.{{{h},u16,s16}}.{h}", "i16", h, h)
            each(g, f"set.gt.{{u32,s32}}.{h}", "i32", h, h)
            each(g, f"setp.ge.and{ftz}.{h}", "pred", h, h, "pred")
        else:
            each(g, f"set.{{lt,neu,ge}}.{{{h},u32,s32}}.{h}", "i32", h, h)
            for comparison, part in product(("lt", "equ", "nan"), (0, 1)):
                chosen = "p" if part == 0 else "q"
                form(
                    g, f"setp.{comparison}.{h} {chosen}", "i32", h, h,
                    text=f"{{{{ .reg .pred p, q; setp.{comparison}.{h} p|q, {{0}}, {{1}}; "
                    f"selp.u32 {{d}}, 1, 0, {chosen}; }}}}",
                )  # fmt: skip


def conversions() -> None:
    g = "conversions"
    whole = [f"{sign}{bits}" for sign in "us" for bits in (8, 16, 32, 64)]

    def kind(t: str) -> str:
        return {"8": "i32", "16": "i16", "32": "i32", "64": "i64"}[t[1:]]

    for a, b in product(whole, whole):
        if a != b:
            form(g, f"cvt.{a}.{b}", kind(a), kind(b))
        wider = int(a[1:]) > int(b[1:]) and (a[0] == "s" or b[0] == "u")
        if not wider and a != b:  # else there is nothing to saturate
            form(g, f"cvt.sat.{a}.{b}", kind(a), kind(b))
    for t, f in product(whole, ("f16", "bf16", "f32", "f64")):
        if (t[1:], f) == ("8", "bf16"):  # takes registers of 8 bits only
            text = f"{{{{ .reg .b8 t; cvt.rzi.{t}.bf16 t, {{0}}; mov.b16 {{d}}, {{{{t, 0}}}}; }}}}"
            form(g, f"cvt.rzi.{t}.bf16", "i16", f, text=text)
            continue
        each(g, f"cvt.{{rni,rzi,rmi,rpi}}.{t}.{f}", kind(t), f)
        each(g, f"cvt.{ROUNDINGS}.{f}.{t}", f, kind(t))
    each(g, "cvt.{rni,rzi}.sat.{s8,u8}.f32", "i32", "f32")
    each(g, "cvt.{rni,rzi,rmi,rpi}.ftz.{s32,u32}.f32", "i32", "f32")
    each(g, "cvt.{rzi,rpi}.ftz.{s64,u64}.f32", "i64", "f32")
    each(g, f"cvt.{ROUNDINGS}{{,.sat}}.f16.f32", "f16", "f32")
    each(g, "cvt.rn.ftz.f16.f32", "f16", "f32")
    each(g, "cvt.{rn,rz}.relu.{f16,bf16}.f32", "i16", "f32")
    each(g, f"cvt.{ROUNDINGS}.bf16.f32", "bf16", "f32")
    each(g, f"cvt.{ROUNDINGS}{{,.ftz,.sat}}.f32.f64", "f32", "f64")
    each(g, f"cvt.{ROUNDINGS}.f16.f64", "f16", "f64")
    each(g, f"cvt.{ROUNDINGS}.bf16.f64", "bf16", "f64")
    each(g, "cvt{,.ftz,.sat}.f32.f16", "f32", "f16")
    each(g, "cvt.f64.{f16,bf16}", "f64", "f16")
    form(g, "cvt.f32.bf16", "f32", "bf16")
    each(g, "cvt{,.ftz,.sat}.f64.f32", "f64", "f32")
    each(g, f"cvt.{ROUNDINGS}.f16.bf16", "f16", "bf16")
    each(g, f"cvt.{ROUNDINGS}.bf16.f16", "bf16", "f16")
    for f in ("f16", "bf16", "f32", "f64"):
        each(g, f"cvt.{{rni,rzi,rmi,rpi}}.{f}.{f}", f, f)
    each(g, "cvt{,.ftz}.sat.f32.f32", "f32", "f32")
    form(g, "cvt.ftz.f32.f32", "f32", "f32")
    each(g, "cvt.{rni,rmi,rpi,rzi}.ftz{,.sat}.f32.f32", "f32", "f32")
    form(g, "cvt.sat.f64.f64", "f64", "f64")
    form(g, "cvt.sat.f16.f16", "f16", "f16")
    each(g, "cvt.{rn,rz}{,.relu}.{f16x2,bf16x2}.f32", "i32", "f32", "f32")
    each(g, "cvt.{rn,rna,rz}.tf32.f32", "i32", "f32")
    each(g, "cvt.{rn,rz}.relu.tf32.f32", "i32", "f32")
    each(g, "cvt.rn.satfinite{,.relu}.{e4m3x2,e5m2x2}.f32", "e2", "f32", "f32")
    each(g, "cvt.rn.satfinite{,.relu}.{e4m3x2,e5m2x2}.f16x2", "e2", "f16x2")
    each(g, "cvt.rn{,.relu}.f16x2.{e4m3x2,e5m2x2}", "f16x2", "e2")


def approximations() -> None:
    g = "approximations"
    each(g, "{rcp,sqrt,rsqrt,ex2,lg2,sin,cos}.approx{,.ftz}.f32", "f32", "f32")
    form(g, "tanh.approx.f32", "f32", "f32")
    each(g, "div.{approx,full}{,.ftz}.f32", "f32", "f32", "f32")
    each(g, "{tanh,ex2}.approx.f16", "f16", "f16")
    each(g, "{tanh,ex2}.approx.f16x2", "f16x2", "f16x2")
    each(g, "{tanh.approx,ex2.approx.ftz}.bf16", "bf16", "bf16")
    each(g, "{tanh.approx,ex2.approx.ftz}.bf16x2", "bf16x2", "bf16x2")
    form(g, "rcp.approx.ftz.f64", "f64", "f64")
    each(g, "rsqrt.approx{,.ftz}.f64", "f64", "f64")


def atomics() -> None:
    """Of one thread alone; the result is what memory holds afterwards."""
    g = "atomics"
    for space in ("global", "shared"):
        for bits, signs in ((32, "us"), (64, "us")):
            i = f"i{bits}"
            each(g, f"atom.{space}.{{min,max}}.{{{signs[0]}{bits},{signs[1]}{bits}}}", i, i, i)
            each(g, f"atom.{space}.{{and,or,xor,exch}}.b{bits}", i, i, i)
            form(g, f"atom.{space}.add.u{bits}", i, i, i)
            form(g, f"atom.{space}.add.f{bits}", f"f{bits}", f"f{bits}", f"f{bits}")
            form(g, f"atom.{space}.cas.b{bits}", i, i, i, i)
        form(g, f"atom.{space}.add.s32", "i32", "i32", "i32")
        each(g, f"atom.{space}.{{inc,dec}}.u32", "i32", "i32", "i32")
        for h in ("f16", "bf16", "f16x2", "bf16x2"):
            form(g, f"atom.{space}.add.noftz.{h}", h, h, h)
        for f in ("f32", "f64"):
            form(g, f"red.{space}.add.{f}", f, f, f)
    each(g, "red.{global,shared}.add.u32", "i32", "i32", "i32")


for _group in (float32, float64, integers, halves, conversions, approximations, atomics):
    _group()
GROUPS = list(dict.fromkeys(form.group for form in FORMS.values()))


# --- operands -------------------------------------------------------------------------------------


def _floats(dtype, unsigned, random) -> tuple[np.ndarray, np.ndarray]:
    """Awkward numbers of a float type, and ordinary ones, as bits."""
    info = np.finfo(dtype)
    tiny, least, eps = info.tiny, info.smallest_subnormal, info.eps
    with np.errstate(all="ignore"):
        awkward = [0.0, 1.0, 1.5, 2.0, 0.5, np.inf, np.nan, info.max, tiny, least,
                   tiny - least, 3 * least, 1 + eps, 1 - eps / 2, 1 / 3, 2.5]  # fmt: skip
        awkward = np.array(awkward, dtype)
        awkward = np.concatenate([awkward, -awkward]).view(unsigned)
    return awkward, _ordinary(random, 8 * info.dtype.itemsize, info.nmant, unsigned)


def _ordinary(random, bits: int, mantissa: int, unsigned) -> np.ndarray:
    """Any bits, numbers near 1, integers and half integers, and numbers near the subnormal."""
    count, bias = 400, (1 << (bits - mantissa - 2)) - 1
    sign = random.integers(0, 2, count, np.uint64) << np.uint64(bits - 1)
    fraction = random.integers(0, 1 << mantissa, count, np.uint64)
    few = fraction & ~np.uint64((1 << (mantissa * 2 // 3)) - 1)
    fraction = np.where(random.integers(0, 2, count) == 1, few, fraction)
    reach = min(30, bias - 1)
    exponent = np.select(
        [np.arange(count) % 4 == i for i in range(3)],
        [
            random.integers(bias - 2, bias + 3, count),
            random.integers(bias - reach, bias + reach, count),
            random.integers(0, min(mantissa + 3, bias), count),
        ],
        random.integers(0, 2 * bias + 1, count),
    ).astype(np.uint64)
    return (sign | exponent << np.uint64(mantissa) | fraction).astype(unsigned)


def _integers(bits: int, unsigned, random) -> tuple[np.ndarray, np.ndarray]:
    top = 1 << (bits - 1)
    half = 1 << bits // 2
    awkward = [0, 1, 2, 3, 7, 10, 0x7F, 0x80, 255, 256, 0xAAAA, half, half - 1]
    awkward += [top - 1, top, top + 1, 2 * top - 1, 2 * top - 2, 2 * top - 3, 2 * top - 7]
    width = random.integers(1, bits + 1, 400)
    ordinary = [int.from_bytes(random.bytes(8), "little") % (1 << int(w)) for w in width]
    ordinary = [-x % (2 * top) if i % 3 == 0 else x for i, x in enumerate(ordinary)]
    return np.array(awkward, np.uint64).astype(unsigned), np.array(ordinary, np.uint64).astype(
        unsigned
    )


def _bfloats(random) -> tuple[np.ndarray, np.ndarray]:
    awkward, _ = _floats(np.float32, np.uint32, random)
    awkward = np.unique(awkward >> 16 | (awkward & 0xFFFF != 0)).astype(np.uint16)
    return awkward, _ordinary(random, 16, 7, np.uint16)


def pool(kind: str, random) -> tuple[np.ndarray, np.ndarray]:
    """(awkward, ordinary) operands of a kind, as bits in uint64."""
    if kind in ("f16", "f32", "f64"):
        bits = BITS[kind]
        values = _floats(np.dtype(f"f{bits // 8}"), np.dtype(f"u{bits // 8}"), random)
    elif kind == "bf16":
        values = _bfloats(random)
    elif kind in ("f16x2", "bf16x2"):
        awkward, ordinary = (p.astype(np.uint32) for p in pool(kind[:-2], random))
        values = [p | random.permutation(p) << np.uint32(16) for p in (awkward, ordinary)]
    elif kind == "shift":
        awkward = np.array([0, 1, 5, 15, 16, 31, 32, 33, 63, 64, 65, 255, 256, 2**31, 2**32 - 1])
        values = awkward, random.integers(0, 70, 400)
    elif kind == "pred":
        values = np.array([0, 1]), random.integers(0, 2, 400)
    elif kind in ("bytes", "select", "e2"):
        ordinary = random.integers(0, 1 << BITS[kind], 400)
        values = np.array([0, 0x7F80, 0x8080 << (BITS[kind] - 16), (1 << BITS[kind]) - 1]), ordinary
    else:
        bits = BITS[kind]
        values = _integers(bits, np.dtype(f"u{bits // 8}"), random)
    return tuple(np.asarray(part).astype(np.uint64) for part in values)


def operands(kinds: tuple[str, ...]) -> np.ndarray:
    """(n, len(kinds)) uint64: the operands for all forms that take these kinds."""
    random = np.random.default_rng([*map(ord, ",".join(kinds))])
    pools = [pool(kind, random) for kind in kinds]
    if len(kinds) == 1:
        (parts,) = pools
        return np.unique(np.concatenate([parts[0], parts[1][:200]]))[:, None]
    columns = []
    for awkward, ordinary in pools:  # a third awkward with awkward, a third mixed, a third ordinary
        mixed = np.where(random.integers(0, 2, 120) == 1, random.choice(awkward, 120),
                         random.choice(ordinary, 120))  # fmt: skip
        columns.append(np.concatenate([random.choice(awkward, 160), mixed, ordinary[:120]]))
    return np.stack(columns, axis=1)


# --- kernels --------------------------------------------------------------------------------------


def source(forms: list[Form]) -> str:
    """CUDA C++ with a kernel k0, k1, … for each form: (operands, results, number of them)."""
    return "\n".join(_kernel(i, form) for i, form in enumerate(forms))


def _kernel(number: int, form: Form) -> str:
    if form.group == "atomics":
        return _atomic_kernel(number, form)
    count = len(form.operands)
    names, given, before, after = [], [], "", ""
    for i, kind in enumerate(form.operands):
        c_type, letter = C_TYPES[max(16, BITS[kind])] if kind != "pred" else C_TYPES[32]
        given.append(f'"{letter}"(({c_type})x[{count} * i + {i}])')
        names.append(f"%{i + 1}")
        if kind == "pred":
            before += f".reg .pred q{i}; setp.ne.u32 q{i}, %{i + 1}, 0; "
            names[-1] = f"q{i}"
    c_type, letter = C_TYPES[32] if form.result == "pred" else C_TYPES[BITS[form.result]]
    target = "%0"
    if form.result == "pred":
        before, after, target = ".reg .pred r; " + before, " selp.u32 %0, 1, 0, r;", "r"
    text = form.text.format(*names, d=target)
    return f"""extern "C" __global__ void k{number}(const unsigned long long* x,
        unsigned long long* out, int n) {{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    {c_type} d;
    asm volatile("{{ {before}{text}{after} }}" : "={letter}"(d) : {", ".join(given)});
    out[i] = d;
}}"""


def _atomic_kernel(number: int, form: Form) -> str:
    """The first operand is in memory; a result that is not what was there turns all bits over."""
    count, returns = len(form.operands), form.name.startswith("atom")
    c_type, letter = C_TYPES[BITS[form.result]]
    given = [f'"{letter}"(({c_type})x[{count} * i + {i}])' for i in range(1, count)]
    if ".shared" in form.name:
        memory = f"__shared__ {c_type} places[128]; {c_type}* place = places + threadIdx.x"
        address = '"r"((unsigned)__cvta_generic_to_shared(place))'
    else:
        memory = f"{c_type}* place = ({c_type}*)(out + i)"
        address = '"l"(place)'
    if returns:
        names = ", ".join(["%0", "[%1]", *(f"%{i + 1}" for i in range(1, count))])
        results = f'"={letter}"(d)'
    else:
        names, results = "[%0], %1", ""
    return f"""extern "C" __global__ void k{number}(const unsigned long long* x,
        unsigned long long* out, int n) {{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    {memory};
    {c_type} d = ({c_type})x[{count} * i];
    *(volatile {c_type}*)place = d;
    asm volatile("{form.name} {names};" : {results} : {", ".join([address, *given])} : "memory");
    const {c_type} now = *(volatile {c_type}*)place;
    out[i] = ({c_type})(d == ({c_type})x[{count} * i] ? now : ~now);
}}"""


def operands_key(name: str) -> str:
    """Under which key the operands of a form are recorded."""
    return f"operands {','.join(FORMS[name].operands)}"


def results(forms: list[Form], launch, given) -> dict[str, np.ndarray]:
    """Form -> results (n,), as bits.

    `launch(source, kernel, operands)` runs one kernel and gives its results as uint64; `given`:
    the operands by their key.
    """
    text = source(forms)
    outputs = {}
    for number, form in enumerate(forms):
        bits = max(8, BITS[form.result])
        x = given[operands_key(form.name)]
        outputs[form.name] = launch(text, f"k{number}", x).astype(f"u{bits // 8}")
    return outputs


def write(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Save, all results as one array: a thousand small ones would take as much room again."""
    names = [name for name in FORMS if f"result {name}" in arrays]
    outputs = [np.asarray(arrays.pop(f"result {name}")) for name in names]
    arrays["results"] = np.frombuffer(b"".join(output.tobytes() for output in outputs), np.uint8)
    sizes = [[name, output.itemsize] for name, output in zip(names, outputs, strict=True)]
    arrays["names"] = np.array(json.dumps(sizes))
    np.savez_compressed(path, **arrays)


def read(path: Path) -> dict[str, np.ndarray]:
    """The operands under `operands_key`, the results under "result NAME", and "about"."""
    with np.load(path) as file:
        arrays = dict(file)
    raw, start = arrays.pop("results"), 0
    for name, size in json.loads(str(arrays.pop("names"))):
        end = start + size * len(arrays[operands_key(name)])
        arrays[f"result {name}"] = raw[start:end].view(f"u{size}")
        start = end
    return arrays


# --- approximate functions over all operands ------------------------------------------------------

# Functions whose results are recorded as one digest, over 2**21 operands of all exponents.
DIGESTS = [
    "rcp.approx.ftz.f32", "sqrt.approx.ftz.f32", "rsqrt.approx.ftz.f32", "ex2.approx.ftz.f32",
]  # fmt: skip
# Instruction -> the exact value in double precision, for a float32 x that is no subnormal. Sine and
# cosine are of x * (1 / 2π), rounded towards zero to float32, which the hardware computes first.
EXACT = {
    "lg2.approx.ftz.f32": "log2((double)x)",
    "tanh.approx.f32": "tanh((double)x)",
    "sin.approx.ftz.f32": "sinpi(2.0 * __fmul_rz(x, 0.15915493667125702f))",
    "cos.approx.ftz.f32": "cospi(2.0 * __fmul_rz(x, 0.15915493667125702f))",
}
SWEEP = """
__device__ float flushed(float x) { return fabsf(x) < 1.17549435e-38f ? copysignf(0.0f, x) : x; }
extern "C" __global__ void sweep(unsigned long long* found) {
    unsigned long long special = 0, example = 0, inexact = 0;
    long long units = 0, large = 0;
    double error = 0, small = 0;
    for (unsigned i = 0; i < 4096; ++i) {  // 2**20 threads
        const unsigned bits = i << 20 | blockIdx.x * 256u + threadIdx.x;
        const float x = KEEPS ? __uint_as_float(bits) : flushed(__uint_as_float(bits));
        unsigned got_bits;
        asm volatile("INSTRUCTION %0, %1;" : "=r"(got_bits) : "r"(bits));
        const float got = __uint_as_float(got_bits);
        const double exact = EXACT;
        const float wanted = KEEPS ? (float)exact : flushed((float)exact);
        const bool no_number = isnan(got) || isnan(wanted) || isinf(got) || isinf(wanted);
        if (no_number || got == 0 || wanted == 0) {
            if (got_bits != __float_as_uint(wanted) && !(isnan(got) && isnan(wanted))) {
                ++special;
                example = bits;
            }
            if (no_number) continue;
        }
        const double away = fabs((double)got - wanted);
        error = max(error, away);
        if (fabsf(wanted) < 1.0f) small = max(small, away);
        if (signbit(got) != signbit(wanted)) continue;
        const long long apart = llabs((long long)(int)got_bits - (int)__float_as_uint(wanted));
        units = max(units, apart);
        inexact += apart != 0;
        if (fabsf(wanted) >= 1.0f) large = max(large, apart);
    }
    atomicAdd(found, special);
    atomicMax(found + 1, example);
    atomicMax(found + 2, (unsigned long long)units);
    atomicAdd(found + 3, inexact);
    atomicMax(found + 4, (unsigned long long)large);
    atomicMax(found + 5, (unsigned long long)(error * 0x1p40));
    atomicMax(found + 6, (unsigned long long)(small * 0x1p40));
}
"""


def sweep(cupy) -> dict[str, dict]:
    """For each approximate function: how far the hardware is from the exact value, rounded.

    Over all 2**32 operands. `special`: how many results differ that are NaN, infinite or 0 in one
    of the two; `units`: the largest difference in units in the last place, and of results of
    magnitude 1 and more; `error`: the largest absolute difference, and of results below 1.
    """
    differences = {}
    for name, exact in EXACT.items():
        text = SWEEP.replace("INSTRUCTION", name).replace("EXACT", exact)
        text = text.replace("KEEPS", str(int(name.startswith("tanh"))))
        counts = cupy.zeros(8, "u8")
        cupy.RawKernel(text, "sweep", options=("-std=c++17",))((1 << 12,), (256,), (counts,))
        special, example, units, inexact, large, error, small = counts.get().tolist()[:7]
        differences[name] = {
            "special": special, "example": f"{example:#010x}", "units": units,
            "inexact": inexact, "units_from_1": large, "error": error / 2**40,
            "error_below_1": small / 2**40,
        }  # fmt: skip
        print(name, differences[name])
    return differences


def spread() -> np.ndarray:
    """(2**21,) uint32: bits of float32 of every sign and exponent, and of many mantissas."""
    k = np.arange(2**21, dtype=np.uint32)
    return k << np.uint32(11) | (k * np.uint32(977) & np.uint32(2047))


def digest(bits: np.ndarray) -> str:
    """Of float32 results as uint32; all NaN are the same."""
    bits = np.where(np.isnan(bits.view(np.float32)), np.uint32(0x7FFFFFFF), bits)
    return hashlib.sha256(bits.astype("<u4").tobytes()).hexdigest()


def digests(cupy) -> dict[str, str]:
    text = """extern "C" __global__ void k(const unsigned* x, unsigned* out) {
        const int i = blockIdx.x * blockDim.x + threadIdx.x;
        asm volatile("INSTRUCTION %0, %1;" : "=r"(out[i]) : "r"(x[i]));
    }"""
    x, out, by_name = cupy.asarray(spread()), cupy.zeros(2**21, "u4"), {}
    for name in DIGESTS:
        cupy.RawKernel(text.replace("INSTRUCTION", name), "k")((2**13,), (256,), (x, out))
        by_name[name] = digest(out.get())
    return by_name


# What NVRTC makes of functions of the CUDA library: no approximation but those of DIGESTS.
LIBRARY = [
    "expf(x)", "exp2f(x)", "exp10f(x)", "expm1f(x)", "logf(x)", "log2f(x)", "log10f(x)",
    "log1pf(x)", "tanhf(x)", "sinhf(x)", "coshf(x)", "erff(x)", "erfcf(x)", "sqrtf(x)", "rsqrtf(x)",
    "sinf(x)", "cosf(x)", "tanf(x)", "atanf(x)", "asinf(x)", "powf(fabsf(x), 1.7f)",
    "powf(x, 3.0f)",
    "fmodf(x, 0.7f)", "hypotf(x, 2.0f)", "1.0f / (1.0f + expf(-x))", "__fdividef(x, 1.7f)",
    "x / 1.7f", "__expf(x)", "normcdff(x)", "rintf(x)", "roundf(x)", "(float)(int)x",
]  # fmt: skip
LIBRARY_SOURCE = "\n".join(
    f"""extern "C" __global__ void k{i}(const float* in, float* out) {{
        const float x = in[blockIdx.x * blockDim.x + threadIdx.x];
        out[blockIdx.x * blockDim.x + threadIdx.x] = {expression};
    }}"""
    for i, expression in enumerate(LIBRARY)
)


def library_operands() -> np.ndarray:
    """(2**15,) float32: of every sign and exponent, and ordinary ones."""
    ordinary = np.random.default_rng(6).normal(0, 8, 2**14).astype(np.float32)
    return np.concatenate([spread()[::128].view(np.float32), ordinary])


def library(cupy) -> dict[str, str]:
    """Digests of the results; compiled as the simulator compiles."""
    module = cupy.RawModule(code=LIBRARY_SOURCE, options=("-std=c++17", "-ftz=true"))
    x, by_expression = cupy.asarray(library_operands()), {}
    for i, expression in enumerate(LIBRARY):
        out = cupy.zeros(2**15, "f4")
        module.get_function(f"k{i}")((2**7,), (256,), (x, out))
        by_expression[expression] = digest(out.get().view(np.uint32))
    return by_expression


def provenance(cupy) -> dict[str, str]:
    properties = cupy.cuda.runtime.getDeviceProperties(0)
    return {
        "gpu": properties["name"].decode(),
        "capability": f"{properties['major']}.{properties['minor']}",
        "driver": str(cupy.cuda.runtime.driverGetVersion()),
        "nvrtc": ".".join(map(str, cupy.cuda.nvrtc.getVersion())),
        "date": date.today().isoformat(),
        "command": "python ptxsim/hardware/record_arithmetic.py OUTDIR",
    }


def main(outdir: Path) -> None:
    import cupy

    compiled = {}

    def launch(text: str, kernel: str, x: np.ndarray) -> np.ndarray:
        if text not in compiled:
            compiled[text] = cupy.RawModule(code=text, options=("-std=c++17",))
        out, n = cupy.zeros(len(x), "u8"), len(x)
        compiled[text].get_function(kernel)((n // 128 + 1,), (128,), (cupy.asarray(x), out, n))
        return out.get()

    arrays = {operands_key(form.name): operands(form.operands) for form in FORMS.values()}
    for group in GROUPS:
        forms = [form for form in FORMS.values() if form.group == group]
        arrays |= {f"result {k}": v for k, v in results(forms, launch, arrays).items()}
        print(group, len(forms))
    about = {**provenance(cupy), "sweep": sweep(cupy), "digests": digests(cupy)}
    about["library"] = library(cupy)
    arrays["about"] = np.array(json.dumps(about))
    write(outdir / "arithmetic.npz", arrays)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
