"""The C++ header of the messages, which is made of their declaration when the runtime library is compiled."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from enum import IntEnum
from typing import Annotated, Any, get_args, get_origin

from gpuemu_lsp.engine.runtime.protocol.messages import MESSAGES, Answer, Message, SharedWords
from gpuemu_lsp.engine.runtime.protocol.records import ADDRESS, Address, CallStack, Size3, WireRecord, field_types

_TYPES: dict[Any, str] = {
    int: "uint64_t",
    float: "double",
    bool: "bool",
    str: "Bytes",
    bytes: "Bytes",
    Size3: "dim3",
    CallStack: "CallStack",
}
_ANSWERED: dict[Any, str] = {bytes: "std::string", Address: "void*"}
_STACK = "CallStack::here()"
"""The value of a call stack in a message that gives none."""


def messages_header() -> str:
    """Return the header: enumerations and records by name, and the functions that write requests and read answers."""
    received = list(dict.fromkeys(kind for request in MESSAGES for kind in _dependencies(request.answer)))
    sent = list(dict.fromkeys(kind for request in MESSAGES for kind in _dependencies(request)))
    every = list(dict.fromkeys((*received, *sent)))
    enumerations = [kind for kind in every if issubclass(kind, IntEnum)]
    records = [kind for kind in every if not issubclass(kind, IntEnum)]
    return "\n".join(
        (
            "// The messages to gpuemu, generated from their declaration in Python.",
            "#pragma once",
            "",
            '#include "wire.h"',
            "",
            "namespace gpuemu {",
            *(line for kind in enumerations for line in _enumeration(kind)),
            *_shared_words(),
            "",
            "namespace message {",
            *(line for kind in records for line in _record(kind)),
            "",
            *(_function("put", "Writer& to, const {}& from", kind, "to, from.{}") for kind in records if kind in sent),
            *(_function("get", "Reader& from, {}& to", kind, "from, to.{}") for kind in records if kind in received),
            "",
            "}  // namespace message",
            "}  // namespace gpuemu",
            "",
        )
    )


def _dependencies(kind: type[WireRecord]) -> Iterator[type[Any]]:
    """Yield the records and enumerations of a record's fields, each after its own, and then the record."""
    for hint in field_types(kind).values():
        field = get_args(hint)[0] if get_origin(hint) is tuple and hint != Size3 else hint
        if inspect.isclass(field) and issubclass(field, WireRecord):
            yield from _dependencies(field)
        elif inspect.isclass(field) and issubclass(field, IntEnum):
            yield field
    yield kind


def _enumeration(kind: type[IntEnum]) -> Iterator[str]:
    members = ", ".join(f"{member.name} = {member.value}" for member in kind)
    yield from ("", _comment(kind), f"enum class {kind.__name__} : uint64_t {{ {members} }};")


def _shared_words() -> Iterator[str]:
    yield from ("", _comment(SharedWords), f"struct {SharedWords.__name__} {{")
    yield from (f"    std::atomic<uint64_t> {name};" for name in field_types(SharedWords))
    yield "};"


def _record(kind: type[WireRecord]) -> Iterator[str]:
    yield from ("", _comment(kind), f"struct {kind.__name__} {{")
    if issubclass(kind, Message):
        yield f"    static constexpr uint32_t OPERATION = {MESSAGES.index(kind)};"
        yield f"    using Answer = {kind.answer.__name__};"
    for name, hint in field_types(kind).items():
        # The bytes of an answer are its own; those of a request are where the caller has them.
        declared = _ANSWERED.get(hint, _declared(hint)) if issubclass(kind, Answer) else _declared(hint)
        yield f"    {declared} {name}{f' = {_STACK}' if hint is CallStack else '{}'};"
    yield "};"


def _function(name: str, parameters: str, kind: type[WireRecord], arguments: str) -> str:
    body = "".join(f" {name}({arguments.format(field)});" for field in field_types(kind))
    return f"inline void {name}({parameters.format(kind.__name__)}) {{{body} }}"


def _declared(hint: Any) -> str:
    """Return the C++ type of a field."""
    if get_origin(hint) is Annotated:
        return "const void*" if hint.__metadata__ == (ADDRESS,) else "int64_t"
    if hint in _TYPES:
        return _TYPES[hint]
    if get_origin(hint) is tuple:
        return f"std::vector<{_declared(get_args(hint)[0])}>"
    name: str = hint.__name__
    return name


def _comment(kind: type[Any]) -> str:
    return f"// {(inspect.getdoc(kind) or '').splitlines()[0]}"
