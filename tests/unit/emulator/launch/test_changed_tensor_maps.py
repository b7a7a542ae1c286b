"""Tensor maps that a kernel makes or changes (``tensormap``): tiles against NumPy, fences, and maps that are invalid."""

from __future__ import annotations

import numpy as np
import pytest
from support.emulator_launch import launch, out, result, rules
from support.hopper_kernels import compiled

KERNEL = r"""
#define REPLACE(field, type, letter, value) \
  asm volatile("tensormap.replace.tile." field ".shared::cta.b1024." type " [%0], %1;" \
    :: "r"(map), letter(value) : "memory")
#define REPLACE_AT(field, at, type, letter, value) \
  asm volatile("tensormap.replace.tile." field ".shared::cta.b1024." type " [%0], " #at ", %1;" \
    :: "r"(map), letter(value) : "memory")
struct Fields { int sizes[2], box[2], steps[2], start[2], type, fill, swizzle, rank; long long stride; };

extern "C" __global__ void k(const unsigned char* x, unsigned char* y, char* scratch, const Fields* f, int bytes) {
  __shared__ alignas(1024) unsigned char tile[4096];
  __shared__ alignas(128) unsigned int words[32];
  __shared__ unsigned long long bar;
  unsigned map = __cvta_generic_to_shared(words), at = __cvta_generic_to_shared(&bar);
  unsigned to = __cvta_generic_to_shared(tile);
  words[threadIdx.x] = 0;
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(at) : "memory");
  __syncwarp();
  if (threadIdx.x == 0) {
    REPLACE("global_address", "b64", "l", x);
    REPLACE("rank", "b32", "r", f->rank);
    REPLACE_AT("box_dim", 0, "b32", "r", f->box[0]); REPLACE_AT("box_dim", 1, "b32", "r", f->box[1]);
    REPLACE_AT("global_dim", 0, "b32", "r", f->sizes[0]); REPLACE_AT("global_dim", 1, "b32", "r", f->sizes[1]);
    REPLACE_AT("global_stride", 0, "b64", "l", f->stride);
    REPLACE_AT("element_stride", 0, "b32", "r", f->steps[0]); REPLACE_AT("element_stride", 1, "b32", "r", f->steps[1]);
    switch (f->type) {
      case 2: asm volatile("tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%0], 1;" :: "r"(map) : "memory"); break;
      case 4: asm volatile("tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%0], 7;" :: "r"(map) : "memory"); break;
    }
    if (f->swizzle) asm volatile("tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%0], 3;" :: "r"(map));
    if (f->fill) asm volatile("tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [%0], 1;" :: "r"(map));
  }
  __syncwarp();
  asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;"
    :: "l"(scratch), "r"(map) : "memory");
  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(scratch) : "memory");
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"(at), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
      :: "r"(to), "l"(scratch), "r"(f->start[0]), "r"(f->start[1]), "r"(at) : "memory");
  }
  asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra again; }"
    :: "r"(at) : "memory");
  for (int i = threadIdx.x; i < bytes; i += 32) y[i] = tile[i];
}
"""
ACQUIRE = 'asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(scratch) : "memory");'


def _run(array, box, start, *, steps=(1, 1), fill=0, swizzle=0, rank=1, source=KERNEL, scratch=None):
    rows, columns = array.shape
    count = -(-box[1] // max(steps[1], 1)) * box[0] * array.itemsize
    fields = np.zeros(14, np.int32)
    fields[:12] = columns, rows, *box, *steps, *start, array.itemsize, fill, swizzle, rank
    fields[12:].view(np.int64)[0] = columns * array.itemsize
    scratch = out(np.zeros(128, np.uint8)) if scratch is None else scratch
    return launch(
        compiled(source),
        1,
        32,
        array,
        out(np.zeros(count, np.uint8)),
        scratch,
        fields,
        np.int32(count),
        max_seconds=5.0,
    )


@pytest.mark.parametrize("seed", range(12))
def test_a_map_made_of_zeros(seed):
    random = np.random.default_rng(seed)
    dtype = np.dtype(random.choice([np.uint16, np.float32]))
    unit = 16 // dtype.itemsize
    array = random.integers(1, 99, (int(random.integers(3, 20)), unit * int(random.integers(1, 5)))).astype(dtype)
    box = (unit * int(random.integers(1, 4)), int(random.integers(1, 12)))
    start = (unit * int(random.integers(-2, 3)), int(random.integers(-3, 9)))
    steps, fill = (1, int(random.integers(1, 4))), int(dtype.kind == "f" and seed % 2)
    outcome = _run(array, box, start, steps=steps, fill=fill)
    assert not [event for event in outcome.events if event.rule != "memory/box-outside"], outcome.events
    padded = np.pad(array.astype(np.float64), 60, constant_values=np.nan if fill else 0)
    wanted = padded[60 + start[1] : 60 + start[1] + box[1] : steps[1], 60 + start[0] : 60 + start[0] + box[0]]
    found = result(outcome, 1, dtype).reshape(wanted.shape).astype(np.float64)
    assert np.array_equal(found, wanted, equal_nan=True)


@pytest.mark.parametrize("start", [1, -2, 33])
def test_a_box_begins_at_a_multiple_of_16_bytes(start):
    """An H100 stops with an illegal instruction, wherever the box is."""
    array = np.ones((8, 8), np.float32)
    outcome = _run(array, (8, 8), (start, 0))
    found = [event for event in outcome.events if event.rule != "memory/box-outside"]
    assert (outcome.status, [event.rule for event in found]) == ("trapped", ["memory/misaligned"])
    assert f"coordinate {start} of the contiguous dimension, {4 * start} bytes" in outcome.events[0].message


def test_a_swizzle():
    array = np.arange(16 * 32, dtype=np.float32).reshape(16, 32)
    found = result(_run(array, (32, 8), (0, 4), swizzle=1), 1, np.float32).reshape(8, 8, 4)
    # Chunk c of row r is where chunk c ^ r is without the pattern (section 5.5.7).
    for row in range(8):
        assert np.array_equal(found[row][np.arange(8) ^ row], array[4 + row].reshape(8, 4))


def test_a_fence_is_missing():
    array = np.ones((8, 8), np.float32)
    assert not _run(array, (8, 8), (0, 0)).events
    assert KERNEL.count(ACQUIRE) == 1
    outcome = _run(array, (8, 8), (0, 0), source=KERNEL.replace(ACQUIRE, ""))
    assert rules(outcome) == ["sync/map-fence"] and "has been written by the kernel" in outcome.events[0].message
    assert "cp.async.bulk.tensor" in outcome.events[0].instruction


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"rank": 5}, "1 to 5 dimensions, not 6"),
        ({"box": (8, 300)}, "not all between 1 and 256"),
        ({"steps": (1, 0)}, "element strides (1, 0) are not all between 1 and 8"),
        ({"box": (2, 8)}, "has 8 bytes, not a multiple of 16"),
    ],
)
def test_maps_that_are_not_valid(change, text):
    arguments = {"box": (8, 8), **change}
    outcome = _run(np.ones((8, 8), np.float32), start=(0, 0), **arguments)
    found = [event for event in outcome.events if event.rule == "memory/tensor-map"]
    assert len(found) == 1 and text in found[0].message, outcome.events


def test_bytes_that_are_not_a_map():
    source = KERNEL.replace("words[threadIdx.x] = 0;", "words[threadIdx.x] = 7;")
    outcome = _run(np.ones((8, 8), np.float32), (8, 8), (0, 0), source=source)
    # The tile never arrives: the read of it is a consequence.
    assert rules(outcome) == ["memory/tensor-map", "memory/uninitialized-read"]
    assert any("hold no tensor map, nor zeros" in event.message for event in outcome.events)
    misaligned = KERNEL.replace("unsigned int words[32];", "unsigned int words[64];").replace(
        "cvta_generic_to_shared(words)", "cvta_generic_to_shared(words + 4)"
    )
    outcome = _run(np.ones((8, 8), np.float32), (8, 8), (0, 0), source=misaligned)
    assert "memory/misaligned" in rules(outcome)
