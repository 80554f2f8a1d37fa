"""In how many passes L1 answers the requests of 01_naive: counted, kept, and per step."""

import pytest
import sample_record

from gemmlab.lessons.naive import measure as l1_passes
from gemmlab.records import recorder


@pytest.fixture
def results(tmp_path, monkeypatch):
    """A GPU on which every step of a warp takes 33 sectors and what else is asked for once."""

    def counted(rung, settings, shapes, metrics):
        per_step = dict.fromkeys(metrics, 1) | {l1_passes.METRICS["sectors"]: 33}
        return [
            {metric: m * n * k // 32 * amount for metric, amount in per_step.items()}
            for m, n, k in shapes
        ]

    sample_record.count_with(monkeypatch, counted, recorder)
    return sample_record.put(monkeypatch, tmp_path).parent


def test_what_l1_does_is_told_for_32_multiply_adds(results):
    recorder.record(["01_l1_passes"], [], lambda line: None)
    table = l1_passes.l1_passes()
    assert list(table.index) == ["512×512×512", "512×512×513", "16384×64×129", "64×16384×129"]
    assert set(table["sectors"]) == {33} and set(table["data wavefronts"]) == {1}
    assert table["what differs"].iloc[1] == l1_passes.SHAPES[512, 512, 513]
