"""A single argument as `[kernels.args]` gives it, checked against its C type."""

from __future__ import annotations

from gpuemu_lsp.engine.element_types import INTEGERS, ElementType, element_type, integer_limits
from gpuemu_lsp.engine.findings import Finding
from gpuemu_lsp.engine.plan.context import KernelContext
from gpuemu_lsp.engine.plan.model import PlanArg, ScalarArg, TensorArg
from gpuemu_lsp.engine.project.expressions import Expression, constant
from gpuemu_lsp.engine.project.model import KernelSpec, PointerSpec, ScalarSpec
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.source.model import Param


def configured_argument(
    context: KernelContext,
    param: Param,
    given: PointerSpec | ScalarSpec,
    key: str | None = None,
    element: ElementType | None = None,
) -> PlanArg | Finding:
    """Return a configured argument, or a finding where it contradicts the signature.

    ``key`` is the name under which `[kernels.args]` gives it, if not the parameter's, and ``element`` its element type,
    if that is known already.
    """
    key = key or param.name
    spec, place = context.spec, context.config_place(f"args.{key}")
    known = element or element_type(param.type, context.type_aliases)
    if isinstance(given, PointerSpec):
        if not param.pointer:
            message = f"'{param.name}' is a {param.type} passed by value; its value must be a number or an expression."
            return make("config/bad-value", message, place, kernel=spec.name)
        dtype = given.dtype or (known.dtype if known else None)
        if dtype is None or param.pointer_depth > 1:
            message = (
                f"The element type '{param.type}' of '{param.name}' has no known dtype. "
                f'Add one: {param.name} = {{ {given.direction} = [...], dtype = "float32" }}'
            )
            return make("config/bad-value", message, place, kernel=spec.name)
        if known is not None and given.dtype not in (None, known.dtype) and known.dtype not in ("int8", "uint8"):
            message = f"'{param.name}' points to {known.dtype}, but gpuemu.toml has {given.dtype}."
            return make("numeric/dtype-mismatch", message, place, kernel=spec.name)
        if param.const and given.direction != "in":
            message = f"'{param.name}' points to const, so the kernel cannot write to it; it must be `in`."
            return make("config/bad-value", message, place, kernel=spec.name)
        return TensorArg(
            param.name,
            given.key or param.name,
            given.direction,
            dtype,
            given.shape,
            given.range,
            given.align,
            given.strided,
            given.may_alias,
            compare=given.compare,
        )
    if param.pointer:
        message = f"'{param.name}' is a pointer; give its direction and shape, e.g. {param.name} = {{ in = [\"n\"] }}"
        return make("config/bad-value", message, place, kernel=spec.name)
    if known is None or known.lanes != 1:
        message = f"'{param.name}' is a {param.type} passed by value; only numbers are supported."
        return make("config/bad-value", message, place, kernel=spec.name)
    if known.dtype in INTEGERS and isinstance(given.value, float) and not given.value.is_integer():
        message = f"'{param.name}' is a {param.type}: {given.value} is not a whole number."
        return make("config/bad-value", message, place, kernel=spec.name)
    beyond = beyond_type(spec, param, known.dtype, given.value, key)
    if beyond is not None:
        where, message = beyond
        return make("config/bad-value", message, context.config_place(where), kernel=spec.name)
    return ScalarArg(param.name, given.key or param.name, known.dtype, given.value)


def beyond_type(
    spec: KernelSpec, param: Param, dtype: str, value: Expression | float | bool, key: str | None = None
) -> tuple[str, str] | None:
    """Return the key and the message of a value that no argument of an integer type can have, None if all fit.

    A parameter that is passed a size as it is must hold every size that `[kernels.dims]` declares.
    """
    if dtype not in INTEGERS or isinstance(value, bool):
        return None
    lowest, highest = integer_limits(dtype)
    number = constant(value) if isinstance(value, Expression) else value
    if number is not None:
        fits = lowest <= number <= highest
        return None if fits else (f"args.{key or param.name}", f"{number} does not fit `{param.type} {param.name}`.")
    dim = (spec.dims or {}).get(str(value))
    if dim is None or dim.maximum is None or dim.maximum <= highest:
        return None
    message = f"`max` = {dim.maximum} of `{dim.name}` does not fit `{param.type} {param.name}`, which holds {highest}."
    return f"dims.{dim.name}.max", message
