"""Data whose accesses and changes can be looked up: what an expression names, and its identity between requests."""

from __future__ import annotations

from dataclasses import dataclass

from gpuemu_lsp.engine.debugger.breakpoints import MemoryBreakpoint, MemoryPlace, Stopper, VariableBreakpoint
from gpuemu_lsp.engine.debugger.evaluate import evaluate
from gpuemu_lsp.engine.debugger.objects import Object
from gpuemu_lsp.engine.debugger.session import DebugSession
from gpuemu_lsp.engine.debugger.syntax import CExpressionError, CName, parse
from gpuemu_lsp.engine.debugger.views import View


@dataclass(frozen=True, slots=True)
class Data:
    """A place in memory, or a ``variable`` of a thread that is in registers; ``identity`` names it in a request."""

    description: str
    identity: str
    place: MemoryPlace | None = None
    variable: VariableBreakpoint | None = None


def watchable(view: View, expression: str) -> Data:
    """Return the data that an expression names.

    Raises
    ------
    CExpressionError
        If it names none: it is computed, or has no value here.
    """
    node = parse(expression)
    value = evaluate(node, view.lookup, view.moment)
    block, thread = view.moment.block, view.moment.thread
    if isinstance(value, Object) and value.address is not None:
        picture = block.accesses.picture(value.address)
        if picture is None:
            raise CExpressionError(f"{expression} is not in memory of the launch")
        place = MemoryPlace(picture.kind, picture.name, value.address - picture.address, value.type.size)
        name = block.names.name(value.address, value.type.size) if value.type.kind != "array" else expression
        return Data(name, f"memory:{place.kind}:{place.offset}:{place.size}:{place.region}", place)
    variable = view.names.visible(view.frame).get(node.text) if isinstance(node, CName) else None
    if variable is None or not variable.storages:
        raise CExpressionError(f"{expression} is computed: break on what it is computed from")
    name = f"{variable.name} of thread {block.thread_index(thread)}"
    identity = f"variable:{thread}:{view.moment.tick}:{view.frame.call}:{view.frame.level}:{variable.name}"
    return Data(name, identity, variable=VariableBreakpoint(variable, view.frame, thread))


def identified(session: DebugSession, identity: str) -> Data:
    """Return the data with an identity.

    Raises
    ------
    CExpressionError
        If this block has no such data.
    """
    kind, _, fields = identity.partition(":")
    if kind == "memory":
        region_kind, offset, size, region = fields.split(":", 3)
        place = MemoryPlace(region_kind, region, int(offset), int(size))
        address = place.address(session.block)
        if address is not None:
            return Data(session.block.names.name(address, place.size), identity, place)
    if kind == "variable":
        thread, tick, call, level, name = fields.split(":", 4)
        for frame in session.debuggee.frames.at(int(tick)):
            if (frame.call, frame.level) == (int(call), int(level)):
                view = View(session.moment(int(thread)), frame, session.debuggee.names)
                return watchable(view, name)
    raise CExpressionError("this block has no such data")


def watch(data: Data, access: str) -> Stopper:
    """Return the breakpoint on some data; ``access`` is ``read``, ``write`` or ``readWrite``."""
    if data.variable is not None:
        return data.variable
    assert data.place is not None
    return MemoryBreakpoint(data.place, access in ("read", "readWrite"), access in ("write", "readWrite"))
