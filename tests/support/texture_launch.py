"""Launches of kernels with texture and surface objects."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuemu_lsp.engine.execution import Buffer, Outcome, Request, Scalar
from gpuemu_lsp.engine.texture import ChannelKind, Sampling, Texture, texture_object
from support.emulator_launch import EMULATOR, artifact, compile_ptx

PLAIN = Sampling()
"""Point sampling at coordinates in texels, clamped."""

_KINDS = {"i": ChannelKind.SIGNED, "u": ChannelKind.UNSIGNED, "f": ChannelKind.FLOAT}


def described(texels: np.ndarray, sampling: Sampling = PLAIN, *, pitch: int = 0, levels: int = 1) -> Texture:
    """Return the texture of an array with the axes (layer or z,) (y,) x, channels; ``pitch`` is the row's in bytes."""
    extent = (*texels.shape[:-1][::-1], 1, 1)[:3]
    kind = _KINDS[texels.dtype.kind]
    return Texture(extent, texels.itemsize, texels.shape[-1], kind, sampling, row_bytes=pitch, levels=levels)


def of_array(name: str, texels: np.ndarray, sampling: Sampling = PLAIN, **more: Any) -> Buffer:
    """Return the argument of a texture object for an array; its memory is the buffer ``NAME.texels``."""
    data = np.frombuffer(np.ascontiguousarray(texels).tobytes(), np.uint8).copy()
    return texture_object(name, described(texels, sampling), Buffer(f"{name}.texels", data, **more))


def run(source: str, grid: Any, block: Any, *arguments: Any, **more: Any) -> Outcome:
    """Run kernel ``k``. Arrays become initialised buffers ``a0``, ``a1``, ...; buffers are passed as they are."""
    given: list[Any] = []
    for index, argument in enumerate(arguments):
        if isinstance(argument, Buffer):
            given.append(argument)
        elif isinstance(argument, np.ndarray):
            data = np.frombuffer(argument.tobytes(), np.uint8).copy()
            given.append(Buffer(f"a{index}", data, element_size=argument.itemsize))
        else:
            given.append(Scalar(f"a{index}", argument.tobytes()))
    sizes = [(one, 1, 1) if isinstance(one, int) else (*one, 1, 1)[:3] for one in (grid, block)]
    return EMULATOR.run(Request(artifact(compile_ptx(source)), "k", sizes[0], sizes[1], 0, tuple(given), **more))
