#!/bin/bash
# From the repository's root, on a GPU of sm_90: about 60 s. Results also go to $OUT.
export PYTHONPATH=.:ptxsim/src:benchmarks PYTHONUNBUFFERED=1
set -o pipefail
timeout 240 python3 -m gemmlab record grouped 2>&1 | tee "$OUT/grouped.log"
echo "rc $?"
cp results/nvidia-h200/grouped.csv results/nvidia-h200/sources.json "$OUT/"
