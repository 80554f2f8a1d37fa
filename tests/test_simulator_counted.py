"""The counters of the FP32 corpus against those recorded on an NVIDIA H200, one by one."""

import json
from pathlib import Path

import corpus
import pytest

from gemmlab.fingerprint import code_hash

RECORD = json.loads((Path(__file__).parent / "recorded/counters.json").read_text("utf-8"))
COPIES = "smsp__inst_executed_op_ldgsts.sum"  # not counted in the simulator


@pytest.mark.parametrize("name", RECORD["kernels"])
def test_every_counter_is_the_same(name):
    entry, recorded = corpus.product(name), RECORD["kernels"][name]
    assert recorded["code"] == code_hash(entry.path, entry.settings), "record it anew"
    for row in recorded["counters"]:
        _, run = entry.launch(row["m"], row["n"], row["k"], count=True)
        metrics = {name: value for name, value in row["metrics"].items() if name != COPIES}
        assert len(metrics) == 12
        assert {name: run.counters[name] for name in metrics} == metrics


def test_the_record_covers_every_fp32_product():
    expected = {one.name for one in corpus.PRODUCTS if one.dtype == "float32"}
    assert set(RECORD["kernels"]) == expected
