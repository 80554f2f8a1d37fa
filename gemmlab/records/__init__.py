"""What was measured: kept, checked and replayed.

Read registry first: what a record is, and how a stale or damaged one is refused; the runs of rungs
refuse theirs in runs.entry. recorder lists all that is kept and measures it again. Then a module
for each kind of record: runs, roofs, tuning, best_by_shape, stalls, ablations (the path to a rung).
published is what others report, experiments what one notebook each tells of.
"""
