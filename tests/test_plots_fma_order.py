"""The figure of the order of FMAs: bars without loads, and lines over the number of loads."""

import pandas
import pytest
from figures import (  # noqa: F401
    test_all_of_it_can_be_read,
    test_no_text_lies_on_another,
    test_the_caption_is_a_sentence_below_everything,
    the_one,
    words,
)
from matplotlib.colors import to_hex

from gemmlab.lessons.register_banks import figures
from gemmlab.lessons.register_banks.measure import ORDERS, VARIANTS
from gemmlab.plots import style


@pytest.fixture(scope="module")
def table():
    """Made up: the later an order, the faster; a load costs 1, of which its slot is a half. All
    SMs take the same time."""
    rows = pandas.DataFrame(
        {
            "tile": f"{variant.rows}×{variant.columns}",
            "order": ORDERS[variant.order],
            "loads": variant.loads,
            "FFMA": 1024,
            "issue slots": 1024,
            "ptxas": f"-O{variant.level}",
            "slots alone TFLOP/s": 65.0 - 0.5 * variant.loads,
            "predicted TFLOP/s": 60.0,
            "measured TFLOP/s": 50.0 + 3 * variant.order - variant.loads + 0.2 * variant.level,
            "roof TFLOP/s": 65.6,
            "gpu": "NVIDIA Test",
            "recorded": "2026-11-21T10:00:00+00:00",
        }
        for variant in VARIANTS
    )
    active = 100 * rows["measured TFLOP/s"] / rows["roof TFLOP/s"]
    return rows.assign(**{"issue active, %": active, "active, %": 99.0})


@pytest.fixture(scope="module")
def figure(table):
    return figures.fma_order(table)


def test_bars_are_as_high_as_the_speed_without_loads(figure, table):
    rows = table[(table["loads"] == 0) & (table["ptxas"] == "-O3")]
    for row in rows.to_dict("records"):
        bar = the_one(figure, f"{row['tile']} {row['order']}")
        assert bar.get_height() == row["measured TFLOP/s"]
        mark = the_one(figure, f"predicted {row['tile']} {row['order']}")
        assert mark.get_ydata().tolist() == [60.0]
        assert mark.get_xdata()[0] == pytest.approx(bar.get_x() + bar.get_width() / 2)


def test_lines_go_over_the_loads_filled_with_the_level_that_keeps_the_order(figure, table):
    rows = table[table["tile"] == "8×16"].sort_values("loads")
    for order in ORDERS[:3]:
        faces = set()
        for level in ("-O1", "-O3"):
            chosen = rows[(rows["order"] == order) & (rows["ptxas"] == level)]
            line = the_one(figure, f"loads {order} {level}")
            assert line.get_xdata().tolist() == list(range(7))
            assert line.get_ydata().tolist() == chosen["measured TFLOP/s"].tolist()
            faces.add(to_hex(line.get_markerfacecolor()) == to_hex(line.get_color()))
        assert faces == {True, False}
    slots = the_one(figure, "slots alone")
    assert slots.get_ydata().tolist() == [65.0 - 0.5 * loads for loads in range(7)]


def test_the_caption_names_the_extremes(figure):
    assert "row by row and 62.6 TFLOP/s with strips of four columns" in figure.caption
    assert "reaches 50.2 TFLOP/s; their issue slots alone would leave 62.0" in figure.caption
    assert {"8×8 sums", "8×16 sums", "16×8 sums", "roof 65.6"} <= set(words(figure))


def test_a_bar_of_a_launch_in_which_sms_differed_is_marked(figure, table):
    odd = (table["tile"] == "8×16") & (table["loads"] == 0) & (table["order"] == ORDERS[4])
    marked = figures.fma_order(table.assign(**{"active, %": table["active, %"].mask(odd, 90.0)}))
    assert the_one(marked, f"uneven 8×16 {ORDERS[4]}").get_text() == "†"
    assert words(marked).count("†") == 1
    assert "In 1 of the bars (†) some SMs took longer" in marked.caption.replace("\n", " ")
    assert "†" not in words(figure) and "slowest" not in figure.caption


def test_no_order_has_the_colour_of_a_matrix():
    assert not {colour for colour, _ in figures.LOOKS.values()} & set(style.ARRAYS.values())


def test_other_things_are_refused(table):
    with pytest.raises(TypeError, match="fma_order takes a pandas table"):
        figures.fma_order(table.to_dict())
    with pytest.raises(ValueError, match="missing: loads"):
        figures.fma_order(table.drop(columns="loads"))
    with pytest.raises(ValueError, match="'sideways' is no order; there are row by row"):
        figures.fma_order(table.replace("row by row", "sideways"))
    with pytest.raises(ValueError, match="rows with loads of one tile, not of 0"):
        figures.fma_order(table[table["loads"] == 0])
