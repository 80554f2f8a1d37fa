"""The counters of the FP32 corpus against those recorded on an NVIDIA H200, one by one."""

import json
from pathlib import Path

import corpus
import pytest

from gemmlab.fingerprint import code_hash

RECORD = json.loads((Path(__file__).parent / "recorded/counters.json").read_text("utf-8"))
LOADS = "smsp__inst_executed_op_shared_ld.sum"
LOAD_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"
LOAD_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"
COPIES = "smsp__inst_executed_op_ldgsts.sum"  # not counted in the simulator

# The GPU's assembler merges neighbouring 4-byte loads of these into wider ones.
MERGED = {
    "shared_memory 32": {LOADS, LOAD_WAVEFRONTS},
    "shared_memory 16": {LOADS, LOAD_WAVEFRONTS},
    "shared_memory 32, transposed": {LOADS, LOAD_WAVEFRONTS, LOAD_CONFLICTS},
    "thread_tile_1d 64x64x8": {LOADS, LOAD_WAVEFRONTS},
    "thread_tile_1d 32x32x16": {LOADS, LOAD_WAVEFRONTS},
    "thread_tile_2d 64x64x8": {LOADS, LOAD_WAVEFRONTS, LOAD_CONFLICTS},
    "thread_tile_2d 128x128x8": {LOADS, LOAD_WAVEFRONTS, LOAD_CONFLICTS},
}
# And these execute more shared-memory instructions than loads; which they are is not known.
WITH_COPIES = {"cp_async 128x128x8": {LOADS}, "cp_async 32x64x8, two stages": {LOADS}}
DIFFERENT = MERGED | WITH_COPIES


@pytest.mark.parametrize("name", RECORD["kernels"])
def test_every_counter_is_the_same_but_for_those_that_are_known_to_differ(name):
    entry, recorded = corpus.product(name), RECORD["kernels"][name]
    assert recorded["code"] == code_hash(entry.path, entry.settings), "record it anew"
    for row in recorded["counters"]:
        _, run = entry.launch(row["m"], row["n"], row["k"], count=True)
        metrics = {name: value for name, value in row["metrics"].items() if name != COPIES}
        different = {name for name, value in metrics.items() if run.counters[name] != value}
        assert len(metrics) == 12
        assert different == DIFFERENT.get(name, set())
        for metric in MERGED.get(name, ()):
            assert run.counters[metric] > metrics[metric], "merging makes fewer"


def test_the_record_covers_every_fp32_product():
    expected = {one.name for one in corpus.PRODUCTS if one.dtype == "float32"}
    assert set(RECORD["kernels"]) == expected
