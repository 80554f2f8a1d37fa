"""The series as a static site: what Sphinx builds pages from, made of notebooks, kernels and docs.

`python -m gemmlab.site` (`make site`) is build.py. links says where a file of the repository stands
on the site; pages makes a page of a notebook, code_pages one of a kernel or a module, prose one of
docs/*.md and README.md.
"""
