"""A pyptx kernel as a subject: the code of each case, and its findings on lines of the ``.py``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyptx
from pyptx.kernel import Kernel

from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.deadline import DeadlineError, deadline
from gpuemu_lsp.engine.execution import Argument, Buffer, Dim3, Scalar
from gpuemu_lsp.engine.findings import Finding, Place
from gpuemu_lsp.engine.fuzz import cases as draw_cases
from gpuemu_lsp.engine.fuzz.model import Case
from gpuemu_lsp.engine.fuzz.pack import shape_of
from gpuemu_lsp.engine.plan.model import Plan, ScalarArg
from gpuemu_lsp.engine.project.expressions import Expression, evaluate, parse
from gpuemu_lsp.engine.project.model import PythonValue
from gpuemu_lsp.engine.ptx import parse as parse_ptx
from gpuemu_lsp.engine.regular_file import file_text
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.subjects.code_numerics import numerics_of_code
from gpuemu_lsp.engine.subjects.model import CaseCode, CodeError
from gpuemu_lsp.engine.subjects.pyptx.errors import trace_error
from gpuemu_lsp.engine.subjects.pyptx.plans import PyptxInterface, PyptxTensor
from gpuemu_lsp.engine.subjects.pyptx.symbolic import expression_of, symbolic
from gpuemu_lsp.engine.subjects.pyptx.tensor_maps import TensorMapError, tensor_map_of
from gpuemu_lsp.engine.subjects.pyptx.tracing import Trace, trace
from gpuemu_lsp.engine.subjects.source_map import SourceMap
from gpuemu_lsp.engine.tensor_map import ADDRESS_OFFSET, encode

TOOLCHAIN = f"pyptx {pyptx.__version__}"


class NoKernelError(Exception):
    """The module has no such kernel; the message is the reason."""


@dataclass(slots=True)
class PyptxKernelSubject:
    """A kernel, or the function that builds it, of an imported module.

    ``origin`` is the object of that name; ``builder`` says which of both it is, ``name`` is the kernel's own.
    ``seconds`` limits each trace; ``text`` is the editor's of ``path``.
    """

    origin: Any
    builder: bool
    path: str
    text: str
    function: str
    name: str
    place: Place
    seconds: float
    single: bool = False
    exact: set[str] = field(default_factory=set, init=False)
    _texts: dict[str, str | None] = field(default_factory=dict, init=False)
    _traces: dict[tuple[Any, ...], tuple[Kernel, Trace]] = field(default_factory=dict, init=False)
    _codes: dict[tuple[Any, ...], CaseCode] = field(default_factory=dict, init=False)
    _latest: tuple[Case, CaseCode] | None = field(default=None, init=False)

    def parameters(self, own: Mapping[str, str | None]) -> dict[str, bool]:
        """Return the parameters that need a value, and whether each has a default; ``own`` are those of the text."""
        found = {name: default is not None for name, default in own.items()}
        if not self.builder:
            found.update(dict.fromkeys(sorted(self.origin._shape_var_names), False))
        return found

    def interface(self, sizes: Plan, case: Case) -> PyptxInterface:
        """Return what the kernel declares, with shapes as expressions over the dims of a plan.

        Raises
        ------
        CodeError
            If the function that builds it fails.
        """
        values = {
            name: symbolic(value, expression) if (expression := _expression(sizes, name)) is not None else value
            for name, value in self._values(sizes, case).items()
        }
        kernel = self._guarded(lambda: self._built(values))
        env = {name: values[name] for name in kernel._shape_var_names if name in values}
        specs = (*kernel._in_specs, *kernel._out_specs)
        if not specs or len(specs) != len(kernel._positional_names):
            why = f"it has {len(kernel._positional_names)} tensors, and `in_specs` and `out_specs` declare {len(specs)}"
            raise CodeError((self._not_executed(why),))
        directions = ["in"] * len(kernel._in_specs) + ["out"] * len(kernel._out_specs)
        shapes = self._guarded(lambda: [tile.resolve_shape(env) for tile in specs])
        tensors = tuple(
            PyptxTensor(name, direction, tile.dtype.name, tuple(map(expression_of, shape)))
            for name, direction, tile, shape in zip(kernel._positional_names, directions, specs, shapes, strict=True)
        )
        grid = self._guarded(lambda: kernel._resolve_grid(env))
        raw = {name: kind for kind, name in kernel._raw_params or ()}
        return PyptxInterface(tensors, tuple(map(expression_of, _dim3(grid))), _dim3(kernel._block), raw)

    def first(self, plan: Plan, seed: int) -> CaseCode:
        """Return the code of the first case of a seed.

        Raises
        ------
        PlanError, CodeError
            If there is no case, or it has no code.
        """
        return self.code(plan, next(iter(draw_cases(plan, seed, 1))))

    def code(self, plan: Plan, case: Case) -> CaseCode:
        """Return the code of a case: the kernel, traced for its sizes.

        Raises
        ------
        CodeError
            If the module's functions fail, or the driver would refuse the launch.
        """
        # Asked for several times per case.
        if self._latest is not None and self._latest[0] is case:
            return self._latest[1]
        values = self._values(plan, case)
        kernel, traced = self._trace(values)
        self._check_shapes(kernel, values, case)
        env = _sizes(kernel, values)
        raw = {arg.param: case.scalars[arg.param].item() for arg in plan.args if isinstance(arg, ScalarArg)}
        parameters = _Parameters(
            tuple(kernel._positional_names),
            self._guarded(lambda: _raw_scalars(kernel, env, values, raw)),
            self._records(kernel, traced, env),
        )
        grid = _dim3(self._guarded(lambda: kernel._resolve_grid(env)))
        key = (traced.located, grid, parameters)
        if key not in self._codes:
            self._codes[key] = self._case_code(kernel, traced, grid, parameters)
        self._latest = case, self._codes[key]
        return self._codes[key]

    def user_text(self, path: str) -> str | None:
        """Return the text of a file; None if it cannot be read."""
        if path == self.path:
            return self.text
        if path not in self._texts:
            try:
                self._texts[path] = file_text(path)
            except (OSError, UnicodeDecodeError):
                self._texts[path] = None
        return self._texts[path]

    def _values(self, plan: Plan, case: Case) -> dict[str, Any]:
        """Return the values of the parameters in a case."""
        found = {
            arg.param: case.scalars[arg.param].item()
            for arg in plan.args
            if isinstance(arg, ScalarArg) and arg.constexpr
        }
        for choice in plan.triton.choices if plan.triton is not None else ():
            value = choice.value(case.dims)
            if isinstance(value, PythonValue):
                found[choice.param] = None if value.text == "None" else value.text.strip("'")
            else:
                found[choice.param] = value if isinstance(value, bool | float) else evaluate(value, case.dims)
        return found

    def _built(self, values: Mapping[str, Any]) -> Kernel:
        """Return the kernel for values of the builder's parameters."""
        found = self.origin(**values) if self.builder else self.origin
        for one in found if isinstance(found, tuple | list) else (found,):
            if isinstance(one, Kernel) and one._fn.__name__ == self.function:
                return one
        raise NoKernelError(f"{Path(self.path).name} has no kernel '{self.function}' where it is expected")

    def _trace(self, values: dict[str, Any]) -> tuple[Kernel, Trace]:
        key = tuple(sorted(values.items(), key=lambda item: item[0]))
        if key not in self._traces:

            def traced() -> tuple[Kernel, Trace]:
                kernel = self._built(values)
                template = {name: values[name] for name in kernel._template_names if name in values}
                return kernel, trace(kernel, _sizes(kernel, values), {} if self.builder else template, self.path)

            self._traces[key] = self._guarded(traced)
        return self._traces[key]

    def _guarded(self, call: Callable[[], Any]) -> Any:
        """Call the user's code; what it raises becomes a finding."""
        try:
            with deadline(self.seconds):
                return call()
        except DeadlineError as error:
            raise CodeError((self._not_executed(f"its trace took longer than {self.seconds:g} s"),)) from error
        except NoKernelError as error:
            raise CodeError((self._not_executed(str(error)),)) from error
        except Exception as error:  # the user's code raises anything
            raise CodeError((trace_error(error, self.path, self.user_text, self.place, self.name),)) from error

    def _check_shapes(self, kernel: Kernel, values: Mapping[str, Any], case: Case) -> None:
        """Refuse a case whose tensors have other shapes than the kernel declares for its sizes."""
        env = _sizes(kernel, values)
        for name, tile in zip(kernel._positional_names, (*kernel._in_specs, *kernel._out_specs), strict=True):
            declared, drawn = tuple(tile.resolve_shape(env)), shape_of(case, name)
            if declared != drawn:
                why = f"'{name}' has shape {declared} for some sizes, which is not {drawn} as for others"
                raise CodeError((self._not_executed(why),))

    def _records(self, kernel: Kernel, traced: Trace, env: Mapping[str, int]) -> tuple[tuple[str, bytes], ...]:
        """Return the tensor maps that a launch makes, by tensor."""
        specs = dict(zip(kernel._positional_names, (*kernel._in_specs, *kernel._out_specs), strict=True))
        found = []
        for name in traced.maps:
            tile = specs[name]
            box = None if tile.tma_box is None else [env[one] if isinstance(one, str) else one for one in tile.tma_box]
            element = max(tile.dtype.bits // 8, 1)
            try:
                made = tensor_map_of(tile, tile.resolve_shape(dict(env)), element, box)
                found.append((name, encode(made)))
            except TensorMapError as error:
                message = f"'{self.name}' cannot be launched: {error}."
                raise CodeError((make("api/failed-launch", message, self.place, kernel=self.name),)) from error
            except ValueError as error:
                message = f"cuTensorMapEncodeTiled refuses the tensor map of '{name}': {error}."
                raise CodeError((make("api/failed-launch", message, self.place, kernel=self.name),)) from error
        return tuple(found)

    def _case_code(self, kernel: Kernel, traced: Trace, grid: Dim3, parameters: _Parameters) -> CaseCode:
        artifact = Artifact(self.path, kernel._arch, traced.located, b"", {self.function: traced.entry}, {}, TOOLCHAIN)
        module = parse_ptx(traced.located)
        numerics = numerics_of_code(module, traced.entry)
        cluster = _dim3(kernel._cluster)
        return CaseCode(
            artifact,
            traced.entry,
            module,
            numerics,
            SourceMap(module.files, self.user_text, self.place),
            _dim3(kernel._block),
            traced.shared_bytes,
            parameters,
            representations={"ptx": traced.located},
            grid=grid,
            cluster=None if cluster == (1, 1, 1) else cluster,
        )

    def _not_executed(self, why: str) -> Finding:
        message = f"'{self.name}' was not run: {why}."
        return make("engine/not-executed", message, self.place, kernel=self.name, data={"reason": why})


@dataclass(frozen=True, slots=True)
class _Parameters:
    """Conversion of a plan's arguments to those of the kernel: tensors, scalars, then addresses of tensor maps."""

    tensors: tuple[str, ...]
    scalars: tuple[tuple[str, bytes], ...]
    records: tuple[tuple[str, bytes], ...]

    def __call__(self, arguments: tuple[Argument, ...], grid: Dim3) -> tuple[Argument, ...]:
        by_name = {argument.name: argument for argument in arguments}
        maps = []
        for name, record in self.records:
            target = by_name[name]
            assert isinstance(target, Buffer)
            data = np.frombuffer(record, dtype=np.uint8)
            shared = replace(target, alias_of=target.alias_of or name)
            maps.append(Buffer(f"{name}_tma_desc", data, element_size=8, pointers=((ADDRESS_OFFSET, shared),)))
        # A log that a diagnosis adds follows all parameters.
        own = {*self.tensors, *(name for name, _ in self.scalars)}
        added = (one for one in arguments if one.name not in own and not isinstance(one, Scalar))
        scalars = (Scalar(name, data) for name, data in self.scalars)
        return (*(by_name[name] for name in self.tensors), *scalars, *maps, *added)


def _expression(plan: Plan, name: str) -> Expression | None:
    """Return the expression of an integer parameter, None for another one."""
    for arg in plan.args:
        if isinstance(arg, ScalarArg) and arg.param == name and arg.dtype == "int64":
            return arg.value if isinstance(arg.value, Expression) else parse(int(arg.value))
    return None


def _sizes(kernel: Kernel, values: Mapping[str, Any]) -> dict[str, int]:
    """Return the sizes of a kernel's symbolic dimensions."""
    return {name: values[name] for name in kernel._shape_var_names if name in values}


def _raw_scalars(
    kernel: Kernel, env: Mapping[str, int], values: Mapping[str, Any], raw: Mapping[str, Any]
) -> tuple[tuple[str, bytes], ...]:
    """Return the scalar parameters as pyptx packs them."""
    names = kernel._raw_param_names
    found = kernel._resolve_callable_raw_params(
        shape_env=dict(env),
        template_kwargs={name: values[name] for name in kernel._template_names if name in values},
        raw_param_kwargs={name: value for name, value in raw.items() if name in names},
    )
    return tuple((name, int(bits).to_bytes(size, "little")) for _, name, bits, size in found)


def _dim3(sizes: Any) -> Dim3:
    x, y, z = (*((sizes,) if isinstance(sizes, int) else sizes), 1, 1, 1)[:3]
    return x, y, z
