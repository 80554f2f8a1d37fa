// The last elements of some rows of a matrix with over 2**31 elements, of which these rows are here.
extern "C" __global__ void k(const float* x, float* out, int first_row, int cols) {
    const float* whole = x - (size_t)first_row * cols;
    const int row = first_row + threadIdx.x;
    out[threadIdx.x] = whole[(size_t)row * cols + cols - 1];
}
