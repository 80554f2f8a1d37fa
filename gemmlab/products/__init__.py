"""One call for every product: which rung and settings suit a shape, and gl.matmul.

choosing says what is taken, from records or by the rules in estimate and tensor_estimate; call
multiplies.
"""
