"""Textures by the formulas of the CUDA C++ Programming Guide, "Texture Fetching", in NumPy.

Written from the guide and apart from the emulator, which it judges.
"""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def as_values(texels: np.ndarray, *, normalised_floats: bool) -> Array:
    """Return what is read of texels (..., channels): integers as fractions of their largest value where asked for."""
    if not normalised_floats or texels.dtype.kind == "f":
        return texels.astype(np.float64)
    largest = float(np.iinfo(texels.dtype).max)
    return np.maximum(texels.astype(np.float64) / largest, -1.0)


def _position(x: Array, size: int, mode: str, normalised: bool) -> Array:
    """Return coordinates in texels, wrapped or mirrored ones inside of the texture."""
    if not normalised:
        return x
    whole = np.floor(x)
    if mode == "wrap":
        return (x - whole) * size
    if mode == "mirror":
        return np.where(whole % 2 == 0, x - whole, 1 - (x - whole)) * size
    return x * size


def _texel(index: npt.NDArray[np.int64], size: int, mode: str, normalised: bool) -> tuple[npt.NDArray[np.int64], Array]:
    """Return indices inside of the texture, and 1 where the border does not take the texel's place."""
    if mode == "border":
        return np.clip(index, 0, size - 1), ((index >= 0) & (index < size)).astype(np.float64)
    if normalised and mode == "wrap":
        return index % size, np.ones(index.shape)
    if normalised and mode == "mirror":
        inside = index % (2 * size)
        return np.where(inside < size, inside, 2 * size - 1 - inside), np.ones(index.shape)
    return np.clip(index, 0, size - 1), np.ones(index.shape)


def read(
    values: Array,
    coordinates: tuple[Array, ...],
    modes: tuple[str, ...],
    *,
    linear: bool = False,
    normalised: bool = False,
    border: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0),
) -> Array:
    """Return the channels read at each point.

    ``values`` has the axes z, y, x as far as there are coordinates, and the channels; coordinates are x, y, z.
    """
    sizes = values.shape[: len(coordinates)][::-1]
    result = np.zeros((*coordinates[0].shape, values.shape[-1]))
    outside = np.array(border[: values.shape[-1]])
    places = [_position(x, n, mode, normalised) for x, n, mode in zip(coordinates, sizes, modes, strict=True)]
    if linear:
        places = [place - 0.5 for place in places]
    lows = [np.floor(place) for place in places]
    # 9 bits with 8 fractional ones.
    parts = [np.floor((place - low) * 256 + 0.5) / 256 for place, low in zip(places, lows, strict=True)]
    for corner in itertools.product((0, 1), repeat=len(coordinates) if linear else 0):
        weight, inside, index = np.ones(coordinates[0].shape), np.ones(coordinates[0].shape), []
        for axis, (low, part) in enumerate(zip(lows, parts, strict=True)):
            step = corner[axis] if linear else 0
            if linear:
                weight = weight * (part if step else 1 - part)
            at, within = _texel(low.astype(np.int64) + step, sizes[axis], modes[axis], normalised)
            index.append(at)
            inside = inside * within
        texel = values[tuple(index[::-1])]
        result += weight[..., None] * np.where(inside[..., None] > 0, texel, outside)
    return result


def cube_side(x: float, y: float, z: float) -> tuple[int, float, float]:
    """Return the side of a cubemap and the coordinates there, by the table of "Cubemap Textures"."""
    if abs(x) >= abs(y) and abs(x) >= abs(z):
        side, m, s, t = (0, x, -z, -y) if x >= 0 else (1, -x, z, -y)
    elif abs(y) >= abs(z):
        side, m, s, t = (2, y, x, z) if y >= 0 else (3, -y, x, -z)
    else:
        side, m, s, t = (4, z, x, -y) if z >= 0 else (5, -z, -x, -y)
    return side, (s / m + 1) / 2, (t / m + 1) / 2
