"""NVIDIA's driver and libraries.

options: the compiler's options. disassembler: machine code as text. device: the GPU here, or why
there is none. For a GPU: cublas, cublaslt, and driver.
"""
