"""The launches of a kernel in the host code of its file, or of files that include or use it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gpuemu_lsp.engine.hostcode.assumptions import HostAssumptions
from gpuemu_lsp.engine.hostcode.cpp.translation_units import calling_units, read_unit, unit_of
from gpuemu_lsp.engine.hostcode.launches import interpret, launching_functions, roots, selectors
from gpuemu_lsp.engine.hostcode.program import HostFunction, HostProgram, link
from gpuemu_lsp.engine.hostcode.python.declarations import program_of as python_program
from gpuemu_lsp.engine.hostcode.state import HostCopy, HostRun, HostSymbol
from gpuemu_lsp.engine.hostcode.values import Allocation, HostLaunch, Pointer, RecordValue, Unknown, Value
from gpuemu_lsp.engine.source import DeviceViews, device_views
from gpuemu_lsp.engine.source.headers.includes import include_closure, load
from gpuemu_lsp.engine.source.headers.nearby_sources import launched_names, named_strings, sources_near
from gpuemu_lsp.engine.source.memo import Memo
from gpuemu_lsp.engine.source.model import KernelDecl, SourceFile
from gpuemu_lsp.engine.source.preprocessor.lexer import WORD, decode
from gpuemu_lsp.engine.symbolic.size import Size, number, substitute, symbol, symbols

_MAX_THREADS = 1 << 16
_MAX_BYTES = 1 << 23
_MAX_FILES = 3
_ATTEMPTS = 4
_SCALED_SIZE = 512
_ENOUGH_SHARED = 32 << 10
_NOTHING = HostAssumptions()


@dataclass(frozen=True, slots=True)
class ReadHostLaunch:
    """A launch with the interpretation that reached it. ``file`` is the path of another file that has it.

    ``generic``: it is in a function template, whose types are assumed.
    """

    launch: HostLaunch
    run: HostRun
    file: str | None = None
    generic: bool = False


class _HostReading:
    """Interpretations of a program, by entry point and the constants that are symbols."""

    def __init__(self, program: HostProgram, views: DeviceViews) -> None:
        self.program = program
        self._paths = frozenset(file.path for file in views.files)
        self._names = views.names
        self._runs: dict[tuple[object, ...], HostRun] = {}
        self._found: dict[tuple[str, HostAssumptions], tuple[ReadHostLaunch, ...]] = {}

    def launches(self, kernel: str, assumed: HostAssumptions) -> tuple[ReadHostLaunch, ...]:
        """Return the launches of a kernel, scaled down where the program's constants are large.

        Programs for several devices may end on one.
        """
        key = kernel, assumed
        if key not in self._found:
            one_device = tuple(self._launches(kernel, assumed))
            self._found[key] = one_device or tuple(self._launches(kernel, replace(assumed, devices=2)))
        return self._found[key]

    def own_launches(self, kernel: str, assumed: HostAssumptions) -> tuple[ReadHostLaunch, ...]:
        """Return the launches of a kernel in functions that nothing calls, with the sizes that they have."""
        found: list[ReadHostLaunch] = []
        for root in launching_functions(self.program, [kernel]):
            for each in _of_instances(assumed, root):
                run = self._run(root, frozenset(), each)
                found += [ReadHostLaunch(launch, run, generic=_is_generic(root)) for launch in self._of(run, kernel)]
        return tuple(found)

    def _launches(self, kernel: str, assumed: HostAssumptions) -> Iterator[ReadHostLaunch]:
        for root in roots(self.program, [kernel]):
            found = [one for each in _of_instances(assumed, root) for one in self._from(root, kernel, each)]
            yield from found
            if any(is_complete(one.launch) and (root.name == "main" or _shows_pointers(one)) for one in found):
                return

    def _from(self, root: HostFunction, kernel: str, assumed: HostAssumptions) -> list[ReadHostLaunch]:
        """Return the launches that a function leads to, with smaller sizes where those of the program are large."""
        run = self._run(root, frozenset(), assumed)
        mine = self._of(run, kernel)
        for level in ("*", "**") if any(map(_is_large, mine)) else ():
            scaled = self._scaled(root, kernel, level, assumed)
            if scaled is None:
                break
            run, mine = scaled
            if not all(_is_large_scaled(launch, run) for launch in mine):
                break
        generic = _is_generic(root)
        return [ReadHostLaunch(launch, run, generic=generic) for launch in mine if not _is_large(launch, 4)]

    def _of(self, run: HostRun, kernel: str) -> list[HostLaunch]:
        """Return the launches of a kernel; one of its name in another translation unit is another kernel."""
        return [launch for launch in run.launches if launch.kernel == kernel and launch.path in self._paths]

    def _scaled(
        self, root: HostFunction, kernel: str, level: str, assumed: HostAssumptions
    ) -> tuple[HostRun, list[HostLaunch]] | None:
        """Return the launches with large constants as symbols; None if they determine blocks or instances."""
        excluded: frozenset[str] = frozenset()
        last: frozenset[str] = frozenset()
        for _ in range(_ATTEMPTS):
            # Constants of one value share the symbol of the first: alone, one that has it now may be the only one.
            for kept in dict.fromkeys((last, excluded)):
                run = self._run(root, frozenset({level}) | kept, assumed)
                mine = self._of(run, kernel)
                last = _fixed(mine, run)
                excluded |= last
                if not last:
                    return run, mine
        return None

    def _run(self, root: HostFunction, scalable: frozenset[str], assumed: HostAssumptions) -> HostRun:
        assumptions = replace(assumed, scalable=scalable, device=self._names)
        key = root, scalable, assumed
        if key not in self._runs:
            self._runs[key] = interpret(self.program, root, assumptions)
        return self._runs[key]


def _is_generic(function: HostFunction) -> bool:
    """Return whether nothing shows the template arguments of a function from which an interpretation starts."""
    return bool(function.template) and function.name not in function.unit.instances


def _of_instances(assumed: HostAssumptions, function: HostFunction) -> list[HostAssumptions]:
    """Return the assumptions for each explicit instantiation of a function, whose first type stands for others."""
    found = []
    for instance in function.unit.instances.get(function.name, ()):
        arguments = instance.template_arguments(function)
        scalar = next((argument for argument in arguments if not argument[0].isdigit()), assumed.scalar)
        found.append(replace(assumed, scalar=scalar, instance=arguments))
    return list(dict.fromkeys(found)) or [assumed]


_known_readings: Memo[_HostReading] = Memo(6)


def host_launches(
    source: SourceFile,
    kernel: str,
    include_dirs: Sequence[str],
    assumed: HostAssumptions = _NOTHING,
    *,
    called: bool = True,
) -> tuple[ReadHostLaunch, ...]:
    """Return the launches of a kernel in the program around a file; those in the file itself first.

    Without ``called``, those in the functions with a launch, whatever the program calls them with.
    """
    read = _HostReading.launches if called else _HostReading.own_launches
    if not source.path:
        return ()
    views = device_views(source.path, source.text, include_dirs)
    module = python_program(source)
    if module is not None:
        return read(_known_readings.get((views, source.module), lambda: _HostReading(module, views)), kernel, assumed)
    found = read(_reading(views, kernel, include_dirs), kernel, assumed)
    if any(is_complete(one.launch) for one in found):
        return found
    tried = 0
    wanted = selectors(read_unit(views), [kernel]) | {kernel}
    for candidate in sources_near(source.path):
        if candidate == source.path or not _may_launch(candidate, source.path, wanted, include_dirs):
            continue
        content = load(candidate)
        if content is None or tried == _MAX_FILES:
            continue
        tried += 1
        others = device_views(candidate, decode(content.raw), include_dirs)
        there = read(_reading(others, kernel, include_dirs), kernel, assumed)
        if there and (not found or any(is_complete(one.launch) for one in there)):
            return tuple(replace(one, file=candidate) for one in there)
    return found


def _may_launch(candidate: str, path: str, wanted: frozenset[str], include_dirs: Sequence[str]) -> bool:
    """Return whether a file launches a kernel that another one defines, of this name or from a table of these names.

    A kernel of the same name in a file that does not include that one is another kernel. A program that finds it in a
    module by its name is next to the file, or names it or what was compiled from it: ``"scale.cu"``, ``"scale.ptx"``.
    """
    names = frozenset(name.encode() for name in wanted)
    # A header with the launch may use what the file that includes it defines.
    launched = launched_names(candidate) | launched_names(path)
    if not names.isdisjoint(launched) and path in include_closure(candidate, include_dirs):
        return True
    strings = named_strings(candidate)
    here = Path(path)
    return not names.isdisjoint(strings) and (Path(candidate).parent == here.parent or here.stem.encode() in strings)


def _reading(views: DeviceViews, kernel: str, include_dirs: Sequence[str]) -> _HostReading:
    """Return the interpretations of the program with a file's launches of a kernel."""
    others = calling_units(views, kernel, include_dirs)
    return _known_readings.get((views, *others), lambda: _HostReading(_linked(views, others), views))


def _linked(views: DeviceViews, others: Sequence[DeviceViews]) -> HostProgram:
    if not others:
        return read_unit(views)
    program = unit_of(views)
    link([program, *map(unit_of, others)])
    return program


def is_complete(launch: HostLaunch) -> bool:
    """Return whether grid, block and shared memory of a launch are known."""
    return launch.shared is not None and None not in (*launch.grid, *launch.block)


def with_open_grid(found: ReadHostLaunch) -> ReadHostLaunch:
    """Return a launch whose number of blocks, where it is not known, is a size that may depend on the others."""
    grid: list[Size] = []
    for axis, extent in zip("xyz", found.launch.grid, strict=False):
        name = f"blocks_{axis}"
        if extent is None:
            found.run.symbols.setdefault(name, HostSymbol(name, "computed"))
        grid.append(symbol(name, 1) if extent is None else extent)
    return replace(found, launch=replace(found.launch, grid=tuple(grid)))


def _shows_pointers(found: ReadHostLaunch) -> bool:
    """Return whether each argument of a launch is known; else a function nearer to the launch may show more."""
    return not any(isinstance(value, Unknown) for value in found.launch.arguments)


def dynamic_shared_memory(found: ReadHostLaunch) -> Size:
    """Return the dynamic shared memory of a launch; enough for most kernels if only the compiler could say it."""
    shared = found.launch.shared
    if shared is None:
        return number(0)
    named = frozenset[str]().union(
        *(symbols(value) for value in (*found.launch.grid, *found.launch.block) if value is not None)
    )
    hidden = {name for name in symbols(shared) if found.run.symbols[name].origin == "computed"} - named
    return number(_ENOUGH_SHARED) if hidden else shared


def is_copied_back(found: ReadHostLaunch, allocation: int, memory: Allocation, kernels: Sequence[KernelDecl]) -> bool:
    """Return whether the host copies or returns all of an allocation that this launch alone writes.

    ``kernels`` are those of the file: another one that takes the address of constant elements only reads them.
    """
    launch = found.launch
    if allocation in found.run.written:
        return False
    for read in found.run.reads:
        if read.source != allocation or read.launches <= launch.number or not _reads_all(found.run, read, memory):
            continue
        between = found.run.launches[launch.number + 1 : read.launches]
        if not any(_may_write(other, allocation, kernels) for other in between):
            return True
    return False


def _reads_all(run: HostRun, read: HostCopy, memory: Allocation) -> bool:
    """Return whether a copy is of all bytes, and the host's loops over its target do not all end before the last."""
    if read.size is None or read.size != memory.extent:
        return False
    ends = run.loaded.get(read.target or 0, set()) if read.target not in run.written else set()
    return not ends or None in ends or read.size in ends


def _may_write(launch: HostLaunch, allocation: int, kernels: Sequence[KernelDecl]) -> bool:
    """Return whether a launch passes an allocation other than as the address of constant elements."""
    named = [kernel for kernel in kernels if kernel.name == launch.kernel]
    return any(
        _uses(value, allocation)
        and not (named and all(_only_reads(kernel, position) for kernel in named) and isinstance(value, Pointer))
        for position, value in enumerate(launch.arguments)
    )


def _only_reads(kernel: KernelDecl, position: int) -> bool:
    return position < len(kernel.params) and kernel.params[position].const


def _uses(value: Value, allocation: int) -> bool:
    if isinstance(value, RecordValue):
        return any(_uses(field, allocation) for field in value.fields.values())
    return isinstance(value, Pointer) and value.allocation == allocation


def _is_large(launch: HostLaunch, times: int = 1) -> bool:
    """Return whether a launch of constant sizes takes too long to emulate, or several times that."""
    extents = [extent.constant if extent is not None else None for extent in (*launch.grid, *launch.block)]
    threads = math.prod(extent for extent in extents if extent is not None)
    sizes = (memory.size.constant for memory in launch.memory.values() if memory.size is not None)
    return threads > times * _MAX_THREADS or any(size is not None and size > times * _MAX_BYTES for size in sizes)


def _is_large_scaled(launch: HostLaunch, run: HostRun) -> bool:
    """Return whether a launch is large with its scaled constants at a few times the size of a tile."""
    values = {name: number(_SCALED_SIZE) for name, known in run.symbols.items() if known.origin == "constant"}
    extents = [substitute(extent, values) if extent is not None else None for extent in (*launch.grid, *launch.block)]
    sizes = [substitute(memory.size, values) for memory in launch.memory.values() if memory.size is not None]
    constants = [extent.constant for extent in extents if extent is not None]
    threads = math.prod(max(extent, 1) for extent in constants if extent is not None)
    return threads > _MAX_THREADS or any((size.constant or 0) > _MAX_BYTES for size in sizes)


def _fixed(launches: Sequence[HostLaunch], run: HostRun) -> frozenset[str]:
    """Return the constants that must keep their values: those of blocks, shared memory and template arguments."""
    found: set[str] = set()
    for launch in launches:
        for extent in (*launch.block, launch.shared):
            if extent is not None:
                found |= {name for name in symbols(extent) if run.symbols[name].origin == "constant"}
        found |= {
            name
            for argument in launch.template
            for name in WORD.findall(argument)
            if argument.startswith("?") and name in run.symbols and run.symbols[name].origin == "constant"
        }
    return frozenset(found)
