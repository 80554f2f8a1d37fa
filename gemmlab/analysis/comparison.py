"""Two kernels, or two settings of one, side by side: counted, compiled and recorded."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import pandas

from gemmlab.analysis import facts
from gemmlab.analysis.facts import OF_CUBLAS, Facts
from gemmlab.kernel.kernel import Kernel
from gemmlab.report import Sheet, number, ratio, times

NOT_RECORDED = "not recorded"


def compare(a: Kernel, b: Kernel, arch: str | None = None) -> Comparison:
    """What is known of kernel `b`, beside the same of kernel `a`.

    One block of each is traced, inside of a small product. `arch`: of registers and occupancy, such
    as "sm_86"; that of `a` if None. Raises TypeError for what is no kernel, and what facts.of
    raises.
    """
    for kernel in (a, b):
        if not isinstance(kernel, Kernel):
            raise TypeError(
                f"compare takes two kernels, as gl.load(...) and gl.from_source(...) give, not "
                f"{kernel!r}."
            )
    arch = arch or a.arch
    return Comparison(facts.of(a, arch), facts.of(b, arch))


@dataclass(frozen=True, repr=False)
class Comparison:
    """The facts of two kernels. Show it, or its `table`."""

    a: Facts
    b: Facts

    @cached_property
    def names(self) -> tuple[str, str]:
        """What the two are called: the rung and the settings in which they differ."""
        kernel, other = self.a.kernel, self.b.kernel
        names = _name(kernel, other), _name(other, kernel)
        return names if names[0] != names[1] else (f"{names[0]} (a)", f"{names[1]} (b)")

    @property
    def mixed(self) -> bool:
        """Whether the two multiply matrices of different types."""
        return self.a.kernel.dtype != self.b.kernel.dtype

    @cached_property
    def table(self) -> pandas.DataFrame:
        """Columns: quantity, one for each kernel, ratio (of b to a), unit. ratio is NaN where a
        value is 0, a word or not recorded."""
        a, b = self.a.table(), self.b.table()
        ratios = pandas.Series(map(ratio, a["value"], b["value"]), dtype=float)
        if self.mixed:  # shares of different cuBLAS products are not one quantity
            ratios[a["quantity"] == OF_CUBLAS] = math.nan
        columns = dict(zip(self.names, (a["value"], b["value"]), strict=True))
        return pandas.DataFrame(
            {
                "quantity": a["quantity"],
                **{
                    name: [NOT_RECORDED if value is None else value for value in column]
                    for name, column in columns.items()
                },
                "ratio": ratios,
                "unit": a["unit"],
            }
        )

    @cached_property
    def sentences(self) -> list[str]:
        """What was traced, and where the speed comes from."""
        both = (self.a, self.b)
        shapes = dict.fromkeys(f"{each.trace.m}×{each.trace.n}×{each.trace.k}" for each in both)
        sentences = [f"Counted in the simulator: one block, at {' and '.join(shapes)}."]
        if self.mixed:
            types = " and ".join(f"{each.kernel.name} {each.kernel.dtype}" for each in both)
            sentences.append(f"{types}: each share is of cuBLAS in the same precision.")
        at = "×".join(map(str, facts.SPEED_AT))
        if where := dict.fromkeys(f"{at}: {each.speed.where}" for each in both if each.speed):
            sentences.append(f"Speed at {'; at '.join(where)}.")
        return sentences

    def __repr__(self) -> str:
        return str(self._sheet())

    def _repr_html_(self) -> str:
        return self._sheet().html()

    def _sheet(self) -> Sheet:
        sheet = Sheet()
        sheet.say(f"{self.names[1]} beside {self.names[0]}", strong=True)
        rows = [
            [quantity, number(a), number(b), "" if factor != factor else times(factor), unit]
            for quantity, a, b, factor, unit in self.table.itertuples(index=False, name=None)
        ]
        sheet.table(["quantity", *self.names, "ratio", "unit"], rows, words=(4,))
        for sentence in self.sentences:
            sheet.say(sentence)
        return sheet


def _name(kernel: Kernel, other: Kernel) -> str:
    """The rung, the settings that the other has otherwise, and those it lacks if not as usual."""
    shown = [
        f"{name}={value}"
        for name, value in kernel.settings.items()
        if value != other.settings.get(name, kernel.rung.defaults[name])
    ]
    edited = kernel.text != kernel.rung.path.read_text(encoding="utf-8")
    return " ".join([kernel.name, *shown]) + (" edited" if edited else "")
