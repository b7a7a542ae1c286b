"""Records of the ``[[kernels]]`` and ``[[ops]]`` entries."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from gpuemu_lsp.engine.findings import Place, Related
from gpuemu_lsp.engine.project.arguments import arg_expressions, build_args, check_names
from gpuemu_lsp.engine.project.check import check_table, flat_arguments
from gpuemu_lsp.engine.project.dims import build_dims
from gpuemu_lsp.engine.project.expressions import Expression
from gpuemu_lsp.engine.project.files import module_file
from gpuemu_lsp.engine.project.inheritance import complete
from gpuemu_lsp.engine.project.keys import KERNEL, OP
from gpuemu_lsp.engine.project.launch import build_launch, launch_expressions
from gpuemu_lsp.engine.project.message_text import shorten, show
from gpuemu_lsp.engine.project.model import (
    ArtifactChecks,
    ConstexprValue,
    Invariants,
    KernelSpec,
    LaunchSpec,
    OpSpec,
    PointerSpec,
    ScalarSpec,
    Tolerance,
    Validation,
)
from gpuemu_lsp.engine.project.tree import Path
from gpuemu_lsp.engine.project.value_kinds import DTYPES, Table, toml_type
from gpuemu_lsp.engine.project.values import ConfigContext, FileRef

_DEFAULT_ARCH = ("sm_80",)
_NO_NAME = "Only a .py file has `:NAME`, for the CUDA code in a string; select a kernel with `entry`."
_OTHER_BRACES = re.compile(r"\{(?!T\})[^}]*\}?|(?<!\{T)\}")


def read_kernels(
    entries: list[Any], validation: Validation, context: ConfigContext
) -> tuple[tuple[KernelSpec, ...], tuple[str, ...]]:
    """Return the valid ``[[kernels]]`` entries, and the names (or ``#n``) of the others."""
    usable: list[KernelSpec] = []
    broken: list[str] = []
    first: dict[str, Place] = {}
    completed = complete(entries, context.reporter.tree)
    for index, entry in enumerate(completed.entries):
        path: Path = ("kernels", index)
        before = context.reporter.count
        checked = _check_entry(KERNEL, entry, path, first, context)
        if index in completed.problems and "like" in (checked or {}):
            message, suggestion = completed.problems[index]
            context.reporter.bad_value((*path, "like"), message, suggestion=suggestion)
        spec = None if checked is None else _kernel(checked, entry, path, validation, context)
        context.reporter.kernel = None
        if spec is not None and context.reporter.count == before and index not in completed.incomplete:
            usable.append(spec)
        else:
            broken.append(checked["name"] if checked and "name" in checked else f"#{index + 1}")
    return tuple(usable), tuple(broken)


def read_ops(
    entries: list[Any], kernels: Sequence[KernelSpec], validation: Validation, context: ConfigContext
) -> tuple[tuple[KernelSpec, ...], tuple[str, ...]]:
    """Return the valid ``[[ops]]`` entries, and the names (or ``#n``) of the others. Kernels have other names."""
    usable: list[KernelSpec] = []
    broken: list[str] = []
    first = {spec.name: spec.places["name"] for spec in kernels}
    for index, entry in enumerate(entries):
        path: Path = ("ops", index)
        before = context.reporter.count
        checked = _check_entry(OP, entry, path, first, context)
        spec = None if checked is None else _op(checked, entry, path, validation, context)
        context.reporter.kernel = None
        if spec is not None and context.reporter.count == before:
            usable.append(spec)
        else:
            broken.append(checked["name"] if checked and "name" in checked else f"#{index + 1}")
    return tuple(usable), tuple(broken)


def tolerances(checked: Mapping[str, Any]) -> dict[str, Tolerance]:
    """Return tolerances by dtype; a bare number is both ``atol`` and ``rtol``."""
    return {
        dtype: Tolerance(value.get("atol", 0.0), value.get("rtol", 0.0))
        if isinstance(value, dict)
        else Tolerance(value, value)
        for dtype, value in checked.items()
    }


def _check_entry(
    table: Table, entry: Any, path: Path, first: dict[str, Place], context: ConfigContext
) -> dict[str, Any] | None:
    reporter = context.reporter
    if toml_type(entry) != "table":
        reporter.bad_value(path, f"Item {int(path[-1]) + 1} of `{path[0]}` is {show(entry)}; write `[[{path[0]}]]`.")
        return None
    if isinstance(entry.get("name"), str):
        reporter.kernel = entry["name"]
    checked = check_table(table, entry, path, context)
    name = checked.get("name")
    if name in first:
        related = (Related(first[name], "first entry of this name"),)
        message = f"Duplicate name `{shorten(name)}`; every entry needs its own."
        reporter.bad_value((*path, "name"), message, related)
    elif name is not None:
        first[name] = reporter.place((*path, "name"))
    return checked


def _kernel(
    checked: dict[str, Any], raw: Mapping[str, Any], path: Path, validation: Validation, context: ConfigContext
) -> KernelSpec | None:
    reporter = context.reporter
    entry = checked.get("entry")
    if entry is not None and (brace := _OTHER_BRACES.search(entry)):
        message = (
            f"Only `{{T}}` is replaced in `entry`, not `{shorten(brace.group())}`; write the type or value itself."
        )
        reporter.bad_part((*path, "entry"), entry, (brace.start(), len(brace.group())), message)
    arch = tuple(dict.fromkeys(checked.get("arch", _DEFAULT_ARCH)))
    dims = build_dims(checked["dims"], (*path, "dims"), reporter) if "dims" in checked else None
    args_path, launch_path = (*path, "args"), (*path, "launch")
    args = build_args(checked["args"], raw["args"], args_path, reporter) if "args" in checked else None
    launch = build_launch(checked["launch"], arch, launch_path, reporter) if "launch" in checked else None
    constexprs: Mapping[str, tuple[ConstexprValue, ...]] = checked.get("constexprs", {})
    _check_all_names(raw, args, launch, constexprs, path, context)
    if "name" not in checked or "source" not in checked:
        return None
    source: FileRef = checked["source"]
    if source.function is not None and not source.path.endswith(".py"):
        written = f":{source.function}"
        part = len(raw["source"]) - len(written), len(written)
        reporter.bad_part((*path, "source"), raw["source"], part, _NO_NAME)
    reference: FileRef | None = checked.get("reference")
    dtypes = checked.get("dtypes") or (validation.dtypes if entry and "{T}" in entry else ())
    return KernelSpec(
        name=checked["name"],
        source=source.path,
        reference=reference.path if reference else None,
        entry=entry,
        dtypes=tuple(dict.fromkeys(dtypes)) or None,
        arch=arch,
        compile_options=checked.get("compile_options", ()),
        include_dirs=tuple(folder.path for folder in checked.get("include_dirs", ())),
        dims=dims,
        args=args,
        launch=launch,
        tolerances={**validation.tolerances, **tolerances(checked.get("tolerances", {}))},
        invariants=Invariants(**checked.get("invariants", {})),
        artifact_checks=ArtifactChecks(**checked["artifact_checks"]) if "artifact_checks" in checked else None,
        places=_places(path, context),
        reference_function=(reference.function if reference else None) or "reference",
        like=checked.get("like"),
        inherited=_inherited(path, context),
        variable=source.function,
        language=checked.get("language"),
        constexprs=constexprs,
    )


def _check_all_names(
    raw: Mapping[str, Any],
    args: Mapping[str, PointerSpec | ScalarSpec] | None,
    launch: LaunchSpec | None,
    constexprs: Mapping[str, tuple[ConstexprValue, ...]],
    path: Path,
    context: ConfigContext,
) -> None:
    # The raw tables, because a dim or argument with an invalid value is still a name. Inferred arguments define dims
    # too (the C parameters), which only the plan has.
    raw_dims, raw_args = raw.get("dims", {}), raw.get("args")
    dims = raw_dims if isinstance(raw_dims, dict) and raw_args is not None else None
    raw_constexprs = raw.get("constexprs")
    if dims is not None and isinstance(raw_constexprs, dict):
        dims = {**dims, **raw_constexprs}
    tensors: dict[str, PointerSpec | None] | None = None
    if isinstance(raw_args, dict):
        built = args or {}
        written = flat_arguments(raw_args, (*path, "args"))
        tensors = {name: None for name, (_, value) in written.items() if isinstance(value, dict)}
        tensors.update({name: spec for name, spec in built.items() if isinstance(spec, PointerSpec)})
    for where, expression in arg_expressions(args or {}, (raw_args or {}) if args else {}, (*path, "args")):
        check_names(where, expression, dims, tensors, context.reporter)
    # A Triton kernel's function and its autotuner have further constexprs, which only the plan has.
    in_launch = None if _may_be_triton(raw) else dims
    for where, expression in launch_expressions(launch or LaunchSpec(), (*path, "launch")):
        check_names(where, expression, in_launch, tensors, context.reporter)
    for name, choices in constexprs.items():
        listed = isinstance((raw_constexprs or {}).get(name), list)
        for index, value in enumerate(choices):
            if isinstance(value, Expression):
                where = (*path, "constexprs", name, index) if listed else (*path, "constexprs", name)
                check_names(where, value, dims, tensors, context.reporter)


def _may_be_triton(raw: Mapping[str, Any]) -> bool:
    return raw.get("language") in ("triton", "pyptx") or str(raw.get("source", "")).endswith(".py")


def _places(path: Path, context: ConfigContext) -> dict[str, Place]:
    reporter = context.reporter
    places = {"": reporter.place(path)}
    # Tolerances are merged, so the place of one may be in [validation]; their keys are the normalised dtypes.
    for found in reporter.tree.below(("validation",)):
        if len(found) == 3 and found[1] == "tolerances":
            places[f"tolerances.{DTYPES.get(str(found[2]), found[2])}"] = reporter.place(found)
    return places | {_dotted(found[len(path) :]): reporter.place(found) for found in reporter.tree.below(path)}


def _inherited(path: Path, context: ConfigContext) -> frozenset[str]:
    tree = context.reporter.tree
    return frozenset(_dotted(found[len(path) :]) for found in tree.below(path) if found in tree.inherited)


def _dotted(path: Path) -> str:
    names = [str(part) for part in path]
    if names[:1] == ["tolerances"] and len(names) > 1:
        names[1] = DTYPES.get(names[1], names[1])
    return ".".join(names)


_CALLS = ("op", "run", "op_script")
_TARGET = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def _op(
    checked: dict[str, Any], raw: Mapping[str, Any], path: Path, validation: Validation, context: ConfigContext
) -> KernelSpec | None:
    reporter = context.reporter
    dims = build_dims(checked["dims"], (*path, "dims"), reporter) if "dims" in checked else None
    args = build_args(checked["args"], raw["args"], (*path, "args"), reporter) if "args" in checked else None
    _check_all_names(raw, args, None, {}, path, context)
    given = [key for key in _CALLS if key in checked]
    for key in given[1:]:
        reporter.bad_value((*path, key), f"`{key}` and `{given[0]}` both say how the op is run; remove one of them.")
    target = checked.get("op")
    if target is not None and not _TARGET.fullmatch(target):
        reporter.bad_value((*path, "op"), f"`op` is {show(target)}; write `module:function`.")
    _check_input_names(raw.get("input_names"), args, (*path, "input_names"), context)
    for key in [key for key in checked.get("kwargs", {}) if key in (args or {})]:
        reporter.bad_key((*path, "kwargs", key), f"`{key}` is in `[ops.args]` too; remove one of them.")
    if "op_schema" in checked and "args" in checked:
        reporter.bad_value((*path, "op_schema"), "`op_schema` and `[ops.args]` both state the inputs; remove one.")
    if "name" not in checked or "reference" not in checked:
        return None
    reference: FileRef = checked["reference"]
    run: FileRef | None = checked.get("run")
    script: FileRef | None = checked.get("op_script")
    schema: FileRef | None = checked.get("op_schema")
    python: FileRef | None = checked.get("python")
    folder = context.folder.as_posix()
    call = OpSpec(
        folder=folder,
        target=target,
        run_file=run.path if run else None,
        run_function=(run.function if run else None) or "run",
        op_script=script.path if script else None,
        module=checked.get("module"),
        input_names=checked.get("input_names", ()),
        execution_mode=checked.get("execution_mode", "client_side"),
        frameworks=checked.get("frameworks", ()),
        layouts=tuple(dict.fromkeys(checked["layouts"])) if "layouts" in checked else None,
        schema=schema.path if schema else None,
        python=python.path if python else None,
        kwargs=checked.get("kwargs", {}),
    )
    own = call.run_file or call.op_script or (module_file(folder, target) if target else None)
    return KernelSpec(
        name=checked["name"],
        source=own or reporter.place(path).path,
        reference=reference.path,
        dtypes=tuple(dict.fromkeys(checked.get("dtypes") or validation.dtypes)) or None,
        dims=dims,
        args=args,
        tolerances={**validation.tolerances, **tolerances(checked.get("tolerances", {}))},
        invariants=Invariants(**checked.get("invariants", {})),
        places=_places(path, context),
        reference_function=reference.function or "reference",
        op=call,
    )


def _check_input_names(
    given: Any, args: Mapping[str, PointerSpec | ScalarSpec] | None, path: Path, context: ConfigContext
) -> None:
    names = given if isinstance(given, list) else [given]
    for index, name in enumerate(names):
        where: Path = (*path, index) if isinstance(given, list) else path
        if not isinstance(name, str):
            continue
        if name in names[:index]:
            context.reporter.bad_value(where, f"`{shorten(name)}` is listed twice; remove one of them.")
        elif args is not None and name not in args:
            message = f"`{shorten(name)}` is not in `[ops.args]`, which has the inputs; remove it here."
            context.reporter.bad_value(where, message)
