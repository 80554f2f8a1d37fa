"""Parts of a notebook: sliders in lab, step_player, exercises, heat, inner_loop.

overview has the ladder's speeds up to a rung. notebooks/index.ipynb shows index and glossary;
series: the notebooks in their order, their prerequisites and their reading time.
"""
