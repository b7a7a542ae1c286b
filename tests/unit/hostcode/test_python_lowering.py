"""Python as the representation of host code."""

from __future__ import annotations

import pytest
from tree_sitter import Node

from gpuemu_lsp.engine.hostcode import ir
from gpuemu_lsp.engine.hostcode.assumptions import HostAssumptions
from gpuemu_lsp.engine.hostcode.launches import interpret
from gpuemu_lsp.engine.hostcode.program import FunctionBody, HostFunction, HostProgram
from gpuemu_lsp.engine.hostcode.python.lower import ARRAY, LaunchExpressions, PythonLowering
from gpuemu_lsp.engine.hostcode.state import HostRun
from gpuemu_lsp.engine.source.python.syntax import call_arguments, parse_module, text_of


def launch_of(call: Node) -> LaunchExpressions | None:
    """Return the launch ``scale((grid,), (block,), (arguments))``."""
    if text_of(call.child_by_field_name("function")) != "scale":
        return None
    grid, block, arguments = call_arguments(call)[0]
    return LaunchExpressions(ir.NameUse("scale"), grid, block, None, tuple(arguments.named_children))


def function(code: str) -> FunctionBody:
    node = parse_module(code.encode()).root_node.named_children[0]
    lowering = PythonLowering(launch_of, {"cp": "cupy", "np": "numpy"}, node.start_point[0])
    return lowering.function(node, {"x": ARRAY})


def statements(code: str) -> tuple[ir.Statement, ...]:
    block = function(f"def f(x, n, m, p):\n    {code}\n").statements
    assert block is not None
    return block.statements


def run(code: str) -> HostRun:
    program = HostProgram({}, lambda code: None, lambda function: ())
    root = HostFunction("f", "k.py", 0, code.encode(), lambda: function(code), program)
    return interpret(program, root, HostAssumptions())


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("None", ir.Constant(None)),
        ("1_000", ir.Constant(1000)),
        ("cp.empty_like(x)", ir.CallExpression(ir.NameUse("cupy::empty_like"), (ir.NameUse("x"),))),
        ("x.shape[0]", ir.Subscript(ir.FieldAccess(ir.NameUse("x"), "shape"), ir.Constant(0))),
        ("np.int32(n)", ir.Cast("int", ir.NameUse("n"))),
        ("n / 2", ir.BinaryOperation("real/", ir.NameUse("n"), ir.Constant(2))),
        ("n ** 2", ir.BinaryOperation("**", ir.NameUse("n"), ir.Constant(2))),
        ("x[:2]", ir.Subscript(ir.NameUse("x"), ir.CallExpression(ir.NameUse("slice"), (ir.Constant(None), ir.Constant(2))))),
        ("f(*x, **n)", ir.CallExpression(ir.NameUse("f"), (ir.Spread(ir.NameUse("x")),), (("**", ir.NameUse("n")),))),
        ("f[(n,)](x, B=2)", ir.Launch(
            ir.NameUse("f"), ir.ListValue((ir.NameUse("n"),)), ir.Constant(1), None, (ir.NameUse("x"),),
            (("B", ir.Constant(2)),),
        )),
        ("n or 2", ir.Conditional(ir.NameUse("n"), ir.NameUse("n"), ir.Constant(2))),
        ("(n, m)", ir.ListValue((ir.NameUse("n"), ir.NameUse("m")))),
        ("not n", ir.UnaryOperation("!", ir.NameUse("n"))),
        ("f(n, key=m)", ir.CallExpression(ir.NameUse("f"), (ir.NameUse("n"),), (("key", ir.NameUse("m")),))),
        ("[g(i) for i in n]", ir.UnknownCode((
            ir.CallExpression(ir.NameUse("g"), (ir.NameUse("i"),)), ir.NameUse("i"), ir.NameUse("n"),
        ))),
    ],
)  # fmt: skip
def test_an_expression_has_the_node_that_it_has_in_every_language(code: str, expected: ir.Expression):
    assert statements(f"p = {code}") == (ir.Assign(ir.NameUse("p"), expected),)


def test_a_chain_of_comparisons_is_a_conjunction():
    n, m, p = map(ir.NameUse, "nmp")
    (compared,) = statements("n < m <= p")
    assert compared == ir.BinaryOperation("&&", ir.BinaryOperation("<", n, m), ir.BinaryOperation("<=", m, p))


def test_a_function_declares_what_it_assigns_at_its_begin():
    first, *_ = statements("if n:\n        q = 1\n    return q")
    assert first == ir.Declare("q", "auto")


def test_a_loop_over_a_range_is_a_counted_loop():
    (_, loop) = statements("for i in range(2, n, 4): g(i)")
    assert isinstance(loop, ir.Loop)
    assert loop.condition == ir.BinaryOperation("<", ir.NameUse("i"), ir.NameUse("n"))
    assert loop.update == ir.Assign(ir.NameUse("i"), ir.Constant(4), "+")


def test_variables_may_be_exchanged():
    launches = run("def f(x, n: int, m: int):\n    n, m = m, n\n    scale((n,), (m,), (x,))\n").launches
    assert launches[0].grid != launches[0].block


def test_the_interpreter_reads_a_launch_in_python_as_one_in_cpp():
    (launch,) = run("""def f(x, block=256):
    m, k = x.shape
    match block:
        case 128:
            rows = 1
        case _:
            rows = 2
    y = cp.empty_like(x)
    if m > 4096:
        raise ValueError
    scale((-(-m // block), rows), (block,), (x, y, np.int32(m)))
""").launches
    assert [str(extent) for extent in (*launch.grid, *launch.block)] == ["ceil_div(x_size_0, 256)", "2", "256"]
    assert str(launch.arguments[2]) == "x_size_0"
    assert [condition.operator for condition in launch.conditions] == ["==", "<="]
    assert (launch.path, launch.line) == ("k.py", 10)


@pytest.mark.parametrize(
    "code", ["yield n", "async with n: pass", "del n", "n[", "print(f'{n}')", "import q", "*p, q = n"]
)
def test_code_without_a_node_is_not_an_error(code: str):
    statements(code)
