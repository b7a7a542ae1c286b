"""Arguments that callers in the same file pass to a host function that launches a kernel.

A launch such as ``k<T, BLOCK><<<n / BLOCK, BLOCK>>>`` depends on parameters and template parameters of its function.
Each distinct call in the file gives them values, and the launch one instance.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from gpuemu_lsp.engine.source.host.constants import function_locals
from gpuemu_lsp.engine.source.model import LaunchSite
from gpuemu_lsp.engine.source.preprocessor.lexer import WORD, closing, closing_angle, split_top, strip
from gpuemu_lsp.engine.source.preprocessor.macros import MacroTable
from gpuemu_lsp.engine.source.syntax.declarations import Declaration, DeclarationKind
from gpuemu_lsp.engine.source.syntax.items import without_template
from gpuemu_lsp.engine.source.syntax.parameters import parameters, template_parameters
from gpuemu_lsp.engine.source.syntax.parsed_source import ParsedSource

_NUMBER = re.compile(r"-?\d[\w.]*$")
_ARGUMENT = re.compile(r"-?[\w:]+$")
_MAX_CALLS = 8
_MAX_DEPTH = 5


def with_callers(
    found: Sequence[LaunchSite], file: ParsedSource, constants: Mapping[str, str], macros: MacroTable
) -> Iterator[LaunchSite]:
    """Yield each launch once per call of its host function in the file, with the call's literal arguments as locals.

    A launch whose function is not called with literal arguments is yielded unchanged. At most eight calls count.
    """
    functions = {
        name: declaration
        for declaration in file.declarations
        if declaration.kind is DeclarationKind.FUNCTION and declaration.item.body is not None
        for name in declaration.names
    }
    wanted = functions.keys() & {launch.host_function for launch in found if launch.host_function is not None}
    callers: dict[str, list[Declaration]] = {name: [] for name in wanted}
    for declaration in file.declarations:
        for used in wanted & declaration.uses:
            callers[used].append(declaration)
    bindings: dict[str, list[dict[str, str]]] = {}
    for launch in found:
        name = launch.host_function
        if name is None or name not in functions:
            yield launch
            continue
        if name not in bindings:
            bindings[name] = list(_calls(functions[name], callers[name], file, constants, macros))
        for values in bindings[name] or [{}]:
            yield replace(launch, locals={**values, **launch.locals})


def _calls(
    function: Declaration,
    callers: Sequence[Declaration],
    file: ParsedSource,
    constants: Mapping[str, str],
    macros: MacroTable,
) -> Iterator[dict[str, str]]:
    code, item = file.text.code, function.item
    if function.parameters is None or item.body is None:
        return
    body = code[item.body : item.end]
    # Pointers carry no sizes, and a parameter that the function changes no longer has the caller's value at the launch.
    names = [
        param.name if not param.pointer and not _is_changed(param.name, body) else ""
        for param in parameters(file.text, function.parameters + 1, closing(code, function.parameters) - 1, macros)
    ]
    template = [
        param.name for param in template_parameters(file.text, item.start, without_template(code, item.start, item.end))
    ]
    seen: list[dict[str, str]] = []
    call = re.compile(rf"\b{re.escape(next(iter(function.names)))}\s*(?=[<(])")
    for caller in callers:
        if caller is function or caller.item.kind != "code":
            continue
        inner = caller.item
        for match in call.finditer(code, inner.start, inner.end):
            given = _arguments(code, match.end())
            if given is None or len(seen) == _MAX_CALLS:
                continue
            known = dict(constants)
            if inner.body is not None and inner.body < match.start():
                known.update(function_locals(code[inner.body + 1 : match.start()]))
            # Template arguments may be types or names of constants; of the others only numbers say something here.
            values = {
                name: value for name, value in zip(template, given[0], strict=False) if name and _ARGUMENT.match(value)
            }
            for name, text in zip(names, given[1], strict=False):
                value = _resolved(text, known)
                if name and _NUMBER.match(value):
                    values[name] = value
            if values and values not in seen:
                seen.append(values)
    yield from seen


def _arguments(code: str, position: int) -> tuple[list[str], list[str]] | None:
    """Return the template arguments and arguments of ``<float, 4>(x, n)``; None if it is not a call."""
    template: list[str] = []
    if code[position] == "<":
        end = closing_angle(code, position)
        if end is None:
            return None
        inside = code[position + 1 : end - 1]
        template = [" ".join(inside[first:last].split()) for first, last in split_top(inside)]
        position = strip(code, end, len(code))[0]
    if code[position : position + 1] != "(":
        return None
    inside = code[position + 1 : closing(code, position) - 1]
    return template, [" ".join(inside[first:last].split()) for first, last in split_top(inside)]


def _resolved(text: str, known: Mapping[str, str]) -> str:
    for _ in range(_MAX_DEPTH):
        if not WORD.fullmatch(text) or text not in known:
            break
        text = known[text]
    return text


def _is_changed(name: str, body: str) -> bool:
    return not name or bool(
        re.search(
            rf"(?:\+\+|--|&)\s*{re.escape(name)}\b|\b{re.escape(name)}\s*(?:\+\+|--|(?:[-+*/%&|^]|<<|>>)?=(?!=))", body
        )
    )
