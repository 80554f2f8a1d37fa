"""The counters of the FP32 corpus against those recorded on an NVIDIA H200, one by one."""

import re

import corpus
import pytest
import record_counters

RECORD = record_counters.RECORD.current()

# Asynchronous copies of 09 at the edges of A and B: what the code branches around, the assembler
# predicates, and the H200 counts it also where no lane takes part. Inside of A and B all is equal.
PREDICATED = {"smsp__inst_executed_op_shared_ld.sum", "smsp__inst_executed_op_shared_st.sum"}


def has_predicated_edges(name, row):
    whole = all(row[size] % tile == 0 for size, tile in (("m", 128), ("n", 64), ("k", 8)))
    return not whole and re.search(r"STAGES=[234]", name)


@pytest.mark.parametrize("name", RECORD)
def test_every_counter_equals_the_recorded_one(name):
    entry = corpus.product(name)
    for row in RECORD[name]["counters"]:
        _, run = entry.launch(row["m"], row["n"], row["k"], count=True)
        metrics = dict(row["metrics"])
        del metrics[record_counters.COPIES]
        assert len(metrics) == 12
        for metric in PREDICATED if has_predicated_edges(name, row) else ():
            assert run.counters[metric] < metrics.pop(metric)
        assert {name: run.counters[name] for name in metrics} == metrics
