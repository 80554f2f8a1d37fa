"""One call for every product: the rung and settings that suit a shape, and gl.matmul.

choosing makes the choice, from records or with the model in model (batches in float32 also with the
rule in estimate); call multiplies.
"""
