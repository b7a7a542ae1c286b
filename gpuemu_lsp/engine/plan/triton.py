"""Plans of a Triton kernel: its parameters as gpuemu.toml configures them, and its compile-time values.

A Triton function has no types: the dtype of a pointer is that of the tensor it is called with, so each of ``dtypes``
gives a plan. A ``tl.constexpr`` with several values is a size like any other: the fuzzer chooses one for each case, a
stored case has it, and the grid can depend on it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gpuemu_lsp.engine.findings import Finding, Place, Range
from gpuemu_lsp.engine.plan.model import Plan, PlanArg, PlanResult, PythonChoice, ScalarArg, TensorArg, TritonOptions
from gpuemu_lsp.engine.project.expressions import Binary, Call, Expression, Name, Negation, Node, constant, names, parse
from gpuemu_lsp.engine.project.model import (
    ConstexprValue,
    DimSpec,
    KernelSpec,
    PointerSpec,
    ScalarSpec,
)
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.source.python.model import PythonSource, TritonKernel, TritonParam

CONFIGURATION = "config"
"""The dim whose value is the number of the autotuner's configuration."""
_DEFAULT_WARPS = 4
"""Triton's default, from which the number of threads is estimated where an autotuner decides."""
_INTEGER = re.compile(r"-?\d+")
_NUMBER = re.compile(r"-?(\d+\.\d*|\.\d+|\d+)([eE][-+]?\d+)?")


@dataclass(frozen=True, slots=True)
class Tuning:
    """What decorators of the function determine.

    ``configurations`` are the values of an autotuner's configurations, by parameter. ``computed`` are the parameters
    that heuristics compute at the launch.
    """

    configurations: tuple[Mapping[str, ConstexprValue], ...] = ()
    computed: frozenset[str] = frozenset()

    @property
    def tuned(self) -> tuple[str, ...]:
        """The parameters that the configurations set."""
        return tuple(dict.fromkeys(name for one in self.configurations for name in one))


def choose_triton_kernel(spec: KernelSpec, source: PythonSource) -> tuple[TritonKernel | None, tuple[Finding, ...]]:
    """Return the function of an entry: the one named ``entry`` or like the kernel, else the only one."""
    place = spec.places.get("entry") or spec.places.get("name") or start_of(source.path)
    candidates = [kernel for kernel in source.triton if kernel.name == (spec.entry or spec.name)]
    if not candidates and spec.entry is None:
        launched = [kernel for kernel in source.triton if kernel.launched]
        candidates = launched or list(source.triton)
        if len(candidates) > 1:
            known = ", ".join(kernel.name for kernel in candidates)
            message = (
                f"{_short(source.path)} has several kernels ({known}) and none is named '{spec.name}'. "
                f'Select one: entry = "{candidates[0].name}"'
            )
            return None, (make("config/ambiguous-signature", message, place, kernel=spec.name),)
    if candidates:
        return candidates[-1], ()  # a later definition replaces an earlier one
    wanted = spec.entry or spec.name
    names_there = [kernel.name for kernel in source.triton]
    close = difflib.get_close_matches(wanted, names_there, n=1)
    there = f"There are: {', '.join(names_there)}." if names_there else "It has no function with @triton.jit."
    hint = f"Did you mean '{close[0]}'?" if close else there
    message = f"There is no Triton kernel '{wanted}' in {_short(source.path)}. {hint}"
    return None, (make("compile/missing-entry", message, place, kernel=spec.name),)


def entry_template(kernel: TritonKernel, source: PythonSource) -> str:
    """Return the TOML that registers a kernel, to be completed."""
    launch = next((one for one in source.launches if one.kernel == kernel.name), None)
    entry = f'[[kernels]]\nname = "{kernel.name}"\nsource = "{_short(source.path)}"'
    lines = _skeleton(kernel, launch.keywords if launch is not None else {}).partition("\n")[2]
    return f"{entry}\n{lines}"


def unregistered_specs(
    source: PythonSource, registered: Container[str], launched: Container[str] = ()
) -> list[KernelSpec]:
    """Return the specs of the kernels that a file, or another one for those in ``launched``, launches."""
    return [
        KernelSpec(
            kernel.name,
            source.path,
            None,
            entry=kernel.name,
            language="triton",
            places={"": Place(source.path, kernel.name_range)},
        )
        for index, kernel in enumerate(source.triton)
        if (kernel.launched or kernel.name in launched)
        and kernel.name not in registered
        and all(kernel.name != other.name for other in source.triton[index + 1 :])
    ]


def start_of(path: str) -> Place:
    """Return the first character of a file."""
    return Place(path, Range.of(0, 0, 0, 1))


def resolve_triton(spec: KernelSpec, source: PythonSource, kernel: TritonKernel, tuning: Tuning) -> PlanResult:
    """Return one plan for each dtype, or findings that say what to add to gpuemu.toml."""
    plans: list[Plan] = []
    findings: list[Finding] = []
    for dtype in spec.dtypes or ("float32",):
        planning = _Planning(spec, kernel, Place(source.path, kernel.name_range), dtype, tuning)
        plan = planning.plan()
        findings += [finding for finding in planning.findings if finding not in findings]
        if plan is not None:
            plans.append(plan)
    return PlanResult(tuple(plans), (kernel.name,), tuple(findings))


@dataclass(slots=True)
class _Planning:
    """Construction of the plan of one dtype."""

    spec: KernelSpec
    kernel: TritonKernel
    place: Place
    dtype: str
    tuning: Tuning
    findings: list[Finding] = field(default_factory=list)
    dims: list[DimSpec] = field(default_factory=list)
    values: dict[str, Expression] = field(default_factory=dict)
    """Integer values of constexprs, which the grid may name."""
    choices: list[PythonChoice] = field(default_factory=list)

    def plan(self) -> Plan | None:
        if self.spec.args is None or self.spec.launch is None or self.spec.launch.grid is None:
            self._ambiguous()
            return None
        self._check_names()
        configuration = self._configurations()
        args: list[PlanArg] = []
        missing: list[str] = []
        for param in self.kernel.params:
            given = self.spec.constexprs.get(param.name)
            if given is not None:
                args += self._constexpr(param, given)
            elif param.name in self.tuning.tuned or param.name in self.tuning.computed:
                continue
            elif param.constexpr:
                args += self._default(param, missing)
            elif (argument := self._argument(param)) is not None:
                args.append(argument)
            elif param.default is None:
                missing.append(param.name)
        if missing:
            self._missing(missing)
        options = self._options()
        grid = tuple(_with_values(part, self.values) for part in self.spec.launch.grid)
        self._check_grid(grid)
        if self.findings:
            return None
        warps = dict(options).get("num_warps", parse(_DEFAULT_WARPS))
        # The sizes of the kernel come last: the fuzzer varies the last of them first.
        dims = (*self.dims, *(self.spec.dims or {}).values())
        return Plan(
            kernel=self.spec.name,
            entry=self.kernel.name,
            dtype=self._dtype(args),
            args=tuple(args),
            dims=dims,
            grid=grid,
            block=(_with_values(parse("32 * num_warps"), {"num_warps": warps}),),
            shared=parse(0),
            place=self.place,
            triton=TritonOptions(options, tuple(self.choices), configuration),
        )

    def _error(self, rule: str, message: str, key: str) -> None:
        self.findings.append(make(rule, message, self._config_place(key), kernel=self.spec.name))

    def _config_place(self, key: str) -> Place:
        places = self.spec.places
        while key and key not in places:
            key = key.rpartition(".")[0]
        return places.get(key, self.place)

    def _check_names(self) -> None:
        """Report arguments and constexprs that the function does not have."""
        known = {param.name: param for param in self.kernel.params}
        for table, given in (("args", self.spec.args or {}), ("constexprs", self.spec.constexprs)):
            for name in given:
                if name in known:
                    if table == "args" and known[name].constexpr:
                        message = f"'{name}' is a tl.constexpr; set it in [kernels.constexprs]."
                        self._error("config/bad-value", message, f"args.{name}")
                    continue
                close = difflib.get_close_matches(name, sorted(known), n=1)
                hint = f"Did you mean '{close[0]}'?" if close else f"It has: {', '.join(known)}."
                self._error(
                    "config/bad-value", f"'{self.kernel.name}' has no parameter '{name}'. {hint}", f"{table}.{name}"
                )
        launch = self.spec.launch
        for key in ("block", "shared"):
            if launch is not None and getattr(launch, key) is not None:
                message = f"Triton determines `{key}` itself; a Triton kernel has `num_warps` and `num_stages`."
                self._error("config/bad-value", message, f"launch.{key}")

    def _configurations(self) -> str | None:
        """Let a dim choose the autotuner's configuration; return it."""
        configurations = self.tuning.configurations
        if len(configurations) < 1:
            return None
        numbers = tuple(range(1, len(configurations) + 1))
        self.dims.append(choice_dim(CONFIGURATION, numbers))
        for name in self.tuning.tuned:
            values = [one.get(name) for one in configurations]
            integers = [value for value in values if isinstance(value, Expression)]
            if len(integers) == len(values):
                self.values[name] = selection(CONFIGURATION, integers)
        return CONFIGURATION

    def _constexpr(self, param: TritonParam, given: tuple[ConstexprValue, ...]) -> Iterator[PlanArg]:
        """Add the values of a constexpr; yield the argument that gives them to the reference, if they are scalars."""
        numbers = [_number(value) for value in given]
        if len(given) > 1 and all(number is not None and number > 0 for number in numbers):
            # The values themselves are a dim's: findings then show them.
            self.dims.append(choice_dim(param.name, tuple(number for number in numbers if number is not None)))
            yield ScalarArg(param.name, param.name, "int64", parse(param.name), constexpr=True)
            return
        name = param.name
        if len(given) > 1:
            self.dims.append(choice_dim(name, tuple(range(1, len(given) + 1))))
        whole = [parse(int(value)) if isinstance(value, bool) else value for value in given]
        expressions = [value for value in whole if isinstance(value, Expression)]
        if len(expressions) < len(given):
            if len(given) == 1 and isinstance(given[0], float):
                yield ScalarArg(name, name, "float64", given[0], constexpr=True)
            else:
                self.choices.append(PythonChoice(name, given, name if len(given) > 1 else None))
            return
        chosen = [_with_values(value, self.values) for value in expressions]
        value = chosen[0] if len(given) == 1 else selection(name, chosen)
        flags = all(isinstance(one, bool) for one in given)
        if len(given) == 1 or not flags:
            self.values[name] = value
        yield ScalarArg(name, name, "bool" if flags else "int64", value, constexpr=True)

    def _default(self, param: TritonParam, missing: list[str]) -> Iterator[PlanArg]:
        """Yield a constexpr that gpuemu.toml does not set: a dim of its name, or its default if that is a literal."""
        if param.name in (self.spec.dims or {}):
            yield ScalarArg(param.name, param.name, "int64", parse(param.name), constexpr=True)
        elif param.default is None:
            missing.append(param.name)
        elif _INTEGER.fullmatch(param.default):
            self.values[param.name] = parse(param.default)
            yield ScalarArg(param.name, param.name, "int64", self.values[param.name], constexpr=True)
        elif param.default in ("True", "False"):
            yield ScalarArg(param.name, param.name, "bool", param.default == "True", constexpr=True)

    def _argument(self, param: TritonParam) -> PlanArg | None:
        assert self.spec.args is not None
        given = self.spec.args.get(param.name)
        if isinstance(given, PointerSpec):
            return TensorArg(
                param.name,
                given.key or param.name,
                given.direction,
                given.dtype or self.dtype,
                tuple(_with_values(extent, self.values) for extent in given.shape),
                given.range,
                given.align,
                given.strided,
                given.may_alias,
                compare=given.compare,
                strides=tuple(_with_values(stride, self.values) for stride in given.strides),
            )
        if isinstance(given, ScalarSpec):
            value, key = given.value, given.key or param.name
            if isinstance(value, Expression):
                return ScalarArg(param.name, key, "int64", _with_values(value, self.values))
            # As Triton's launcher passes them: a Python float becomes fp32.
            return ScalarArg(param.name, key, "bool" if isinstance(value, bool) else "float32", value)
        if param.name in (self.spec.dims or {}):
            return ScalarArg(param.name, param.name, "int64", parse(param.name))
        if param.default is not None and _NUMBER.fullmatch(param.default):
            if _INTEGER.fullmatch(param.default):
                return ScalarArg(param.name, param.name, "int64", parse(param.default))
            return ScalarArg(param.name, param.name, "float32", float(param.default))
        return None

    def _options(self) -> tuple[tuple[str, Expression], ...]:
        options: list[tuple[str, Expression]] = []
        launch = self.spec.launch
        assert launch is not None
        for name, given in (("num_warps", launch.num_warps), ("num_stages", launch.num_stages)):
            if len(given) > 1:
                self.dims.append(choice_dim(name, given))
                options.append((name, parse(name)))
            elif given:
                options.append((name, parse(given[0])))
        return tuple(options)

    def _check_grid(self, grid: Sequence[Expression]) -> None:
        known = [dim.name for dim in self.dims] + [*(self.spec.dims or {})]
        for expression in grid:
            for name in sorted(names(expression) - set(known)):
                message = f"Unknown dimension '{name}' in the grid of '{self.spec.name}'; known: {', '.join(known)}."
                self._error("config/bad-value", message, "launch.grid")

    def _dtype(self, args: Sequence[PlanArg]) -> str:
        tensors = [arg for arg in args if isinstance(arg, TensorArg)]
        return self.dtype if not tensors or any(arg.dtype == self.dtype for arg in tensors) else tensors[0].dtype

    def _missing(self, missing: Sequence[str]) -> None:
        known = {param.name: param for param in self.kernel.params}
        constexprs = [name for name in missing if known[name].constexpr]
        rest = [name for name in missing if not known[name].constexpr]
        parts = [f"[kernels.constexprs] {name} = 128" for name in constexprs]
        parts += [f'[kernels.args] {name} = {{ in = ["n"] }}' for name in rest]
        message = f"'{self.kernel.name}' was not run: {', '.join(missing)} has no value. Add: {'; '.join(parts)}"
        self._error("config/ambiguous-signature", message, "constexprs" if not rest else "args")

    def _ambiguous(self) -> None:
        message = (
            f"'{self.kernel.name}' was not run: its arguments and grid are not configured.\n{_skeleton(self.kernel)}"
        )
        self.findings.append(make("config/ambiguous-signature", message, self.place, kernel=self.spec.name))


def choice_dim(name: str, values: tuple[int, ...]) -> DimSpec:
    """Return a dim that has exactly these values, each of which is tried."""
    return DimSpec(name, min(values), max(values), include=values, choices=values)


def _number(value: ConstexprValue) -> int | None:
    return constant(value) if isinstance(value, Expression) else None


def _skeleton(kernel: TritonKernel, launched: Mapping[str, str] | None = None) -> str:
    """Return the TOML to add; directions and shapes are a guess from the names, for the user to correct.

    ``launched`` are the keyword arguments of a launch, as written.
    """
    written = launched or {}
    lines = ["Add to gpuemu.toml:", "[kernels.dims]", "n = { min = 1, max = 1024 }"]
    constexprs = [param for param in kernel.params if param.constexpr]
    if constexprs:
        lines.append("[kernels.constexprs]")
        lines += [f"{param.name} = {_literal(written.get(param.name, param.default))}" for param in constexprs]
    lines.append("[kernels.args]")
    for param in kernel.params:
        if param.constexpr:
            continue
        if re.search(r"ptr|^[a-z]$|^(x|y|out|output|in|input|a|b|c)\w*$", param.name) and "stride" not in param.name:
            direction = "out" if re.match(r"out|y|c(_|$)|z", param.name) else "in"
            lines.append(f'{param.name} = {{ {direction} = ["n"] }}')
        else:
            lines.append(f'{param.name} = "n"')
    lines += ["[kernels.launch]", f'grid = ["ceil_div(n, {constexprs[0].name if constexprs else 128})"]']
    return "\n".join(lines)


def _literal(text: str | None) -> str:
    """Return a compile-time value as TOML, if its text is a literal; else a size to start from."""
    if text in ("True", "False"):
        return text.lower()
    return text if text is not None and _NUMBER.fullmatch(text) else "128"


def _with_values(expression: Expression, values: Mapping[str, Expression]) -> Expression:
    """Return the expression with names replaced by expressions; its text stays as written."""
    return Expression(_node_with(expression.root, values), expression.text)


def selection(index: str, choices: Sequence[Expression]) -> Expression:
    """Return the expression whose value is that of the choice with the number ``index``, from 1."""
    text = f"one of {', '.join(map(str, choices))}"
    return Expression(Call("select", (Name(index), *(choice.root for choice in choices))), text)


def _node_with(node: Node, values: Mapping[str, Expression]) -> Node:
    match node:
        case Name(name):
            return values[name].root if name in values else node
        case Negation(operand, column):
            return Negation(_node_with(operand, values), column)
        case Binary(operator, left, right, column):
            return Binary(operator, _node_with(left, values), _node_with(right, values), column)
        case Call(function, arguments, column):
            return Call(function, tuple(_node_with(argument, values) for argument in arguments), column)
        case _:
            return node


def _short(path: str) -> str:
    return path.rsplit("/", 1)[-1]
