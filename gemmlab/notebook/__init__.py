"""Parts of a notebook: sliders and players in labs/, exercises, heat, cell magic.

`%%kernel` is in kernel_magic, gl.heat in heat; 21's parts, with its own sliders, are in ranks/.
overview has the ladder's speeds up to a rung. notebooks/index.ipynb shows index and glossary;
series: the notebooks in their order, their prerequisites and their reading time.
"""
