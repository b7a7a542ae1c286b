"""What the files of a kernel declare that the arguments of a template may name."""

from __future__ import annotations

from dataclasses import dataclass

from gpuemu_lsp.engine.source import DeviceViews
from gpuemu_lsp.engine.source.headers.includes import includes
from gpuemu_lsp.engine.source.memo import Memo
from gpuemu_lsp.engine.source.model import SourceFile
from gpuemu_lsp.engine.source.preprocessor.lexer import source_text
from gpuemu_lsp.engine.source.syntax.declarations import DeclarationKind
from gpuemu_lsp.engine.source.syntax.structs import structs

_PYTORCH = ("torch/", "ATen/", "c10/")


@dataclass(frozen=True, slots=True)
class DeviceNames:
    """Names of a file and its headers.

    ``classes`` are those of classes, and of the functions that run on a device. ``has_pytorch``: the compiled text
    includes headers of PyTorch.
    """

    enumerations: frozenset[str] = frozenset()
    classes: frozenset[str] = frozenset()
    has_pytorch: bool = False


_known_names: Memo[DeviceNames] = Memo(8)


def device_names(source: SourceFile) -> DeviceNames:
    """Return what a file and its headers declare."""
    views = source.views
    return _known_names.get(views, lambda: _read(views)) if isinstance(views, DeviceViews) else DeviceNames()


def _read(views: DeviceViews) -> DeviceNames:
    declared = structs(views.files, views.macros)
    enumerations = {name for name, each in declared.items() if each.kind == "enum"}
    functions = (each for file in views.files for each in file.declarations if each.kind is DeclarationKind.FUNCTION)
    names = frozenset[str]().union(*(each.names for each in functions if each.on_device))
    included = (
        each.target for view in (views.view, *views.headers.values()) for each in includes(source_text(view), "")
    )
    return DeviceNames(
        frozenset(enumerations),
        frozenset(declared.keys() - enumerations) | names,
        any(target.startswith(_PYTORCH) for target in included),
    )
