"""What lives in a notebook: sliders and players in labs/, exercises, heat, cell magic.

`%%kernel` is in kernel_magic, gl.heat in heat; 21's parts, with its own sliders, are in ranks/.
overview makes the generated parts of README.md and docs/*.md. notebooks/index.ipynb shows index and
glossary; reading says how long a notebook takes, chapters are notebooks without a kernel of their
own.
"""
