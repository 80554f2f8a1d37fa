"""What was measured: kept, checked and replayed.

Read registry first: what a record is, and how a stale or damaged one is refused; the runs of rungs
refuse theirs in runs.entry. recorder lists all that is kept and measures it again. Then a module
for each kind of record: runs, roofs, tuning, best_by_shape, stalls, ablations. What one lesson
alone needs is measured in the `measure` module of the lesson. published is what others report.

What reads a record raises NoRecord, BadRecord and StaleRecord (see registry); what measures raises
NoGpu where there is no GPU. Docstrings name only what else they raise.
"""
