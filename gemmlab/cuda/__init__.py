"""What NVIDIA's compiler, libraries and driver tell or do, and what each architecture has.

What each architecture has: architectures (the limits of an SM), occupancy. To compile: nvrtc,
options, headers; to read what came out: disassembler. The GPU here, or why there is none: device;
with one, cublas and tensor_maps.
"""
