"""Code that only notebook 25 needs: one product in CUDA C++, Triton, CuTe DSL and Numba."""
