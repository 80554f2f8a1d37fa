"""The site: what Sphinx takes to make pages of the notebooks, the kernels and the records."""
