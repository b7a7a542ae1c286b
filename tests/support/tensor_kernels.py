"""A kernel in PTX that multiplies two matrices in tensor memory (``tcgen05``), of parts that a test may replace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from gpuemu_lsp.engine.execution import Outcome
from support.emulator_launch import launch, out

TYPES = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "tf32": np.dtype(np.float32),
    "e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "e2m3": np.dtype(ml_dtypes.float6_e2m3fn),
    "e3m2": np.dtype(ml_dtypes.float6_e3m2fn),
    "e2m1": np.dtype(ml_dtypes.float4_e2m1fn),
    "u8": np.dtype(np.uint8),
    "s8": np.dtype(np.int8),
}
_CODES = {"f16": 0, "bf16": 1, "tf32": 2, "e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5, "u8": 0, "s8": 1}
_BITS = {"e2m3": 6, "e3m2": 6, "e2m1": 4}
_SWIZZLES = {0: 0, 1: 6, 2: 4, 3: 2}
"""Codes of a swizzle in a descriptor, by the address bits that it changes."""


@dataclass(frozen=True, slots=True)
class Product:
    """A product of ``rows`` x ``steps`` instructions' k x ``columns``; formats and majors are those of A and B."""

    rows: int = 128
    columns: int = 32
    kind: str = "f16"
    formats: tuple[str, str] = ("f16", "f16")
    result: str = "f32"
    swizzle: int = 3
    mn_major: tuple[bool, bool] = (False, False)
    steps: int = 1
    load: str = "32x32b"
    ws: bool = False
    in_tensor_memory: bool = False
    scaled: str = ""
    scale_ids: tuple[int, int] = (0, 0)

    @property
    def depth(self) -> int:
        """Elements along k of all instructions."""
        return (64 if self.packed else 32 // TYPES[self.formats[0]].itemsize) * self.steps

    @property
    def packed(self) -> bool:
        """Whether elements of four bits are stored without padding."""
        return self.kind.startswith("mxf4")

    @property
    def scales(self) -> int:
        """Scale factors of a row."""
        return {"": 0, "scale_vec::1X": 1, "scale_vec::2X": 2, "scale_vec::4X": 4}[self.scaled]

    def scale(self, rows: int, number: int) -> np.ndarray:
        """Return what the elements of each row are multiplied with: the factors that the kernel stores."""
        row, factor = np.indices((rows, self.scales))
        powers = (row % 32 + row // 32 + factor + number) & 1
        return np.repeat(2.0**powers, self.depth // self.steps // self.scales, axis=1)

    @property
    def descriptor(self) -> int:
        """The instruction descriptor."""
        a, b = (1, 1) if self.packed else (_CODES[one] for one in self.formats)
        if self.scaled:
            bits = a << 7 | b << 10 | self.scale_ids[1] << 4 | self.scale_ids[0] << 29
            bits |= 1 << 23
            return bits | self.columns >> 3 << 17 | self.rows >> 4 << 24
        bits = {"f16": 0, "f32": 1, "s32": 2}[self.result] << 4 | a << 7 | b << 10
        bits |= int(self.mn_major[0]) << 15 | int(self.mn_major[1]) << 16
        return bits | self.columns >> 3 << 17 | self.rows >> 4 << 24

    def matrices(self) -> tuple[np.ndarray, np.ndarray]:
        """Return A and B, of small integers, with k last."""
        random = np.random.default_rng(self.rows + self.columns)
        low = 0 if "u8" in self.formats else -3
        shapes = ((self.rows, self.depth), (self.columns, self.depth))
        a, b = (
            random.integers(low, 4, shape).astype(np.float32).astype(TYPES[one])
            for shape, one in zip(shapes, self.formats, strict=True)
        )
        return a, b


@dataclass(frozen=True, slots=True)
class Tile:
    """A matrix in shared memory: its bytes, and how its descriptor steps."""

    image: np.ndarray
    leading: int
    stride: int
    step: int


def stored(matrix: np.ndarray, format_: str, *, packed: bool = False) -> np.ndarray:
    """Return a matrix of (rows, k) as its bytes are in memory: 16 elements of 4 or 6 bits, and padding, in 16 bytes."""
    bits = _BITS.get(format_)
    if bits is None:
        return matrix
    if packed:
        codes = matrix.view(np.uint8)
        return codes[:, ::2] | codes[:, 1::2] << 4
    codes = np.unpackbits(matrix.view(np.uint8)[..., None], axis=-1, bitorder="little")[..., :bits]
    packed = np.packbits(codes.reshape(len(matrix), -1, 16 * bits), axis=-1, bitorder="little")
    return np.pad(packed, ((0, 0), (0, 0), (0, 16 - packed.shape[-1]))).reshape(len(matrix), -1)


def tile(matrix: np.ndarray, swizzle: int, *, mn_major: bool) -> Tile:
    """Return a matrix of (rows, k) in the canonical layout of the manual (section 9.7.16.10.2)."""
    size, width = matrix.itemsize, 16 << swizzle
    rows, depth = matrix.shape
    i, k = np.indices(matrix.shape)
    if mn_major:
        across, along = i * size // width, k // 8
        leading, stride = (8 * width * (depth // 8), 8 * width) if swizzle else (8 * width, 8 * width * (depth // 8))
        one, other = (leading, stride) if swizzle else (stride, leading)
        offset = across * one + along * other + k % 8 * width + i * size % width
        step = 32 // size // 8 * other
        total = one * -(-rows * size // width)
    elif swizzle:
        columns = k * size // width
        stride = 8 * width
        leading = stride * (rows // 8)
        offset = columns * leading + i // 8 * stride + i % 8 * width + k * size % width
        step, total = 32, leading * (int(columns.max()) + 1)
    else:
        stride = 128
        leading = stride * (rows // 8)
        offset = i // 8 * stride + i % 8 * 16 + k * size // 16 * leading + k * size % 16
        step, total = 2 * leading, leading * (depth * size // 16)
    offset ^= offset >> 3 & width - 16
    image = np.zeros(-(-total // 1024) * 1024, np.uint8)
    image[offset.reshape(-1)[:, None] + np.arange(size)] = matrix.reshape(-1, 1).view(np.uint8)
    return Tile(image, leading, stride, step)


_KERNEL = """
.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 y)
{
    .reg .pred %p, %first, %warp0, %add;
    .reg .b32 %r<16>, %v<256>;
    .reg .b64 %d<16>;
    .shared .align 1024 .b8 sa[<SIZE_A>];
    .shared .align 1024 .b8 sb[<SIZE_B>];
    .shared .align 8 .b64 bar;
    .shared .align 4 .b32 slot;
    mov.u32 %r0, %tid.x;
    shr.u32 %r1, %r0, 5;
    setp.eq.u32 %first, %r0, 0;
    setp.eq.u32 %warp0, %r1, 0;
    @%first mbarrier.init.shared.b64 [bar], 1;
    <COPY_A>
    <COPY_B>
    <FENCE>
    @%warp0 <ALLOC>
    bar.sync 0;
    ld.shared.b32 %r4, [slot];
    <SCALES>
    @!%first bra wait;
    <MULTIPLY>
    <COMMIT>
wait:
    <WAIT>
    <AFTER>
    shl.b32 %r5, %r1, 21;
    add.u32 %r5, %r5, %r4;
    <LOAD>
    <LOADED>
    ld.param.u64 %d0, [y];
    cvta.to.global.u64 %d0, %d0;
    mul.wide.u32 %d1, %r0, <STRIDE>;
    add.u64 %d0, %d0, %d1;
    <RESULTS>
    bar.sync 0;
    @%warp0 <FREE>
    ret;
}
"""

_SCALES = """
    // In column c of lane l of each quarter, byte b is a 2 if l + c + b is odd, else a 1.
    shl.b32 %r5, %r1, 21;
    add.u32 %r5, %r5, %r4;
    and.b32 %r6, %r0, 1;
    neg.s32 %r6, %r6;
    xor.b32 %r6, %r6, 0x807F807F;
    not.b32 %r7, %r6;
    tcgen05.st.sync.aligned.32x32b.x8.b32 [%r5+136], {%r6, %r7, %r6, %r7, %r6, %r7, %r6, %r7};
    tcgen05.wait::st.sync.aligned;
    tcgen05.fence::before_thread_sync;
    bar.sync 0;
    tcgen05.fence::after_thread_sync;
"""

_COPY = """
    ld.param.u64 %d0, [NAME];
    cvta.to.global.u64 %d0, %d0;
    mov.u32 %r2, sNAME;
    mul.wide.u32 %d1, %r0, 16;
    add.u64 %d0, %d0, %d1;
    mad.lo.u32 %r2, %r0, 16, %r2;
    mov.u32 %r3, %r0;
copy_NAME:
    setp.ge.u32 %p, %r3, COUNT;
    @%p bra copied_NAME;
    ld.global.v4.b32 {%r8, %r9, %r10, %r11}, [%d0];
    st.shared.v4.b32 [%r2], {%r8, %r9, %r10, %r11};
    add.u64 %d0, %d0, 2048;
    add.u32 %r2, %r2, 2048;
    add.u32 %r3, %r3, 128;
    bra copy_NAME;
copied_NAME:
"""


def _copy(name: str, count: int) -> str:
    return _COPY.replace("NAME", name).replace("COUNT", str(count))


def _multiply(product: Product, a: Tile, b: Tile) -> str:
    lines = []
    for name, register, one in (("sa", 2, a), ("sb", 3, b)):
        code = _SWIZZLES[product.swizzle] << 61 | 1 << 46
        fields = code | (one.stride >> 4) << 32 | (one.leading >> 4) << 16
        lines += [
            f"mov.u32 %r6, {name};",
            "shr.u32 %r6, %r6, 4;",
            f"cvt.u64.u32 %d{register}, %r6;",
            f"or.b64 %d{register}, %d{register}, {fields};",
        ]
    lines.append(f"mov.b32 %r7, {product.descriptor};")
    left = "[%r4+128]" if product.in_tensor_memory else "%d2"
    kind, factors = product.kind, ""
    if product.scaled:
        kind, factors = f"{kind}.block_scale.{product.scaled}", " [%r4+136], [%r4+140],"
    weights = ".ws" if product.ws else ""
    for step in range(product.steps):
        lines += [
            f"setp.ne.u32 %add, {step}, 0;",
            *(["tcgen05.cp.cta_group::1.128x256b [%r4+128], %d2;"] if product.in_tensor_memory else ()),
            f"tcgen05.mma{weights}.cta_group::1.kind::{kind} [%r4], {left}, %d3, %r7,{factors} %add;",
            f"add.u64 %d2, %d2, {a.step >> 4};",
            f"add.u64 %d3, %d3, {b.step >> 4};",
        ]
    return "\n    ".join(lines)


PARTS = {
    "FENCE": "fence.proxy.async.shared::cta;",
    "ALLOC": "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 256;",
    "COMMIT": "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];",
    "WAIT": "mbarrier.try_wait.parity.shared::cta.b64 %p, [bar], 0;\n    @!%p bra wait;",
    "AFTER": "tcgen05.fence::after_thread_sync;",
    "LOADED": "tcgen05.wait::ld.sync.aligned;",
    "FREE": "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r4, 256;",
}


def kernel(product: Product, **changed: str) -> tuple[str, Tile, Tile]:
    """Return the PTX of the kernel, with parts of it ``changed``, and its operands in shared memory."""
    matrices = product.matrices()
    a, b = (
        tile(stored(one, format_, packed=product.packed), product.swizzle, mn_major=mn)
        for one, format_, mn in zip(matrices, product.formats, product.mn_major, strict=True)
    )
    columns = product.columns * product.rows // 128 if product.ws else product.columns
    # Of 16 lanes, two cells of each column are in the registers of each thread.
    halves = 1 if product.load == "32x32b" else 2
    count = columns // halves
    registers = ", ".join(f"%v{index}" for index in range(count))
    distance = f", {count}" if product.load == "16x32bx2" else ""
    repeats = columns * 32 // int(product.load.partition("x")[2].rstrip("x2").rstrip("b")) if halves == 2 else columns
    repeats = count if distance else repeats
    parts = {
        "SIZE_A": str(a.image.size),
        "SIZE_B": str(b.image.size),
        "COPY_A": _copy("a", a.image.size // 16),
        "COPY_B": _copy("b", b.image.size // 16),
        "SCALES": _SCALES if product.scaled else "",
        "MULTIPLY": _multiply(product, a, b),
        "LOAD": f"tcgen05.ld.sync.aligned.{product.load}.x{repeats}.b32 {{{registers}}}, [%r5]{distance};",
        "RESULTS": "\n    ".join(f"st.global.b32 [%d0+{4 * index}], %v{index};" for index in range(count)),
        "STRIDE": str(4 * count),
        **PARTS,
        **changed,
    }
    text = _KERNEL
    for name, part in parts.items():
        text = text.replace(f"<{name}>", part)
    return text, a, b


def multiply(
    product: Product, changed: dict[str, str] | None = None, replaced: tuple[tuple[str, str], ...] = (), **more: Any
) -> tuple[Outcome, np.ndarray]:
    """Run the kernel; return the outcome and the registers of its threads, of shape (128, registers)."""
    text, a, b = kernel(product, **(changed or {}))
    for before, after in replaced:
        assert before in text, before
        text = text.replace(before, after)
    columns = product.columns * product.rows // 128 if product.ws else product.columns
    result = np.zeros((128, columns // (1 if product.load == "32x32b" else 2)), np.uint32)
    outcome = launch(text, 1, 128, a.image, b.image, out(result), **more)
    return outcome, outcome.buffers["a2"].view(np.uint32).reshape(result.shape) if outcome.buffers else result
