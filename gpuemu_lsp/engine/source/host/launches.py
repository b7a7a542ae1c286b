"""Kernel launches in host code, their grid and block resolved to expressions without evaluating code."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from gpuemu_lsp.engine.findings import Range
from gpuemu_lsp.engine.source.host.callers import with_callers
from gpuemu_lsp.engine.source.host.constants import dim3_parts, function_locals
from gpuemu_lsp.engine.source.memo import Memo
from gpuemu_lsp.engine.source.model import LaunchSite
from gpuemu_lsp.engine.source.preprocessor.expansion import expansions, invocation_pattern
from gpuemu_lsp.engine.source.preprocessor.lexer import (
    WORD,
    ItemText,
    SourceText,
    closing,
    moved,
    opening_angle,
    split_top,
    strip,
    words_of,
)
from gpuemu_lsp.engine.source.preprocessor.macros import MacroTable
from gpuemu_lsp.engine.source.syntax.declarations import DeclarationKind
from gpuemu_lsp.engine.source.syntax.parsed_source import ParsedSource

_TRIPLE = re.compile(r"<<<")
_CALL = re.compile(r"\bcuda(?:LaunchKernel|LaunchCooperativeKernel)\s*(?=\()")
_ANY = re.compile(r"<<<|\bcudaLaunch(?:Cooperative)?Kernel\b")
_LAUNCH_FUNCTIONS = frozenset({"cudaLaunchKernel", "cudaLaunchCooperativeKernel"})
_NAME = re.compile(r"(?:::)?(?:[A-Za-z_]\w*\s*::\s*)*[A-Za-z_]\w*$")
_FUNCTION = re.compile(
    r"^(?:\(\s*(?:const\s+)?void\s*\*\s*\)|\(?\s*reinterpret_cast\s*<[^<>]*>\s*\()?\s*&?\s*"
    r"(?P<name>[\w:]+)\s*(?P<args><.*>)?\s*\)*$"
)
_MAX_DEPTH = 4


@dataclass(frozen=True, slots=True)
class _HostRegion:
    """A range of code to search for launches.

    ``base`` are the local definitions valid at its beginning. ``place`` is the range of all launches in it if it is the
    expansion of a macro.
    """

    text: SourceText | ItemText
    start: int
    end: int
    constants: Mapping[str, str]
    base: Mapping[str, str]
    body: int | None
    host_function: str | None
    place: Range | None = None

    def known(self, offset: int) -> dict[str, str]:
        """Return the local definitions that are valid at an offset."""
        if self.body is None:
            return dict(self.base)
        return {**self.base, **function_locals(self.text.code[self.body : offset])}

    def range(self, start: int, end: int) -> Range:
        return self.place or self.text.range(start, end)


_known_constants: Memo[frozenset[tuple[str, str]]] = Memo(8)
_known_launches: Memo[tuple[LaunchSite, ...]] = Memo(1 << 12)


def launches(file: ParsedSource, constants: Mapping[str, str], macros: MacroTable) -> tuple[LaunchSite, ...]:
    """Return every launch in host code, in order, once per call of its host function with different arguments.

    The range of a launch that a macro expands to is the invocation of the macro.
    """
    found: list[LaunchSite] = []
    makers = invocation_pattern(_ANY, macros)
    may_launch = _LAUNCH_FUNCTIONS | macros.definitions.keys() if makers is not None else _LAUNCH_FUNCTIONS
    values = frozenset(constants.items())
    content = _known_constants.get(values, lambda: values)  # one object, which compares by identity
    for declaration in file.declarations:
        item = declaration.item
        is_direct = file.text.code.find("<<<", item.start, item.end) >= 0
        if item.kind != "code" or not (is_direct or not may_launch.isdisjoint(declaration.uses)):
            continue
        origin = file.text.range(item.start, item.start).start
        is_function = declaration.kind is DeclarationKind.FUNCTION
        name = next(iter(declaration.names), None) if is_function else None
        code = file.text.code[item.start : item.end]
        body = item.body - item.start + 1 if item.body is not None else None
        key = code, body, name, content, macros.affecting(words_of(code))
        in_item = _known_launches.get(key, partial(_in_item, code, body, name, constants, macros, makers))
        found += (replace(launch, range=moved(launch.range, origin)) for launch in in_item)
    # Launches in macro expansions are found after the direct ones of the same item.
    found.sort(key=lambda launch: launch.range)
    return tuple(with_callers(found, file, constants, macros))


def _in_item(
    code: str,
    body: int | None,
    host_function: str | None,
    constants: Mapping[str, str],
    macros: MacroTable,
    makers: re.Pattern[str] | None,
) -> tuple[LaunchSite, ...]:
    """Return the launches in the code of one item, with ranges relative to it."""
    site = _HostRegion(ItemText(code), 0, len(code), constants, {}, body, host_function)
    return tuple(_in_site(site, macros, makers, _MAX_DEPTH))


def _in_site(site: _HostRegion, macros: MacroTable, makers: re.Pattern[str] | None, depth: int) -> Iterator[LaunchSite]:
    code = site.text.code
    for match in _TRIPLE.finditer(code, site.start, site.end):
        yield from _triple(site, match.start())
    for match in _CALL.finditer(code, site.start, site.end):
        yield from _call(site, match.start(), match.end())
    if depth:
        for expansion in expansions(code, site.start, site.end, macros, makers):
            text = SourceText(expansion.text)
            inner = replace(
                site,
                text=text,
                start=0,
                end=len(text.code),
                base=site.known(expansion.start),
                body=0,
                place=site.range(expansion.start, expansion.end),
            )
            yield from _in_site(inner, macros, makers, depth - 1)


def _triple(site: _HostRegion, offset: int) -> Iterator[LaunchSite]:
    """Read ``kernel<T><<<grid, block, shared, stream>>>(arguments)`` around its ``<<<``."""
    code = site.text.code
    end = strip(code, site.start, offset)[1]
    template: tuple[str, ...] = ()
    if code[end - 1 : end] == ">":
        angle = opening_angle(code, end)
        if angle is None:
            return
        template = _parts(code[angle + 1 : end - 1])
        end = strip(code, site.start, angle)[1]
    name = _NAME.search(code, site.start, end)
    close = _end_of_configuration(code, offset + 3, site.end)
    if name is None or close is None:
        return
    opening = strip(code, close + 3, site.end)[0]
    configuration = _parts(code[offset + 3 : close])
    if code[opening : opening + 1] != "(" or len(configuration) < 2:
        return
    last = closing(code, opening)
    known = site.known(offset)
    kernel = name[0]
    if kernel in known and (pointer := _FUNCTION.match(known[kernel])):
        # auto kernel = softmax<float>; kernel<<<...>>>
        kernel, template = pointer["name"], _parts(pointer["args"][1:-1]) if pointer["args"] else template
    yield _launch(
        site,
        site.range(name.start(), last),
        kernel,
        template,
        configuration[:3],
        _parts(code[opening + 1 : last - 1]),
        known,
    )


def _call(site: _HostRegion, start: int, opening: int) -> Iterator[LaunchSite]:
    """Read ``cudaLaunchKernel((void*)kernel<T>, grid, block, args, shared, stream)``."""
    code = site.text.code
    last = closing(code, opening)
    parts = _parts(code[opening + 1 : last - 1])
    pointer = _FUNCTION.match(parts[0]) if len(parts) >= 4 else None
    if pointer is None:
        return
    arguments: tuple[str, ...] = ()
    listed = list(
        re.compile(rf"\b{re.escape(parts[3])}\s*\[\s*\d*\s*\]\s*=\s*(?={{)").finditer(
            code, site.body or site.start, start
        )
    )
    if listed:
        # The argument array's last definition before the call; its elements are the addresses of the arguments.
        brace = listed[-1].end()
        arguments = tuple(
            re.sub(r"^(?:\(\s*void\s*\*\s*\))?\s*&\s*", "", part)
            for part in _parts(code[brace + 1 : closing(code, brace) - 1])
        )
    yield _launch(
        site,
        site.range(start, last),
        pointer["name"],
        _parts(pointer["args"][1:-1]) if pointer["args"] else (),
        (parts[1], parts[2], *parts[4:5]),
        arguments,
        site.known(start),
    )


def _launch(
    site: _HostRegion,
    place: Range,
    kernel: str,
    template: tuple[str, ...],
    configuration: tuple[str, ...],
    arguments: tuple[str, ...],
    known: Mapping[str, str],
) -> LaunchSite:
    values = {**site.constants, **known}
    return LaunchSite(
        kernel="".join(kernel.split()).rsplit("::", 1)[-1],
        template_args=template,
        grid=_dimensions(configuration[0], values),
        block=_dimensions(configuration[1], values),
        shared=configuration[2] if len(configuration) > 2 else None,
        arguments=arguments,
        range=place,
        host_function=site.host_function,
        locals={name: value for name, value in known.items() if dim3_parts(value) is None},
    )


def _dimensions(expression: str, values: Mapping[str, str]) -> tuple[str, ...]:
    """Return the expressions of the ``dim3`` that an expression names; a scalar expression is the x size."""
    for _ in range(_MAX_DEPTH):
        parts = dim3_parts(expression)
        if parts is not None:
            if len(parts) == 1 and (dim3_parts(parts[0]) or (parts[0] in values and dim3_parts(values[parts[0]]))):
                expression = parts[0]
                continue
            return parts or ("1",)
        if not WORD.fullmatch(expression) or expression not in values:
            break
        value = values[expression]
        if dim3_parts(value) is None and not (WORD.fullmatch(value) and value in values):
            break
        expression = value
    return (expression,)


def _end_of_configuration(code: str, start: int, end: int) -> int | None:
    """Return the offset of the closing ``>>>``; None if the statement ends before it."""
    position = start
    while position < end:
        sign = code[position]
        if sign in "([{":
            position = closing(code, position)
        elif code.startswith(">>>", position):
            return position
        elif sign == ";":
            return None  # a shift or stream operator, or a half-written launch
        else:
            position += 1
    return None


def _parts(code: str) -> tuple[str, ...]:
    return tuple(" ".join(code[start:end].split()) for start, end in split_top(code))
