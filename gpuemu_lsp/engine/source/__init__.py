"""What is in a .cu file: kernels, launches, constants, includes, and the device view that NVRTC compiles."""

from gpuemu_lsp.engine.source.folders import usual_include_dirs
from gpuemu_lsp.engine.source.includers import includers
from gpuemu_lsp.engine.source.includes import hidden_includes, include_closure
from gpuemu_lsp.engine.source.reader import read
from gpuemu_lsp.engine.source.view import Views, device_views

__all__ = ["Views", "device_views", "hidden_includes", "include_closure", "includers", "read", "usual_include_dirs"]
