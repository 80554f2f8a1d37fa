"""Kernels in CuTe DSL: a sum of vectors, a product by tiles in shared memory, copies of tiles."""

import cutlass
from cutlass import Float32, Int32, cute
from cutlass.cute.nvgpu import cpasync

THREADS, TILE = 128, 16


@cute.kernel
def add_kernel(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, n: Int32):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    i = block * THREADS + thread
    if i < n:
        c[i] = a[i] + b[i]


@cute.jit
def add(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, n: Int32):
    kernel = add_kernel(a, b, c, n)
    kernel.launch(grid=[cute.ceil_div(n, THREADS), 1, 1], block=[THREADS, 1, 1])


@cute.kernel
def scale_kernel(a: cute.Tensor, factor: Float32, offset: cutlass.Float64, b: cute.Tensor):
    i, _, _ = cute.arch.thread_idx()
    b[i] = a[i] * factor + offset.to(Float32)


@cute.jit
def scale(a: cute.Tensor, factor: Float32, offset: cutlass.Float64, b: cute.Tensor):
    scale_kernel(a, factor, offset, b).launch(grid=[1, 1, 1], block=[THREADS, 1, 1])


@cute.kernel
def rank_kernel(a: cute.Tensor):
    i, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    a[block, i] = cute.arch.block_idx_in_cluster()


@cute.jit
def ranks(blocks: cutlass.Constexpr, a: cute.Tensor):
    grid = [cute.size(a, mode=[0]), 1, 1]
    rank_kernel(a).launch(grid=grid, block=[THREADS, 1, 1], cluster=[blocks, 1, 1])


@cute.jit
def twice(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, n: Int32):
    add(a, b, c, n)
    add(c, b, c, n)


@cute.kernel
def product_kernel(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
    x, y, _ = cute.arch.thread_idx()
    column, row, _ = cute.arch.block_idx()
    memory = cutlass.memory.SmemAllocator()
    tile = cute.make_layout((TILE, TILE), stride=(TILE, 1))
    tile_a = memory.allocate_tensor(Float32, tile, 16)
    tile_b = memory.allocate_tensor(Float32, tile, 16)
    tiles_a = cute.local_tile(a, (TILE, TILE), (row, None))
    tiles_b = cute.local_tile(b, (TILE, TILE), (None, column))
    total = Float32(0)
    for k in range(cute.size(tiles_a, mode=[2])):
        tile_a[y, x] = tiles_a[y, x, k]
        tile_b[y, x] = tiles_b[y, x, k]
        cute.arch.sync_threads()
        for i in cutlass.range_constexpr(TILE):
            total += tile_a[y, i] * tile_b[i, x]
        cute.arch.sync_threads()
    tiles_c = cute.local_tile(c, (TILE, TILE), (row, column))
    tiles_c[y, x] = total


@cute.jit
def product(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
    grid = [cute.size(c, mode=[1]) // TILE, cute.size(c, mode=[0]) // TILE, 1]
    product_kernel(a, b, c).launch(grid=grid, block=[TILE, TILE, 1])


@cute.kernel
def copy_kernel(
    load: cute.CopyAtom, a: cute.Tensor, b: cute.Tensor, element: cutlass.Constexpr,
    columns: cutlass.Constexpr,
):  # fmt: skip
    thread, _, _ = cute.arch.thread_idx()
    row, column, _ = cute.arch.block_idx()
    memory = cutlass.memory.SmemAllocator()
    barrier = memory.allocate_array(cutlass.Int64, 1)
    tile = memory.allocate_tensor(b.element_type, cute.make_layout((8, 16), stride=(16, 1)), 128)
    landing = cute.make_tensor(
        cute.recast_ptr(tile.iterator, dtype=element),
        cute.make_layout((8, columns), stride=(columns, 1)),
    )
    tiles = cute.local_tile(a, (8, columns), (row, column))
    into, box = cpasync.tma_partition(
        load, 0, cute.make_layout(1), cute.group_modes(landing, 0, 2), cute.group_modes(tiles, 0, 2)
    )
    if thread == 0:
        cute.arch.mbarrier_init(barrier, 1)
        cute.arch.mbarrier_init_fence()
    cute.arch.sync_threads()
    if thread == 0:
        cute.arch.mbarrier_arrive_and_expect_tx(barrier, cute.size_in_bytes(b.element_type, tile))
    if cute.arch.warp_idx() == 0:
        cute.copy(load, box, into, tma_bar_ptr=barrier)
    cute.arch.mbarrier_wait(barrier, 0)
    copied = cute.local_tile(b, (8, 16), (row, column))
    for i in cutlass.range_constexpr(4):
        at = 4 * thread + i
        copied[at // 16, at % 16] = tile[at // 16, at % 16]


@cute.jit
def copied_by_tensor_map(a: cute.Tensor, b: cute.Tensor):
    box = cute.make_layout((8, 16), stride=(16, 1))
    load, boxes = cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileG2SOp(), a, box, (8, 16))
    grid = [cute.size(b, mode=[0]) // 8, cute.size(b, mode=[1]) // 16, 1]
    copy_kernel(load, boxes, b, a.element_type, 16).launch(grid=grid, block=[32, 1, 1])
