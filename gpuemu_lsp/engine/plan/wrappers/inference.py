"""The entry of a kernel that gpuemu.toml does not register, from a launch; or what is missing for one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice

from tree_sitter import Node

from gpuemu_lsp.engine.plan.wrappers.assumptions import Assumptions, TensorRank
from gpuemu_lsp.engine.plan.wrappers.call_sites import Call, including, parametrized, sizes_of_calls
from gpuemu_lsp.engine.plan.wrappers.call_values import defaults
from gpuemu_lsp.engine.plan.wrappers.evaluator import Evaluator
from gpuemu_lsp.engine.plan.wrappers.expression_values import (
    EvaluationLimitError,
    Names,
    OnCall,
    UnexpectedRankError,
)
from gpuemu_lsp.engine.plan.wrappers.inferred_kernel import InferredKernel, MissingLaunch
from gpuemu_lsp.engine.plan.wrappers.kernel_accesses import KernelAccesses, kernel_accesses, parameter_names
from gpuemu_lsp.engine.plan.wrappers.launch_entry import LaunchEntry
from gpuemu_lsp.engine.plan.wrappers.launching_files import ImportedKernel, launching_files
from gpuemu_lsp.engine.plan.wrappers.objects import (
    CONTEXT,
    Methods,
    as_members,
    classes_of,
    functions_of,
    gradients,
    is_autograd,
    is_static,
)
from gpuemu_lsp.engine.plan.wrappers.values import LiteralValue, ObjectValue, Parameter, UnknownValue, Value
from gpuemu_lsp.engine.project.model import KernelSpec
from gpuemu_lsp.engine.source.python import module_scope
from gpuemu_lsp.engine.source.python.module_scope import ModuleScope
from gpuemu_lsp.engine.source.python.syntax import descendants, enclosing_function, text_of
from gpuemu_lsp.engine.source.python.triton_kernels import is_launched

_MAX_EVALUATIONS = 6
_LARGEST_OF_CALL = 4096
"""Largest size of a call in the program that a check tries, for one dim; of several dims, divided by their number."""
_POLICIES = ((True, None), (False, None), (True, True), (True, False), (False, True))
"""Whether optional parameters have their defaults, and what conditions that are not known are assumed to be."""
_NO_LAUNCH = "a launch"
_MAX_LAUNCHING_FILES = 4
_NOT_REACHED = "the arguments with which the launch is reached"


@dataclass(slots=True)
class KernelInference:
    """Inference for the kernels of one module."""

    scope: ModuleScope
    kernels: Mapping[str, Node]
    functions: Mapping[str, Node]
    classes: Mapping[str, Methods]
    kernel_functions: Mapping[str, Node] = field(default_factory=dict)
    """The functions that the kernels may call, where another module defines them."""

    @classmethod
    def of_importer(cls, scope: ModuleScope, kernel: ImportedKernel) -> KernelInference:
        """Return the inference of a module for a kernel that it imports."""
        own, theirs = functions_of(scope.root), functions_of(kernel.scope.root)
        kernels = {kernel.local: kernel.node}
        return cls(scope, kernels, {**own, **kernels}, classes_of(scope.root), theirs)

    @classmethod
    def of(cls, scope: ModuleScope, kernels: Iterable[str]) -> KernelInference:
        """Return the inference of a module; ``kernels`` are the names of its kernels."""
        wanted = frozenset(kernels)
        functions = functions_of(scope.root)
        kernels_found = {name: node for name, node in functions.items() if name in wanted}
        return cls(scope, kernels_found, functions, classes_of(scope.root))

    def infer(self, spec: KernelSpec) -> InferredKernel | MissingLaunch:
        """Return the entry of an unregistered kernel."""
        name = self._name_of(spec)
        kernel = self.kernels.get(name)
        if kernel is None:
            return MissingLaunch("the kernel, which is not a function at the top level of the module")
        wrappers = self._wrappers(name)
        if not wrappers:
            return MissingLaunch(_NO_LAUNCH)
        missing: MissingLaunch | None = None
        assumed: InferredKernel | None = None
        accesses = kernel_accesses(kernel, self.kernel_functions or self.functions)
        for wrapper in wrappers:
            # Without a caller an optional parameter has its default, unless the launch needs another value.
            for defaults_hold, decision in _POLICIES:
                found = self._from(spec, kernel, accesses, wrapper, defaults_hold, decision)
                if isinstance(found, InferredKernel) and not found.indices_assumed:
                    return self._with_sizes_of_calls(found, wrapper, wrappers)
                if isinstance(found, InferredKernel):
                    assumed = assumed or found
                    break
                if missing is None or missing.reason == _NOT_REACHED:
                    missing = found
        # A caller that determines the values of indices comes before one that does not.
        found_assumed = assumed or missing
        assert found_assumed is not None
        return found_assumed

    def _name_of(self, spec: KernelSpec) -> str:
        """Return the name of the kernel in the module that launches it."""
        return next(iter(self.kernels)) if self.kernel_functions else spec.entry or spec.name

    def _with_sizes_of_calls(self, found: InferredKernel, wrapper: Node, wrappers: list[Node]) -> InferredKernel:
        """Add the sizes with which the module's other functions, and its own statements, call the wrapper."""
        calls: list[Call] = []
        for caller in wrappers[wrappers.index(wrapper) + 1 :]:
            for given in parametrized(caller):
                # What a caller that cannot be evaluated calls is not known, like the callers of other files.
                with suppress(EvaluationLimitError, RecursionError):
                    self._evaluated(caller, True, given, lambda *call: calls.append(call))
        values = sizes_of_calls(wrapper, calls, found.origins)
        largest = _LARGEST_OF_CALL // max(len(found.spec.dims or ()), 1)
        dims = {
            name: including(dim, [one for one in values.get(name, ()) if one <= largest])
            for name, dim in (found.spec.dims or {}).items()
        }
        return replace(found, spec=replace(found.spec, dims=dims), values=values)

    def _wrappers(self, kernel: str) -> list[Node]:
        """Return the functions that launch a kernel, then those that call them."""
        found: list[Node] = []
        for name in descendants(self.scope.root, "identifier"):
            if text_of(name) == kernel and is_launched(name):
                outer = _outermost(name) or self.scope.root
                if outer not in found:
                    found.append(outer)
        for _ in range(2):
            called = {text_of(one.child_by_field_name("name")) for one in found} | self._applied(found)
            for call in descendants(self.scope.root, "call"):
                if text_of(call.child_by_field_name("function")) in called:
                    caller = _outermost(call)
                    if caller is not None and caller not in found:
                        found.append(caller)
        return found

    def _applied(self, methods: Iterable[Node]) -> set[str]:
        """Return how the autograd functions are called whose ``forward`` is one of the methods."""
        forwards = list(methods)
        return {
            f"{name}.apply" for name, one in self.classes.items() if is_autograd(one) and one["forward"] in forwards
        }

    def _from(
        self,
        spec: KernelSpec,
        kernel: Node,
        accesses: KernelAccesses,
        wrapper: Node,
        defaults_hold: bool,
        decision: bool | None,
    ) -> InferredKernel | MissingLaunch:
        try:
            evaluator = self._evaluated(wrapper, defaults_hold, decision=decision)
        except (EvaluationLimitError, RecursionError):
            return MissingLaunch("the launch, whose function is too long")
        assumptions = evaluator.assumptions
        launches = [one for one in evaluator.launches if one.kernel == self._name_of(spec)]
        if not launches:
            return MissingLaunch(_NOT_REACHED)
        missing: MissingLaunch | None = None
        for launch in launches:
            name = text_of(wrapper.child_by_field_name("name")) or "the module"
            found = LaunchEntry(spec, kernel, launch, assumptions, accesses, name).inferred()
            if isinstance(found, InferredKernel):
                return found
            missing = missing or found
        assert missing is not None
        return missing

    def _evaluated(
        self,
        wrapper: Node,
        defaults_hold: bool,
        given: Names | None = None,
        on_call: OnCall = lambda *_: None,
        decision: bool | None = None,
    ) -> Evaluator:
        """Evaluate a function, again if a parameter turns out to have another rank than assumed.

        ``given`` are parameters whose values are known, ``decision`` the assumed truth of unknown conditions.

        Raises
        ------
        EvaluationLimitError
            If it takes too many steps.
        """
        ranks: dict[str, TensorRank] = {}
        for _ in range(_MAX_EVALUATIONS):
            assumptions = Assumptions(text_of(wrapper) + text_of(self._called_before(wrapper)), ranks=dict(ranks))
            functions = {**self.kernel_functions, **self.functions}
            evaluator = Evaluator(
                self.scope,
                functions,
                frozenset(self.kernels),
                assumptions,
                self.classes,
                on_call,
                decision=decision,
            )
            try:
                if wrapper == self.scope.root:
                    evaluator.run_module(wrapper)
                else:
                    evaluator.run(wrapper, self._arguments(wrapper, evaluator, defaults_hold) | (given or {}))
            except UnexpectedRankError as error:
                ranks[error.name] = TensorRank(error.rank, certain=True)
            else:
                return evaluator
        raise EvaluationLimitError

    def _arguments(self, wrapper: Node, evaluator: Evaluator, defaults_hold: bool) -> Names:
        """Return the parameters of a function, with the object of a method.

        ``backward`` of an autograd function gets what ``forward`` saved, and gradients of its outputs' shapes.
        """
        given = _parameters(wrapper, evaluator, defaults_hold)
        methods = self._own_methods(wrapper)
        if methods is None:
            return given
        first, *others = given
        owner = given[first] = ObjectValue(methods)
        before = self._called_before(wrapper)
        if before is not None:
            names = _parameters(before, evaluator, defaults_hold=True)
            names[next(iter(names), first)] = owner
            outputs = evaluator.run(before, names)
            given |= gradients(outputs, tuple(others)) if is_autograd(methods) else {}
        if not is_autograd(methods):
            as_members(owner)
        return given

    def _own_methods(self, function: Node) -> Methods | None:
        """Return the methods of the class of which a function is a method with an object, or of autograd."""
        methods = next((one for one in self.classes.values() if function in one.values()), None)
        if methods is None or (is_static(function) and next(iter(parameter_names(function)), "") != CONTEXT):
            return None
        return methods if parameter_names(function) else None

    def _called_before(self, function: Node) -> Node | None:
        """Return the method that sets the attributes which a method reads."""
        methods = self._own_methods(function)
        if methods is None:
            return None
        before = methods.get("forward" if is_autograd(methods) else "__init__")
        return before if before != function else None


def inferred_kernel(spec: KernelSpec, text: str, kernels: Iterable[str]) -> InferredKernel | MissingLaunch:
    """Return the entry of an unregistered kernel of a module with that text; ``kernels`` are all of the module."""
    names, entry = list(kernels), spec.entry or spec.name
    found = KernelInference.of(module_scope(spec.source, text), names).infer(spec)
    if isinstance(found, InferredKernel) or entry not in names:
        return found
    for scope, kernel in islice(launching_files(spec.source, (entry,)), _MAX_LAUNCHING_FILES):
        elsewhere = KernelInference.of_importer(scope, kernel).infer(spec)
        if isinstance(elsewhere, InferredKernel):
            return replace(elsewhere, file=scope.path)
        found = elsewhere if found.reason == _NO_LAUNCH else found
    return found


def _outermost(node: Node) -> Node | None:
    """Return the outermost function, or method, that contains a node."""
    found = enclosing_function(node)
    while found is not None and (outer := enclosing_function(found)) is not None:
        found = outer
    return found


def _parameters(function: Node, evaluator: Evaluator, defaults_hold: bool) -> Names:
    """Return the parameters of a function with their properties that need no caller."""
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
