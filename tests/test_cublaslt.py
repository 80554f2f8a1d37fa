"""cuBLASLt's fused product, against a stand-in of the library that computes with NumPy."""

import ctypes
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from test_cublas import Placed

from gemmlab.cuda import cublas, cublaslt
from gemmlab.cuda.cublas import CublasError
from gemmlab.cuda.cublaslt import (
    CublasLt,
    NoAlgorithm,
    ScaledProduct,
    UnscaledProduct,
)
from gemmlab.kernel.operands import Operands
from gemmlab.ladder import Problem
from gemmlab.ladder.activations import activate
from gemmlab.ladder.precision import BFLOAT16, E4M3, E5M2, FLOAT16, INT8
from gemmlab.lessons.block_scaled.formats import FORMATS, PRECISIONS
from gemmlab.lessons.fused_epilogue.epilogues import FusedProduct

M, N, K = 5, 7, 3
TIMES = {0: 4.0, 1: None, 2: 2.0, 3: 3.0}  # in ms, by proposal; 1 does not run
EPILOGUES = {6: "ReLU"}  # as NVIDIA's manual numbers them


def array(values):
    return np.ascontiguousarray(values, np.float32).view(Placed)


def floats(address, *shape):
    """The floats that lie there, by columns."""
    address = getattr(address, "value", address)
    values = (ctypes.c_float * int(np.prod(shape))).from_address(address)
    return np.ctypeslib.as_array(values).reshape(shape, order="F")


class Library:
    """Stands in for libcublasLt. Handles are numbers, in `made`, until they are destroyed."""

    def __init__(self):
        self.made, self.now_ms, self.number, self.launched = {}, 0.0, 0, []

    def _make(self, into, what):
        self.number += 1
        self.made[self.number] = what
        into._obj.value = self.number
        return 0

    def __getattr__(self, name):
        if name.endswith("Destroy"):
            return lambda made: 0 if self.made.pop(made.value, None) is not None else 1
        raise AttributeError(name)

    def cublasLtCreate(self, into):
        return self._make(into, "handle")

    def cublasLtMatmulPreferenceCreate(self, into):
        return self._make(into, {})

    def cublasLtMatmulDescCreate(self, into, compute, scale):
        assert (compute, scale) == (68, 0)  # sums and factors in float32, nothing less
        return self._make(into, {})

    def cublasLtMatrixLayoutCreate(self, into, kind, rows, columns, lead):
        assert kind == 0 and lead.value == rows.value
        return self._make(into, (rows.value, columns.value))

    def _set(self, made, attribute, value, size):
        kinds = {4: ctypes.c_uint32, 8: ctypes.c_uint64}
        read = kinds[size.value].from_buffer(value._obj).value
        self.made[made.value][attribute] = read
        return 0

    cublasLtMatmulDescSetAttribute = cublasLtMatmulPreferenceSetAttribute = _set

    def cublasLtMatmulAlgoGetHeuristic(
        self, handle, product, a, b, c, d, wish, most, results, count
    ):
        assert self.made[wish.value][1] == 32 * 2**20 and self.made[product.value][8]
        for at in TIMES:
            results[at].algorithm[0] = at
        results[len(TIMES)].status = 15  # not supported
        count._obj.value = len(TIMES) + 1
        return 0

    def cublasLtMatmul(
        self, handle, product, alpha, a, a_layout, b, b_layout, zero, c, c_layout, d, d_layout,
        algorithm, workspace, size, stream,
    ):  # fmt: skip
        if (ms := TIMES[algorithm[0]]) is None:
            return 15
        self.now_ms += ms
        self.launched.append(algorithm[0])
        attributes = self.made[product.value]
        first, second, result = (
            floats(address, *self.made[layout.value])
            for address, layout in ((a, a_layout), (b, b_layout), (d, d_layout))
        )
        bias = floats(attributes[8], len(result), 1)
        result[...] = activate((first.astype(float) @ second + bias), EPILOGUES[attributes[7]])
        return 0


@pytest.fixture
def library(monkeypatch):
    """The stand-in, with a CuPy whose clock is the library's."""
    made = Library()

    class Event:
        def record(self, stream):
            self.at = made.now_ms

        def synchronize(self):
            pass

    cuda = SimpleNamespace(Event=Event, get_elapsed_time=lambda start, end: end.at - start.at)
    generator = np.random.default_rng(1)
    random = SimpleNamespace(
        default_rng=lambda seed: SimpleNamespace(
            random=lambda size, dtype: array(generator.random(size))
        )
    )
    cupy = SimpleNamespace(
        cuda=cuda, random=random, float32=np.float32, uint8=np.uint8, asnumpy=np.asarray,
        asarray=array, empty=lambda size, dtype: np.empty(size, dtype).view(Placed),
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(cublaslt, "library", lambda name: made)
    return made


STREAM = SimpleNamespace(ptr=0)


def test_rows_and_columns_and_the_bias_are_where_the_library_looks(library):
    generator = np.random.default_rng(2)
    A, B, bias = (array(generator.uniform(-1, 1, size)) for size in ((M, K), (K, N), (N,)))
    C = array(np.full((M, N), np.nan))
    with CublasLt(STREAM) as lt:
        FusedProduct(lt, M, N, K).launch_into(A, B, C, bias)
    exact = activate(A.astype(float) @ B + bias, "ReLU")
    assert np.asarray(C) == pytest.approx(np.asarray(exact), rel=1e-5, abs=1e-6)


def test_the_fastest_of_those_that_run_is_taken(library):
    with CublasLt(STREAM) as lt:
        product = FusedProduct(lt, M, N, K)
        library.launched.clear()
        product.launch_into(*(array(np.ones(size)) for size in ((M, K), (K, N), (M, N), (N,))))
    assert library.launched == [2]


def test_what_is_not_fused_is_named(library, monkeypatch):
    with CublasLt(STREAM) as lt:
        monkeypatch.setitem(TIMES, 0, None)
        monkeypatch.setitem(TIMES, 2, None)
        monkeypatch.setitem(TIMES, 3, None)
        with pytest.raises(NoAlgorithm, match="no algorithm that runs, for float32 at M"):
            FusedProduct(lt, M, N, K)


def test_a_library_that_is_missing_is_named(monkeypatch):
    def load(name):
        raise RuntimeError("it is nowhere\nand more")

    monkeypatch.setitem(
        sys.modules, "cuda.pathfinder", SimpleNamespace(load_nvidia_dynamic_lib=load)
    )
    cublas.library.cache_clear()
    with pytest.raises(CublasError, match="cublasLt cannot be loaded: it is nowhere; install"):
        cublas.library("cublasLt")


# ---- eight and sixteen bits ----------------------------------------------------------------------


STORED = {  # by NVIDIA's number of a type: how it lies in memory, and what it says
    0: (ctypes.c_float, None), 3: (ctypes.c_int8, INT8), 10: (ctypes.c_int32, None),
    2: (ctypes.c_uint16, FLOAT16), 14: (ctypes.c_uint16, BFLOAT16), 28: (ctypes.c_uint8, E4M3),
    29: (ctypes.c_uint8, E5M2),
}  # fmt: skip


class FewBits(Library):
    """Products of eight or sixteen bits. `computes`: as they must be requested, and the type of the
    factors; `attributes`: of the product."""

    def __init__(self, computes, attributes):
        super().__init__()
        self.computes, self.attributes = computes, attributes

    def cublasLtMatmulDescCreate(self, into, compute, scale):
        assert (compute, scale) == self.computes
        return self._make(into, {})

    def cublasLtMatrixLayoutCreate(self, into, kind, rows, columns, lead):
        assert lead.value == rows.value
        return self._make(into, (kind, rows.value, columns.value))

    def _set(self, made, attribute, value, size):
        self.made[made.value][attribute] = value._obj.value
        return 0

    cublasLtMatmulDescSetAttribute = cublasLtMatmulPreferenceSetAttribute = _set

    def cublasLtMatmulAlgoGetHeuristic(
        self, handle, product, a, b, c, d, wish, most, results, count
    ):
        count._obj.value = 1
        return 0

    def cublasLtMatmul(
        self, handle, product, alpha, a, a_layout, b, b_layout, zero, c, c_layout, d, d_layout,
        algorithm, workspace, size, stream,
    ):  # fmt: skip
        assert self.made[product.value] == self.attributes
        assert isinstance(alpha._obj, STORED[self.computes[1]][0]) and alpha._obj.value == 1
        arrays = []
        for address, layout in ((a, a_layout), (b, b_layout), (d, d_layout)):
            kind, rows, columns = self.made[layout.value]
            ctype, element = STORED[kind]
            values = (ctype * (rows * columns)).from_address(address.value)
            array = np.ctypeslib.as_array(values).reshape((rows, columns), order="F")
            arrays.append((array.view(element.storage) if element else array, element))
        (first, second), (result, element) = (
            [by.decode(array) if by else array for array, by in arrays[:2]],
            arrays[2],
        )
        product = (first.T if self.attributes else first) @ second
        result[...] = element.encode(product, result.dtype) if element else product
        return 0


TRANSPOSED = {3: 1}  # CUBLASLT_MATMUL_DESC_TRANSA: CUBLAS_OP_T


@pytest.fixture
def integers(library):
    """Random integers and zeros of the stand-in's CuPy; returns the generator."""
    generator, cupy = np.random.default_rng(3), sys.modules["cupy"]
    cupy.random = SimpleNamespace(
        default_rng=lambda seed: SimpleNamespace(
            integers=lambda *a, **how: generator.integers(*a, **how).view(Placed)
        )
    )
    cupy.zeros = lambda size, dtype: np.zeros(size, dtype).view(Placed)
    cupy.uint16 = np.uint16
    return generator


def random_of(element, generator, *size):
    return element.encode(generator.uniform(-1, 1, size).astype("f4"), element.storage).view(Placed)


@pytest.mark.parametrize(
    ("dtype", "computes", "a", "b", "c"),
    [
        ("int8", (72, 10), INT8, INT8, "i4"),  # CUBLAS_COMPUTE_32I, CUDA_R_32I
        ("float8_e4m3", (68, 0), E4M3, E4M3, "f4"),  # CUBLAS_COMPUTE_32F, CUDA_R_32F
        ("float8_e5m2", (68, 0), E5M2, E4M3, "f4"),  # two of E5M2 cuBLASLt does not multiply
    ],
)
def test_eight_bits_are_multiplied_with_b_stored_transposed(
    dtype, computes, a, b, c, integers, monkeypatch
):
    made = FewBits(computes, TRANSPOSED)
    monkeypatch.setattr(cublaslt, "library", lambda name: made)
    A, B = random_of(a, integers, M, K), random_of(b, integers, N, K)
    C = np.zeros((M, N), c).view(Placed)
    with CublasLt(STREAM) as lt:
        UnscaledProduct(lt, M, N, K, dtype).launch(SimpleNamespace(A=A, B=B, C=C), 1.0, 0.0)
    expected = a.decode(A) @ b.decode(B).T
    assert np.any(expected) and np.array_equal(C, expected.astype(c)) and made.made == {}


@pytest.mark.parametrize("element", [FLOAT16, BFLOAT16], ids=lambda precision: precision.name)
def test_sixteen_bits_are_multiplied_as_they_are_stored(element, integers, monkeypatch):
    made = FewBits((68, 0), {})
    monkeypatch.setattr(cublaslt, "library", lambda name: made)
    A, B = random_of(element, integers, M, K), random_of(element, integers, K, N)
    C = np.zeros((M, N), element.storage).view(Placed)
    with CublasLt(STREAM) as lt:
        product = UnscaledProduct(lt, M, N, K, element.name)
        product.launch(SimpleNamespace(A=A, B=B, C=C), 1.0, 0.0)
    expected = element.encode(element.decode(A) @ element.decode(B), element.storage)
    assert np.any(expected) and np.array_equal(C, expected) and made.made == {}


# ---- block scales --------------------------------------------------------------------------------


class InBlocks(FewBits):
    """Products of MXFP8 and NVFP4, with scales where NVIDIA's manual has them."""

    def __init__(self, mode, to):
        super().__init__((68, 0), None)
        self.mode, self.to = mode, to

    def scales(self, address, lines, k):
        """float64 (lines, k), k in elements."""
        line, block = np.ogrid[:lines, : -(-k // self.to.block)]
        tiles = -(-k // (4 * self.to.block))  # along k
        tile = line // 128 * tiles + block // 4
        offset = 512 * tile + line % 32 * 16 + line % 128 // 32 * 4 + block % 4
        memory = (ctypes.c_uint8 * int(offset.max() + 1)).from_address(address)
        factors = self.to.decode_scale(np.ctypeslib.as_array(memory)[offset])
        return factors.repeat(self.to.block, axis=1)[:, :k]

    def cublasLtMatmul(
        self, handle, product, alpha, a, a_layout, b, b_layout, zero, c, c_layout, d, d_layout,
        algorithm, workspace, size, stream,
    ):  # fmt: skip
        had = dict(self.made[product.value])
        places = [had.pop(17), had.pop(18)]  # CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, and of B
        # Transposed; both modes; no fast sums.
        assert had == {3: 1, 31: self.mode, 32: self.mode, 25: 0}
        factors = []
        for address, layout, place in ((a, a_layout, places[0]), (b, b_layout, places[1])):
            kind, k, lines = self.made[layout.value]
            assert kind == (28 if self.to.bits == 8 else 33)  # CUDA_R_8F_E4M3, CUDA_R_4F_E2M1
            stored = (ctypes.c_uint8 * (k * lines * self.to.bits // 8)).from_address(address.value)
            codes = np.ctypeslib.as_array(stored).reshape(lines, -1)
            element = PRECISIONS[self.to.number].a
            factors.append(element.decode(codes) * self.scales(place, lines, k))
        kind, n, m = self.made[d_layout.value]
        assert kind == 2  # CUDA_R_16F
        result = np.ctypeslib.as_array((ctypes.c_uint16 * (m * n)).from_address(d.value))
        result.view(np.float16)[:] = (factors[1] @ factors[0].T).ravel()
        return 0


@pytest.fixture
def capability(integers):
    """Sets the GPU's."""
    cupy = sys.modules["cupy"]
    cupy.full = lambda size, value, dtype: np.full(size, value, dtype).view(Placed)
    cupy.ascontiguousarray = lambda x: np.ascontiguousarray(x).view(Placed)

    def has(number):
        cupy.cuda.Device = lambda: SimpleNamespace(compute_capability=number)

    return has


@pytest.mark.parametrize("to", FORMATS, ids=lambda to: to.name)
@pytest.mark.parametrize("shape", [(5, 8, 16), (130, 264, 304)], ids=str)
def test_scales_of_blocks_lie_where_the_library_reads_them(to, shape, capability, monkeypatch):
    """k counts bytes; a row of tiles ends with k, where the kernel's ends with its stage."""
    capability("100")
    mode = {"MXFP8": 2, "NVFP4": 1}[to.name]  # ..._MATRIX_SCALE_VEC32_UE8M0 and _VEC16_UE4M3
    made, precision = InBlocks(mode, to), PRECISIONS[to.number]
    monkeypatch.setattr(cublaslt, "library", lambda name: made)
    given = Operands.from_seed(Problem(*shape, ops="NT"), precision, 1).changed(
        lambda x: np.ascontiguousarray(x).view(Placed)
    )
    types = precision.a.name, precision.b.name, precision.c.name
    with CublasLt(STREAM) as lt:
        ScaledProduct(lt, *shape, types, precision.scales.name).launch(given, 1.0, 0.0)
    A, B, _ = given.numbers()
    np.testing.assert_array_equal(given.C, (A @ B).astype(np.float16))
    assert np.any(given.C) and made.made == {}


def test_a_gpu_without_block_scales_is_told_from_one_with(capability, monkeypatch):
    capability("90")
    monkeypatch.setattr(cublaslt, "library", lambda name: InBlocks(1, FORMATS[1]))
    types = PRECISIONS[1].a.name, PRECISIONS[1].b.name, "float16"
    with (
        CublasLt(STREAM) as lt,
        pytest.raises(NoAlgorithm, match=r"NVFP4 on GPUs of .* 10.0 or more; this one has 9.0"),
    ):
        ScaledProduct(lt, 8, 8, 16, types, "NVFP4")
