// D = A B by CUTLASS 3's GEMM for sm_90: TMA with multicast in clusters of two, a producer's warpgroup
// and a consumer's, wgmma. A row-major, B column-major, D row-major, half with sums in float.
#include <cuda/std/type_traits>
namespace std {  // of which NVRTC has a part
using cuda::std::is_pointer_v;
using cuda::std::void_t;
}
#include <cutlass/cutlass.h>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/kernel/gemm_universal.hpp>

using namespace cute;
using Half = cutlass::half_t;
using Row = cutlass::layout::RowMajor;
using Column = cutlass::layout::ColumnMajor;
using BlockTile = Shape<_128, _128, _64>;
using Cluster = Shape<_2, _1, _1>;
using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, BlockTile, Cluster,
    cutlass::epilogue::collective::EpilogueTileAuto, float, float, Half, Row, 8, Half, Row, 8,
    cutlass::epilogue::NoSmemWarpSpecialized>::CollectiveOp;
using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Half, Row, 8, Half, Column, 8, float,
    BlockTile, Cluster, cutlass::gemm::collective::StageCount<3>,
    cutlass::gemm::KernelTmaWarpSpecialized>::CollectiveOp;
using Gemm = cutlass::gemm::kernel::GemmUniversal<Shape<int, int, int, int>, Mainloop, Epilogue>;
using Params = typename Gemm::Params;

// What CUTLASS' host code makes of its arguments, but for the tensor maps, which the driver encodes.
// places: where the maps of A and B and the pointer to D are in it, and its size.
extern "C" __global__ void parameters(
    const Half* a, const Half* b, Half* d, int m, int n, int k, Params* params, int* places)
{
    const typename Gemm::Arguments arguments{
        cutlass::gemm::GemmUniversalMode::kGemm, {m, n, k, 1},
        {a, {k, _1{}, 0}, b, {k, _1{}, 0}},
        {{1.0f, 0.0f}, nullptr, {n, _1{}, 0}, d, {n, _1{}, 0}}};
    *params = Gemm::to_underlying_arguments(arguments, nullptr);
    const auto begin = reinterpret_cast<const char*>(params);
    places[0] = (const char*)params->mainloop.tma_load_a.get_tma_descriptor() - begin;
    places[1] = (const char*)params->mainloop.tma_load_b.get_tma_descriptor() - begin;
    places[2] = (const char*)&params->epilogue.ptr_D - begin;
    places[3] = sizeof(Params);
    places[4] = Gemm::SharedStorageSize;
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(Gemm::MaxThreadsPerBlock, 1)
gemm(const __grid_constant__ Params params)
{
    extern __shared__ __align__(1024) char memory[];
    Gemm()(params, memory);
}
