"""C++ as the representation of host code."""

from __future__ import annotations

import pytest

from gpuemu_lsp.engine.hostcode import ir
from gpuemu_lsp.engine.hostcode.cpp.declarations import HostFile, program_of
from gpuemu_lsp.engine.hostcode.program import HostProgram
from gpuemu_lsp.engine.hostcode.walk import names_in, walk, written
from gpuemu_lsp.engine.source.preprocessor.lexer import SourceText
from gpuemu_lsp.engine.source.preprocessor.macros import MacroTable


def read(code: str, macros: str = "") -> HostProgram:
    return program_of([HostFile("k.cu", code)], MacroTable([SourceText(macros)]), {})


def statements(code: str, macros: str = "") -> tuple[ir.Statement, ...]:
    block = read(f"void f() {{ {code} }}", macros).functions["f"][0].body.statements
    assert block is not None
    return block.statements


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("0x10u", ir.Constant(16)),
        ("1.5f", ir.Constant(1.5)),
        ("nullptr", ir.Constant(None)),
        ("a and not b", ir.BinaryOperation("&&", ir.NameUse("a"), ir.UnaryOperation("!", ir.NameUse("b")))),
        ("(n + 1)", ir.BinaryOperation("+", ir.NameUse("n"), ir.Constant(1))),
        ("p->size", ir.FieldAccess(ir.NameUse("p"), "size", arrow=True)),
        ("static_cast<int>(x)", ir.Cast("int", ir.NameUse("x"))),
        ("i++", ir.Assign(ir.NameUse("i"), ir.Constant(1), "+", before=True)),
        ("T<4>::k", ir.NameUse("T<4>::k")),
        ("f<float, 4>(n)", ir.CallExpression(ir.NameUse("f", ("float", "4")), (ir.NameUse("n"),))),
        ("new float[n]", ir.CallExpression(ir.NameUse("new", ("float",)), (ir.NameUse("n"),))),
    ],
)
def test_an_expression_has_one_node_for_what_it_means(code: str, expected: ir.Expression):
    assert statements(f"x = {code};") == (ir.Assign(ir.NameUse("x"), expected),)


def test_a_launch_has_its_configuration_and_arguments():
    (launch,) = statements("ns::k<4><<<grid, 256, s, 0>>>(x, n);")
    assert launch == ir.Launch(
        ir.NameUse("ns::k", ("4",)),
        ir.NameUse("grid"),
        ir.Constant(256),
        ir.NameUse("s"),
        (ir.NameUse("x"), ir.NameUse("n")),
    )


def test_the_syntax_of_a_function_may_declare_a_variable():
    (declared,) = statements("dim3 grid(x, 2);")
    arguments = ir.ListValue((ir.NameUse("x"), ir.Constant(2)), constructor=True)
    assert declared == ir.Declare("grid", "dim3", arguments)


def test_ranges_are_relative_to_the_item_so_that_a_function_that_moves_keeps_its_nodes():
    code = "void f() {\n  g(n);\n}\n"
    first, moved = (read(before + code).functions["f"][0] for before in ("", "int a;\n\n"))
    assert (first.line, moved.line) == (0, 2)
    assert first.body is moved.body
    assert first.body.statements is not None
    assert first.body.statements.statements[0].span == ir.Span(1, 2, 1, 6)


def test_macros_are_expanded_at_their_use():
    macros = "#define TWICE(a) (2 * (a))\n#define STOP(c) if (c) return; else g()\n"
    (assigned,) = statements("x = TWICE(n);", macros)
    assert isinstance(assigned, ir.Assign)
    assert assigned.value == ir.BinaryOperation("*", ir.Constant(2), ir.NameUse("n"))
    assert assigned.value.span == ir.Span(0, 15, 0, 23)
    (block,) = statements("STOP(n);", macros)
    assert any(isinstance(node, ir.ReturnStatement) for node in walk(block))


def test_a_function_of_the_name_of_a_macro_is_called():
    program = read("int TWICE(int a) { return a; } void f() { TWICE(n); }", "#define TWICE(a) (2 * (a))\n")
    body = program.functions["f"][0].body.statements
    assert body == ir.Block((ir.CallExpression(ir.NameUse("TWICE"), (ir.NameUse("n"),)),))


@pytest.mark.parametrize("code", ["co_await x;", "x = @;", "goto end;", 'asm volatile ("nop");', "if (", "x = 'a';"])
def test_code_without_a_node_is_not_an_error(code: str):
    statements(code)


def test_a_switch_has_its_cases_and_a_loop_its_counter():
    switch, loop = statements("switch (n) { case 1: f(); break; default: g(); } for (int i = 0; i < n; i += 2) h(i);")
    assert isinstance(switch, ir.SwitchStatement)
    assert [case.label for case in switch.cases] == [ir.Constant(1), None]
    assert isinstance(loop, ir.Loop)
    assert loop.update == ir.Assign(ir.NameUse("i"), ir.Constant(2), "+")
    assert names_in(loop) == {"i", "n", "h"}


def test_a_place_is_written_as_in_the_source():
    (assigned,) = statements("a[i].x = p->y;")
    assert isinstance(assigned, ir.Assign)
    assert (written(assigned.target), written(assigned.value)) == ("a[i].x", "p->y")
