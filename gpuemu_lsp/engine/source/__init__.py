"""Static reading of a source file without a C++ front end, and the device view that NVRTC compiles.

``preprocessor``
    Comments and literals blanked, directives, macro definitions, ``#if`` regions that are certainly inactive.
``headers``
    User headers on disk, CUDA's device headers by name, and the files that include a header.
``syntax``
    Top-level items, their declarations, parameter lists, ``__global__`` functions.
``device_view``
    The text NVRTC compiles: host-only code replaced by spaces, every line and byte column kept.
``python``
    ``.py`` files: Triton kernels, and CUDA code in strings with the place of each character.
``notebooks``
    The cells of notebooks as sources, and the places of their lines in a ``.ipynb``.
``ptx_source``
    ``.ptx`` files: entries and their parameters, as the code shows them.
``ignore_comments``
    Comments that suppress findings.
``reader``, ``model``
    One file as a record, and the records.
``memo``
    Results by content, which make reading again after an edit cost what has changed.

:func:`read` combines them into one :class:`~gpuemu_lsp.engine.source.model.SourceFile`. All offsets and columns below
this package are UTF-8 bytes, the unit of NVRTC's columns; the language server converts them at its boundary.
"""

from gpuemu_lsp.engine.source.device_view.view import DeviceViews, device_views, of_kernels, without_rejected
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
    "of_kernels",
    "read",
    "usual_include_dirs",
    "without_rejected",
]
