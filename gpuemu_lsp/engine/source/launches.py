"""Kernel launches in host code, with their grid and block resolved as far as plain text allows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from gpuemu_lsp.engine.source.constants import definitions_before, dim3_parts
from gpuemu_lsp.engine.source.declarations import Declaration, Kind
from gpuemu_lsp.engine.source.lexer import WORD, Text, closing, opening_angle, split_top, strip
from gpuemu_lsp.engine.source.model import Launch
from gpuemu_lsp.engine.source.reach import Unit

_TRIPLE = re.compile(r"<<<")
_CALL = re.compile(r"\bcuda(?:LaunchKernel|LaunchCooperativeKernel)\s*(?=\()")
_NAME = re.compile(r"(?:::)?(?:[A-Za-z_]\w*\s*::\s*)*[A-Za-z_]\w*$")
_FUNCTION = re.compile(
    r"^(?:\(\s*(?:const\s+)?void\s*\*\s*\)|\(?\s*reinterpret_cast\s*<[^<>]*>\s*\()?\s*&?\s*(?P<name>[\w:]+)\s*(?P<args><.*>)?\s*\)*$"
)
_MAX_DEPTH = 4


def launches(unit: Unit, constants: Mapping[str, str]) -> tuple[Launch, ...]:
    """Return every launch outside of macros' definitions, in order."""
    found: list[Launch] = []
    for declaration in unit.declarations:
        item = declaration.item
        if item.kind != "code":
            continue
        for match in _TRIPLE.finditer(unit.text.code, item.start, item.end):
            found += _triple(unit.text, declaration, match.start(), constants)
        for match in _CALL.finditer(unit.text.code, item.start, item.end):
            found += _call(unit.text, declaration, match.start(), match.end(), constants)
    return tuple(sorted(found, key=lambda launch: launch.range))


def _triple(text: Text, declaration: Declaration, offset: int, constants: Mapping[str, str]) -> Iterator[Launch]:
    code = text.code
    end = strip(code, declaration.item.start, offset)[1]
    template: tuple[str, ...] = ()
    if code[end - 1 : end] == ">":
        angle = opening_angle(code, end)
        if angle is None:
            return
        template = _parts(code[angle + 1 : end - 1])
        end = strip(code, declaration.item.start, angle)[1]
    name = _NAME.search(code, declaration.item.start, end)
    close = _end_of_configuration(code, offset + 3, declaration.item.end)
    if name is None or close is None:
        return
    opening = strip(code, close + 3, declaration.item.end)[0]
    if code[opening : opening + 1] != "(":
        return
    last = closing(code, opening)
    known = definitions_before(text, declaration, offset)
    kernel = name[0]
    if kernel in known and (pointer := _FUNCTION.match(known[kernel])):
        # auto kernel = softmax<float>; kernel<<<...>>>
        kernel, template = pointer["name"], _parts(pointer["args"][1:-1]) if pointer["args"] else template
    configuration = _parts(code[offset + 3 : close])
    if len(configuration) < 2:
        return
    yield _launch(
        text,
        declaration,
        (name.start(), last),
        kernel,
        template,
        configuration[:3],
        _parts(code[opening + 1 : last - 1]),
        {**constants, **known},
        known,
    )


def _call(
    text: Text, declaration: Declaration, start: int, opening: int, constants: Mapping[str, str]
) -> Iterator[Launch]:
    """Read ``cudaLaunchKernel((void*)kernel<T>, grid, block, args, shared, stream)``."""
    code = text.code
    last = closing(code, opening)
    parts = _parts(code[opening + 1 : last - 1])
    pointer = _FUNCTION.match(parts[0]) if len(parts) >= 4 else None
    if pointer is None:
        return
    known = definitions_before(text, declaration, start)
    arguments: tuple[str, ...] = ()
    body = declaration.item.body or declaration.item.start
    listed = list(re.finditer(rf"\b{re.escape(parts[3])}\s*\[\s*\d*\s*\]\s*=\s*(?={{)", code[body:start]))
    if listed:
        brace = body + listed[-1].end()
        arguments = tuple(
            re.sub(r"^(?:\(\s*void\s*\*\s*\))?\s*&\s*", "", part)
            for part in _parts(code[brace + 1 : closing(code, brace) - 1])
        )
    configuration = (parts[1], parts[2], *parts[4:5])
    template = _parts(pointer["args"][1:-1]) if pointer["args"] else ()
    yield _launch(
        text,
        declaration,
        (start, last),
        pointer["name"],
        template,
        configuration,
        arguments,
        {**constants, **known},
        known,
    )


def _launch(
    text: Text,
    declaration: Declaration,
    span: tuple[int, int],
    kernel: str,
    template: tuple[str, ...],
    configuration: tuple[str, ...],
    arguments: tuple[str, ...],
    values: Mapping[str, str],
    known: Mapping[str, str],
) -> Launch:
    is_function = declaration.kind is Kind.FUNCTION
    return Launch(
        kernel="".join(kernel.split()).rsplit("::", 1)[-1],
        template_args=template,
        grid=_dimensions(configuration[0], values),
        block=_dimensions(configuration[1], values),
        shared=configuration[2] if len(configuration) > 2 else None,
        arguments=arguments,
        range=text.range(*span),
        host_function=next(iter(declaration.names), None) if is_function else None,
        locals={name: value for name, value in known.items() if dim3_parts(value) is None},
    )


def _dimensions(expression: str, values: Mapping[str, str]) -> tuple[str, ...]:
    """Resolve ``grid`` to the expressions its ``dim3`` was made of; a plain expression is the x size."""
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
    """Return the offset of the ``>>>`` outside of brackets."""
    position = start
    while position < end:
        sign = code[position]
        if sign in "([{":
            position = closing(code, position)
        elif code.startswith(">>>", position):
            return position
        elif sign == ";":
            return None
        else:
            position += 1
    return None


def _parts(code: str) -> tuple[str, ...]:
    return tuple(" ".join(code[start:end].split()) for start, end in split_top(code))
