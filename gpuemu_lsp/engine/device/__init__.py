"""A real GPU behind the emulator's interface, through CuPy: the same artifact, the same cases, guarded memory."""

from __future__ import annotations

from gpuemu_lsp.engine.device.device import Device, available

__all__ = ["Device", "available"]
