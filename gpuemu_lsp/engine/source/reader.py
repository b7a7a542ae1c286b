"""One .cu file as a :class:`SourceFile`: kernels, includes, constants and device view."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gpuemu_lsp.engine.source import ptx_source
from gpuemu_lsp.engine.source.device_view.view import DeviceViews, device_views
from gpuemu_lsp.engine.source.headers.includers import includers
from gpuemu_lsp.engine.source.headers.includes import includes, load
from gpuemu_lsp.engine.source.memo import Memo
from gpuemu_lsp.engine.source.model import KernelDecl, SourceFile, StructDecl
from gpuemu_lsp.engine.source.preprocessor.lexer import decode
from gpuemu_lsp.engine.source.syntax.constants import file_constants
from gpuemu_lsp.engine.source.syntax.kernels import dynamic_shared, instances, kernels
from gpuemu_lsp.engine.source.syntax.structs import missing_types, structs, takes_structs, type_names


@dataclass(frozen=True, slots=True)
class _Contents:
    """What a file declares; the fields are those of :class:`SourceFile`."""

    kernels: tuple[KernelDecl, ...]
    constants: Mapping[str, str]
    dynamic_shared: Mapping[str, str]
    instances: tuple[tuple[str, tuple[str, ...]], ...]
    structs: Mapping[str, StructDecl]
    type_names: Mapping[str, str]


_MAX_INCLUDERS = 4
_known_contents: Memo[_Contents] = Memo(2)


def read(
    path: str,
    text: str,
    include_dirs: Sequence[str] = (),
    overlay: Mapping[str, str] | None = None,
    options: Sequence[str] = (),
) -> SourceFile:
    """Read a file, which may be half written, empty or not CUDA at all.

    Parameters
    ----------
    path
        Absolute path; quoted includes are searched for in its directory first.
    text
        Its content, which may be newer than the file on disk.
    include_dirs
        Further directories with user headers.
    overlay
        Texts of headers by absolute path, used in place of the files on disk (unsaved editor buffers).
    options
        Compile options; ``-D`` and ``-U`` decide which ``#if`` branches are active.
    """
    if path.endswith(ptx_source.SUFFIX):
        return ptx_source.read_ptx(path, text)
    views = device_views(path, text, include_dirs, overlay, options)
    file = views.files[0]
    contents = _known_contents.get(views, lambda: _contents(views))
    if missing := missing_types(views.files, contents.kernels):
        contents = _with_types_of_includer(contents, missing, path, include_dirs)
    return SourceFile(
        path=path,
        text=text,
        kernels=contents.kernels,
        includes=includes(file.text, path, include_dirs),
        constants=contents.constants,
        views=views,
        has_errors=not file.items.balanced,
        dynamic_shared=contents.dynamic_shared,
        instances=contents.instances,
        structs=contents.structs,
        type_names=contents.type_names,
    )


def _with_types_of_includer(
    contents: _Contents, wanted: frozenset[str], path: str, include_dirs: Sequence[str]
) -> _Contents:
    """Return the contents with what the file that includes this one has declared before it."""
    for user in itertools.islice(includers(path, include_dirs), _MAX_INCLUDERS):
        text = load(user)
        if text is None:
            continue
        views = device_views(user, decode(text.raw), include_dirs)
        known, names = structs(views.files, views.macros), type_names(views.files)
        constants = file_constants(views.files, views.macros)
        if wanted <= known.keys() | names.keys() | constants.keys():
            return replace(
                contents,
                constants={**constants, **contents.constants},
                structs={**known, **contents.structs},
                type_names={**names, **contents.type_names},
            )
    return contents


def _contents(views: DeviceViews) -> _Contents:
    file = views.files[0]
    found = kernels(file, views.macros)
    constants = file_constants(views.files, views.macros)
    with_structs = takes_structs(views.files, found)
    return _Contents(
        found,
        constants,
        dynamic_shared(file, found),
        instances(file),
        structs(views.files, views.macros) if with_structs else {},
        type_names(views.files) if with_structs else {},
    )
