// D = A B by CUTLASS 2's GEMM for sm_80: A row-major, B column-major, D row-major, half with sums in
// float. Its parameters are computed here, which CUTLASS leaves to the host.
#include <cutlass/cutlass.h>
#include <cutlass/epilogue/thread/linear_combination.h>
#include <cutlass/gemm/kernel/default_gemm_universal.h>

using Half = cutlass::half_t;
using Row = cutlass::layout::RowMajor;
using Column = cutlass::layout::ColumnMajor;
using Epilogue = cutlass::epilogue::thread::LinearCombination<Half, 8, float, float>;
using Gemm = cutlass::gemm::kernel::DefaultGemmUniversal<
    Half, Row, cutlass::ComplexTransform::kNone, 8, Half, Column, cutlass::ComplexTransform::kNone, 8,
    Half, Row, float, cutlass::arch::OpClassTensorOp, cutlass::arch::Sm80,
    cutlass::gemm::GemmShape<128, 128, 32>, cutlass::gemm::GemmShape<64, 64, 32>,
    cutlass::gemm::GemmShape<16, 8, 16>, Epilogue,
    cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<>, 3, cutlass::arch::OpMultiplyAdd,
    cutlass::gemm::SharedMemoryClearOption::kZfill>::GemmKernel;

extern "C" __global__ void shared_bytes(int* bytes) { *bytes = sizeof(typename Gemm::SharedStorage); }

extern "C" __global__ void __launch_bounds__(Gemm::kThreadCount)
gemm(const Half* a, const Half* b, Half* d, int m, int n, int k)
{
    extern __shared__ __align__(128) char memory[];
    const typename Gemm::Arguments arguments(
        cutlass::gemm::GemmUniversalMode::kGemm, {m, n, k}, 1, {1.0f, 0.0f}, a, b, d, d, 0, 0, 0, 0,
        k, k, n, n);
    const typename Gemm::Params params(arguments, 132, 1);
    Gemm()(params, *reinterpret_cast<typename Gemm::SharedStorage*>(memory));
}
