"""Translation units of a program that call the functions of a unit with launches.

A launch is often in a function whose callers, with the sizes, are in another file: ``main`` calls ``run`` of another
source, a test calls a function of a library. As for a linker, a file calls such a function if it declares it without
defining it. Which files are linked is not known: of folders side by side each may be a program of its own, with a
function of the same name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from copy import copy
from itertools import islice, takewhile
from pathlib import Path

from gpuemu_lsp.engine.hostcode.cpp.declarations import HostFile, program_of
from gpuemu_lsp.engine.hostcode.cpp.launch_macros import with_launch_macros
from gpuemu_lsp.engine.hostcode.launches import roots
from gpuemu_lsp.engine.hostcode.program import HostFunction, HostProgram, link
from gpuemu_lsp.engine.source import DeviceViews, device_views, usual_include_dirs
from gpuemu_lsp.engine.source.headers.includes import load
from gpuemu_lsp.engine.source.headers.nearby_sources import called_names, sources_near
from gpuemu_lsp.engine.source.memo import Memo
from gpuemu_lsp.engine.source.preprocessor.conditions import without_older_cuda
from gpuemu_lsp.engine.source.preprocessor.lexer import SourceText, decode
from gpuemu_lsp.engine.source.syntax.constants import file_constants

_SOURCES = frozenset({".cu", ".hip", ".cpp", ".cc", ".cxx", ".c"})
_LOOKUP = re.compile(r"(?:ModuleGetFunction|LibraryGetKernel|nvrtcGetLoweredName)\b")
_STRING = re.compile(r'"[^"\n]*"')
_KERNEL = re.compile(r'"(?:\w|::)+(?:<[\w:, ]+>)?"')
_MAX_LEVELS = 3
_MAX_CALLERS = 2
"""Files that call a function: a second one may reach the launch where the first does not."""
_MAX_READ = 8
_known_units: Memo[HostProgram] = Memo(16)


def unit_of(views: DeviceViews) -> HostProgram:
    """Return the host code of a file with its headers."""
    texts = [(file.path, without_older_cuda(file.path, file.text)) for file in views.files]
    files = [HostFile(path, with_launch_macros(_with_names(text), views.macros)) for path, text in texts]
    return program_of(files, views.macros, file_constants(views.files, views.macros))


def read_unit(views: DeviceViews) -> HostProgram:
    """Return the same as :func:`unit_of`, shared by all who ask: they only read it, or link it before they use it."""
    return _known_units.get(views, lambda: unit_of(views))


def _with_names(text: SourceText) -> SourceText:
    """Return a text in whose code the strings that may name a kernel of a module have their contents."""
    if _LOOKUP.search(text.code) is None:
        return text
    named = copy(text)
    named.code = _STRING.sub(lambda match: _name(text.raw[match.start() : match.end()], match[0]), text.code)
    return named


def _name(raw: str, blanked: str) -> str:
    return raw if _KERNEL.fullmatch(raw) else blanked


def calling_units(views: DeviceViews, kernel: str, include_dirs: Sequence[str]) -> tuple[DeviceViews, ...]:
    """Return the other files that lead to the launches of a kernel in a file, those that call it first.

    Parameters
    ----------
    views
        The file with the launches.
    kernel
        Name of the kernel.
    include_dirs
        Directories to search for headers.
    """
    program = read_unit(views)
    link([program])
    path = views.files[0].path
    found: list[DeviceViews] = []
    linked = [program]
    candidates = [one for one in sources_near(path) if Path(one).suffix in _SOURCES]
    seen = {file.path for file in views.files}
    tops = _tops(program, kernel)
    for _ in range(_MAX_LEVELS):
        if not tops:
            break
        made = list(_callers(tops, path, (one for one in candidates if one not in seen), include_dirs))
        if not made:
            break
        for others, unit in made:
            found.append(others)
            linked.append(unit)
            seen.add(others.files[0].path)
        link(linked)
        tops = _tops(program, kernel)
    link([program])  # as others read it
    return tuple(found)


def _tops(program: HostProgram, kernel: str) -> tuple[HostFunction, ...]:
    """Return the functions that lead to a launch and that nothing calls; none if ``main`` does."""
    found = roots(program, [kernel])
    return () if any(one.name == "main" for one in found) else tuple(found)


def _callers(
    tops: Sequence[HostFunction], path: str, candidates: Iterable[str], include_dirs: Sequence[str]
) -> Iterator[tuple[DeviceViews, HostProgram]]:
    """Yield the candidates that call functions of the file at ``path``."""
    names = frozenset(one.name for one in tops)
    methods = frozenset(one.name for one in tops if one.may_be_member)
    wanted = {name.encode() for name in names}
    read = found = 0
    for candidate in candidates:
        if wanted.isdisjoint(called_names(candidate)):
            continue
        read += 1
        if read > _MAX_READ or found == _MAX_CALLERS:
            return
        made = _unit_at(candidate, include_dirs)
        if made is None:
            continue
        others, unit = made
        declared = names if candidate.endswith(".c") else (names & unit.prototypes) | (methods & unit.methods)
        called = declared - unit.functions.keys()
        if called and called - _defined_apart(called, candidate, path, include_dirs):
            found += 1
            yield others, unit


def _defined_apart(names: Set[str], caller: str, path: str, include_dirs: Sequence[str]) -> Set[str]:
    """Return those of some names that are functions of files near the caller, in a folder without the file at ``path``.

    The caller is then linked with these.
    """
    folder, here = Path(caller).parent, Path(path).parent
    outside = [one for one in (folder, *folder.parents) if not here.is_relative_to(one)]
    if not outside:
        return frozenset()
    wanted = {name.encode() for name in names}
    near = takewhile(lambda one: Path(one).is_relative_to(outside[-1]), sources_near(caller))
    files = (one for one in near if one != caller and not wanted.isdisjoint(called_names(one)))
    made = (_unit_at(one, include_dirs) for one in islice(files, _MAX_READ))
    return names & frozenset[str]().union(*(one[1].functions.keys() for one in made if one is not None))


def _unit_at(path: str, include_dirs: Sequence[str]) -> tuple[DeviceViews, HostProgram] | None:
    content = load(path)
    if content is None:
        return None
    text = decode(content.raw)
    views = device_views(path, text, (*include_dirs, *usual_include_dirs(path, text)))
    return views, read_unit(views)
