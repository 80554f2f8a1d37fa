"""Measurements: keep, check and replay them.

Read registry first: what a record is, and how a stale or damaged one is refused; the runs of rungs
are refused in runs.entry. recorder lists all records and measures them again. There is a module for
each kind of record: runs, roofs, tuning, best_by_shape, stalls, ablations. Measurements of only one
lesson are in the lesson's module `measure`. published has the results of other authors.

Code that reads a record raises NoRecord, BadRecord and StaleRecord (see registry); code that
measures raises NoGpu if there is no GPU. Docstrings name only other errors.
"""
