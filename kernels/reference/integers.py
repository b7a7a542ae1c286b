"""References of integer and bit arithmetic: exact."""

import math

import numpy as np


def central_binomial(inputs, **kwargs):
    table = np.array([math.comb(v, v // 2) for v in range(16)])
    return table[inputs["x"]]


def thirds(inputs, **kwargs):
    x = inputs["x"].astype(np.int64)
    return x // 3 * 1000 + x % 3


def _bits(v):
    return ((v[:, None] >> np.arange(32, dtype=np.uint64)) & np.uint64(1)).astype(np.uint64)


def bit_tricks(inputs, **kwargs):
    v = inputs["x"].astype(np.uint64)
    bits, low = _bits(v), np.uint64(0xFFFFFFFF)
    weights = np.uint64(1) << np.arange(32, dtype=np.uint64)
    first = np.where(v == 0, 0, bits.argmax(axis=-1) + 1).astype(np.uint64)
    leading = np.where(v == 0, 32, bits[:, ::-1].argmax(axis=-1)).astype(np.uint64)
    mixed = bits.sum(axis=-1) + np.uint64(64) * leading + np.uint64(4096) * first
    mixed ^= (bits[:, ::-1] * weights).sum(axis=-1)
    mixed ^= ((v << np.uint64(7)) | (v >> np.uint64(25))) & low
    mixed ^= v.astype(np.uint32).byteswap().astype(np.uint64)
    mixed = (mixed + (v & (~v + np.uint64(1)))) & low
    shifted = v.astype(np.uint32).view(np.int32) >> 5
    return (mixed ^ shifted.view(np.uint32)).astype(np.uint32)


def histogram256(inputs, **kwargs):
    return inputs["y"] + np.bincount(inputs["x"], minlength=256)


def histogram16(inputs, **kwargs):
    return inputs["bins"] + np.bincount(inputs["x"], minlength=16)


def _hash(v):
    v = v ^ (v >> np.uint32(16))
    v = v * np.uint32(0x7FEB352D)
    v = v ^ (v >> np.uint32(15))
    v = v * np.uint32(0x846CA68B)
    return v ^ (v >> np.uint32(16))


def dropout(inputs, **kwargs):
    x = inputs["x"]
    index = np.arange(x.size, dtype=np.uint32)
    kept = _hash(np.uint32(12345) + np.uint32(0x9E3779B9) * index) >= 0x40000000
    return np.where(kept, x * (4.0 / 3.0), 0.0)


def collatz(inputs, **kwargs):
    v = inputs["x"].astype(np.int64)
    steps = np.zeros_like(v)
    while (going := v != 1).any():
        v = np.where(going, np.where(v % 2 == 0, v // 2, 3 * v + 1), v)
        steps += going
    return steps


def quantize(inputs, **kwargs):
    return np.clip(np.rint(inputs["x"] * 8.0), -128, 127).astype(np.int64)


def dequantize(inputs, **kwargs):
    q = inputs["q"].astype(np.int64) - inputs["zero"][:, None]
    return inputs["scale"][:, None] * q


def count_positive(inputs, **kwargs):
    return inputs["count"] + (inputs["x"] > 0).sum(keepdims=True)


def count_thirds(inputs, **kwargs):
    return inputs["count"] + (inputs["x"].astype(np.int64) % 3 == 0).sum(keepdims=True)


def barrier_votes(inputs, **kwargs):
    x = inputs["x"].astype(np.int64)
    padded = np.zeros(-(-x.size // 96) * 96, dtype=np.int64)
    padded[: x.size] = x
    blocks = padded.reshape(-1, 96)
    return 4 * (blocks > 0).sum(axis=-1) + 2 * (blocks > 90).any(axis=-1) + (blocks > -99).all(axis=-1)


def dot_bytes(inputs, **kwargs):
    return inputs["a"].astype(np.int64) @ inputs["b"].astype(np.int64)


def square_root(inputs, **kwargs):
    return np.array([math.isqrt(int(v)) for v in inputs["x"]], dtype=np.int64)
