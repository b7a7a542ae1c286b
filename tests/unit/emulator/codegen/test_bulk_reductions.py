"""``cp.reduce.async.bulk`` to global memory (PTX ISA sections 9.7.9.25.4.2 and 9.7.9.25.5.3), and prefetches."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from support.emulator_launch import EMULATOR, artifact, ptx_kernel

from gpuemu_lsp.engine.execution import Buffer, Request
from gpuemu_lsp.engine.tensor_map import TensorMap, tensor_map_argument

BF16 = np.dtype(ml_dtypes.bfloat16)
TYPES = {
    "u32": np.dtype("u4"), "s32": np.dtype("i4"), "u64": np.dtype("u8"), "s64": np.dtype("i8"), "f16": np.dtype("f2"),
    "bf16": BF16, "f32": np.dtype("f4"), "f64": np.dtype("f8"),
}  # fmt: skip
OPERATIONS = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "inc": lambda old, new: np.where(old >= new, 0, old + 1),
    "dec": lambda old, new: np.where((old == 0) | (old > new), new, old - 1),
}  # fmt: skip
CASES = [
    *(("add", name) for name in TYPES if name != "s64"),
    *((which, name) for which in ("min", "max") for name in ("u32", "s32", "u64", "s64", "f16", "bf16")),
    *((which, "b32") for which in ("and", "or", "xor")),
    ("inc", "u32"),
    ("dec", "u32"),
]

COPY_IN = """
    .reg .b32 %r<6>; .reg .b64 %rd<6>; .reg .pred %p;
    .shared .align 128 .b8 s[512];
    ld.param.u64 %rd1, [x];
    mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd2, %rd1, %rd2; ld.global.u32 %r2, [%rd2];
    mov.u32 %r3, s; mad.lo.u32 %r4, %r1, 4, %r3; st.shared.u32 [%r4], %r2;
    fence.proxy.async; bar.sync 0; setp.ne.u32 %p, %r1, 0; @%p ret;
"""


def _values(name):
    random = np.random.default_rng(8)
    dtype = TYPES.get(name, np.dtype("u4"))
    size = 512 // dtype.itemsize
    if dtype.kind in "iu":
        first, second = (random.integers(0, 60, size).astype(dtype) for _ in range(2))
    else:
        first, second = (random.integers(-9, 9, size).astype(dtype) for _ in range(2))
    return first, second


def _buffer(name, array):
    return Buffer(name, np.frombuffer(array.tobytes(), np.uint8), element_size=array.itemsize)


def _run(parameters, body, *arguments, **more):
    request = Request(
        artifact(ptx_kernel(parameters, COPY_IN + body)), "k", (1, 1, 1), (128, 1, 1), 0, arguments, **more
    )
    return EMULATOR.run(request)


@pytest.mark.parametrize(("operation", "name"), CASES)
def test_without_a_map(operation, name):
    values, before = _values(name)
    words = f"{operation}{'.noftz' if operation == 'add' and name in ('f16', 'bf16') else ''}.{name}"
    body = f"""
    ld.param.u64 %rd3, [y];
    cp.reduce.async.bulk.global.shared::cta.bulk_group.{words} [%rd3], [%r3], 512;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; ret;
    """
    outcome = _run("x y", body, _buffer("x", values), _buffer("y", before))
    assert outcome.status == "completed" and not outcome.events, outcome.events
    wanted = OPERATIONS[operation](before, values).astype(before.dtype)
    assert np.array_equal(outcome.buffers["y"].view(before.dtype), wanted)


def _by_map(type_, operation="add", y=None):
    values = np.arange(128, dtype=np.int32)
    before = np.full((12, 16), 1000, np.int32) if y is None else y
    body = f"""
    cvta.param.u64 %rd3, m; mov.u32 %r1, 0; mov.u32 %r2, 8;
    cp.async.bulk.prefetch.tensor.2d.L2.global [%rd3, {{%r1, %r2}}];
    cp.reduce.async.bulk.tensor.2d.global.shared::cta.{operation}.tile.bulk_group [%rd3, {{%r1, %r2}}], [%r3];
    cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0; ret;
    """
    tensor = TensorMap(0, (16, 12), (64,), (16, 8), 4, 0, type_)
    argument = tensor_map_argument("m", tensor, _buffer("y", before))
    text = ptx_kernel("x", COPY_IN + body).replace(".param .u64 x)", ".param .u64 x, .param .align 64 .b8 m[128])")
    request = Request(artifact(text), "k", (1, 1, 1), (128, 1, 1), 0, (_buffer("x", values), argument))
    return EMULATOR.run(request), values, before


def test_by_a_map_only_elements_of_the_tensor():
    outcome, values, before = _by_map("s32")
    assert outcome.status == "completed" and not outcome.events, outcome.events
    # Rows 12 to 15 of the box are outside.
    before[8:] += values.reshape(8, 16)[:4]
    assert np.array_equal(outcome.buffers["y"].view(np.int32).reshape(12, 16), before)


@pytest.mark.parametrize(("type_", "operation"), [("", "add"), ("f32", "xor")])
def test_a_reduction_that_the_type_does_not_have(type_, operation):
    outcome, _, _ = _by_map(type_, operation)
    assert outcome.status == "unsupported"
    assert "elements" in outcome.events[0].message and f"`{operation}`" in outcome.events[0].message
