"""Sources of the site's pages, as Sphinx takes them.

notebook, code and prose make pages of notebooks, of kernels and modules, and of docs/*.md; lists is
what docs/*.md only name by a mark. links says where a file of the repository stands on the site.
"""
