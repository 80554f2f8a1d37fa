#!/bin/bash
# From the repository's root, on a GPU of sm_90: about 60 s, then 30 s. Results also go to $OUT.
export PYTHONPATH=.:ptxsim/src:benchmarks PYTHONUNBUFFERED=1
set -o pipefail
timeout 240 python3 -m gemmlab record grouped 2>&1 | tee "$OUT/grouped.log"
echo "rc $?"
cp results/nvidia-h200/grouped.csv results/nvidia-h200/sources.json "$OUT/"
timeout 120 python3 try/call.py 2>&1 | tee "$OUT/call.log"
echo "rc $?"
