"""Packing and unpacking of arguments: layouts, poison, masks of written elements."""

from __future__ import annotations

import numpy as np
import pytest
from support.fuzz_plans import plan, scalar, tensor

from gpuemu_lsp.engine.execution import Buffer, Scalar
from gpuemu_lsp.engine.fuzz import cases, pack_arguments
from gpuemu_lsp.engine.fuzz.dtypes import FORMATS, numpy_dtype
from gpuemu_lsp.engine.fuzz.pack import byte_offset, element_written, poison, unpack
from gpuemu_lsp.engine.project.model import DimSpec

STRIDED = plan(
    [
        tensor("x", "in", ["r", "c"], "float16", strided=True),
        tensor("y", "out", ["r", "c"], "float32", strided=True),
        tensor("z", "inout", ["c"], "int32"),
        scalar("eps", 1e-5, "float32"),
        scalar("flag", True, "bool"),
        scalar("n", "r * c", "int64"),
    ],
    [DimSpec("r", 2, 9), DimSpec("c", 2, 9)],
    ["r"],
    ["32"],
)


def test_round_trip_of_every_layout():
    strided = 0
    for case in cases(STRIDED, 21, 16):
        packed = {argument.name: argument for argument in pack_arguments(STRIDED, case)}
        assert list(packed) == [arg.param for arg in STRIDED.args]
        for arg in STRIDED.args[:3]:
            buffer = packed[arg.param]
            assert isinstance(buffer, Buffer)
            apart = f"stride:{arg.param}" in case.extra
            assert buffer.initialized == (arg.direction != "out" and not apart)
            assert (buffer.padding is not None) == apart
            if apart and arg.direction != "out":
                assert (buffer.padding == ~buffer.initialized_bytes).all()
            values = unpack(arg, case, buffer.data)
            if arg.direction != "out":
                assert values.tobytes() == case.tensors[arg.param].tobytes()
                index = tuple(extent - 1 for extent in values.shape)
                size = values.dtype.itemsize
                assert byte_offset(arg, case, index) + size == buffer.data.size
            else:
                assert np.isnan(values).all()
        strided += "stride:x" in case.extra
        assert packed["eps"] == Scalar("eps", np.float32(1e-5).tobytes())
        assert packed["flag"] == Scalar("flag", b"\x01")
        assert packed["n"] == Scalar("n", np.int64(case.dims["r"] * case.dims["c"]).tobytes())
    assert 0 < strided < 16


@pytest.mark.parametrize("dtype", FORMATS)
def test_poison_is_nan_in_every_float_format(dtype):
    value = np.full(8, poison(dtype), dtype=np.uint8).view(numpy_dtype(dtype))[0]
    assert np.isnan(float(value))


def test_short_buffers_are_rejected():
    case = next(iter(cases(STRIDED, 21, 1)))
    assert unpack(STRIDED.args[1], case, np.zeros(3, dtype=np.uint8)) is None


def test_an_element_is_written_if_all_its_bytes_are():
    case = next(iter(cases(STRIDED, 21, 1)))
    arg = STRIDED.args[1]
    size = {a.name: a for a in pack_arguments(STRIDED, case)}["y"].data.size
    mask = np.ones(size, dtype=bool)
    at = byte_offset(arg, case, (1, 0))
    mask[at + 3] = False
    written = element_written(arg, case, {"y": mask})
    assert not written[1, 0]
    assert written.sum() == written.size - 1
    assert element_written(arg, case, None) is None
