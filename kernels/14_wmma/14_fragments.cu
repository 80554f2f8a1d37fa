// 14  Who holds what
// Idea:    the elements of three matrices are their own numbers, and each lane of a warp writes down
//          which it holds once WMMA has loaded them.
// Launch:  one block of 32 threads.
// Takes:   A, B: 16×16 float16, C: 16×16 float32, row-major, beginning at multiples of 32 bytes;
//          of_a, of_b: 32×16 floats, of_c: 32×8 floats, a row for each lane. From sm_70 on.

#include <mma.h>
using namespace nvcuda;

extern "C" __global__ void
fragments(const half* A, const half* B, const float* C, float* of_a, float* of_b, float* of_c)
{
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    wmma::load_matrix_sync(a, A, 16);
    wmma::load_matrix_sync(b, B, 16);
    wmma::load_matrix_sync(c, C, 16, wmma::mem_row_major);

    for (int i = 0; i < a.num_elements; ++i) {
        of_a[threadIdx.x * 16 + i] = __half2float(a.x[i]);
        of_b[threadIdx.x * 16 + i] = __half2float(b.x[i]);
    }
    for (int i = 0; i < c.num_elements; ++i)
        of_c[threadIdx.x * 8 + i] = c.x[i];
}
