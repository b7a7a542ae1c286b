"""Execution on a real GPU through CuPy, with the emulator's interface: same artifact and cases, guarded buffers."""

from __future__ import annotations

from gpuemu_lsp.engine.device.device import Device, available

__all__ = ["Device", "available"]
