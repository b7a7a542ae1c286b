"""Products of matrices, as cuBLAS defines them, on device memory."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.runtime.call_sites import CallSite, call_site
from gpuemu_lsp.engine.runtime.device_memory import DeviceMemory
from gpuemu_lsp.engine.runtime.messages import Message
from gpuemu_lsp.engine.runtime.stream_order import StreamOperation, StreamOrder
from gpuemu_lsp.engine.runtime.transfers import TransferredBytes, Transfers

_DONE, _INVALID, _UNSUPPORTED = 0, 1, 2
"""Answers, as in the library's source."""

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
_CONJUGATED = 2

_UNINITIALISED = "the call reads a matrix of which no byte was ever written"

Matrix = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class _Operand:
    """Matrices of a batch, in columns. ``tables`` says that ``address`` is that of their addresses on the device."""

    dtype: np.dtype[Any] | None
    ld: int
    stride: int
    tables: bool
    address: int

    @staticmethod
    def of(message: Message) -> _Operand:
        dtype = _TYPES.get(message.word())
        ld, stride = (int.from_bytes(message.word().to_bytes(8, "little"), "little", signed=True) for _ in range(2))
        return _Operand(dtype, ld, stride, bool(message.word()), message.word())


class Products:
    """Carries out products on the device memory of one run."""

    def __init__(self, memory: DeviceMemory, order: StreamOrder, transfers: Transfers) -> None:
        self._memory = memory
        self._order = order
        self._transfers = transfers

    def answer(self, message: Message) -> list[int]:
        """Carry out one product; return the words of the answer."""
        opa, opb, m, n, k, count, epilogue, stream = (message.word() for _ in range(8))
        alpha_re, alpha_im, beta_re, beta_im = (_double(message.word()) for _ in range(4))
        operands = [_Operand.of(message) for _ in range(6)]
        site = call_site(message.call_stack())
        a, b, c, d, bias, _aux = operands
        if None in (one.dtype for one in operands) or (epilogue & ~(_PLAIN | _RELU | _BIAS | _GELU)):
            return [_UNSUPPORTED]
        call = _Call(self._memory, self._transfers, self._order.begin(stream), site)
        for index in range(count):
            left = call.matrix(a, index, *((m, k) if opa == 0 else (k, m)))
            right = call.matrix(b, index, *((k, n) if opb == 0 else (n, k)))
            before = call.matrix(c, index, m, n) if beta_re or beta_im else None
            if left is None or right is None or (before is None and (beta_re or beta_im)):
                return [_INVALID]
            wide = _wide(left.dtype, right.dtype, d.dtype)
            product = _turned(left, opa).astype(wide) @ _turned(right, opb).astype(wide)
            product = product * _scalar(alpha_re, alpha_im, wide)
            if before is not None:
                product = product + before.astype(wide) * _scalar(beta_re, beta_im, wide)
            if epilogue & _BIAS:
                added = call.matrix(bias, index, m, 1)
                if added is None:
                    return [_INVALID]
                product = product + added.astype(wide)
            if epilogue & _RELU:
                product = np.maximum(product, 0)
            if epilogue & _GELU:
                product = 0.5 * product * (1 + np.tanh(np.sqrt(2 / np.pi) * (product + 0.044715 * product**3)))
            if not call.store(d, index, product):
                return [_INVALID]
        return [_DONE]


class _Call:
    """The accesses of one call."""

    def __init__(
        self, memory: DeviceMemory, transfers: Transfers, operation: StreamOperation, site: CallSite | None
    ) -> None:
        self._memory = memory
        self._transfers = transfers
        self._operation = operation
        self._site = site

    def matrix(self, operand: _Operand, index: int, rows: int, columns: int) -> Matrix | None:
        """Return a matrix of a batch, None if it is not all in device memory."""
        part = self._part(operand, index, rows, columns, "reads")
        if part is None or operand.dtype is None:
            return None
        self._transfers.read(self._operation, part, self._site, _UNINITIALISED, pending=True)
        content = self._memory.view(part.allocation)[part.span]
        return np.ascontiguousarray(content).view(operand.dtype).reshape(columns, rows).T

    def store(self, operand: _Operand, index: int, result: Matrix) -> bool:
        """Write a matrix of a batch; return whether it is all in device memory."""
        rows, columns = result.shape
        part = self._part(operand, index, rows, columns, "writes")
        if part is None or operand.dtype is None:
            return False
        self._transfers.write(self._operation, part, self._site)
        with np.errstate(over="ignore", invalid="ignore"):
            content = np.ascontiguousarray(result.T.astype(operand.dtype))
        self._memory.view(part.allocation)[part.span] = content.view(np.uint8).reshape(-1)
        return True

    def _part(self, operand: _Operand, index: int, rows: int, columns: int, verb: str) -> TransferredBytes | None:
        item = operand.dtype.itemsize if operand.dtype is not None else 1
        address = operand.address + index * operand.stride * item
        if operand.tables:
            entry = self._transfers.bytes_at(operand.address + 8 * index, 8, 8, 1, "reads", self._site)
            if entry is None:
                return None
            text = "the call reads addresses that were never written"
            self._transfers.read(self._operation, entry, self._site, text, pending=True)
            address = int(self._memory.view(entry.allocation)[entry.span].view(np.uint64)[0])
        return self._transfers.bytes_at(address, rows * item, operand.ld * item, columns, verb, self._site)


def _turned(matrix: Matrix, operation: int) -> Matrix:
    if operation == 0:
        return matrix
    return matrix.T.conj() if operation == _CONJUGATED else matrix.T


def _wide(*types: np.dtype[Any] | None) -> np.dtype[Any]:
    """Return the type to compute in."""
    kinds = {one.kind for one in types if one is not None}
    largest = max((one.itemsize for one in types if one is not None), default=4)
    if "c" in kinds:
        return np.dtype(np.complex128 if largest == 16 else np.complex64)
    if kinds <= {"i", "u"}:
        return np.dtype(np.int64)
    return np.dtype(np.float64 if largest == 8 else np.float32)


def _scalar(real: float, imaginary: float, dtype: np.dtype[Any]) -> Any:
    return dtype.type(complex(real, imaginary) if dtype.kind == "c" else real)


def _double(bits: int) -> float:
    value: float = struct.unpack("<d", bits.to_bytes(8, "little"))[0]
    return value
