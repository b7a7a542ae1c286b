"""The entry of a kernel that gpuemu.toml does not register, from a launch; or what is missing for one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice

from tree_sitter import Node

from gpuemu_lsp.engine.hostcode.assumptions import Layout
from gpuemu_lsp.engine.hostcode.program import HostFunction, HostProgram
from gpuemu_lsp.engine.hostcode.python.modules import MODULE, functions_of, name_of, python_program
from gpuemu_lsp.engine.hostcode.state import HostRun, LimitError
from gpuemu_lsp.engine.hostcode.values import Value
from gpuemu_lsp.engine.plan.wrappers.call_sites import (
    Call,
    fixed_numbers,
    including,
    is_sampling,
    parametrized,
    sizes_of_calls,
)
from gpuemu_lsp.engine.plan.wrappers.inferred_kernel import InferredKernel, MissingLaunch
from gpuemu_lsp.engine.plan.wrappers.kernel_accesses import KernelAccesses, kernel_accesses
from gpuemu_lsp.engine.plan.wrappers.launch_entry import LaunchEntry
from gpuemu_lsp.engine.plan.wrappers.launch_relations import LaunchRelations
from gpuemu_lsp.engine.plan.wrappers.launching_files import ImportedKernel, launching_files
from gpuemu_lsp.engine.plan.wrappers.layouts import layouts_to_try
from gpuemu_lsp.engine.plan.wrappers.wrapper_runs import WrapperRun, is_autograd, method_of
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


@dataclass(frozen=True, slots=True)
class _Request:
    """The kernel whose entry is wanted, the function that launches it, and what is assumed of its parameters."""

    spec: KernelSpec
    kernel: Node
    accesses: KernelAccesses
    wrapper: Node
    defaults: bool
    decision: bool | None
    layouts: Mapping[str, Layout] = field(default_factory=dict)


@dataclass(slots=True)
class KernelInference:
    """Inference for the kernels of one module."""

    scope: ModuleScope
    kernels: Mapping[str, Node]
    program: HostProgram
    kernel_functions: Mapping[str, Node]
    """The functions that the kernels may call."""
    imported: bool = False

    @classmethod
    def of_importer(cls, scope: ModuleScope, kernel: ImportedKernel) -> KernelInference:
        """Return the inference of a module for a kernel that it imports."""
        kernels = {kernel.local: kernel.node}
        program = python_program(scope, kernels, kernel.scope)
        return cls(scope, kernels, program, functions_of(kernel.scope.root), True)

    @classmethod
    def of(cls, scope: ModuleScope, kernels: Iterable[str]) -> KernelInference:
        """Return the inference of a module; ``kernels`` are the names of its kernels."""
        functions = functions_of(scope.root)
        nodes = {name: functions[name] for name in kernels if name in functions}
        return cls(scope, nodes, python_program(scope, nodes), functions)

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
        accesses = kernel_accesses(kernel, self.kernel_functions)
        for wrapper in wrappers:
            # Without a caller an optional parameter has its default, unless the launch needs another value.
            for defaults_hold, decision in _POLICIES:
                request = _Request(spec, kernel, accesses, wrapper, defaults_hold, decision)
                found = self._from(request)
                if isinstance(found, InferredKernel) and not found.assumed_indices:
                    known = self._with_sizes_of_calls(found, wrapper, wrappers)
                    return replace(known, layouts=self._with_layouts(found, request))
                if isinstance(found, InferredKernel):
                    assumed = assumed or replace(found, layouts=self._with_layouts(found, request))
                    break
                if missing is None or missing.reason == _NOT_REACHED:
                    missing = found
        # A caller that determines the values of indices comes before one that does not.
        found_assumed = assumed or missing
        assert found_assumed is not None
        return found_assumed

    def _name_of(self, spec: KernelSpec) -> str:
        """Return the name of the kernel in the module that launches it."""
        return next(iter(self.kernels)) if self.imported else spec.entry or spec.name

    def _with_sizes_of_calls(self, found: InferredKernel, wrapper: Node, wrappers: list[Node]) -> InferredKernel:
        """Add the sizes with which the module's other functions, and its own statements, call the wrapper."""
        function, calls, own = self._function(wrapper), list[Call](), list[Call]()
        evaluated = True
        for caller in wrappers[wrappers.index(wrapper) + 1 :]:
            for given in parametrized(caller):
                # What a caller that cannot be evaluated calls is not known, like the callers of other files.
                try:
                    made = self._run(caller, True, given=given).calls
                except (LimitError, RecursionError):
                    evaluated = False
                    continue
                calls += made
                own += () if is_sampling(name_of(caller)) else made
        values = sizes_of_calls(function, calls, found.origins)
        largest = _LARGEST_OF_CALL // max(len(found.spec.dims or ()), 1)
        dims = {
            name: including(dim, [one for one in values.get(name, ()) if one <= largest])
            for name, dim in (found.spec.dims or {}).items()
        }
        if evaluated and any(called is function for called, _ in own):
            numbers = {name: names for name, names in found.origins.items() if name in dims.keys() - found.ragged}
            dims |= fixed_numbers(function, calls, numbers, largest)
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
        owners = [self._function(each).owner for each in methods if name_of(each) == "forward"]
        return {f"{owner}.apply" for owner in owners if owner is not None and is_autograd(self.program, owner)}

    def _function(self, node: Node) -> HostFunction:
        """Return a function, or the statements of the module."""
        line = node.start_point[0]
        functions = (each for listed in self.program.functions.values() for each in listed if each.line == line)
        module = self.program.functions[MODULE][0]
        return module if node == self.scope.root else next((each for each in functions if each is not module), module)

    def _with_layouts(self, found: InferredKernel, request: _Request) -> tuple[tuple[Layout, InferredKernel], ...]:
        """Return the entries with tensors that are not contiguous, where the function reads strides."""
        reached = self._run(request.wrapper, request.defaults, request.decision)
        entries = []
        for layouts in layouts_to_try(reached):
            other = self._from(replace(request, layouts=layouts))
            if isinstance(other, InferredKernel):
                entries.append((next(iter(layouts.values())), other))
        return tuple(entries)

    def _from(self, request: _Request) -> InferredKernel | MissingLaunch:
        spec, wrapper = request.spec, request.wrapper
        try:
            reached = self._run(wrapper, request.defaults, request.decision, layouts=request.layouts)
        except (LimitError, RecursionError):
            return MissingLaunch("the launch, whose function is too long")
        launches = [one for one in reached.launches if one.kernel == self._name_of(spec)]
        if not launches:
            return MissingLaunch(_NOT_REACHED)
        missing: MissingLaunch | None = None
        bodies = (each.body for each in (self._function(wrapper), self._called_before(wrapper)) if each is not None)
        numbers = frozenset(parameter.name for body in bodies for parameter in body.parameters)
        for launch in launches:
            name = name_of(wrapper) or "the module"
            relations = LaunchRelations(numbers, reached.variables).assume(launch.conditions)
            found = LaunchEntry(spec, request.kernel, launch, reached, relations, request.accesses, name).inferred()
            if isinstance(found, InferredKernel):
                return found
            missing = missing or found
        assert missing is not None
        return missing

    def _run(
        self,
        wrapper: Node,
        defaults: bool,
        decision: bool | None = None,
        given: Mapping[str, Value] | None = None,
        layouts: Mapping[str, Layout] | None = None,
    ) -> HostRun:
        """Interpret a function; ``given`` are parameters whose values are known, ``layouts`` those not contiguous.

        Raises
        ------
        LimitError
            If it takes too many steps.
        """
        function, before = self._function(wrapper), self._called_before(wrapper)
        return WrapperRun(self.program, function, before, defaults, decision, given, layouts or {}).interpreted()

    def _called_before(self, wrapper: Node) -> HostFunction | None:
        """Return the method that sets the attributes which a method reads."""
        function = self._function(wrapper)
        if function.owner is None:
            return None
        name = "forward" if is_autograd(self.program, function.owner) else function.owner
        before = method_of(self.program, function.owner, name)
        return None if before is function else before


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
