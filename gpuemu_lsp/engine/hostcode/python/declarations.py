"""The functions and variables that a Python module declares, as a program that launches the kernels in a string of it.

Of the calls that compile CUDA code, that of the string makes kernels; what the others make is not known. Names of other
modules, and attributes that a class assigns a constant, stand for what
:class:`~gpuemu_lsp.engine.source.python.module_scope.ModuleScope` says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from tree_sitter import Node

from gpuemu_lsp.engine.hostcode import ir
from gpuemu_lsp.engine.hostcode.program import HostProgram
from gpuemu_lsp.engine.hostcode.python.lower import PythonLowering, assigned_names
from gpuemu_lsp.engine.hostcode.python.modules import MODULE, python_program
from gpuemu_lsp.engine.hostcode.python.parameters import ParameterTypes
from gpuemu_lsp.engine.source.memo import Memo
from gpuemu_lsp.engine.source.model import KernelDecl, SourceFile
from gpuemu_lsp.engine.source.python import module_scope, read_python
from gpuemu_lsp.engine.source.python.cuda_calls import APIS
from gpuemu_lsp.engine.source.python.model import EmbeddedCuda
from gpuemu_lsp.engine.source.python.module_scope import ModuleScope
from gpuemu_lsp.engine.source.python.syntax import (
    call_arguments,
    called_name,
    descendants,
    enclosing_function,
    parameter_name,
    parameters_of,
    range_of,
    text_of,
)

_WORD = re.compile(r"[A-Za-z_]\w*")
_LISTS = ("tuple", "list")
_DEFINITIONS = ("function_definition", "class_definition")
_MAX_DEPTH = 8
_known_programs: Memo[HostProgram] = Memo(4)


def program_of(source: SourceFile) -> HostProgram | None:
    """Read the declarations of the Python module that launches the kernels of a source; None if there is none."""
    module = source.module
    if module is None:
        return None
    kernels = {kernel.name: kernel for kernel in source.kernels}
    key = source.path, module, tuple(source.kernels)
    return _known_programs.get(
        key,
        lambda: _Reader(
            source.path,
            module_scope(source.path, module.text),
            read_python(source.path, module.text).cuda[module.string],
            kernels,
        ).read(),
    )


@dataclass(slots=True)
class _Reader:
    path: str
    scope: ModuleScope
    cuda: EmbeddedCuda
    kernels: dict[str, KernelDecl]
    functions: dict[str, list[Node]] = field(default_factory=dict)
    """The functions of the module and the methods of its classes, by name."""

    def read(self) -> HostProgram:
        for node in descendants(self.scope.root, "function_definition"):
            if enclosing_function(node) is None:
                self.functions.setdefault(text_of(node.child_by_field_name("name")), []).append(node)
        types = ParameterTypes(self.functions, self._launched)
        program = python_program(self.scope, {}, meaning=partial(self._meaning, 0), types=types.types)
        reached = {node.start_point[0]: node for node in self._reached(types)}
        program.functions = {
            name: [
                replace(each, launches=bool(kernels), kernels=kernels)
                for each in listed
                if each.owner == name or each.line in reached
                for kernels in (self._kernels_in(reached.get(each.line)),)
            ]
            for name, listed in program.functions.items()
            if name != MODULE
        }
        kernels = self._kernels_in(self.scope.root)
        if kernels:
            (body,) = python_program(self.scope, {}, meaning=partial(self._meaning, 0)).functions[MODULE]
            main = replace(body, name="main", unit=program, launches=True, kernels=kernels)
            program.functions.setdefault("main", []).append(main)
        return program

    def _kernels_in(self, function: Node | None) -> frozenset[str]:
        launches = self._launches(function) if function is not None else ()
        return frozenset(name for _, names in launches for name in names)

    # ---- launches

    def _launches(self, function: Node) -> Iterator[tuple[Node, tuple[str, ...]]]:
        """Yield the calls in a function, or in the statements of the module, that launch one of some kernels."""
        for call in descendants(function, "call"):
            if function.type == "module" and enclosing_function(call) is not None:
                continue
            names = self._kernels_of(call) if _arguments(call) is not None else ()
            if names:
                yield call, names

    def _kernels_of(self, call: Node) -> tuple[str, ...]:
        """Return the kernels that a call may launch: all of them if what is called does not name one."""
        callee = call.child_by_field_name("function")
        while callee is not None and callee.type == "subscript":
            callee = callee.child_by_field_name("value")
        first = callee
        while first is not None and first.type == "attribute":
            first = first.child_by_field_name("object")
        if callee is None or first is None or self.scope.imported_from(text_of(first)) or text_of(first) in APIS:
            return ()
        if callee.type == "identifier" and text_of(callee) in self.functions:
            return ()
        parts = self.scope.lookup(callee) if callee.type in ("identifier", "attribute") else None
        code = " ".join(text_of(each) for each in (callee, *(value for value, _ in parts or ())))
        named = frozenset(_WORD.findall(code))
        if any(range_of(each) == self.cuda.range for value, _ in parts or () for each in descendants(value, "call")):
            named |= frozenset(_WORD.findall(" ".join(self.cuda.entries)))
        return tuple(name for name in self.kernels if name in named) or tuple(self.kernels)

    def _launched(self, function: Node) -> Iterator[tuple[Node, bool]]:
        """Yield the arguments of the launches in a function, and whether the kernel's parameters are pointers."""
        for call, names in self._launches(function):
            if len(names) == 1:
                params = self.kernels[names[0]].params
                yield from ((node, each.pointer) for node, each in zip(_arguments(call) or (), params, strict=False))

    def _reached(self, types: ParameterTypes) -> set[Node]:
        """Return the functions from which a launch is reached, and those that they call.

        A function that is passed no arrays, such as a test or a benchmark, says which sizes it tries, and nothing about
        those with which others call what it calls; but for a private function.
        """
        nodes = [node for listed in self.functions.values() for node in listed]
        calls = {node: {called_name(call) for call in descendants(node, "call")} for node in nodes}
        reached = {node for node in nodes if any(True for _ in self._launches(node))}
        for _ in nodes:
            names = {text_of(node.child_by_field_name("name")) for node in reached}
            private = {name for name in names if name.startswith("_") and not name.endswith("__")}
            callers = {node for node in nodes if calls[node] & names} - reached
            callers = {node for node in callers if types.arrays(node) or calls[node] & private}
            if not callers:
                break
            reached |= callers
        waiting = set(reached)
        while waiting:
            called = {each for node in waiting for name in calls[node] for each in self.functions.get(name, ())}
            waiting = called - reached
            reached |= waiting
        return reached

    # ---- names

    def _meaning(self, depth: int, scope: ModuleScope, node: Node) -> ir.Expression | None:
        """Return what a call that compiles code, an attribute, or a name of another module stands for."""
        if node.type == "call":
            return self._compiled(scope, node)
        if node.type == "identifier" and scope is self.scope and not scope.imported_from(text_of(node)):
            return None
        parts = scope.lookup(node) if depth < _MAX_DEPTH else None
        if parts is not None and len(parts) == 1 and _is_closed(parts[0][0]):
            value, home = parts[0]
            meaning = partial(self._meaning, depth + 1, home)
            return PythonLowering(lambda call: None, home.imports(), value.start_point[0], meaning).expression(value)
        return None if scope is self.scope or node.type == "attribute" else ir.UnknownCode(harmless=True)

    def _compiled(self, scope: ModuleScope, call: Node) -> ir.Expression | None:
        """Return what a call makes that compiles the string, itself or by a function; None for other functions."""
        if scope is not self.scope or range_of(call) != self.cuda.range:
            return ir.UnknownCode(harmless=True) if called_name(call) in APIS else None
        entry = self.cuda.entries[:1] if self.cuda.api == "RawKernel" else ()
        return ir.CallExpression(ir.NameUse(self.cuda.api), tuple(map(ir.Constant, entry)))


def _arguments(call: Node) -> list[Node] | None:
    """Return what a call passes to a kernel, as far as it is written there; None for a call that is not a launch."""
    positional, keywords = call_arguments(call)
    callee = call.child_by_field_name("function")
    if callee is not None and callee.type == "subscript" and len(callee.children_by_field_name("subscript")) > 1:
        return positional
    listed = keywords.get("args") or (positional[2] if len(positional) >= 3 else None)
    if listed is not None and ("block" not in keywords or listed.type in _LISTS):
        return listed.named_children if listed.type in _LISTS else []
    return positional if "block" in keywords else None


def _is_closed(value: Node) -> bool:
    """Return whether an expression has the same value everywhere: it uses no variable of the function it is in."""
    function = enclosing_function(value)
    if function is None:
        return value.type not in _DEFINITIONS
    local = {*assigned_names(function), *map(parameter_name, parameters_of(function))}
    return local.isdisjoint(text_of(each) for each in descendants(value, "identifier"))
