"""The figure of ways to join parts: a sign for each way, a row for each shape."""

import pandas
import pytest
from figures import (  # noqa: F401
    axes,
    by_gid,
    test_all_of_it_can_be_read,
    test_no_text_lies_on_another,
    test_the_caption_has_a_number,
    test_the_caption_is_a_sentence_below_everything,
    the_one,
    words,
)

from gemmlab.ladder.settings import ALONE, CLUSTER, JOINS, STREAM_K
from gemmlab.lessons.split_k import figures

SHAPES = ((64, 64, 65536), (1536, 1536, 1536), (1001, 777, 513))


def share(at, join):
    return 50.0 if join == ALONE else 60.0 + 10 * join + 30 * at


def rows(shapes=SHAPES, left_out=()):
    context = {"gpu": "NVIDIA Test", "recorded": "2026-11-21T10:00:00"}
    return pandas.DataFrame(
        {
            "m": m, "n": n, "k": k, "join": name, "pct_cublas": share(at, join),
            "settings": f"BM=64 BN=128 SPLIT={1 if join in (ALONE, STREAM_K) else 4}", **context,
        }
        for at, (m, n, k) in enumerate(shapes)
        for join, name in enumerate(JOINS)
        if (at, join) not in left_out
    )  # fmt: skip


@pytest.fixture(scope="module")
def figure():
    return figures.joins(rows(left_out=[(0, CLUSTER)]))


def test_every_way_stands_at_its_share_in_the_row_of_its_shape(figure):
    for at in range(len(SHAPES)):
        for join, name in enumerate(JOINS):
            if (at, join) == (0, CLUSTER):
                assert not by_gid(figure, f"{name} {at}")
            else:
                (x,), (y,) = the_one(figure, f"{name} {at}").get_data()
                assert x == share(at, join) and at < y < at + 1


def test_ways_with_the_same_share_do_not_hide_each_other():
    figure = figures.joins(rows().assign(pct_cublas=90.0))
    heights = [the_one(figure, f"{name} 0").get_ydata()[0] for name in JOINS]
    assert len(set(heights)) == len(JOINS) and heights == sorted(heights)


def test_signs_differ_from_each_other_in_colour_or_marker(figure):
    looks = [
        (one.get_color(), one.get_marker())
        for one in (the_one(figure, f"{name} 1") for name in JOINS)
    ]
    assert len(set(looks)) == len(JOINS)


def test_shapes_have_their_tile_and_parts(figure):
    said = "\n".join(words(figure)).split("\n")
    assert {"64×64×65536", "1536×1536×1536", "1001×777×513"} <= set(said)
    assert said.count("tiles 64×128, 4 parts") == len(SHAPES)
    assert axes(figure, "shares of joins").get_xlim()[0] == 0


def test_the_caption_says_where_cutting_k_gains_most_and_least(figure):
    assert "At 1001×777×513 one block for each tile reaches 50.0 %" in figure.caption
    assert "stream-K, 180.0 %: 3.60 times" in figure.caption
    assert "The least gain is at 64×64×65536: 2.40 times" in figure.caption


def test_what_is_no_such_table_is_refused():
    with pytest.raises(TypeError, match="joins takes a pandas table"):
        figures.joins([1])
    with pytest.raises(ValueError, match="missing: join"):
        figures.joins(rows().drop(columns="join"))
    with pytest.raises(ValueError, match="must be a finite number above 0"):
        figures.joins(rows().assign(pct_cublas=0.0))
