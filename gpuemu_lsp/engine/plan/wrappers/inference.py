"""The entry of a kernel that gpuemu.toml does not register, from a launch; or what is missing for one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tree_sitter import Node

from gpuemu_lsp.engine.plan.wrappers.assumptions import Assumptions
from gpuemu_lsp.engine.plan.wrappers.call_values import defaults
from gpuemu_lsp.engine.plan.wrappers.evaluator import Evaluator
from gpuemu_lsp.engine.plan.wrappers.expression_values import EvaluationLimitError, Names
from gpuemu_lsp.engine.plan.wrappers.kernel_accesses import kernel_accesses
from gpuemu_lsp.engine.plan.wrappers.launch_entry import InferredKernel, LaunchEntry, MissingLaunch
from gpuemu_lsp.engine.plan.wrappers.values import (
    LiteralValue,
    Parameter,
    UnknownValue,
    Value,
)
from gpuemu_lsp.engine.project.model import (
    KernelSpec,
)
from gpuemu_lsp.engine.source.python import module_scope
from gpuemu_lsp.engine.source.python.module_scope import ModuleScope
from gpuemu_lsp.engine.source.python.syntax import descendants, enclosing_function, text_of

_BLOCKS = frozenset(
    {"if_statement", "try_statement", "block", "else_clause", "elif_clause", "except_clause", "with_statement"}
)
_NOT_REACHED = "the arguments with which the launch is reached"


@dataclass(slots=True)
class KernelInference:
    """Inference for the kernels of one module."""

    scope: ModuleScope
    kernels: Mapping[str, Node]
    functions: Mapping[str, Node]

    @classmethod
    def of(cls, scope: ModuleScope, kernels: Iterable[str]) -> KernelInference:
        """Return the inference of a module; ``kernels`` are the names of its kernels."""
        wanted = frozenset(kernels)
        functions = {text_of(one.child_by_field_name("name")): one for one in _functions(scope.root)}
        return cls(scope, {name: node for name, node in functions.items() if name in wanted}, functions)

    def infer(self, spec: KernelSpec) -> InferredKernel | MissingLaunch:
        """Return the entry of an unregistered kernel."""
        name = spec.entry or spec.name
        kernel = self.kernels.get(name)
        if kernel is None:
            return MissingLaunch("the kernel, which is not a function at the top level of the module")
        wrappers = self._wrappers(name)
        if not wrappers:
            return MissingLaunch("a launch")
        missing: MissingLaunch | None = None
        for wrapper in wrappers:
            # Without a caller an optional parameter has its default, unless the launch needs another value.
            for defaults_hold in (True, False):
                found = self._from(spec, kernel, wrapper, defaults_hold)
                if isinstance(found, InferredKernel):
                    return found
                if missing is None or missing.reason == _NOT_REACHED:
                    missing = found
        assert missing is not None
        return missing

    def _wrappers(self, kernel: str) -> list[Node]:
        """Return the functions that launch a kernel, then those that call them."""
        found: list[Node] = []
        for call in descendants(self.scope.root, "call"):
            function = call.child_by_field_name("function")
            launched = function.child_by_field_name("value") if function is not None else None
            if function is not None and function.type == "subscript" and text_of(launched) == kernel:
                outer = _outermost(call) or self.scope.root
                if outer not in found:
                    found.append(outer)
        for _ in range(2):
            called = {text_of(one.child_by_field_name("name")) for one in found}
            for call in descendants(self.scope.root, "call"):
                if text_of(call.child_by_field_name("function")) in called:
                    caller = _outermost(call)
                    if caller is not None and caller not in found:
                        found.append(caller)
        return found

    def _from(
        self, spec: KernelSpec, kernel: Node, wrapper: Node, defaults_hold: bool
    ) -> InferredKernel | MissingLaunch:
        assumptions = Assumptions(text_of(wrapper))
        evaluator = Evaluator(self.scope, self.functions, frozenset(self.kernels), assumptions)
        try:
            if wrapper == self.scope.root:
                evaluator.run_module(wrapper)
            else:
                evaluator.run(wrapper, _parameters(wrapper, evaluator, defaults_hold))
        except (EvaluationLimitError, RecursionError):
            return MissingLaunch("the launch, whose function is too long")
        launches = [one for one in evaluator.launches if one.kernel == (spec.entry or spec.name)]
        if not launches:
            return MissingLaunch(_NOT_REACHED)
        accesses = kernel_accesses(kernel, self.functions)
        missing: MissingLaunch | None = None
        for launch in launches:
            name = text_of(wrapper.child_by_field_name("name")) or "the module"
            found = LaunchEntry(spec, kernel, launch, assumptions, accesses, name).inferred()
            if isinstance(found, InferredKernel):
                return found
            missing = missing or found
        assert missing is not None
        return missing


def inferred_kernel(spec: KernelSpec, text: str, kernels: Iterable[str]) -> InferredKernel | MissingLaunch:
    """Return the entry of an unregistered kernel of a module with that text; ``kernels`` are all of the module."""
    return KernelInference.of(module_scope(spec.source, text), kernels).infer(spec)


def _functions(root: Node) -> Iterator[Node]:
    """Yield the functions of a module, those that a condition defines included."""
    for node in root.named_children:
        if node.type in _BLOCKS:
            yield from _functions(node)
        elif node.type == "decorated_definition":
            inner = node.child_by_field_name("definition")
            if inner is not None and inner.type == "function_definition":
                yield inner
        elif node.type == "function_definition":
            yield node


def _outermost(node: Node) -> Node | None:
    """Return the outermost function, or method, that contains a node."""
    found = enclosing_function(node)
    while found is not None and (outer := enclosing_function(found)) is not None:
        found = outer
    return found


def _parameters(function: Node, evaluator: Evaluator, defaults_hold: bool) -> Names:
    """Return the parameters of a function with what is known of them without a caller."""
    annotated = {}
    params = function.child_by_field_name("parameters")
    for node in params.named_children if params is not None else ():
        kind = node.child_by_field_name("type")
        if kind is not None:
            target = node.child_by_field_name("name") or node.named_children[0]
            annotated[text_of(target)] = text_of(kind)
    found: Names = {}
    for name, default in defaults(function).items():
        kind_text = annotated.get(name, "")
        value: Value = Parameter(name)
        if default is not None:
            given = evaluator.value(default, {})
            value = given if not isinstance(given, UnknownValue) else Parameter(name)
            if not defaults_hold and isinstance(given, LiteralValue):
                value = UnknownValue(name) if isinstance(given.value, bool) else Parameter(name)
        elif kind_text == "bool":
            value = UnknownValue(name)
        elif kind_text == "float":
            value = LiteralValue(0.5)
        found[name] = value
    return found
