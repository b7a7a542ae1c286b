"""Selection of a file's kernel, and of the template instances to compile."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpuemu_lsp.engine.cause import Cause
from gpuemu_lsp.engine.element_types import C_TYPE_OF, element_type
from gpuemu_lsp.engine.findings import Finding, Place, Range
from gpuemu_lsp.engine.kernel_names import parameter_types, spaced, without_arguments, without_types
from gpuemu_lsp.engine.plan.context import TYPE_KINDS, KernelContext, declared_types
from gpuemu_lsp.engine.plan.device_names import device_names
from gpuemu_lsp.engine.plan.host.plans import host_templates
from gpuemu_lsp.engine.project.model import KernelSpec
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.source.model import KernelDecl, SourceFile
from gpuemu_lsp.engine.source.preprocessor.lexer import WORD

_OF_C10 = re.compile(r"\b(?:at|torch|c10)::(Half|BFloat16)\b")
_CUDA = {"Half": "__half", "BFloat16": "__nv_bfloat16"}
_NUMBER = re.compile(r"-?\d+")
_OF_ENUMERATION = re.compile(r"\([\w:]+\)-?\d+")
_SEVERAL, _FEW = 4, 2
"""Instances of a template that are checked."""


@dataclass(frozen=True, slots=True)
class KernelInstance:
    """A kernel, or one instance of a kernel template: its name expression and template arguments.

    ``dtype`` is None where no template parameter determines it; the pointer types then do. ``guessed``: the template
    arguments are neither configured nor used by a launch.
    """

    expression: str
    dtype: str | None
    bindings: Mapping[str, str] = field(default_factory=dict)
    guessed: bool = False


def choose_kernel(spec: KernelSpec, source: SourceFile) -> tuple[KernelDecl | None, tuple[Finding, ...]]:
    """Return the ``__global__`` function that ``entry`` names, else the one named ``name``, else the only one."""
    wanted = without_arguments(spec.entry) if spec.entry else None
    types = parameter_types(spec.entry) if spec.entry else None
    place = spec.places.get("entry") or spec.places.get("source") or spec.places.get("") or start_of(source)
    if not source.kernels:
        message = f"{_short(source.path)} has no __global__ function, so there is nothing to check."
        return None, (make("compile/missing-entry", message, place, kernel=spec.name),)
    if wanted is not None:
        named = [
            decl
            for decl in source.kernels
            if wanted in (decl.name, decl.qualified_name) or decl.qualified_name.endswith(f"::{wanted}")
        ]
        if not named:
            return None, (_no_such_kernel(spec, source, wanted, place),)
        typed = [decl for decl in named if types in (None, _types_of(decl), _types_of(decl, spec.entry or ""))]
        return (typed[0], ()) if typed else (None, (_no_such_overload(spec, named, place),))
    named = [decl for decl in source.kernels if decl.name == spec.name]
    candidates = named or list(source.kernels)
    if len({decl.qualified_name for decl in candidates}) == 1:
        return candidates[0], ()
    names = ", ".join(decl.name for decl in source.kernels)
    message = (
        f"{_short(source.path)} has several kernels ({names}) and none is named '{spec.name}'. "
        f'Select one: entry = "{source.kernels[0].name}"'
    )
    return None, (make("config/ambiguous-signature", message, place, kernel=spec.name),)


def overloads(context: KernelContext) -> tuple[KernelDecl, ...]:
    """Return the kernels to check: the chosen one, and those of its name if gpuemu.toml does not register it."""
    if context.registered:
        return (context.declaration,)
    return context.overloads[:_SEVERAL]


def _types_of(declaration: KernelDecl, entry: str = "") -> str:
    """Return the types of a kernel's parameters as an entry has them, with the template arguments of ``entry``."""
    types = declared_types(declaration)
    bound = bindings_of(declaration, entry) if declaration.template and "<" in entry else {}
    return spaced(WORD.sub(lambda word: bound.get(word[0], word[0]), types))


def _expression(context: KernelContext, arguments: Sequence[str]) -> str:
    """Return the entry of an instance, with the types of its parameters where other kernels have its name."""
    declaration = context.declaration
    name = declaration.qualified_name
    instance = f"{name}<{', '.join(arguments)}>" if declaration.template else name
    return f"{instance}({_types_of(declaration, instance)})" if len(context.overloads) > 1 else instance


def instances(context: KernelContext) -> tuple[tuple[KernelInstance, ...], tuple[Finding, ...]]:
    """Return the instances to compile: one per dtype of ``{T}``, or the only one."""
    spec, declaration, source = context.spec, context.declaration, context.source
    if not declaration.template:
        return (KernelInstance(_expression(context, ()), None),), ()
    if spec.entry and "<" in spec.entry:
        return _from_entry(context, spec.entry)
    kinds = [param.kind for param in declaration.template]
    names = device_names(source)
    templates, assumed = host_templates(context)
    if not templates:
        # A library may launch its explicit instantiations elsewhere.
        templates = [given for name, given in source.instances if name.split("::")[-1] == declaration.name]
    launched = [
        tuple(_normal(text, kind, names.enumerations) for text, kind in zip(arguments, kinds, strict=False))
        for arguments in templates
    ]
    launched, replaced = _with_pytorch_types(launched, names.has_pytorch)
    return _from_template(context, launched, names.classes, guessed=assumed or replaced)


def _normal(argument: str, kind: str, enumerations: frozenset[str]) -> str:
    """Return a template argument as C++ writes one of its kind; a type may be an alias of the host's libraries."""
    if kind.endswith("bool") and argument in ("0", "1"):
        return "true" if argument == "1" else "false"
    if _NUMBER.fullmatch(argument) and kind in enumerations:
        return f"({kind}){argument}"
    known = element_type(argument)
    # PyTorch's types of 16 bits are not CUDA's: they have other conversions.
    return argument if known is None or known.lanes > 1 or _OF_C10.search(argument) else C_TYPE_OF[known.dtype]


def _with_pytorch_types(launched: list[tuple[str, ...]], included: bool) -> tuple[list[tuple[str, ...]], bool]:
    """Write PyTorch's types so that the device view has them; return also whether they were replaced by CUDA's.

    A view whose device code names nothing of PyTorch has not ``included`` its headers. Then instances without such
    types are chosen, or, if there is none, CUDA's types stand for PyTorch's: the code may not compile with these.
    """
    if included:
        # In the device view, namespace at need not have the types that it takes from c10.
        return [tuple(_OF_C10.sub(r"c10::\1", one) for one in arguments) for arguments in launched], False
    others = [arguments for arguments in launched if not any(map(_OF_C10.search, arguments))]
    if others or not launched:
        return others, False
    return [tuple(_OF_C10.sub(lambda found: _CUDA[found[1]], one) for one in arguments) for arguments in launched], True


def start_of(source: SourceFile) -> Place:
    """Return the first character of a file, for findings without a more specific place."""
    return Place(source.path, Range.of(0, 0, 0, 1))


def split_arguments(text: str) -> tuple[str, ...]:
    """Split ``a, b<c, d>, (e, f)`` at its top-level commas."""
    parts, depth, start = [], 0, 0
    for index, sign in enumerate(text):
        if sign in "<([{":
            depth += 1
        elif sign in ">)]}":
            depth -= 1
        elif sign == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    parts.append(text[start:].strip())
    return tuple(part for part in parts if part)


def bindings_of(declaration: KernelDecl, expression: str) -> dict[str, str]:
    """Return the template arguments of a name expression, by parameter."""
    return _bind(declaration, split_arguments(without_types(expression).partition("<")[2].rsplit(">", 1)[0]))


def _no_such_kernel(spec: KernelSpec, source: SourceFile, wanted: str, place: Place) -> Finding:
    names = [decl.name for decl in source.kernels]
    close = difflib.get_close_matches(wanted, names, n=1)
    hint = f"Did you mean '{close[0]}'?" if close else f"There are: {', '.join(names)}."
    message = f"There is no __global__ function '{wanted}' in {_short(source.path)}. {hint}"
    return make("compile/missing-entry", message, place, kernel=spec.name)


def _no_such_overload(spec: KernelSpec, named: Sequence[KernelDecl], place: Place) -> Finding:
    forms = ", ".join(f"{decl.name}({_types_of(decl)})" for decl in named)
    message = f"There is no kernel '{spec.entry}' with these parameter types. There are: {forms}."
    return make("compile/missing-entry", message, place, kernel=spec.name)


def _from_entry(context: KernelContext, entry: str) -> tuple[tuple[KernelInstance, ...], tuple[Finding, ...]]:
    decl = context.declaration
    dtypes: tuple[str | None, ...] = (None,)
    if "{T}" in entry:
        dtypes = context.spec.dtypes or ("float32",)
    found = []
    for dtype in dtypes:
        text = without_types(entry.replace("{T}", C_TYPE_OF[dtype]) if dtype else entry)
        arguments = split_arguments(text.partition("<")[2].rsplit(">", 1)[0])
        bindings = _bind(decl, arguments)
        expression = _expression(context, arguments)
        found.append(KernelInstance(expression, dtype or _dtype_of_types(decl, bindings), bindings))
    return tuple(found), ()


def _from_template(
    context: KernelContext, launched: list[tuple[str, ...]], classes: frozenset[str], guessed: bool
) -> tuple[tuple[KernelInstance, ...], tuple[Finding, ...]]:
    """Choose template arguments from dtypes, launches in the file and defaults, in that order.

    ``guessed``: the arguments of launches are not exactly those that the program gives.
    """
    spec, decl = context.spec, context.declaration
    type_params = [param.name for param in decl.template if param.kind in TYPE_KINDS]
    choices: list[tuple[str, ...]] = []
    for arguments in launched:
        filled = _fill(decl, arguments, {})
        known = filled is not None and all(_is_concrete(one) or _is_class(one, classes) for one in filled)
        if known and filled is not None and filled not in choices:
            choices.append(filled)
    if len(type_params) == 1 and (spec.dtypes or not choices):
        model = next(iter(choices), ()) or next(iter(launched), ())
        by_dtype = []
        for dtype in spec.dtypes or ("float32",):
            filled = _fill(decl, model, {type_params[0]: C_TYPE_OF[dtype]})
            if filled is not None and all(map(_is_concrete, filled)):
                by_dtype.append(
                    KernelInstance(_expression(context, filled), dtype, _bind(decl, filled), guessed=not spec.dtypes)
                )
        if by_dtype:
            return tuple(by_dtype), ()
    if choices:
        found = []
        # Instances of class templates, such as kernel traits, take long to compile.
        for filled in choices[: _FEW if any("<" in one for one in choices[0]) else _SEVERAL]:
            bindings = _bind(decl, filled)
            found.append(
                KernelInstance(_expression(context, filled), _dtype_of_types(decl, bindings), bindings, guessed)
            )
        return tuple(found), ()
    filled = _fill(decl, (), dict.fromkeys(type_params, "float"))
    if filled is not None:
        bindings = _bind(decl, filled)
        return (
            KernelInstance(
                _expression(context, filled), _dtype_of_types(decl, bindings), bindings, guessed=bool(type_params)
            ),
        ), ()
    wanted = ", ".join("{T}" if param.kind in TYPE_KINDS else param.name for param in decl.template)
    message = (
        f"'{decl.name}' is a template, and no launch in the file has template arguments for it. "
        f'Select an instance in gpuemu.toml: entry = "{decl.name}<{wanted}>"'
    )
    cause = Cause.UNKNOWN_INSTANCE
    return (), (make("config/ambiguous-signature", message, context.place, kernel=spec.name, cause=cause),)


def _fill(decl: KernelDecl, given: tuple[str, ...], types: Mapping[str, str]) -> tuple[str, ...] | None:
    filled = []
    for index, param in enumerate(decl.template):
        if param.name in types:
            filled.append(types[param.name])
        elif index < len(given):
            filled.append(given[index])
        elif param.default is not None:
            filled.append(param.default)
        else:
            return None
    return tuple(filled)


def _is_concrete(text: str) -> bool:
    """Whether a template argument has the same meaning outside the host function it is written in."""
    if _OF_ENUMERATION.fullmatch(text):
        return True
    return element_type(text) is not None or text.lstrip("-").isdigit() or text in ("true", "false")


def _is_class(text: str, classes: frozenset[str]) -> bool:
    """Return whether a template argument is a class or function of the device code, or an instance of one."""
    name, _, inside = text.partition("<")
    if name.split("::")[-1].strip() not in classes:
        return False
    arguments = split_arguments(inside.rpartition(">")[0])
    return all(
        _is_concrete(one) or _is_class(one, classes) or element_type(one.split("::")[-1]) is not None
        for one in arguments
    )


def _bind(decl: KernelDecl, arguments: tuple[str, ...]) -> dict[str, str]:
    bindings = {}
    for index, param in enumerate(decl.template):
        if index < len(arguments):
            bindings[param.name] = arguments[index]
        elif param.default is not None:
            bindings[param.name] = param.default
    return bindings


def _dtype_of_types(decl: KernelDecl, bindings: Mapping[str, str]) -> str | None:
    for param in decl.template:
        if param.kind in TYPE_KINDS and param.name in bindings:
            known = element_type(bindings[param.name])
            if known is not None:
                return known.dtype
    return None


def _short(path: str) -> str:
    return path.rsplit("/", 1)[-1]
