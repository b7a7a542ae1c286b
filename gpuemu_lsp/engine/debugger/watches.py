"""Data whose accesses and changes can be looked up: what an expression names, and its identity between requests."""

from __future__ import annotations

from dataclasses import dataclass

from gpuemu_lsp.engine.debug.dwarf.model import SourceVariable
from gpuemu_lsp.engine.debugger.breakpoints import MemoryBreakpoint, Stopper, VariableBreakpoint
from gpuemu_lsp.engine.debugger.evaluate import evaluate
from gpuemu_lsp.engine.debugger.frames import StackFrame
from gpuemu_lsp.engine.debugger.objects import Object
from gpuemu_lsp.engine.debugger.session import DebugSession
from gpuemu_lsp.engine.debugger.syntax import CExpressionError, CName, parse
from gpuemu_lsp.engine.debugger.views import View


@dataclass(frozen=True, slots=True)
class Data:
    """Bytes of memory, or a ``variable`` of a thread that is in registers; ``identity`` names it in a request."""

    description: str
    identity: str
    address: int = 0
    size: int = 0
    variable: SourceVariable | None = None
    frame: StackFrame | None = None
    thread: int = 0

    @property
    def in_memory(self) -> bool:
        """Whether it is in memory, so that its reads are recorded, too."""
        return self.variable is None


def watchable(view: View, expression: str) -> Data:
    """Return the data that an expression names.

    Raises
    ------
    CExpressionError
        If it names none: it is computed, or has no value here.
    """
    node = parse(expression)
    value = evaluate(node, view.lookup, view.moment)
    block = view.moment.block
    if isinstance(value, Object) and value.address is not None:
        picture = block.accesses.picture(value.address)
        if picture is None:
            raise CExpressionError(f"{expression} is not in memory of the launch")
        place = f"{picture.kind}:{picture.name}:{value.address - picture.address}:{value.type.size}"
        name = block.names.name(value.address, value.type.size) if value.type.kind != "array" else expression
        return Data(name, f"memory:{place}", value.address, value.type.size)
    variable = view.names.visible(view.frame).get(node.text) if isinstance(node, CName) else None
    if variable is None or not variable.storages:
        raise CExpressionError(f"{expression} is computed: break on what it is computed from")
    thread = view.moment.thread
    who = f"{variable.name} of thread {block.thread_index(thread)}"
    identity = f"variable:{thread}:{view.moment.tick}:{view.frame.call}:{view.frame.level}:{variable.name}"
    return Data(who, identity, variable=variable, frame=view.frame, thread=thread)


def identified(session: DebugSession, identity: str) -> Data:
    """Return the data with an identity.

    Raises
    ------
    CExpressionError
        If this block has no such data.
    """
    kind, _, remainder = identity.partition(":")
    if kind == "memory":
        region, _, remainder = remainder.partition(":")
        name, offset, size = remainder.rsplit(":", 2)
        for picture in session.block.recording.memory:
            if (picture.kind, picture.name) == (region, name):
                address = picture.address + int(offset)
                return Data(session.block.names.name(address, int(size)), identity, address, int(size))
    if kind == "variable":
        thread, tick, call, level, name = remainder.split(":", 4)
        for frame in session.debuggee.frames.at(int(tick)):
            if (frame.call, frame.level) == (int(call), int(level)):
                view = View(session.moment(int(thread)), frame, session.debuggee.names)
                return watchable(view, name)
    raise CExpressionError("this block has no such data")


def watch(session: DebugSession, data: Data, access: str) -> Stopper:
    """Return the breakpoint on some data; ``access`` is ``read``, ``write`` or ``readWrite``."""
    if data.variable is not None and data.frame is not None:
        return VariableBreakpoint(session.debuggee, data.variable, data.frame, data.thread)
    reads, writes = access in ("read", "readWrite"), access in ("write", "readWrite")
    return MemoryBreakpoint(session.block, data.address, data.size, reads, writes)
