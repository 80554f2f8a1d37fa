"""The source heat map: its numbers are the counters', and every reader gets the same of them."""

import re
from xml.etree import ElementTree

import pytest

import gemmlab as gl
from gemmlab import ladder
from ptxsim.metrics import BULK_METRICS, MATRIX_METRICS, METRICS, WGMMA_METRICS


@pytest.fixture(scope="module")
def heats():
    made = {}

    def heat(name, shape=None, **settings):
        key = (name, shape, *settings.items())
        if key not in made:
            made[key] = gl.heat(gl.load(name, **settings).trace(*(shape or (128, 128, 32))))
        return made[key]

    return heat


def parsed(heat):
    """The rows of the HTML table: of each the texts and the grounds of its cells."""
    tree = ElementTree.fromstring(heat._repr_html_())
    rows = []
    for row in tree.iter("tr"):
        texts = ["".join(cell.itertext()) for cell in row]
        grounds = [re.search(r"background: (#\w+)", cell.get("style", "")) for cell in row]
        rows.append((texts, [match and match[1] for match in grounds]))
    return tree, rows


TRAFFIC = METRICS | MATRIX_METRICS | WGMMA_METRICS | BULK_METRICS
CASES = [(rung.name, {}) for rung in ladder.RUNGS] + [("09_double_buffering", {"STAGES": 3})]
SHOWN = [
    ("01_naive", {}),
    ("09_double_buffering", {"STAGES": 3}),
    ("12_split_k", {}),
    ("18_persistent", {}),
]


@pytest.mark.parametrize(("name", "settings"), CASES)
def test_the_lines_make_up_the_counters(name, settings, heats):
    heat = heats(name, **settings)
    for kind, space in (("sectors", "global"), ("wavefronts", "shared")):
        names = {names[1] for (where, _), names in TRAFFIC.items() if where == space}
        total = sum(heat.trace.counters.get(name, 0) for name in names)
        assert heat.table[kind].sum() == total
        assert heat.table[f"{kind}_share"].sum() == pytest.approx(100 if total else 0)


def test_the_naive_kernel_pays_for_its_column_of_a(heats):
    """32 sectors for each load of A, one for a load of B, and both K times; C is stored once."""
    heat = heats("01_naive", (64, 64, 48))
    most = heat.table.loc[heat.table["sectors"].idxmax()]
    assert "A[(size_t)row * K + k]" in most["source"]
    a, b, c = (32 * 64 * 64 // 32 * 48, 64 * 64 // 32 * 48, 32 * 64 * 64 // 32)
    assert most["sectors"] == a
    assert most["sectors_share"] == pytest.approx(100 * a / (a + b + c))
    assert f"line {most['line']} costs most of global memory" in heat.caption
    assert "no line touches shared memory" in heat.caption


@pytest.mark.parametrize(("name", "settings"), SHOWN)
def test_html_and_text_hold_the_same_numbers(name, settings, heats):
    heat = heats(name, **settings)
    tree, rows = parsed(heat)
    caption, *lines = repr(heat).splitlines()
    assert "".join(tree.find(".//caption").itertext()) == caption == heat.caption
    assert len(lines) == len(rows)
    for line, (texts, _) in zip(lines, rows, strict=True):
        assert line.split() == " ".join(texts).split()


@pytest.mark.parametrize(("name", "settings"), SHOWN)
def test_what_is_shown_and_what_is_folded_is_the_whole_code(name, settings, heats):
    heat = heats(name, **settings)
    _, (head, *rows) = parsed(heat)
    shown = {int(texts[0]): texts for texts, _ in rows if texts[0]}
    folded = [re.search(r"… (\d+) lines without", texts[-1]) for texts, _ in rows if not texts[0]]
    assert len(shown) + sum(int(match[1]) for match in folded) == len(heat.table)
    assert min(int(match[1]) for match in folded) > 2
    source = heat.trace.text.splitlines()
    for line, texts in shown.items():
        assert texts[-1] == source[line - 1]
    for row in heat.table.to_dict("records"):
        if row["sectors"] or row["wavefronts"]:
            counts = [f"{row[kind]:,}" for kind in ("sectors", "wavefronts") if row[kind]]
            assert set(counts) <= set(shown[row["line"]])
    assert head[0][0] == "line" and head[0][-1] == "source"


def test_source_is_escaped():
    text = gl.load("01_naive").source().text.replace("float sum = 0.0f;", "float sum = 0 < 1 && 0;")
    html = gl.heat(gl.from_source(text, "01_naive").trace(32, 8, 4))._repr_html_()
    assert "float sum = 0 &lt; 1 &amp;&amp; 0;" in html
    ElementTree.fromstring(html)


def test_a_kernel_in_a_header_is_not_said_to_touch_nothing():
    thin = {"BM": 1, "BN": 128, "BK": 256, "TM": 1, "TN": 4, "STAGES": 1, "SPLIT": 8, "JOIN": 3}
    trace = gl.load("12_split_k", **thin).trace(1, 128, 2048)
    sectors = trace.lines["sectors"].sum()
    caption = gl.heat(trace).caption
    where = "of global memory are of a kernel in a header"
    assert sectors and f"all {sectors:,} sectors {where}" in caption
    assert "no line touches" not in caption
