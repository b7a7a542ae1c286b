"""A Triton kernel as a subject: the code of each case, and its findings on lines of the ``.py``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import triton
import triton.language as tl

from gpuemu_lsp.engine.compile.model import Artifact, Specialisation
from gpuemu_lsp.engine.compile.triton_backend import WARP_SIZE, with_fixed_locations
from gpuemu_lsp.engine.deadline import DeadlineError, deadline
from gpuemu_lsp.engine.execution import Argument, Buffer, Checks, Dim3, Scalar
from gpuemu_lsp.engine.findings import Finding, Place
from gpuemu_lsp.engine.fuzz import cases as draw_cases
from gpuemu_lsp.engine.fuzz.geometry import strides
from gpuemu_lsp.engine.fuzz.model import Case
from gpuemu_lsp.engine.fuzz.pack import shape_of
from gpuemu_lsp.engine.fuzz.variants import variant_of
from gpuemu_lsp.engine.plan.model import Plan, PythonChoice, ScalarArg, TensorArg
from gpuemu_lsp.engine.plan.triton import Tuning
from gpuemu_lsp.engine.project.expressions import evaluate, parse
from gpuemu_lsp.engine.project.model import ConstexprValue, PythonValue
from gpuemu_lsp.engine.ptx import parse as parse_ptx
from gpuemu_lsp.engine.ptx.triton_stores import with_ordered_stores
from gpuemu_lsp.engine.regular_file import file_text
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.subjects.ahead import VariantsAhead
from gpuemu_lsp.engine.subjects.code_numerics import numerics_of_code
from gpuemu_lsp.engine.subjects.model import CaseCode, CodeError
from gpuemu_lsp.engine.subjects.source_map import SourceMap
from gpuemu_lsp.engine.subjects.triton.compile_errors import TRITON_FOLDER, compile_error
from gpuemu_lsp.engine.subjects.triton.specialisation import (
    TensorStandIn,
    TritonCode,
    UnsupportedKernelError,
    compile_for,
    computed_parameters,
    configurations,
    jit_function,
    restored_buffers,
    scalar_bytes,
    specialisation_of,
)
from gpuemu_lsp.engine.subjects.triton.target import shared_limit, use_target

REPRESENTATIONS = ("ttir", "ttgir")
"""Triton's intermediate representations: of a program, and of a program whose tensors are laid out over threads."""
_TRIED = 16
"""Drawn cases of which one must compile: an autotuner skips configurations that need too much shared memory."""


@dataclass(slots=True)
class TritonKernelSubject:
    """A kernel of an imported module.

    ``seconds`` limits each compilation; ``text`` is the editor's of ``path``. ``general``: cases share code that
    assumes nothing of integers, but for those whose ids are in ``exact``.
    """

    module: ModuleType
    path: str
    text: str
    entry: str
    name: str
    place: Place
    arch: str
    seconds: float
    general: bool = False
    single: bool = False
    left_out: frozenset[str] = frozenset()
    """Variants whose code :meth:`first` does not return."""
    variants_ahead: VariantsAhead | None = None
    import_failure: Finding | None = field(default=None)
    """Why a part of the module was not executed, in which the kernel may call functions."""
    exact: set[str] = field(default_factory=set, init=False)
    _texts: dict[str, str | None] = field(default_factory=dict, init=False)
    _codes: dict[int, tuple[TritonCode, CaseCode]] = field(default_factory=dict, init=False)
    _latest: tuple[Case, str, bool, CaseCode] | None = field(default=None, init=False)
    _first: dict[tuple[int, int], tuple[Plan, CaseCode]] = field(default_factory=dict, init=False)
    _own_variants: set[str] = field(default_factory=set, init=False)
    """Variants that this process does not wait for."""

    @property
    def kernel(self) -> Any:
        """The function with its decorators; None if the module has no such kernel at its top level."""
        found = getattr(self.module, self.entry, None)
        return found if jit_function(found) is not None else None

    def tuning(self) -> Tuning:
        """Return what the decorators determine."""
        values = tuple(
            {name: _constexpr_value(value) for name, value in one.kwargs.items()} for one in configurations(self.kernel)
        )
        return Tuning(values, computed_parameters(self.kernel))

    def first(self, plan: Plan, seed: int) -> CaseCode:
        """Return the code of the first case of a seed that the autotuner would not skip.

        Raises
        ------
        PlanError
            If the plan has no case.
        CodeError
            If the case does not compile.
        """
        # Asked for when the kernel is prepared, and again when its cases begin.
        if (known := self._first.get((id(plan), seed))) is not None and known[0] is plan:
            return known[1]
        skipped = CodeError(())
        for case in draw_cases(plan, seed, _TRIED):
            variant = self.variant(plan, case)
            if variant in self.left_out:
                continue
            self._own_variants.add(variant)
            try:
                code = self.code(plan, case)
                self._first[id(plan), seed] = plan, code
                return code
            except CodeError as error:
                if error.findings:
                    raise
                skipped = error
        raise skipped

    def code(self, plan: Plan, case: Case) -> CaseCode:
        """Return the code of a case, compiled by Triton for its specialisation.

        Raises
        ------
        CodeError
            If Triton does not compile it, or the emulator cannot run it. Without findings: a configuration that the
            autotuner skips too, because it needs more shared memory than there is.
        """
        assert plan.triton is not None
        general = self.general and case.key.id not in self.exact
        # Asked for several times per case.
        if self._latest is not None and self._latest[0] is case and self._latest[1:3] == (plan.dtype, general):
            return self._latest[3]
        if self.variants_ahead is not None and general and (one := self.variant(plan, case)) not in self._own_variants:
            self.variants_ahead.wait(plan.dtype, one)
        use_target(self.arch)
        configuration = None
        if plan.triton.configuration is not None:
            configuration = configurations(self.kernel)[case.dims[plan.triton.configuration] - 1]
        try:
            with deadline(self.seconds):
                code = compile_for(self.kernel, self._arguments(plan, case, general), configuration, general=general)
        except DeadlineError as error:
            why = f"Triton's compilation took longer than {self.seconds:g} s"
            raise CodeError((self._not_executed(why),)) from error
        except UnsupportedKernelError as error:
            raise CodeError((self._not_executed(str(error)),)) from error
        except Exception as error:  # Triton raises every kind of exception for a kernel that is wrong
            raise CodeError(
                (compile_error(error, jit_function(self.kernel), self.user_text, self.place, self.name),)
            ) from error
        if code.shared_bytes > (limit := shared_limit(self.arch)):
            if configuration is not None:
                raise CodeError(())
            message = f"'{self.name}' needs {code.shared_bytes} bytes of shared memory; {self.arch} has {limit}."
            raise CodeError((make("compile/error", message, self.place, kernel=self.name, arch=self.arch),))
        known = self._codes.get(id(code.kernel))
        if known is None:
            known = self._codes[id(code.kernel)] = code, self._case_code(code)
        self._latest = case, plan.dtype, general, known[1]
        return known[1]

    def variant(self, plan: Plan, case: Case) -> str:
        """Return the dtype and the variant of a case as a line of text."""
        return f"{plan.dtype} {variant_of(plan, case.dims)}"

    def specialisation(self, code: CaseCode) -> Specialisation:
        """Return the variant of the kernel that a code is."""
        return next(specialisation_of(compiled) for compiled, known in self._codes.values() if known is code)

    def user_text(self, path: str) -> str | None:
        """Return the text of a file; None for one of Triton's own, whose functions are inlined into the kernel."""
        if path == self.path:
            return self.text
        if path not in self._texts:
            self._texts[path] = _saved_text(path)
        return self._texts[path]

    def _case_code(self, code: TritonCode) -> CaseCode:
        compiled = with_fixed_locations(code.ptx)
        ptx = with_ordered_stores(compiled)
        artifact = Artifact(self.path, self.arch, ptx, b"", {self.entry: code.name}, {}, f"triton {triton.__version__}")
        module = parse_ptx(ptx)
        return CaseCode(
            artifact,
            code.name,
            module,
            numerics_of_code(module, code.name),
            SourceMap(module.files, self.user_text, self.place),
            (WARP_SIZE * code.warps, 1, 1),
            code.shared_bytes,
            _Parameters(code),
            # Triton's programs have no threads: its compiler lays out shared memory, and lets several threads of a
            # program store one element.
            Checks(block_races=False),
            {"ptx": compiled, **{form: code.kernel.asm[form] for form in REPRESENTATIONS}},
            parameters=tuple(name for name, kind in code.signature.items() if kind != "constexpr"),
            restored=restored_buffers(self.kernel),
        )

    def _arguments(self, plan: Plan, case: Case, general: bool) -> dict[str, Any]:
        """Return the arguments of the launch, as Triton's launcher takes them.

        ``general``: a tensor that some case has at an unaligned address has one. The code of an unaligned pointer is
        valid for an aligned one.
        """
        assert plan.triton is not None
        given: dict[str, Any] = {}
        for arg in plan.args:
            if isinstance(arg, TensorArg):
                shape = shape_of(case, arg.param)
                owner = case.extra.get(f"alias:{arg.param}", arg.param)
                offset = int(case.extra.get(f"offset:{owner}", "0")) or (arg.align or 0 if general else 0)
                steps = strides(case.extra, arg.param, shape)
                given[arg.param] = TensorStandIn.of(arg.dtype, shape, steps, offset)
            else:
                given[arg.param] = _python_scalar(arg, case)
        for choice in plan.triton.choices:
            given[choice.param] = _chosen(choice, case.dims)
        for name, expression in plan.triton.options:
            given[name] = evaluate(expression, case.dims)
        return given

    def _not_executed(self, why: str) -> Finding:
        message = f"'{self.name}' was not run: {why}."
        return make("engine/not-executed", message, self.place, kernel=self.name, data={"reason": why})


@dataclass(frozen=True, slots=True)
class _Parameters:
    """Conversion of a plan's arguments to those of a compiled specialisation.

    Compile-time values, and integers equal to 1, are not passed. Two pointers follow the parameters of the function:
    the scratch memory of the launch, and that of Triton's profiler.
    """

    code: TritonCode

    def __call__(self, arguments: tuple[Argument, ...], grid: Dim3) -> tuple[Argument, ...]:
        by_name = {argument.name: argument for argument in arguments}
        found: list[Argument] = []
        for name, kind in self.code.signature.items():
            if kind == "constexpr":
                continue
            argument = by_name[name]
            if isinstance(argument, Scalar):
                argument = Scalar(name, scalar_bytes(kind, _value_of(argument, kind)))
            elif isinstance(argument, Buffer) and name in self.code.zeroed:
                zeros = np.zeros_like(argument.data)
                argument = Buffer(
                    name,
                    zeros,
                    True,
                    argument.element_size,
                    argument.offset,
                    argument.alias_of,
                    argument.pointer_offset,
                )
            found.append(argument)
        for name, size in zip(("global scratch", "profile scratch"), self.code.scratch_bytes, strict=True):
            total = size * grid[0] * grid[1] * grid[2]
            empty = Scalar(name, bytes(8))
            found.append(Buffer(name, np.zeros(total, np.uint8), initialized=False) if total else empty)
        # A log that a diagnosis adds follows all parameters.
        return (*found, *(argument for argument in arguments if argument.name not in self.code.signature))


def _value_of(argument: Scalar, kind: str) -> Any:
    """Return the value of a packed scalar: int64, float32 or bool, as the plans of Triton kernels have them."""
    if "f" in kind:
        dtype: Any = np.float64 if len(argument.data) == 8 else np.float32
        return float(np.frombuffer(argument.data, dtype)[0])
    return int.from_bytes(argument.data, "little", signed=len(argument.data) == 8)


def _python_scalar(arg: ScalarArg, case: Case) -> Any:
    return case.scalars[arg.param].item()


def _chosen(choice: PythonChoice, dims: Mapping[str, int]) -> Any:
    value = choice.value(dims)
    if isinstance(value, PythonValue):
        return python_value(value.text)
    return value if isinstance(value, bool | float) else evaluate(value, dims)


def python_value(text: str) -> Any:
    """Return the value of ``'text'``, ``None`` or ``tl.float16``."""
    if text == "None":
        return None
    return text[1:-1] if text.startswith("'") else getattr(tl, text.removeprefix("tl."))


def _constexpr_value(value: Any) -> ConstexprValue:
    if isinstance(value, bool | float):
        return value
    return parse(value) if isinstance(value, int) else PythonValue(f"'{value}'")


def _saved_text(path: str) -> str | None:
    if Path(path).is_relative_to(TRITON_FOLDER):
        return None
    try:
        return file_text(path)
    except (OSError, UnicodeDecodeError):
        return None
