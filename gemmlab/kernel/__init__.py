"""A rung compiled, callable, verified and traced.

Read operands (inputs, from a seed), compiler, then kernel, which has all that a reader calls. It
launches through in_simulator or on_gpu. verify is the gate, bounds how far an element may be off,
checks what the simulator looks for before a GPU sees an edited kernel, trace what a run requested
of memory. The others refuse (arguments, faults) or remember (fingerprint, prebuilt).
"""
