"""The source of a kernel as a heat map: what each line costs in traffic of memory."""

import html
from functools import cached_property

import pandas
from matplotlib.colors import to_hex

from gemmlab.kernel.trace import Trace
from gemmlab.plots import style
from gemmlab.report import PAPER, aligned

CONTEXT = 2  # lines without traffic that stay beside those with some
LONGEST_QUIET = 6  # a longer run of lines without traffic is folded
DEEPEST = 0.6  # of a tint: dark text stays legible on it
COUNTS = {"sectors": "global", "wavefronts": "shared"}  # and the memory that they are of


class Heat:
    """Source lines with the sectors of global memory and wavefronts of shared memory of a trace.

    Show it in a notebook, or print it: both have the same numbers.
    `table`: pandas.DataFrame, a row for each line from the first after the header comment on:
    line, source, sectors, sectors_share, wavefronts, wavefronts_share. Shares are percent of all
    of the kernel. What functions of an included header move counts for the line that calls them.
    """

    def __init__(self, trace: Trace):
        self.trace = trace

    @cached_property
    def table(self) -> pandas.DataFrame:
        source = self.trace.text.rstrip().splitlines()
        code = (at for at, text in enumerate(source) if text.strip() and text.lstrip()[:2] != "//")
        first = next(code, 0)
        lines = range(first + 1, len(source) + 1)
        table = pandas.DataFrame({"line": lines, "source": source[first:]})
        counted = self.trace.lines
        for kind in COUNTS:
            sums = counted.groupby("line")[kind].sum() if len(counted) else {}
            table[kind] = [int(sums.get(line, 0)) for line in lines]
            total = table[kind].sum()
            table[f"{kind}_share"] = 100.0 * table[kind] / total if total else 0.0
        return table

    @property
    def caption(self) -> str:
        """Which lines cost most, as a sentence."""
        parts = []
        for kind, where in COUNTS.items():
            counts = self.table[kind]
            memory = f"of {where} memory"
            most = self.table[counts == counts.max()]
            lines = style.listed([str(line) for line in most["line"]])
            each = f"{style.percent(most[f'{kind}_share'].iloc[0])} of {counts.sum():,} {kind}"
            if not counts.any():
                elsewhere = int(self.trace.lines[kind].sum()) if len(self.trace.lines) else 0
                header = f"all {elsewhere:,} {kind} {memory} are of a kernel in a header"
                parts.append(header if elsewhere else f"no line touches {where} memory")
            elif len(most) == 1:
                parts.append(f"line {lines} costs most {memory}, {each}")
            else:
                parts.append(f"lines {lines} cost most {memory}, each {each}")
        trace = self.trace
        where = f"{trace.kernel_name} at {style.shape_label(trace.m, trace.n, trace.k)}"
        return f"{where}: {'; '.join(parts)}."

    def __repr__(self) -> str:
        kinds = self._kinds()
        lines = [["line", *(word for kind in kinds for word in (kind, "share")), "source"]]
        for row in self._rows():
            if isinstance(row, int):
                lines.append([*[""] * (2 * len(kinds) + 1), _folded(row)])
            else:
                numbers = [word for kind in kinds for word in _cell(row, kind)]
                lines.append([str(row["line"]), *numbers, row["source"]])
        return f"{self.caption}\n{aligned(lines, left=[2 * len(kinds) + 1])}"

    def _repr_html_(self) -> str:
        colours = {"sectors": style.BLUE, "wavefronts": style.VERMILION}
        kinds = self._kinds()
        number = "text-align: right; padding: 0 0.6em; white-space: nowrap; border: 0"
        code = "text-align: left; padding: 0 0.6em; white-space: pre-wrap; font-family: monospace"
        heads = [("line", number), *((word, number) for kind in kinds for word in (kind, "share")),
                 ("source", code)]  # fmt: skip
        below = f"border: 0; border-bottom: 1px solid {style.GRID}"
        head = "".join(
            f'<th scope="col" style="{look}; {below}">{word}</th>' for word, look in heads
        )
        body = []
        for row in self._rows():
            if isinstance(row, int):
                span = f'<td colspan="{2 * len(kinds) + 1}" style="border: 0"></td>'
                words = f'<td style="{code}; border: 0; color: {style.FAINT}">{_folded(row)}</td>'
                body.append(f'<tr style="{PAPER}">{span}{words}</tr>')
                continue
            cells = [f'<th scope="row" style="{number}; font-weight: normal">{row["line"]}</th>']
            for kind in kinds:
                look = number
                if row[kind]:
                    tinted = style.tint(colours[kind], DEEPEST * row[f"{kind}_share"] / 100)
                    look += f"; background: {to_hex(tinted)}"
                cells += [f'<td style="{look}">{text}</td>' for text in _cell(row, kind)]
            # What does not fit goes on in the next line, under the code and a little further in.
            source = row["source"]
            deep = len(source) - len(source.lstrip()) + 4
            hang = f"padding-left: calc(0.6em + {deep}ch); text-indent: -{deep}ch"
            cells.append(f'<td style="{code}; {hang}; border: 0">{html.escape(source)}</td>')
            body.append(f'<tr style="{PAPER}">{"".join(cells)}</tr>')
        caption = (
            f'<caption style="caption-side: bottom; text-align: left; padding: 0.5em; {PAPER}">'
            f"{html.escape(self.caption)}</caption>"
        )
        return (
            f'<div style="overflow-x: auto; {PAPER}">'
            f'<table style="border-collapse: collapse; border: 0; margin: 0; {PAPER}; '
            f'font-size: 13px; line-height: 1.35">{caption}<thead><tr style="{PAPER}">{head}</tr>'
            f"</thead><tbody>{''.join(body)}</tbody></table></div>"
        )

    def _kinds(self) -> list[str]:
        return [kind for kind in COUNTS if self.table[kind].any()]

    def _rows(self) -> list[dict | int]:
        """Rows of the table; or, in the place of a long run without traffic, how many lines."""
        records = self.table.to_dict("records")
        busy = [at for at, record in enumerate(records) if any(record[kind] for kind in COUNTS)]
        rows: list[dict | int] = []
        for before, after in zip([-1, *busy], [*busy, len(records)], strict=True):
            if before >= 0:
                rows.append(records[before])
            quiet = records[before + 1 : after]
            if len(quiet) > LONGEST_QUIET:
                first, last = CONTEXT * (before >= 0), CONTEXT * (after < len(records))
                hidden = len(quiet) - first - last
                quiet = [*quiet[:first], hidden, *quiet[first + hidden :]]
            rows += quiet
        return rows


def _cell(row: dict, kind: str) -> tuple[str, str]:
    """The count and the share of a line, in words."""
    return (f"{row[kind]:,}", style.percent(row[f"{kind}_share"])) if row[kind] else ("", "")


def _folded(lines: int) -> str:
    return f"… {lines} lines without traffic"
