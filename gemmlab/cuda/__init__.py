"""NVIDIA's libraries and driver: what they tell and do.

options: what the compiler is told. disassembler: what came out. device: the GPU here, or why there
is none. With one: cublas, cublaslt, and driver.
"""
