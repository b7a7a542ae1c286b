"""Python functions that launch kernels, written as host code of a ``.cu``.

The reader of host code then finds the sizes of the arrays, what they hold, and the conditions on the way to a launch,
as it does for functions in C++. The launches are calls of ``cudaLaunchKernelEx``, which takes any expression for its
configuration. Functions that call those with launches are translated too, and so are the statements of the module.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tree_sitter import Node

from gpuemu_lsp.engine.source.python.host_expressions import Expressions, UnreadError
from gpuemu_lsp.engine.source.python.host_launches import launch_parts
from gpuemu_lsp.engine.source.python.host_module import HostModule, name_of, parameters_of
from gpuemu_lsp.engine.source.python.mapped_text import MappedText, joined
from gpuemu_lsp.engine.source.python.module_scope import ModuleScope
from gpuemu_lsp.engine.source.python.syntax import call_arguments, called_name, descendants, enclosing_function, text_of

_IGNORED = frozenset({
    "comment", "pass_statement", "import_statement", "import_from_statement", "global_statement", "function_definition",
    "class_definition", "decorated_definition", "nonlocal_statement", "delete_statement",
})  # fmt: skip
_FUNCTION = "py_"
"""What names of functions begin with in C++: a kernel may have the name of the function that launches it."""


def host_functions(
    root: Node, scope: ModuleScope, kernels: Mapping[str, str], modules: frozenset[str], text: str
) -> Iterator[MappedText]:
    """Yield host code for the functions of a module from which a launch is reached.

    ``kernels`` has the name expressions of kernels by the variables that hold them, ``modules`` the variables with
    modules whose ``get_function`` returns a kernel. ``text`` is the CUDA code.
    """
    module = HostModule(root, scope, kernels, modules, text)
    reached = module.reached()
    for name, function in module.functions.items():
        if name in reached:
            yield _FunctionWriter(module, function, reached, name).written()
    if any(True for _ in module.own_launches(root)):
        yield _FunctionWriter(module, root, reached).written()


@dataclass(slots=True)
class _FunctionWriter:
    """Translation of one function, or of the statements of the module."""

    module: HostModule
    function: Node
    translated: frozenset[str] = frozenset()
    """The functions of the module that are translated too."""
    name: str = ""
    """Empty for the statements of the module."""
    names: dict[str, str] = field(default_factory=dict)
    arrays: set[str] = field(default_factory=set)
    pieces: list[MappedText] = field(default_factory=list)

    def written(self) -> MappedText:
        """Return the function in C++."""
        parameters = self._parameters()
        self._variables()
        self._add(
            f"static auto {_FUNCTION}{self.name}({', '.join(parameters)}) {{" if self.name else "int main() {",
            self.function,
        )
        body = self.function.child_by_field_name("body") or self.function
        nested = self._assigned_in_blocks(body)
        if nested:
            self._add("".join(f"auto {self.names[one]}; " for one in nested), body)
        self._block(body, set(nested))
        self._add("}", body.named_children[-1] if body.named_children else body)
        return joined(self.pieces)

    def _add(self, text: str, node: Node) -> None:
        base = self.module.scope.base
        self.pieces.append(MappedText.constant(f"{text.rstrip()}\n", base + node.start_byte, base + node.end_byte))

    # ---- variables ---------------------------------------------------------------------------------------------------

    def _parameters(self) -> list[str]:
        """Return the parameters in C++, and note which are arrays."""
        if not self.name:
            return []
        found = []
        numbers = self.module.numbers(self.function)
        self.arrays |= self.module.arrays(self.name)
        for one in parameters_of(self.function):
            name, default = name_of(one), one.child_by_field_name("value")
            if one.type not in ("identifier", "typed_parameter", "default_parameter", "typed_default_parameter"):
                continue
            whole = name in numbers or text_of(one.child_by_field_name("type")) == "int"
            written = "torch::Tensor" if name in self.arrays else "int" if whole else "auto"
            value = f" = {text_of(default)}" if default is not None and default.type == "integer" else ""
            found.append(f"{written} {self._renamed(name)}{value}")
        return found

    def _renamed(self, name: str) -> str:
        self.names[name] = f"{name}_" if name in self.module.reserved or not name.isascii() else name
        return self.names[name]

    def _variable(self, node: Node) -> str:
        return self.names.get(text_of(node)) or self._renamed(text_of(node))

    def _variables(self) -> None:
        """Name the variables that the function assigns."""
        for node in descendants(
            self.function, "assignment", "for_statement", "as_pattern_target", "augmented_assignment"
        ):
            if self.function.type == "module" and enclosing_function(node) is not None:
                continue
            target = node.child_by_field_name("left") or node
            if target.type in ("identifier", "pattern_list", "tuple_pattern", "list_pattern", "as_pattern_target"):
                for one in descendants(target, "identifier"):
                    self._renamed(text_of(one))

    def _assigned_in_blocks(self, body: Node) -> list[str]:
        """Return the variables whose first assignment is in an inner block: they are declared before it."""
        found: dict[str, None] = {}
        direct: set[str] = set()
        for node in descendants(body, "assignment", "augmented_assignment"):
            if self.function.type == "module" and enclosing_function(node) is not None:
                continue
            target = node.child_by_field_name("left")
            statement = node.parent
            inner = statement is None or statement.parent != body
            for one in descendants(target, "identifier") if target is not None else ():
                if text_of(one) in self.names and inner and text_of(one) not in direct:
                    found[text_of(one)] = None
                direct.add(text_of(one))
        parameters = self.function.child_by_field_name("parameters")
        given = {text_of(one) for one in descendants(parameters, "identifier")} if parameters is not None else set()
        return [name for name in found if name not in given]

    # ---- statements --------------------------------------------------------------------------------------------------

    @property
    def _expressions(self) -> Expressions:
        functions = {
            name: (f"{_FUNCTION}{name}", parameters_of(one))
            for name, one in self.module.functions.items()
            if name in self.translated
        }
        return Expressions(self.module.scope, self.names, self.arrays, functions)

    def _block(self, block: Node, declared: set[str]) -> None:
        for statement in block.named_children:
            self._statement(statement, declared)

    def _statement(self, node: Node, declared: set[str]) -> None:
        kind = node.type
        if kind in _IGNORED:
            return
        if kind == "expression_statement":
            for inner in node.named_children:
                self._expression_statement(inner, declared)
        elif kind == "return_statement":
            value = self._expressions.value(node.named_children[0]) if node.named_children else ""
            self._add(f"return {value}; ", node)
        elif kind == "raise_statement":
            self._add("throw 1; ", node)
        elif kind == "assert_statement":
            self._add(f"TORCH_CHECK({self._expressions.value(node.named_children[0])}); ", node)
        elif kind == "if_statement":
            self._if(node, declared)
        elif kind == "while_statement":
            self._inner(f"while ({self._expressions.value(node.child_by_field_name('condition'))}) ", node, declared)
        elif kind == "for_statement":
            self._for(node, declared)
        elif kind in ("with_statement", "try_statement"):
            for one in node.named_children:
                if one.type == "block":
                    self._block(one, declared)
        elif kind in ("break_statement", "continue_statement"):
            self._add(f"{kind.partition('_')[0]}; ", node)

    def _inner(self, head: str, node: Node, declared: set[str]) -> None:
        body = node.child_by_field_name("body") or node.child_by_field_name("consequence")
        self._add(f"{head}{{ ", node.child_by_field_name("condition") or node)
        if body is not None:
            self._block(body, declared)
            self._add("} ", body.named_children[-1] if body.named_children else body)

    def _if(self, node: Node, declared: set[str]) -> None:
        self._inner(f"if ({self._expressions.value(node.child_by_field_name('condition'))}) ", node, declared)
        for other in node.children_by_field_name("alternative"):
            if other.type == "elif_clause":
                condition = self._expressions.value(other.child_by_field_name("condition"))
                self._inner(f"else if ({condition}) ", other, declared)
            else:
                self._inner("else ", other, declared)

    def _for(self, node: Node, declared: set[str]) -> None:
        target, source = node.child_by_field_name("left"), node.child_by_field_name("right")
        positional = call_arguments(source)[0] if source is not None and source.type == "call" else []
        body = node.child_by_field_name("body")
        if target is None or source is None or body is None:
            return
        if target.type == "identifier" and called_name(source) == "range" and 1 <= len(positional) <= 3:
            name, ends = self._variable(target), [self._expressions.value(one) for one in positional]
            first, last = ("0", ends[0]) if len(ends) == 1 else ends[:2]
            step = "++" if len(ends) < 3 else f" += {ends[2]}"
            head = f"for (int {name} = {first}; {name} < {last}; {name}{step}) {{ "
        else:
            names = "".join(
                f"auto {self._variable(one)} = python_value(); " for one in descendants(target, "identifier")
            )
            head = f"for (auto python_item : {self._expressions.value(source)}) {{ {names}"
        self._add(head, target)
        self._block(body, declared)
        self._add("} ", body.named_children[-1] if body.named_children else body)

    def _expression_statement(self, node: Node, declared: set[str]) -> None:
        expressions = self._expressions
        if node.type == "assignment":
            self._assignment(node, declared)
        elif node.type == "augmented_assignment":
            target, value = node.child_by_field_name("left"), node.child_by_field_name("right")
            sign = text_of(node.child_by_field_name("operator")).replace("//", "/")
            if target is None or target.type != "identifier" or text_of(target) in self.arrays or sign == "**=":
                self._add(f"{expressions.unknown(target or node)}; ", node)
            else:
                self._add(f"{self._variable(target)} {sign} {expressions.value(value)}; ", node)
        elif node.type == "call" and node.id in self.module.launches:
            self._add(self._launch(node), node)
        elif node.type == "call":
            self._add(f"{self._effect(node)}; ", node)

    def _effect(self, node: Node) -> str:
        """Return a call that is a statement: of a function of the module, or one that may change its arrays."""
        expressions = self._expressions
        function = node.child_by_field_name("function")
        if function is not None and function.type == "identifier" and text_of(function) in expressions.functions:
            return expressions.value(node)
        return expressions.unknown(node)

    def _assignment(self, node: Node, declared: set[str]) -> None:
        target, value = node.child_by_field_name("left"), node.child_by_field_name("right")
        if target is None or value is None:
            return
        if value.type == "assignment":
            self._assignment(value, declared)
            value = value.child_by_field_name("left") or value
        expressions = self._expressions
        if target.type == "identifier":
            if value.type == "call" and value.id in self.module.launches:
                self._add(self._launch(value), value)
                return
            is_array = expressions.is_array(value)
            self._set(text_of(target), expressions.value(value), node, declared)
            (self.arrays.add if is_array else self.arrays.discard)(text_of(target))
        elif target.type in ("pattern_list", "tuple_pattern"):
            self._unpacked(target, value, node, declared)
        elif target.type == "subscript":
            self._add(f"{expressions.unknown(target)}; ", node)

    def _set(self, name: str, value: str, node: Node, declared: set[str]) -> None:
        declaration = "" if name in declared or self._is_parameter(name) else "auto "
        declared.add(name)
        self._add(f"{declaration}{self.names.get(name) or self._renamed(name)} = {value}; ", node)

    def _is_parameter(self, name: str) -> bool:
        parameters = self.function.child_by_field_name("parameters")
        return parameters is not None and any(text_of(one) == name for one in descendants(parameters, "identifier"))

    def _unpacked(self, target: Node, value: Node, node: Node, declared: set[str]) -> None:
        """Assign several variables: ``m, n = x.shape`` also says how many dimensions ``x`` has."""
        expressions, targets = self._expressions, target.named_children
        values: list[str] = []
        if value.type in ("expression_list", "tuple") and len(value.named_children) == len(targets):
            values = [expressions.value(one) for one in value.named_children]
        elif value.type == "attribute" and text_of(value).endswith(".shape"):
            try:
                array = expressions.read(value).removesuffix(".sizes()")
            except UnreadError:
                array = ""
            if array:
                self._add(f"TORCH_CHECK({array}.dim() == {len(targets)}); ", node)
                values = [f"{array}.size({axis})" for axis in range(len(targets))]
        for index, one in enumerate(targets):
            if one.type == "identifier":
                self._set(text_of(one), values[index] if values else "python_value()", node, declared)

    def _launch(self, call: Node) -> str:
        parts = launch_parts(call, self.module.scope)
        expressions = self._expressions
        if parts is None or any(home is not self.module.scope for _, home in parts.arguments):
            return f"{expressions.unknown(call)}; "
        shared = expressions.value(parts.shared) if parts.shared is not None else "0"
        sizes = [expressions.value(one) for one in (parts.grid, parts.block)]
        kernel = self.module.launches[call.id]
        arguments = "".join(f", {expressions.value(one)}" for one, _ in parts.arguments)
        config = f"launch_{call.start_byte}"
        return (
            f"cudaLaunchConfig_t {config} = {{{sizes[0]}, {sizes[1]}, {shared}}}; "
            f"cudaLaunchKernelEx(&{config}, {kernel}{arguments}); "
        )
