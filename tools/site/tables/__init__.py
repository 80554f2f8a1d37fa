"""What pages of docs/ only name by a mark, made of records, notebooks and counts: Markdown.

profiler is for docs/nsight_compute.md, speeds for docs/speeds.md, teaching for docs/teaching.md.
"""
