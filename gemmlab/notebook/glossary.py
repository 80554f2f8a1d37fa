"""The words of the series, one sentence each, and the notebook that explains them."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass

from gemmlab.notebook.index import PAPER, link, short
from gemmlab.report import Shown


@dataclass(frozen=True)
class Term:
    """`notebook`: where it is explained. `also`: other words for it, or other forms of it."""

    name: str
    notebook: str
    meaning: str
    also: tuple[str, ...] = ()

    @property
    def anchor(self) -> str:
        """Its id in HTML: "term-bank-conflict"."""
        return "term-" + re.sub(r"\W+", "-", self.name.lower().strip("_"))

    def is_in(self, text: str) -> bool:
        """Whether a text uses it, in the singular or the plural."""
        forms = "|".join(map(re.escape, (self.name, *self.also)))
        return bool(re.search(rf"(?<!\w)({forms})(s|es)?(?!\w)", text, re.IGNORECASE))


TERMS = (
    Term(
        "evaluation",
        "20_autotuning",
        "What a search pays with: one setting compiled, verified and timed.",
    ),
    Term(
        "landscape",
        "20_autotuning",
        "The speed of every setting, and which settings are neighbours: what a strategy can use.",
    ),
    Term(
        "local optimum",
        "20_autotuning",
        "A setting that no neighbour beats, though another one further off may.",
    ),
    Term(
        "restriction",
        "20_autotuning",
        "A condition on the parameters of a kernel under which a setting is legal.",
    ),
    Term(
        "search space",
        "20_autotuning",
        "All settings with which a kernel can run, among which a search looks for the fastest.",
    ),
    Term(
        "strategy",
        "20_autotuning",
        "What decides from the times so far which setting a search tries next.",
        ("strategies",),
    ),
    Term(
        "all-gather",
        "21_multi_gpu",
        "Each rank sends its part of a matrix to all others, so that every rank has the whole.",
    ),
    Term(
        "DMA engine",
        "21_multi_gpu",
        "A unit of a GPU beside its SMs that copies memory, also from and to another GPU.",
        ("DMA engines",),
    ),
    Term(
        "rank",
        "21_multi_gpu",
        "A process with a GPU of its own, one of several that compute a product together.",
    ),
    Term(
        "reduce-scatter",
        "21_multi_gpu",
        "The parts of sums that all ranks have are added, and each rank keeps the sums of some "
        "elements.",
    ),
    Term(
        "SUMMA",
        "21_multi_gpu",
        "A product on a grid of ranks: one panel of the factors after the other is sent along rows "
        "and columns of the grid, and each rank adds to its own tile of the result.",
    ),
    Term(
        "asynchronous proxy",
        "16_tma_wgmma",
        "The way by which copy engine and tensor cores reach shared memory by themselves; what "
        "threads store is seen there only after a fence.",
        ("async proxy",),
    ),
    Term(
        "control bits",
        "22_fp32_summit",
        "21 bits of each machine instruction, by which the assembler says when the next one may be "
        "issued, and what this one waits for.",
        ("control bit",),
    ),
    Term(
        "copy engine",
        "16_tma_wgmma",
        "The unit of a Hopper SM (TMA) that copies whole boxes of a matrix after one thread asked.",
        ("TMA",),
    ),
    Term(
        "descriptor",
        "16_tma_wgmma",
        "A number of 64 bits that tells wgmma where in shared memory a factor lies, and how.",
    ),
    Term(
        "__global__",
        "host_code",
        "Marks a function that the host launches and the GPU runs: a kernel.",
    ),
    Term(
        "__launch_bounds__",
        "01_naive",
        "Tells the compiler how many threads a block has at most, and on request how many blocks "
        "should fit on an SM, so that it limits the registers of a thread.",
    ),
    Term(
        "arithmetic intensity",
        "00_ceilings",
        "FLOP for each byte that is moved to or from one level of memory.",
    ),
    Term(
        "atomic operation",
        "12_split_k",
        "A read, a change and a write of one place in memory as a single step, with nobody else's "
        "access between them.",
        ("atomics", "atomic addition"),
    ),
    Term("bandwidth", "00_ceilings", "How many bytes a memory moves in a second."),
    Term(
        "bank",
        "01_naive",
        "One of 32 parts of the memory of L1 and shared memory; neighbouring words of 4 bytes lie "
        "in neighbouring banks, and each bank delivers one word in a wavefront.",
    ),
    Term(
        "bank conflict",
        "01_naive",
        "Lanes of one request want different words of the same bank, so the request takes further "
        "wavefronts.",
    ),
    Term(
        "barrier",
        "03_shared_memory",
        "A point that no thread of a block passes before all of them have reached it; "
        "`__syncthreads()` is one.",
    ),
    Term(
        "batch",
        "13_batched",
        "Many products of one shape, each of its own matrices, asked for at once.",
        also=("batches",),
    ),
    Term(
        "bias",
        "11_fused_epilogue",
        "A vector with a number for each column of C, which is added to every row.",
    ),
    Term(
        "block",
        "01_naive",
        "A group of up to 1024 threads that run on one SM and can share memory and wait for each "
        "other.",
    ),
    Term(
        "blockIdx",
        "host_code",
        "The place of a thread's block in the grid, with the parts x, y and z.",
    ),
    Term("blockDim", "host_code", "The threads of a block, counted along x, y and z."),
    Term(
        "burst",
        "10_register_banks",
        "A short run of launches after a pause, before the clock falls under the limit of power.",
    ),
    Term(
        "ceiling",
        "00_ceilings",
        "A rate that was measured as the most that a GPU does of one thing: bytes moved, or FLOP; "
        "drawn, it is a roof.",
        ("roof",),
    ),
    Term(
        "cluster",
        "12_split_k",
        "Up to 8 blocks that start together, wait for each other, and read each other's shared "
        "memory.",
    ),
    Term(
        "coalescing",
        "02_coalescing",
        "The lanes of a warp ask for neighbouring places of global memory, so that one request "
        "takes few sectors.",
        ("coalesced",),
    ),
    Term(
        "cp.async",
        "09_double_buffering",
        "An instruction that copies from global to shared memory without passing through "
        "registers, while the thread goes on.",
    ),
    Term(
        "cubin", "host_code", "A file with the machine code of kernels for one architecture of GPU."
    ),
    Term(
        "cuBLAS",
        "01_naive",
        "NVIDIA's library of matrix products, with which every rung is compared.",
    ),
    Term(
        "CuPy",
        "host_code",
        "A Python library of arrays on the GPU, which also compiles and launches CUDA kernels.",
    ),
    Term("device", "host_code", "The GPU with its memory, as seen by the host."),
    Term(
        "double buffering",
        "09_double_buffering",
        "Two copies of a tile's place, so that one is filled while the other is read.",
    ),
    Term(
        "distributed shared memory",
        "12_split_k",
        "The shared memory of all blocks of a cluster, as any of them can read and write it.",
    ),
    Term("DRAM", "00_ceilings", "The memory chips of the GPU, where global memory lies."),
    Term(
        "epilogue",
        "11_fused_epilogue",
        "What is done to each element of C after the product and before it is stored.",
    ),
    Term(
        "error bound",
        "14_wmma",
        "How far a computed element may be from the exact one when every operation rounds "
        "correctly.",
    ),
    Term("FLOP", "00_ceilings", "One floating-point operation, an addition or a multiplication."),
    Term(
        "FMA",
        "00_ceilings",
        "Fused multiply-add: a * b + c in one instruction with one rounding, counted as two FLOP.",
        ("fused multiply-add", "multiply-add"),
    ),
    Term(
        "FP16",
        "14_wmma",
        "A floating-point format of 16 bits with 11 significant ones; `half` in CUDA, float16 in "
        "NumPy.",
        ("float16",),
    ),
    Term(
        "fragment",
        "14_wmma",
        "The part of a small matrix that one lane holds in its registers for the tensor cores.",
    ),
    Term(
        "fusion",
        "11_fused_epilogue",
        "Doing in one kernel what would else take a second one and a pass over memory.",
        ("fused", "fuse"),
    ),
    Term(
        "GEMM",
        "00_ceilings",
        "General matrix multiply: C = alpha * A @ B + beta * C.",
    ),
    Term(
        "global memory",
        "00_ceilings",
        "The large memory of the GPU, which all threads of a grid see.",
    ),
    Term("grid", "01_naive", "All blocks of one launch."),
    Term(
        "host", "host_code", "The CPU with its memory, and the program there that launches kernels."
    ),
    Term(
        "issue slot",
        "10_register_banks",
        "A cycle in which a scheduler can start one instruction of one warp.",
    ),
    Term("kernel", "host_code", "A function that many threads of the GPU run at once."),
    Term(
        "L1",
        "00_ceilings",
        "The cache inside an SM, nearest to its threads; shared memory is part of the same memory.",
    ),
    Term("L2", "00_ceilings", "The cache that all SMs share, between them and DRAM."),
    Term("lane", "01_naive", "One of the 32 threads of a warp, numbered from 0."),
    Term(
        "latency",
        "09_double_buffering",
        "The time from the start of one operation to its result.",
    ),
    Term(
        "launch",
        "host_code",
        "The host's request to run a kernel; `kernel<<<grid, block>>>(args)` in CUDA C++.",
    ),
    Term(
        "launch configuration",
        "host_code",
        "The number of blocks of the grid and of threads of a block that a launch asks for, and "
        "the bytes of shared memory.",
    ),
    Term(
        "leading dimension",
        "13_batched",
        "How many elements lie between the beginnings of two neighbouring rows as they are stored; "
        "more than a row has where the matrix is a part of a larger one.",
    ),
    Term(
        "mbarrier",
        "10_register_banks",
        "A barrier that is an object in shared memory: threads and copies arrive at it, and others "
        "wait for it, without halting the whole block.",
    ),
    Term(
        "mma.sync",
        "14_wmma",
        "The instruction with which a warp has its tensor core multiply and add up small matrices.",
    ),
    Term(
        "nvcc",
        "host_code",
        "NVIDIA's compiler that makes a program out of a file of CUDA C++, ahead of time.",
    ),
    Term(
        "NVRTC",
        "host_code",
        "NVIDIA's library that compiles CUDA C++ for the GPU while the program runs.",
    ),
    Term(
        "occupancy",
        "04_thread_tile_1d",
        "The share of the warps that an SM can hold which are there at once.",
    ),
    Term(
        "outer product",
        "05_thread_tile_2d",
        "Every element of a column times every element of a row: from m + n numbers, m · n "
        "products.",
    ),
    Term(
        "padding",
        "07_bank_conflicts",
        "Unused elements at the end of each row of a tile, which move the next rows to other "
        "banks.",
    ),
    Term(
        "parity",
        "17_warp_specialized",
        "Whether a phase of an mbarrier is an even or an odd one; who waits asks for the parity of "
        "the phase that shall be over, and need not count further.",
    ),
    Term(
        "persistent block",
        "13_batched",
        "A block that stays on its SM and takes one tile after another, where others end with "
        "their first.",
        also=("persistent",),
    ),
    Term(
        "pipeline",
        "10_register_banks",
        "Work cut into parts that go on at the same time for different data, such as copying one "
        "tile while another is multiplied.",
    ),
    Term(
        "producer",
        "17_warp_specialized",
        "A warp that does nothing but bring tiles; consumers, which multiply them, tell it when "
        "they have read a stage.",
        ("consumer",),
    ),
    Term(
        "proxy fence",
        "17_warp_specialized",
        "Makes what threads have stored in shared memory known to copies and tensor cores, which "
        "read it by another way.",
    ),
    Term(
        "PTX",
        "host_code",
        "NVIDIA's assembly language for no GPU in particular, from which ptxas or the driver makes "
        "the machine code of one.",
    ),
    Term(
        "race",
        "03_shared_memory",
        "Two threads access the same place, at least one of them writes, and nothing orders the "
        "two.",
    ),
    Term(
        "register",
        "00_ceilings",
        "A place of 4 bytes inside the SM that belongs to one thread, and the fastest memory that "
        "there is.",
    ),
    Term(
        "register bank",
        "10_register_banks",
        "A part of the register file; operands of one instruction that are in the same bank can "
        "have to wait for each other.",
    ),
    Term("request", "01_naive", "One instruction of one warp that loads or stores."),
    Term(
        "roofline",
        "00_ceilings",
        "A chart of FLOP/s over arithmetic intensity, under a slope for the bandwidth and a flat "
        "roof for the arithmetic.",
    ),
    Term(
        "scoreboard barrier",
        "22_fp32_summit",
        "One of six counters of a warp, of instructions under way; an instruction that needs their "
        "results waits until it is 0.",
    ),
    Term(
        "SASS",
        "host_code",
        "The machine code of a GPU, and its assembly language.",
    ),
    Term(
        "scheduler",
        "00_ceilings",
        "One of the parts of an SM that in each cycle choose a ready warp and start its next "
        "instruction.",
    ),
    Term("sector", "01_naive", "32 aligned bytes of global memory, the unit in which it is moved."),
    Term(
        "setmaxnreg",
        "17_warp_specialized",
        "An instruction by which a warpgroup of Hopper gives registers back, or takes more.",
    ),
    Term(
        "shared memory",
        "03_shared_memory",
        "Fast memory inside the SM that all threads of a block see.",
    ),
    Term(
        "semaphore",
        "12_split_k",
        "A counter in memory by which blocks tell each other how many of them have come so far.",
    ),
    Term(
        "simulator",
        "host_code",
        "The part of this project that runs a kernel's PTX on NumPy, without a GPU.",
    ),
    Term(
        "SM",
        "00_ceilings",
        "Streaming multiprocessor: the part of a GPU that runs whole blocks, with its own "
        "schedulers, registers and shared memory.",
        ("streaming multiprocessor",),
    ),
    Term(
        "spill",
        "05_thread_tile_2d",
        "A value for which a thread has no register left lies in local memory, behind the caches.",
        ("spilled", "spilling"),
    ),
    Term(
        "split-K",
        "12_split_k",
        "Several blocks compute one tile of C, each over its own part of K, and their sums are "
        "added.",
    ),
    Term(
        "stage",
        "09_double_buffering",
        "One of several places in shared memory for the tiles of a step along K.",
    ),
    Term(
        "stall reason",
        "01_naive",
        "What a warp was doing in a cycle, as Nsight Compute names it, and mostly what it waited "
        "for.",
    ),
    Term(
        "stmatrix",
        "17_warp_specialized",
        "An instruction that stores four matrices of 8×8 elements of 16 bits from the registers of "
        "a warp into shared memory, the reverse of ldmatrix.",
    ),
    Term(
        "stream",
        "host_code",
        "A queue of launches and copies that the GPU works off in order.",
    ),
    Term(
        "stream-K",
        "12_split_k",
        "All tiles, laid end to end along K, are cut into as many equal lengths as there are "
        "blocks at a time.",
    ),
    Term(
        "strided batch",
        "13_batched",
        "A batch in which each matrix begins so many elements, the stride, after the one before.",
        also=("stride",),
    ),
    Term(
        "sustained",
        "10_register_banks",
        "At the clock that the GPU keeps when launches follow each other without a pause.",
    ),
    Term(
        "ldmatrix",
        "15_mma_sync",
        "An instruction with which a warp reads matrices of eight rows of 16 bytes from shared "
        "memory, each word into the lane that tensor cores want it from.",
    ),
    Term(
        "tensor map",
        "16_tma_wgmma",
        "How a matrix lies in global memory, and which box of it one copy brings, swizzled how.",
    ),
    Term(
        "TF32",
        "15_mma_sync",
        "Multiplication of float32 of which a tensor core looks at 10 bits of the fraction.",
    ),
    Term(
        "BF16",
        "15_mma_sync",
        "A floating-point format of 16 bits with the exponents of float32 and 8 significant bits.",
        ("bfloat16",),
    ),
    Term(
        "sweep",
        "03_shared_memory",
        "Every legal setting of a kernel, timed at the same shapes.",
    ),
    Term(
        "swizzle",
        "07_bank_conflicts",
        "A rearrangement of the columns of each row of a tile, another for another row, which "
        "spreads a column over the banks without using more memory.",
    ),
    Term(
        "synchronization",
        "host_code",
        "Waiting until what was launched before is done.",
        ("synchronize",),
    ),
    Term(
        "tensor core",
        "14_wmma",
        "A unit of an SM that multiplies small matrices and adds up the products.",
    ),
    Term(
        "thread",
        "01_naive",
        "One run of a kernel's code, with its own indices and registers.",
    ),
    Term(
        "thread tile",
        "05_thread_tile_2d",
        "The elements of C that one thread computes.",
        ("thread's tile", "tile of a thread", "tile per thread"),
    ),
    Term(
        "threadIdx", "host_code", "The place of a thread in its block, with the parts x, y and z."
    ),
    Term(
        "tile",
        "03_shared_memory",
        "A rectangular piece of a matrix that a block, a warp or a thread works on.",
    ),
    Term(
        "vectorized load",
        "06_vectorized_loads",
        "A load of 8 or 16 bytes by each lane with one instruction.",
        ("float4",),
    ),
    Term(
        "warp",
        "01_naive",
        "32 threads of a block with consecutive numbers, which the hardware runs together.",
    ),
    Term(
        "warp tile",
        "08_warp_tiling",
        "The elements of C that one warp computes.",
        ("warp's tile",),
    ),
    Term(
        "warpgroup",
        "16_tma_wgmma",
        "Four warps, one after the other, that multiply together by wgmma.",
    ),
    Term(
        "wave",
        "12_split_k",
        "The blocks of a launch that run at the same time; the next wave begins as they end.",
    ),
    Term(
        "wavefront",
        "01_naive",
        "One pass over the 32 banks of L1 and shared memory, which delivers at most 128 bytes.",
    ),
    Term(
        "wgmma",
        "16_tma_wgmma",
        "Hopper's instruction by which a warpgroup starts a product whose factors lie in shared "
        "memory; it goes on meanwhile.",
    ),
    Term(
        "FP8",
        "19_fp8",
        "Floats of 8 bits: E4M3, with 4 bits of exponent and 3 of fraction, and E5M2, with 5 and "
        "2.",
        ("E4M3", "E5M2"),
    ),
    Term(
        "K-major",
        "19_fp8",
        "A factor whose neighbours along K lie side by side in memory: A by rows, and B stored "
        "N×K.",
    ),
    Term(
        "octave",
        "19_fp8",
        "From a number to twice that number; a float has equally many numbers in each.",
    ),
    Term(
        "promotion",
        "19_fp8",
        "Adding a sum of the tensor cores to one in float32 every so often, since theirs keep few "
        "bits.",
        ("promote", "promoted"),
    ),
    Term(
        "quantize",
        "19_fp8",
        "To divide by a scale and convert to a type of few bits.",
        ("quantizing", "quantized", "quantizer"),
    ),
    Term(
        "saturate",
        "19_fp8",
        "Of a conversion: what is too large becomes the largest number there is, not infinity.",
        ("saturation",),
    ),
    Term(
        "kind of scales",
        "19_fp8",
        "Which elements of 8 bits share a float32 number that brings back what they stand for: a "
        "matrix, a row or a block.",
        ("kinds of scales",),
    ),
    Term(
        "WMMA",
        "14_wmma",
        "Warp matrix multiply-accumulate: the part of CUDA C++ with which a warp uses tensor "
        "cores.",
    ),
    Term(
        "workspace",
        "12_split_k",
        "Global memory that belongs to a kernel's launches alone, for what they put there between.",
    ),
)


def glossary() -> Shown:
    """All terms in the order of the alphabet; as HTML with an anchor and a link for each."""
    terms = sorted(TERMS, key=lambda term: term.name.lower().strip("_"))
    width = max(len(term.name) for term in terms)
    text = "\n".join(f"{t.name:<{width}}  {short(t.notebook):<4}  {t.meaning}" for t in terms)
    entries = "".join(
        f'<p id="{term.anchor}" style="margin: 0.35em 0"><b>{html.escape(term.name)}</b> '
        f"{_with_code(term.meaning)} {link(term.notebook, short(term.notebook))}</p>"
        for term in terms
    )
    return Shown(text, f'<div style="{PAPER}; padding: 0.1em 0.8em">{entries}</div>')


def _with_code(words: str) -> str:
    """HTML of a sentence, with what stands in `backticks` as code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", html.escape(words))
