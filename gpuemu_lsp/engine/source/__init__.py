"""What is in a .cu file: kernels, launches, constants, includes, and the device view that NVRTC compiles."""

from gpuemu_lsp.engine.source.device_view.view import DeviceViews, device_views
from gpuemu_lsp.engine.source.headers.includers import includers
from gpuemu_lsp.engine.source.headers.includes import hidden_includes, include_closure
from gpuemu_lsp.engine.source.headers.search_folders import usual_include_dirs
from gpuemu_lsp.engine.source.reader import read

__all__ = [
    "DeviceViews",
    "device_views",
    "hidden_includes",
    "include_closure",
    "includers",
    "read",
    "usual_include_dirs",
]
