"""A rung compiled, callable, verified and traced.

Read operands (inputs, from a seed), compiler, then kernel, which has all that a reader calls. It
launches through in_simulator or on_gpu. verify is the gate, bounds how far an element may be off,
with what sums of 8-bit floats lose in cut_sums, trace what a run asked of memory. quantize makes
matrices of 8 bits. The others refuse (arguments, faults) or remember (fingerprint, prebuilt).
"""
