"""A schedule on GPUs: runner starts a process and a GPU for each rank, and enqueues its steps.

What moves parts between them is NCCL (nccl), whose kernels take SMs, or the GPUs' DMA engines
(dma_engines), which take none. link measures how fast that can be.
"""
