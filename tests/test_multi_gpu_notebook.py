"""What 21_multi_gpu shows and asks: sliders, lines of schedules, rings and events."""

from pathlib import Path

import pytest

from gemmlab.ladder.precision import HALF
from gemmlab.lessons.multi_gpu import exercises
from gemmlab.lessons.multi_gpu import schedules as make
from gemmlab.lessons.multi_gpu.lab import RanksLab
from gemmlab.lessons.multi_gpu.schedules import schedule_lines
from gemmlab.lessons.multi_gpu.timeline import Machine

MACHINE = Machine(676e12, 4e12, 450e9, 50e9)


def printed(capsys, call):
    call()
    return capsys.readouterr().out.strip()


# ---- lines ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("maker", [make.column_parallel, make.row_parallel])
def test_lines_are_those_of_the_file(maker):
    listing = schedule_lines(maker)
    source = Path(make.__file__).read_text(encoding="utf-8").splitlines()
    assert 5 <= len(listing.numbers) <= 12
    for number, line in zip(listing.numbers, listing.text.splitlines(), strict=True):
        assert source[number - 1].strip().startswith(line.strip())
    assert "Step(" in listing.text and listing.text.rstrip().endswith("]")


# ---- sliders -------------------------------------------------------------------------------------


def test_sliders_begin_at_the_machine_and_the_picture_follows_them():
    lab = RanksLab(MACHINE, HALF)
    assert lab.controls["link, GB/s"].value == 450 and lab.controls["between hosts, GB/s"].value == 50  # fmt: skip # noqa: E501
    first = bytes(lab.picture.value)
    assert first.startswith(b"\x89PNG") and "16384×16384×16384 on 2 GPUs" in lab.caption.value
    lab.controls["link, GB/s"].value = 8
    assert lab.picture.value != first
    lab.controls["GPUs"].value = 1
    assert "nothing is moved" in lab.caption.value and "100.0 % of 1 times one" in lab.caption.value
    assert repr(lab).startswith("Sliders for a model: schedule, GPUs, chunks, M, N, K, link")


# ---- exercises -----------------------------------------------------------------------------------


def test_a_right_ring_is_right_and_the_stub_is_not(capsys):
    right = lambda rank, ranks: [(rank - at) % ranks for at in range(ranks - 1)]  # noqa: E731
    judged = printed(capsys, lambda: exercises.check_all_gather(right))
    assert judged.startswith("Right: with 2, 3, 4")
    added = lambda rank, ranks: [(rank - 1 - at) % ranks for at in range(ranks - 1)]  # noqa: E731
    judged = printed(capsys, lambda: exercises.check_reduce_scatter(added))
    assert judged.startswith("Right: with 2")


@pytest.mark.parametrize(
    ("ring", "gathers", "reduces"),
    [
        (lambda r, n: [r] * (n - 1), "rank 0 lacks part 1 at the end", "ends with the number of"),
        (lambda r, n: [(r + at) % n for at in range(n - 1)], "sends part 1 in round 1, and has only 0, 2", "Not yet"),  # noqa: E501
        (lambda r, n: [], "needs a list of 1 parts, one for each round", "needs a list of 1"),
        (lambda r, n: None, "needs a list of 1 parts", "needs a list of 1 parts"),
        (lambda r, n: [n] * (n - 1), "sends part 2; there are 0 to 1", "sends part 2"),
    ],
)  # fmt: skip
def test_a_wrong_ring_is_told_where_it_fails(ring, gathers, reduces, capsys):
    assert gathers in printed(capsys, lambda: exercises.check_all_gather(ring))
    assert reduces in printed(capsys, lambda: exercises.check_reduce_scatter(ring))


def test_the_missing_event_is_found_and_nothing_else(capsys):
    broken = exercises.without_an_event()
    find = lambda *given: printed(capsys, lambda: exercises.find_event(broken, *given))  # noqa: E731
    assert find(None, None, None).startswith("Not answered yet")
    assert (
        find(*exercises.PLANTED)
        == "Right: 'gather 3' of rank 1 waits for 'product 1' now, and nothing races."
    )
    assert "longer than it must" in find(1, "gather 2", "product 1")
    assert find(0, "gather 3", "gather 1").startswith(
        "Not yet: of 1 findings 1 are left. rank 1: 'gather 3'"
    )
    assert "rank 1 has no step 'gather 9'" in find(1, "gather 9", "product 1")
    assert "no step" in find(7, "gather 3", "product 1")
