"""In CuTe DSL: layouts say which thread has which element, and where it lies in shared memory."""

import cutlass
from cutlass import Float16, Float32, Int32, cute, pipeline
from cutlass.cute.nvgpu import cpasync, warpgroup
from cutlass.tensor_utils import LayoutEnum
from cutlass.utils import hopper_helpers

BM, BN, BK = 128, 128, 16


@cute.kernel
def float32_in_cute(
    A: cute.Pointer, B: cute.Pointer, C: cute.Pointer, M: Int32, N: Int32, K: Int32
):
    thread, _, _ = cute.arch.thread_idx()
    column, row, _ = cute.arch.block_idx()
    N, K = cute.assume(N, divby=4), cute.assume(K, divby=4)
    A = cute.make_tensor(A, cute.make_layout((M, K), stride=(K, 1)))
    B = cute.make_tensor(B, cute.make_layout((N, K), stride=(1, N)))
    C = cute.make_tensor(C, cute.make_layout((M, N), stride=(N, 1)))
    global_a = cute.local_tile(A, (BM, BK), (row, None))
    global_b = cute.local_tile(B, (BN, BK), (column, None))
    global_c = cute.local_tile(C, (BM, BN), (row, column))

    # The swizzle of 07: bits 3 and 4 of an index, XOR bits 9 and 10.
    swizzled = cute.make_composed_layout(
        cute.make_swizzle(2, 3, 6), 0, cute.make_layout((BM, BK), stride=(1, BM))
    )
    memory = cutlass.memory.SmemAllocator()
    a = memory.allocate_tensor(Float32, swizzled, 16)
    b = memory.allocate_tensor(Float32, cute.make_layout((BN, BK), stride=(1, BN)), 16)

    float4 = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), Float32, num_bits_per_copy=128)
    copy_a = cute.make_tiled_copy_tv(
        float4, cute.make_layout((64, 4), stride=(4, 1)), cute.make_layout((1, 4))
    ).get_slice(thread)
    copy_b = cute.make_tiled_copy_tv(
        float4, cute.make_layout((32, 8)), cute.make_layout((4, 1))
    ).get_slice(thread)
    from_a, into_a = copy_a.partition_S(global_a), copy_a.partition_D(a)
    from_b, into_b = copy_b.partition_S(global_b), copy_b.partition_D(b)
    moved_a = cute.make_fragment_like(from_a[None, None, None, 0])
    moved_b = cute.make_fragment_like(from_b[None, None, None, 0])

    # 16×16 threads, each with two times four rows and two times four columns.
    fours = cute.make_layout((16, 4), stride=(4, 1))
    mma = cute.make_tiled_mma(
        cute.nvgpu.MmaUniversalOp(Float32), cute.make_layout((16, 16, 1), stride=(16, 1, 0)),
        permutation_mnk=(fours, fours, None),
    )  # fmt: skip
    of_thread = mma.get_slice(thread)
    read_a, read_b = of_thread.partition_A(a), of_thread.partition_B(b)
    fragment_a, fragment_b = mma.make_fragment_A(read_a), mma.make_fragment_B(read_b)
    stored = of_thread.partition_C(global_c)
    accumulators = cute.make_fragment_like(stored)
    accumulators.fill(0.0)
    for k_tile in range(cute.size(global_a, mode=[2])):
        cute.autovec_copy(from_a[None, None, None, k_tile], moved_a)
        cute.autovec_copy(from_b[None, None, None, k_tile], moved_b)
        cute.autovec_copy(moved_a, into_a)
        cute.autovec_copy(moved_b, into_b)
        cute.arch.sync_threads()
        for k in cutlass.range_constexpr(BK):
            cute.autovec_copy(read_a[None, None, k], fragment_a[None, None, k])
            cute.autovec_copy(read_b[None, None, k], fragment_b[None, None, k])
            cute.gemm(
                mma, accumulators, fragment_a[None, None, k], fragment_b[None, None, k],
                accumulators,
            )  # fmt: skip
        cute.arch.sync_threads()
    cute.autovec_copy(accumulators, stored)


@cute.jit
def float32(A: cute.Pointer, B: cute.Pointer, C: cute.Pointer, M: Int32, N: Int32, K: Int32):
    kernel = float32_in_cute(A, B, C, M, N, K)
    kernel.launch(grid=[N // BN, M // BM, 1], block=[256, 1, 1])


# ---- float16: tensor maps, an mbarrier pipeline, wgmma ------------------------------------------

WIDE, DEEP, STAGES, CONSUMERS = 256, 64, 4, 2  # a tile is BM × WIDE, a step along K DEEP
BLOCKS = 132
ROWS, COLUMNS = LayoutEnum.ROW_MAJOR, LayoutEnum.COL_MAJOR


@cute.jit
def multiply(mma: cute.TiledMma, accumulators: cute.Tensor, a: cute.Tensor, b: cute.Tensor, stage):
    """Start the wgmmas of a stage."""
    warpgroup.fence()
    for k in cutlass.range_constexpr(DEEP // 16):
        cute.gemm(mma, accumulators, a[None, None, k, stage], b[None, None, k, stage], accumulators)
    warpgroup.commit_group()


@cute.kernel
def float16_in_cute(
    load_a: cute.CopyAtom, A: cute.Tensor, load_b: cute.CopyAtom, B: cute.Tensor, C: cute.Tensor,
    mma: cute.TiledMma, layout_a: cute.ComposedLayout, layout_b: cute.ComposedLayout,
):  # fmt: skip
    thread, _, _ = cute.arch.thread_idx()
    number, _, _ = cute.arch.block_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    memory = cutlass.memory.SmemAllocator()
    barriers = memory.allocate_array(cutlass.Int64, 2 * STAGES)
    a = memory.allocate_tensor(Float16, layout_a.outer, 1024, layout_a.inner)
    b = memory.allocate_tensor(Float16, layout_b.outer, 1024, layout_b.inner)
    tiles_a = cute.local_tile(A, (BM, DEEP), (None, None))
    tiles_b = cute.local_tile(B, (WIDE, DEEP), (None, None))
    tiles_c = cute.local_tile(C, (BM, WIDE), (None, None))
    tile_rows, k_tiles = cute.size(tiles_c, mode=[2]), cute.size(tiles_a, mode=[3])
    tiles = tile_rows * cute.size(tiles_c, mode=[3])
    one = cute.make_layout(1)
    into_a, from_a = cpasync.tma_partition(
        load_a, 0, one, cute.group_modes(a, 0, 2), cute.group_modes(tiles_a, 0, 2)
    )
    into_b, from_b = cpasync.tma_partition(
        load_b, 0, one, cute.group_modes(b, 0, 2), cute.group_modes(tiles_b, 0, 2)
    )
    group = pipeline.CooperativeGroup
    producer, consumer = pipeline.PipelineTmaAsync.create(
        num_stages=STAGES, producer_group=group(pipeline.Agent.Thread),
        consumer_group=group(pipeline.Agent.Thread, 4 * CONSUMERS),
        tx_count=2 * (BM + WIDE) * DEEP, barrier_storage=barriers,
        cta_layout_vmnk=cute.make_layout((1, 1, 1, 1)),
    ).make_participants()  # fmt: skip

    if warp >= 4 * CONSUMERS:
        cute.arch.setmaxregister_decrease(40)
    if warp == 4 * CONSUMERS:
        while number < tiles:
            row, column = number % tile_rows, number // tile_rows
            for k_tile in range(k_tiles):
                stage = producer.acquire_and_advance()
                at = stage.index
                cute.copy(
                    load_a, from_a[None, row, k_tile], into_a[None, at], tma_bar_ptr=stage.barrier
                )
                cute.copy(
                    load_b, from_b[None, column, k_tile], into_b[None, at],
                    tma_bar_ptr=stage.barrier,
                )  # fmt: skip
            number += BLOCKS
        producer.tail()
    if warp < 4 * CONSUMERS:
        cute.arch.setmaxregister_increase(232)
        of_thread = mma.get_slice(thread)
        fragment_a = mma.make_fragment_A(of_thread.partition_A(a))
        fragment_b = mma.make_fragment_B(of_thread.partition_B(b))
        stored = of_thread.partition_C(tiles_c)
        accumulators = mma.make_fragment_C(stored[None, None, None, 0, 0].shape)
        results = cute.make_fragment_like(accumulators, Float16)
        mma.set(warpgroup.Field.ACCUMULATE, True)
        while number < tiles:
            accumulators.fill(0.0)
            previous = consumer.wait_and_advance()
            multiply(mma, accumulators, fragment_a, fragment_b, previous.index)
            for _ in range(1, k_tiles):
                stage = consumer.wait_and_advance()
                multiply(mma, accumulators, fragment_a, fragment_b, stage.index)
                warpgroup.wait_group(1)
                previous.release()
                previous = stage
            warpgroup.wait_group(0)
            previous.release()
            results.store(accumulators.load().to(Float16))
            row, column = number % tile_rows, number // tile_rows
            cute.autovec_copy(results, stored[None, None, None, row, column])
            number += BLOCKS


@cute.jit
def float16(A: cute.Pointer, B: cute.Pointer, C: cute.Pointer, M: Int32, N: Int32, K: Int32):
    N, K = cute.assume(N, divby=8), cute.assume(K, divby=8)
    A = cute.make_tensor(A, cute.make_layout((M, K), stride=(K, 1)))
    B = cute.make_tensor(B, cute.make_layout((N, K), stride=(1, N)))
    C = cute.make_tensor(C, cute.make_layout((M, N), stride=(N, 1)))
    mma = hopper_helpers.make_trivial_tiled_mma(
        Float16, Float16, warpgroup.OperandMajorMode.K, warpgroup.OperandMajorMode.MN, Float32,
        (CONSUMERS, 1, 1), (64, WIDE),
    )  # fmt: skip
    tile = BM, WIDE, DEEP
    layout_a = hopper_helpers.make_smem_layout_a(ROWS, tile, Float16, STAGES)
    layout_b = hopper_helpers.make_smem_layout_b(COLUMNS, tile, Float16, STAGES)
    load = cpasync.CopyBulkTensorTileG2SOp()
    stage_a = cute.slice_(layout_a, (None, None, 0))
    stage_b = cute.slice_(layout_b, (None, None, 0))
    load_a, A = cpasync.make_tiled_tma_atom(load, A, stage_a, (BM, DEEP))
    load_b, B = cpasync.make_tiled_tma_atom(load, B, stage_b, (WIDE, DEEP))
    kernel = float16_in_cute(load_a, A, load_b, B, C, mma, layout_a, layout_b)
    kernel.launch(grid=[BLOCKS, 1, 1], block=[128 * (CONSUMERS + 1), 1, 1])
