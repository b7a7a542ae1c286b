"""Constant values of a Python script: strings, lists, tuples and dicts, without running it."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Sequence
from typing import Any

from gpuemu_lsp.engine.build.files import globbed

_PATH_MODULES = ("os.path", "osp", "path")
_NOT_HERE = re.compile(
    r"os\.name=='nt'|sys\.platform=='(?:win32|darwin)'|platform\.\w+\(?\)?=='|\bhip\b|HIP|ROCM|rocm|IS_WINDOWS"
)
"""Conditions on another platform than Linux with CUDA."""
_MAX_ELEMENTS = 4000


class _Unknown:
    """The type of :data:`UNKNOWN`."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN = _Unknown()
"""A value that is not known without running the script."""


class ConstantScope:
    """Variables of a script with constant values, and its calls that define extension modules."""

    def __init__(self, path: str) -> None:
        self._folder = os.path.dirname(path)  # noqa: PTH120
        self._values: dict[str, Any] = {"__file__": path}
        self._calls: list[tuple[ast.Call, dict[str, Any]]] = []

    def run(self, body: Sequence[ast.stmt]) -> list[tuple[ast.Call, dict[str, Any]]]:
        """Walk statements in order; return each call of an extension class with its arguments by keyword."""
        self._walk(body)
        return self._calls

    def _walk(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            match statement:
                case ast.If():
                    condition = self._condition(statement.test)
                    # An extension is of interest even if it is not built by default.
                    if condition is not False or _defines_extension(statement.body):
                        self._walk(statement.body)
                    if condition is not True or _defines_extension(statement.orelse):
                        self._walk(statement.orelse)
                case ast.For() | ast.While():
                    self._walk(statement.body)
                case ast.With() | ast.FunctionDef() | ast.ClassDef():
                    self._walk(statement.body)
                case ast.Try():
                    self._walk((*statement.body, *statement.orelse, *statement.finalbody))
                case ast.Assign():
                    value = self._value(statement.value)
                    for target in statement.targets:
                        self._assign(target, value)
                case ast.AnnAssign(value=ast.expr() as value):
                    self._assign(statement.target, self._value(value))
                case ast.AugAssign(op=ast.Add()):
                    self._extend(statement.target, self._value(statement.value))
                case ast.Expr(value=ast.Call() as call):
                    self._method(call)
                case _:
                    pass
            self._find_calls(statement)

    def _find_calls(self, statement: ast.stmt) -> None:
        """Record the extension calls of a simple statement, or of the head of a compound one."""
        if isinstance(statement, ast.If | ast.For | ast.While | ast.With | ast.FunctionDef | ast.ClassDef | ast.Try):
            return
        for node in ast.walk(statement):
            if not isinstance(node, ast.Call):
                continue
            name = ast.unparse(node.func).rpartition(".")[2]
            if not name.endswith("Extension") or name in ("CppExtension", "BuildExtension"):
                continue
            arguments = {item.arg: self._value(item.value) for item in node.keywords if item.arg is not None}
            for position, keyword in enumerate(("name", "sources")):
                if len(node.args) > position:
                    arguments.setdefault(keyword, self._value(node.args[position]))
            self._calls.append((node, arguments))

    def _assign(self, target: ast.expr, value: Any) -> None:
        match target:
            case ast.Name(id=name):
                self._values[name] = value
            case ast.Subscript(value=ast.Name(id=name), slice=index):
                table, key = self._values.get(name), self._value(index)
                if isinstance(table, dict) and isinstance(key, str):
                    table[key] = value
            case ast.Tuple(elts=parts) if isinstance(value, list) and len(parts) == len(value):
                for part, item in zip(parts, value, strict=True):
                    self._assign(part, item)
            case _:
                pass

    def _extend(self, target: ast.expr, value: Any) -> None:
        held = self._value(target)
        if isinstance(held, list) and isinstance(value, list) and len(held) + len(value) < _MAX_ELEMENTS:
            self._assign(target, [*held, *value])
        elif isinstance(held, str) and isinstance(value, str):
            self._assign(target, held + value)

    def _method(self, call: ast.Call) -> None:
        """Apply ``x.append(v)`` and ``x.extend(v)``."""
        match call:
            case ast.Call(func=ast.Attribute(value=target, attr="append"), args=[item]):
                self._extend(target, [self._value(item)])
            case ast.Call(func=ast.Attribute(value=target, attr="extend"), args=[item]):
                self._extend(target, self._value(item))
            case _:
                pass

    def _condition(self, test: ast.expr) -> bool | None:
        """Return the value of a condition, with an empty environment, on Linux with CUDA; None if it is not known."""
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                inner = self._condition(operand)
                return None if inner is None else not inner
            case ast.BoolOp(op=operator, values=parts):
                values = [self._condition(part) for part in parts]
                decisive = isinstance(operator, ast.Or)
                if decisive in values:
                    return decisive
                return None if None in values else not decisive
            case ast.Compare(ops=[ast.In() | ast.NotIn() as operator], comparators=[where]):
                if ast.unparse(where) == "os.environ":
                    return isinstance(operator, ast.NotIn)
            case _:
                pass
        if _NOT_HERE.search(ast.unparse(test).replace(" == ", "==").replace('"', "'")):
            return isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Is)
        match test:
            case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq() as relation], comparators=[right]):
                pair = self._value(left), self._value(right)
                return None if UNKNOWN in pair else (pair[0] == pair[1]) == isinstance(relation, ast.Eq)
            case ast.Compare():
                return None
            case _:
                value = self._value(test)
                return bool(value) if isinstance(value, bool | int | str | list) or value is None else None

    def _value(self, node: ast.expr) -> Any:
        """Return the value of an expression, or :data:`UNKNOWN`."""
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return self._values.get(name, False if _NOT_HERE.search(name) else UNKNOWN)
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                return self._list(parts)
            case ast.Dict(keys=keys, values=values):
                pairs = ((key, self._value(value)) for key, value in zip(keys, values, strict=True) if key is not None)
                return {key.value: value for key, value in pairs if isinstance(key, ast.Constant)}
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self._sum(self._value(left), self._value(right))
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                return _joined([self._value(left), self._value(right)])
            case ast.JoinedStr(values=parts):
                texts = [self._value(part.value) if isinstance(part, ast.FormattedValue) else self._value(part)
                         for part in parts]  # fmt: skip
                return UNKNOWN if UNKNOWN in texts else "".join(map(str, texts))
            case ast.Subscript(value=inner, slice=index):
                held, key = self._value(inner), self._value(index)
                return held.get(key, UNKNOWN) if isinstance(held, dict) and isinstance(key, str) else UNKNOWN
            case ast.IfExp(test=test, body=body, orelse=other):
                condition = self._condition(test)
                return self._value(other if condition is False else body)
            case ast.Attribute(value=inner, attr="parent"):
                held = self._value(inner)
                return os.path.dirname(held) if isinstance(held, str) else UNKNOWN  # noqa: PTH120
            case ast.Attribute():
                return False if _NOT_HERE.search(ast.unparse(node)) else UNKNOWN
            case ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
                condition = self._condition(node)
                return UNKNOWN if condition is None else condition
            case ast.Call():
                return self._call(node)
            case _:
                return UNKNOWN

    def _list(self, parts: Sequence[ast.expr]) -> list[Any]:
        found: list[Any] = []
        for part in parts:
            if isinstance(part, ast.Starred):
                inner = self._value(part.value)
                found += inner if isinstance(inner, list) else []
            else:
                found.append(self._value(part))
        return found

    @staticmethod
    def _sum(left: Any, right: Any) -> Any:
        if isinstance(left, str) and isinstance(right, str):
            return left + right
        # An unknown part of a sum of lists leaves out its elements only.
        if isinstance(left, list) or isinstance(right, list):
            return [*(left if isinstance(left, list) else ()), *(right if isinstance(right, list) else ())]
        return UNKNOWN

    def _call(self, call: ast.Call) -> Any:
        name = ast.unparse(call.func)
        module, _, function = name.rpartition(".")
        values = [self._value(item) for item in call.args]
        if function == "join" and module.endswith(_PATH_MODULES):
            return _joined(values)
        if function in ("abspath", "realpath", "normpath", "Path", "resolve", "absolute", "str", "as_posix", "fspath"):
            if not values and isinstance(call.func, ast.Attribute):
                values = [self._value(call.func.value)]
            return self._converted(function, values[0]) if len(values) == 1 else UNKNOWN
        if function == "dirname" and values and isinstance(values[0], str):
            return os.path.dirname(values[0])  # noqa: PTH120
        if function == "getcwd":
            return self._folder
        if function in ("getenv", "get") and module.startswith("os"):
            return values[1] if len(values) > 1 else None
        if function in ("exists", "isdir", "isfile") and module.endswith(_PATH_MODULES):
            known = values and isinstance(values[0], str)
            return os.path.exists(os.path.join(self._folder, values[0])) if known else False  # noqa: PTH110, PTH118
        if function == "glob" and values and isinstance(values[0], str):
            return globbed(os.path.normpath(os.path.join(self._folder, values[0])), self._folder)  # noqa: PTH118
        if function == "list" and values and isinstance(values[0], list):
            return values[0]
        if function == "split" and isinstance(call.func, ast.Attribute) and not values:
            held = self._value(call.func.value)
            return held.split() if isinstance(held, str) else UNKNOWN
        # A function that only adds to the list it gets (`append_nvcc_threads(flags)`) is common in setup scripts.
        return values[0] if len(values) == 1 and isinstance(values[0], list) else UNKNOWN

    def _converted(self, function: str, value: Any) -> Any:
        if not isinstance(value, str) or function in ("str", "Path", "as_posix", "fspath"):
            return value
        return os.path.normpath(os.path.join(self._folder, value))  # noqa: PTH118


def _joined(values: Sequence[Any]) -> Any:
    return os.path.join(*values) if values and all(isinstance(item, str) for item in values) else UNKNOWN  # noqa: PTH118


def _defines_extension(body: Sequence[ast.stmt]) -> bool:
    return any("CUDAExtension(" in ast.unparse(statement) for statement in body)
