"""Symbolic evaluation of calls: launches, functions of the module, PyTorch and Triton."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tree_sitter import Node

from gpuemu_lsp.engine.plan.wrappers.device_values import device_value
from gpuemu_lsp.engine.plan.wrappers.expression_values import MAX_CALLS, EvaluatedLaunch, ExpressionEvaluator, Names
from gpuemu_lsp.engine.plan.wrappers.kernel_accesses import parameter_names
from gpuemu_lsp.engine.plan.wrappers.objects import attribute_of, call_method, classes_of, functions_of
from gpuemu_lsp.engine.plan.wrappers.tensor_functions import CREATORS, created, method
from gpuemu_lsp.engine.plan.wrappers.values import (
    BoundKernel,
    DottedName,
    Layer,
    LocalFunction,
    ObjectValue,
    Parameter,
    Quotient,
    SymbolicTensor,
    UnknownValue,
    Value,
    ValueSequence,
)
from gpuemu_lsp.engine.source.python.module_scope import ModuleScope
from gpuemu_lsp.engine.source.python.syntax import call_arguments, text_of
from gpuemu_lsp.engine.symbolic.size import (
    Size,
    ceil_div,
    extreme,
    floor_divide,
    modulo,
    next_power_of_two,
    number,
    product,
)

_CEIL_DIV = frozenset({"cdiv", "ceil_div", "ceildiv", "div_up"})
_CONVERSIONS = frozenset({"from_numpy", "as_tensor", "ascontiguousarray"})
"""Functions that return the tensor or array they are given."""
_OF_TENSORS = frozenset({"mul", "add", "sub", "div", "matmul", "mm", "copy_", "where", "masked_fill", "index_add_"})
"""Methods whose arguments are tensors rather than sizes."""
_NEXT_POWER = frozenset({"next_power_of_2", "next_pow2", "next_power_of_two"})


@dataclass(slots=True)
class CallEvaluator(ExpressionEvaluator):
    """Evaluates expressions with calls."""

    _others: dict[str, CallEvaluator] = field(default_factory=dict, repr=False)
    """Evaluators of other modules by path."""

    def call(self, node: Node, names: Names) -> Value:
        """Return the result of a call; record a launch."""
        callee = node.child_by_field_name("function")
        assert callee is not None
        if callee.type in ("subscript", "identifier"):
            bound = self.value(callee, names)
            if isinstance(bound, BoundKernel):
                return self._launch(node, bound, names)
        positional, keywords = self._arguments(node, names)
        if callee.type == "attribute":
            owner_node, name = callee.child_by_field_name("object"), text_of(callee.child_by_field_name("attribute"))
            owner = self.value(owner_node, names)
            if isinstance(owner, DottedName) and owner.text in self.kernels and name == "warmup":
                return owner
            if isinstance(owner, DottedName) and owner.text in self.kernels and name == "run":
                grid = keywords.get("grid", UnknownValue("the grid"))
                return self._launch(node, BoundKernel(owner.text, grid), names)
            if isinstance(owner, ObjectValue) and call_method(owner, name, positional):
                return UnknownValue(text_of(callee))
            if isinstance(owner, Parameter) and name not in ("append", "apply"):
                owner = self.tensor(owner)
            if isinstance(owner, SymbolicTensor):
                given = tuple(map(self.shape, positional)) if name not in _OF_TENSORS else positional
                found = method(owner, name, given, keywords)
                if name == "chunk" and isinstance(found, ValueSequence):
                    self._assume_equal_parts(owner, found)
                if found is None:
                    owner.storage.shared = True
                return found if found is not None else self.unknown(node)
            function = self.attribute(callee, names)
        else:
            function = self.value(callee, names)
        if isinstance(function, ObjectValue):  # a module that is called
            function = attribute_of(function, "forward", text_of(callee))
        if isinstance(function, Layer):
            return self._output(function, node)
        if isinstance(function, DottedName) and function.text.removesuffix(".apply") in self.classes:
            return self._instance(function.text, positional, keywords, node)
        if isinstance(function, DottedName):
            return self._library(function.text, positional, keywords, node)
        if isinstance(function, LocalFunction):
            found = self.called(function, positional, keywords, node)
            if function.module is None or not isinstance(found, UnknownValue):
                return found
            return self._library(text_of(callee), positional, keywords, node)
        self._escape((*positional, *keywords.values()))
        return self.unknown(node)

    def _output(self, layer: Layer, node: Node) -> Parameter:
        """Return what a layer returns: a tensor like a parameter, of the rank with which the function uses it."""
        name = f"{layer.name}_output"
        variable = self.scope.assigned(node)
        if variable is not None and name not in self.assumptions.ranks:
            self.assumptions.ranks[name] = self.assumptions.rank(variable)
        return Parameter(name)

    def _assume_equal_parts(self, tensor: SymbolicTensor, chunks: ValueSequence) -> None:
        """Assume that a tensor divides evenly: the kernel gets the extents of one part."""
        shape = chunks.items[0].shape if isinstance(chunks.items[0], SymbolicTensor) else ()
        for whole, one in zip(tensor.shape, shape, strict=False):
            if whole != one:
                self.assumptions.assume([("==", modulo(whole, number(len(chunks.items))), number(0))])

    def _arguments(self, node: Node, names: Names) -> tuple[tuple[Value, ...], dict[str, Value]]:
        positional, keywords = call_arguments(node)
        inner = node.child_by_field_name("arguments")
        values: list[Value] = []
        for one in inner.named_children if inner is not None else ():
            if one.type == "list_splat":
                spread = self.value(one.named_children[0], names)
                if not isinstance(spread, ValueSequence):
                    # The arguments after it have unknown positions.
                    values.append(UnknownValue(text_of(one)))
                    break
                values += spread.items
            elif one in positional:
                values.append(self.value(one, names))
        if not values:
            values = [self.value(one, names) for one in positional]
        return tuple(values), {name: self.value(one, names) for name, one in keywords.items()}

    def _ranks_of_splats(self, node: Node, kernel: str, names: Names) -> None:
        """Give tensors whose strides a launch passes as ``*x.stride()`` the rank that fills the kernel's parameters.

        The function that launches may not say it: of ``q``, ``k`` and ``v`` it takes the shape of ``q`` alone.
        """
        inner = node.child_by_field_name("arguments")
        positional, keywords = call_arguments(node)
        unknown: list[str] = []
        known = len(positional)
        for one in inner.named_children if inner is not None else ():
            if one.type != "list_splat":
                continue
            owner = self._owner_of_strides(one.named_children[0], names)
            if owner is not None and not self.assumptions.rank(owner).certain:
                unknown.append(owner)
            else:
                spread = self.value(one.named_children[0], names)
                known += len(spread.items) if isinstance(spread, ValueSequence) else 0
        params = [name for name in parameter_names(self.functions[kernel]) if name not in keywords]
        if unknown and (len(params) - known) % len(unknown) == 0 and len(params) > known:
            for name in unknown:
                self.assumptions.assume_rank(name, (len(params) - known) // len(unknown))

    def _owner_of_strides(self, node: Node, names: Names) -> str | None:
        """Return the parameter of which ``p.stride()`` is called."""
        callee = node.child_by_field_name("function") if node.type == "call" else None
        if callee is None or callee.type != "attribute" or not text_of(callee).endswith(".stride"):
            return None
        owner = self.value(callee.child_by_field_name("object"), names)
        return owner.name if isinstance(owner, Parameter) else None

    def _launch(self, node: Node, bound: BoundKernel, names: Names) -> Value:
        kernel, grid = DottedName(bound.kernel), bound.grid
        self._ranks_of_splats(node, kernel.text, names)
        positional, keywords = self._arguments(node, names)
        by_name = dict(zip(parameter_names(self.functions[kernel.text]), positional, strict=False)) | keywords
        computed = self._heuristics(self.functions[kernel.text], by_name)
        keywords |= {name: one for name, one in computed.items() if isinstance(one, Size)}
        if isinstance(grid, LocalFunction):
            grid = self._of_launch(grid, by_name | computed)
        inner_node = node.child_by_field_name("arguments")
        starred = False
        for child in inner_node.named_children if inner_node is not None else ():
            if child.type == "dictionary_splat":
                spread = self.value(child.named_children[0], names)
                known = isinstance(spread, ObjectValue) and spread.complete and not spread.methods
                starred = starred or not known
                keywords |= spread.attributes if isinstance(spread, ObjectValue) else {}
        given = tuple(positional)
        self.launches.append(
            EvaluatedLaunch(kernel.text, node, grid, given, keywords, starred, self.assumptions.copy())
        )
        for one in (*given, *keywords.values()):
            if isinstance(one, SymbolicTensor):
                one.storage.launches += 1
        # The compiled kernel, which may be launched with another grid.
        return kernel

    def _of_launch(self, function: LocalFunction, arguments: Mapping[str, Value]) -> Value:
        """Return the result of a function of a launch's arguments, which it gets as a dictionary: ``meta["BLOCK"]``."""
        parameter = next(iter(parameter_names(function.node)), None) or _lambda_parameter(function.node)
        inner: Names = {**function.names, **{f"$meta.{name}": value for name, value in arguments.items()}}
        if parameter is not None:
            inner[parameter] = DottedName("$meta")
        return self.run(function.node, inner)

    def _heuristics(self, kernel: Node, arguments: Mapping[str, Value]) -> dict[str, Value]:
        """Return what ``triton.heuristics`` of a kernel computes from the arguments of a launch."""
        found: dict[str, Value] = {}
        decorated = kernel.parent
        for decorator in decorated.named_children if decorated is not None else ():
            call = decorator.named_children[0] if decorator.type == "decorator" and decorator.named_children else None
            if call is None or not text_of(call.child_by_field_name("function")).endswith("heuristics"):
                continue
            positional, keywords = call_arguments(call)
            table = self.value(next(iter((*positional, *keywords.values())), None), {})
            for name, function in table.attributes.items() if isinstance(table, ObjectValue) else ():
                if name in arguments or not isinstance(function, LocalFunction):
                    continue
                found[name] = self._of_launch(function, {**arguments, **found})
        return found

    def called(
        self, function: LocalFunction, positional: tuple[Value, ...], keywords: Mapping[str, Value], node: Node
    ) -> Value:
        """Return the result of a function of the module."""
        name = text_of(function.node.child_by_field_name("name"))
        self.on_call(name, positional, keywords)
        if self._depth >= MAX_CALLS:
            self._escape((*positional, *keywords.values()))
            return self.unknown(node)
        given = positional if function.owner is None else (function.owner, *positional)
        if function.module is not None:
            return self._elsewhere(function.module)._run(function, given, keywords)
        return self._run(function, given, keywords)

    def _run(self, function: LocalFunction, given: tuple[Value, ...], keywords: Mapping[str, Value]) -> Value:
        inner = self.bound(function.node, given, keywords)
        self._depth += 1
        try:
            return self.run(function.node, {**function.names, **inner})
        finally:
            self._depth -= 1

    def _elsewhere(self, module: ModuleScope) -> CallEvaluator:
        """Return the evaluator of another module's functions, with the tensors and sizes of this one."""
        if module.path not in self._others:
            functions = functions_of(module.root)
            self._others[module.path] = type(self)(
                module,
                functions,
                frozenset(),
                self.assumptions,
                classes_of(module.root),
                decision=self.decision,
                steps=self.steps,
            )
        other = self._others[module.path]
        other._depth = self._depth
        return other

    def _instance(self, dotted: str, positional: tuple[Value, ...], keywords: Mapping[str, Value], node: Node) -> Value:
        """Return the object of ``Module(...)``, or the outputs of ``Function.apply(...)``."""
        methods = self.classes[dotted.removesuffix(".apply")]
        made = ObjectValue(methods)
        if dotted.endswith(".apply"):
            forward = methods.get("forward")
            function = LocalFunction(forward, {}, made) if forward is not None else None
            return self.called(function, positional, keywords, node) if function is not None else self.unknown(node)
        if "__init__" in methods:
            self.called(LocalFunction(methods["__init__"], {}, made), positional, keywords, node)
        return made

    def bound(self, function: Node, positional: tuple[Value, ...], keywords: Mapping[str, Value]) -> Names:
        """Return the parameters of a function by name, with its defaults."""
        inner: Names = {}
        for name, default in defaults(function).items():
            inner[name] = self.value(default, {}) if default is not None else UnknownValue(name)
        inner.update(zip(parameter_names(function), positional, strict=False))
        inner.update({name: value for name, value in keywords.items() if name in inner})
        return inner

    def _escape(self, values: tuple[Value, ...]) -> None:
        for one in values:
            if isinstance(one, SymbolicTensor):
                one.storage.shared = True
            elif isinstance(one, ValueSequence):
                self._escape(one.items)

    def _library(self, dotted: str, positional: tuple[Value, ...], keywords: dict[str, Value], node: Node) -> Value:
        name = dotted.rpartition(".")[2]
        about_device = device_value(dotted)
        if about_device is not None:
            return about_device
        if len(positional) == 1 and isinstance(quotient := positional[0], Quotient):
            if name == "ceil":
                return ceil_div(quotient.left, quotient.right)
            if name in ("int", "floor", "trunc"):
                return floor_divide(quotient.left, quotient.right)
        numbers = [one for one in map(self.number, positional) if isinstance(one, Size)]
        if len(numbers) == len(positional):
            if name in _CEIL_DIV and len(numbers) == 2:
                return ceil_div(*numbers)
            if name in _NEXT_POWER and len(numbers) == 1:
                return next_power_of_two(*numbers)
            if name in ("min", "max") and numbers:
                return extreme(name, *numbers)
            if name in ("int", "tuple") and len(numbers) == 1:
                return numbers[0]
        if name in ("min", "max") and len(positional) == 1 and isinstance(positional[0], ValueSequence):
            return self._library(name, positional[0].items, {}, node)
        if name == "len" and len(positional) == 1:
            one = positional[0]
            if isinstance(one, ValueSequence):
                return number(len(one.items))
            tensor = self.tensor(one)
            return tensor.shape[0] if isinstance(tensor, SymbolicTensor) and tensor.shape else self.unknown(node)
        if name in ("tuple", "list", "Size") and len(positional) == 1 and isinstance(positional[0], ValueSequence):
            return positional[0]
        if name == "prod" and len(positional) == 1 and isinstance(positional[0], ValueSequence):
            sizes = tuple(one for one in positional[0].items if isinstance(one, Size))
            return product(sizes) if len(sizes) == len(positional[0].items) else self.unknown(node)
        if dotted.startswith(("nn.", "torch.nn.")) and name[:1].isupper() and name != "Parameter":
            return Layer(self.scope.assigned(node) or name.lower())
        if name == "Parameter" and positional:
            return positional[0]
        if name in _CONVERSIONS and positional:
            converted = self.tensor(positional[0])
            return converted if isinstance(converted, SymbolicTensor) and not keywords else self.unknown(node)
        if name == "dict" and not positional:
            return ObjectValue({}, dict(keywords))
        if dotted.startswith(("torch.", "torch")) and dotted.count(".") == 1:
            return self._torch(name, positional, keywords, node)
        if name in ("isinstance", "print", "hasattr", "str", "is_available", "synchronize", "manual_seed"):
            return self.unknown(node)
        self._escape((*positional, *keywords.values()))
        return self.unknown(node)

    def _torch(self, name: str, positional: tuple[Value, ...], keywords: dict[str, Value], node: Node) -> Value:
        given = positional
        if name.endswith("_like") and given:
            given = (self.tensor(given[0]), *given[1:])
        elif name in CREATORS:
            given = tuple(map(self.shape, given))
            keywords = keywords | {key: self.shape(one) for key, one in keywords.items() if key == "size"}
        else:
            given = tuple(map(self.number, given))
        # The tensor is named like the variable that it is assigned to.
        label = self.scope.assigned(node) or name
        found = created(name, given, keywords, label)
        if found is None and given:
            owner = self.tensor(positional[0])
            if isinstance(owner, SymbolicTensor):
                found_method = method(owner, name, tuple(map(self.number, positional[1:])), keywords)
                if found_method is not None:
                    return found_method
        if found is None:
            self._escape((*positional, *keywords.values()))
        return found if found is not None else self.unknown(node)


def _lambda_parameter(node: Node) -> str | None:
    parameters = node.child_by_field_name("parameters")
    return text_of(parameters.named_children[0]) if parameters is not None and parameters.named_children else None


def defaults(function: Node) -> dict[str, Node | None]:
    """Return the parameters of a function with their defaults, None for one without."""
    params = function.child_by_field_name("parameters")
    found: dict[str, Node | None] = dict.fromkeys(parameter_names(function))
    for node in params.named_children if params is not None else ():
        name = node.child_by_field_name("name")
        if name is not None and node.type in ("default_parameter", "typed_default_parameter"):
            found[text_of(name)] = node.child_by_field_name("value")
    return found
