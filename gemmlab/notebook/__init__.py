"""What lives in a notebook: sliders, players, exercises, cell magic.

gl.lab is in sliders, what it shows in lab_view, what it answers to settings that do not go together
in refusal; gl.step_player is in step_player, gl.ring_player in ring_player, gl.heat in heat,
`%%kernel` in kernel_magic.
overview makes the table and pictures of README.md. notebooks/index.ipynb shows index and glossary;
reading says how long a notebook takes.
"""
