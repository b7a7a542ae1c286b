"""Products of matrices, as cuBLAS defines them, on device memory."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.runtime.call_sites import CallSite
from gpuemu_lsp.engine.runtime.host.call_accesses import CallAccesses, MemorySpan
from gpuemu_lsp.engine.runtime.memory.device_memory import DeviceMemory
from gpuemu_lsp.engine.runtime.protocol.calls import MatrixOperand, ProductCall
from gpuemu_lsp.engine.runtime.protocol.messages import Multiplied
from gpuemu_lsp.engine.runtime.stream_order import StreamOperation, StreamOrder

_DONE = Multiplied(supported=True, valid=True)
_INVALID = Multiplied(supported=True, valid=False)
_UNSUPPORTED = Multiplied(supported=False, valid=False)

_TYPES: dict[int, np.dtype[Any]] = {
    0: np.dtype(np.float32),
    1: np.dtype(np.float64),
    2: np.dtype(np.float16),
    3: np.dtype(np.int8),
    4: np.dtype(np.complex64),
    5: np.dtype(np.complex128),
    8: np.dtype(np.uint8),
    10: np.dtype(np.int32),
    14: np.dtype(ml_dtypes.bfloat16),
    28: np.dtype(ml_dtypes.float8_e4m3fn),
    29: np.dtype(ml_dtypes.float8_e5m2),
}
"""Types of elements by their numbers in ``cudaDataType``."""

_RELU, _BIAS, _GELU = 2, 4, 32
_PLAIN = 1
_EPILOGUES = _PLAIN | _RELU | _BIAS | _GELU
_CONJUGATED = 2

_UNINITIALISED = "the call reads a matrix of which no byte was ever written"

Matrix = npt.NDArray[Any]


class Products:
    """Carries out products on the device memory of one run."""

    def __init__(self, memory: DeviceMemory, order: StreamOrder, accesses: CallAccesses) -> None:
        self._memory = memory
        self._order = order
        self._accesses = accesses

    def multiply(self, product: ProductCall, site: CallSite | None) -> Multiplied:
        """Carry out one product; return whether it was."""
        operands = (product.a, product.b, product.c, product.d, product.bias, product.auxiliary)
        if not all(operand.type in _TYPES for operand in operands) or product.epilogue & ~_EPILOGUES:
            return _UNSUPPORTED
        call = _Call(self._memory, self._accesses, self._order.begin(product.stream), site)
        valid = all(call.multiply(product, index) for index in range(product.count))
        return _DONE if valid else _INVALID


class _Call:
    """The accesses of one call."""

    def __init__(
        self, memory: DeviceMemory, accesses: CallAccesses, operation: StreamOperation, site: CallSite | None
    ) -> None:
        self._memory = memory
        self._accesses = accesses
        self._operation = operation
        self._site = site

    def multiply(self, product: ProductCall, index: int) -> bool:
        """Carry out the product of one matrix of each batch; return whether all are in device memory."""
        m, n, k = product.m, product.n, product.k
        left = self.matrix(product.a, index, *((m, k) if product.a_operation == 0 else (k, m)))
        right = self.matrix(product.b, index, *((k, n) if product.b_operation == 0 else (n, k)))
        adds = bool(product.beta or product.beta_imaginary)
        before = self.matrix(product.c, index, m, n) if adds else None
        if left is None or right is None or (adds and before is None):
            return False
        wide = _wide(left.dtype, right.dtype, _TYPES[product.d.type])
        result = _turned(left, product.a_operation).astype(wide) @ _turned(right, product.b_operation).astype(wide)
        result = result * _scalar(product.alpha, product.alpha_imaginary, wide)
        if before is not None:
            result = result + before.astype(wide) * _scalar(product.beta, product.beta_imaginary, wide)
        if product.epilogue & _BIAS:
            bias = self.matrix(product.bias, index, m, 1)
            if bias is None:
                return False
            result = result + bias.astype(wide)
        if product.epilogue & _RELU:
            result = np.maximum(result, 0)
        if product.epilogue & _GELU:
            result = 0.5 * result * (1 + np.tanh(np.sqrt(2 / np.pi) * (result + 0.044715 * result**3)))
        return self.store(product.d, index, result)

    def matrix(self, operand: MatrixOperand, index: int, rows: int, columns: int) -> Matrix | None:
        """Return a matrix of a batch, None if it is not all in device memory."""
        part = self._part(operand, index, rows, columns, "reads")
        if part is None:
            return None
        self._accesses.read(self._operation, part, self._site, _UNINITIALISED, pending=True)
        content = self._memory.view(part.allocation)[part.span]
        return np.ascontiguousarray(content).view(_TYPES[operand.type]).reshape(columns, rows).T

    def store(self, operand: MatrixOperand, index: int, result: Matrix) -> bool:
        """Write a matrix of a batch; return whether it is all in device memory."""
        rows, columns = result.shape
        part = self._part(operand, index, rows, columns, "writes")
        if part is None:
            return False
        self._accesses.write(self._operation, part, self._site)
        with np.errstate(over="ignore", invalid="ignore"):
            content = np.ascontiguousarray(result.T.astype(_TYPES[operand.type]))
        self._memory.view(part.allocation)[part.span] = content.view(np.uint8).reshape(-1)
        return True

    def _part(self, operand: MatrixOperand, index: int, rows: int, columns: int, verb: str) -> MemorySpan | None:
        item = _TYPES[operand.type].itemsize
        address = operand.address + index * operand.stride * item
        if operand.tables:
            entry = self._accesses.bytes_at(operand.address + 8 * index, 8, 8, 1, "reads", self._site)
            if entry is None:
                return None
            text = "the call reads addresses that were never written"
            self._accesses.read(self._operation, entry, self._site, text, pending=True)
            address = int(self._memory.view(entry.allocation)[entry.span].view(np.uint64)[0])
        return self._accesses.bytes_at(address, rows * item, operand.ld * item, columns, verb, self._site)


def _turned(matrix: Matrix, operation: int) -> Matrix:
    if operation == 0:
        return matrix
    return matrix.T.conj() if operation == _CONJUGATED else matrix.T


def _wide(*types: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type to compute in."""
    kinds = {dtype.kind for dtype in types}
    largest = max(dtype.itemsize for dtype in types)
    if "c" in kinds:
        return np.dtype(np.complex128 if largest == 16 else np.complex64)
    if kinds <= {"i", "u"}:
        return np.dtype(np.int64)
    return np.dtype(np.float64 if largest == 8 else np.float32)


def _scalar(real: float, imaginary: float, dtype: np.dtype[Any]) -> Any:
    return dtype.type(complex(real, imaginary) if dtype.kind == "c" else real)
