"""One call for every product: which rung and settings suit a shape, and gl.matmul.

choosing says what is taken, from records or by the model in model (batches in float32 also by the
rule in estimate); call multiplies.
"""
