"""No condition reads the wording of a message: an edit of a sentence must not change a verdict.

What a policy, a report or the server decides on is a rule, a cause or a field. The text of a finding, an event, a
mismatch or an error is made once, shown, and never compared, searched, split or matched.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("gpuemu_lsp", "gpuemu", "cuda_kernel_verifier")

TEXTS = {"message", "whole_message", "consequence_messages"}
"""Attributes that hold a sentence for people; a parameter of that name that is annotated ``str`` does, too."""

READING_METHODS = {
    *("startswith", "endswith", "partition", "rpartition", "split", "rsplit", "splitlines", "replace", "find", "rfind"),
    *("index", "rindex", "count", "removeprefix", "removesuffix", "casefold"),
}
MATCHING = {"search", "match", "fullmatch", "sub", "subn", "findall", "finditer"}
"""Methods of a regular expression, or functions of ``re``."""

LINE_END = {"\n", "\r\n"}

ALLOWED = {
    # Triton raises exceptions whose text is the representation of another one: a parser of foreign text.
    "gpuemu_lsp/engine/subjects/triton/compile_errors.py": 1,
    # These decide nothing: they correct the line of a launch that a message quotes, for the text that is shown.
    "gpuemu_lsp/engine/check/verdicts/record.py": 1,
    "gpuemu_lsp/engine/jobs/requests/cuda_strings.py": 1,
}
"""Number of readings by module."""


def readings(tree: ast.AST) -> Iterator[int]:
    """Yield the lines on which the text of a message is compared, searched, split or matched."""
    for scope in ast.walk(tree):
        if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _readings(scope, _messages_in(scope))
    yield from _readings(tree, set())


def _readings(scope: ast.AST, names: set[str]) -> Iterator[int]:
    for node in ast.walk(scope):
        if isinstance(node, ast.Compare):
            if any(_is_message(part, names) for part in (node.left, *node.comparators)) and not _is_none_test(node):
                yield node.lineno
        elif isinstance(node, ast.Subscript) and _is_message(node.slice, names):
            yield node.lineno
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
            if (node.func.attr in MATCHING | {"get"} and any(_is_message(one, names) for one in arguments)) or (
                node.func.attr in READING_METHODS and _is_message(node.func.value, names) and not _of_lines(node)
            ):
                yield node.lineno
        elif isinstance(node, ast.Match) and _is_message(node.subject, names):
            yield node.lineno


def _is_none_test(node: ast.Compare) -> bool:
    return all(isinstance(operator, ast.Is | ast.IsNot) for operator in node.ops)


def _of_lines(call: ast.Call) -> bool:
    """Whether a text is divided into its lines, which is how it is shown."""
    if isinstance(call.func, ast.Attribute) and call.func.attr == "splitlines":
        return True
    first = call.args[0] if call.args else None
    if isinstance(first, ast.Call) and isinstance(first.func, ast.Name) and first.func.id == "chr":
        return True
    return isinstance(first, ast.Constant) and first.value in LINE_END


def _messages_in(scope: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> set[str]:
    """Return the names that hold a message in a function: parameters, and variables made of one."""
    arguments = [*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs]
    names = {
        one.arg
        for one in arguments
        if one.arg in TEXTS and isinstance(one.annotation, ast.Name) and one.annotation.id == "str"
    }
    while True:
        before = len(names)
        for node in ast.walk(scope):
            if isinstance(node, ast.Assign) and _is_message(node.value, names):
                for target in node.targets:
                    parts = target.elts if isinstance(target, ast.Tuple) else [target]
                    names |= {one.id for one in parts if isinstance(one, ast.Name)}
            elif (
                isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr)
                and isinstance(node.target, ast.Name)
                and node.value is not None
                and _is_message(node.value, names)
            ):
                names.add(node.target.id)
        if len(names) == before:
            return names


def _is_message(node: ast.expr, names: set[str]) -> bool:
    """Whether the value is a message, or a text that contains one."""
    if isinstance(node, ast.Attribute):
        return node.attr in TEXTS
    if isinstance(node, ast.Name):
        return node.id in names
    if isinstance(node, ast.JoinedStr):
        return any(_is_message(part.value, names) for part in node.values if isinstance(part, ast.FormattedValue))
    if isinstance(node, ast.BinOp):
        return _is_message(node.left, names) or _is_message(node.right, names)
    if isinstance(node, ast.BoolOp):
        return any(_is_message(part, names) for part in node.values)
    if isinstance(node, ast.IfExp):
        return _is_message(node.body, names) or _is_message(node.orelse, names)
    if isinstance(node, ast.NamedExpr | ast.Subscript):
        return _is_message(node.value, names)
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name) and node.func.id in ("str", "next", "repr"):
            return any(_is_message(one, names) for one in node.args)
        return isinstance(node.func, ast.Attribute) and _is_message(node.func.value, names)
    if isinstance(node, ast.GeneratorExp | ast.ListComp):
        return _is_message(node.elt, names)
    return False


def lines_of(path: Path) -> list[int]:
    """Return the lines of a module that read a message."""
    return sorted(set(readings(ast.parse(path.read_text("utf-8")))))


def test_no_condition_reads_a_message():
    paths = [path for folder in PRODUCT for path in sorted((ROOT / folder).rglob("*.py"))]
    lines = {path.relative_to(ROOT).as_posix(): lines_of(path) for path in paths}
    assert not {path: numbers for path, numbers in lines.items() if len(numbers) > ALLOWED.get(path, 0)}
    assert {path: len(lines.get(path, ())) for path in ALLOWED} == ALLOWED, "fewer than allowed: lower the number"


@pytest.mark.parametrize(
    "code",
    [
        "def f(event): return 'time limit' in event.message",
        "def f(finding): return finding.message == 'x'",
        "def f(finding): return PATTERN.search(finding.message)",
        "def f(finding): return re.sub('a', 'b', finding.message)",
        "def f(event):\n    text = event.message.rstrip('.')\n    return text.startswith('read')",
        "def f(mismatch):\n    first, _, rest = mismatch.message.partition(';')\n    return first",
        "def f(event):\n    verb = event.message.split()[0]\n    return verb == 'read'",
        "def f(message: str): return TABLE[message]",
        "def f(findings): return any('x' in one.message for one in findings)",
        "def f(finding): return finding.message.replace('a', 'b')",
        "def f(outcome):\n    first = next((event.message for event in outcome.events), '')\n    return 'x' in first",
    ],
)
def test_a_condition_that_reads_a_message_is_found(code: str):
    assert list(readings(ast.parse(code)))


@pytest.mark.parametrize(
    "code",
    [
        "def f(finding): return replace(finding, message=f'{finding.message}; more')",
        "def f(finding): return finding.message.partition('\\n')[0]",
        "def f(finding): return finding.rule == 'sync/hang' and finding.message",
        "def f(message: Message): return message.word() == 3",
    ],
)
def test_a_message_that_is_only_shown_is_not(code: str):
    assert not list(readings(ast.parse(code)))
