"""textDocument/codeAction and codeAction/resolve: fixes and commands for the server's own diagnostics.

Listing the actions is cheap; an edit is computed on resolve, or at once for a client that does not support resolve.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterable
from typing import Any

from lsprotocol import types
from pygls.capabilities import get_capability

from gpuemu_lsp.engine.source.ignore_comments import ignorable
from gpuemu_lsp.server.client.params import plain
from gpuemu_lsp.server.client.protocol import GpuemuServer
from gpuemu_lsp.server.code_actions.fix_all import UNUSED_SUPPRESSION
from gpuemu_lsp.server.code_actions.fixes import LIMITS
from gpuemu_lsp.server.code_actions.resolver import CodeActionResolver, DeferredEdit
from gpuemu_lsp.server.diagnostics.publisher import SOURCE
from gpuemu_lsp.server.documents.locations import path_from_uri
from gpuemu_lsp.server.features.commands import ACCEPT, CHECK, DEBUG, FUZZ, MINIMIZE, REGISTER, REPRODUCE
from gpuemu_lsp.server.handlers import background_request
from gpuemu_lsp.server.services import Services
from gpuemu_lsp.server.session import Session

_UNREGISTERED_RULES = frozenset({"config/launch-inferred", "engine/not-executed"})
_FIX = types.CodeActionKind.QuickFix
FIX_ALL = "source.fixAll.gpuemu"


def register(server: GpuemuServer, services: Services) -> None:
    """Add the handlers."""
    session, resolver = services.session, services.resolver
    options = types.CodeActionOptions(code_action_kinds=[_FIX, FIX_ALL], resolve_provider=True)

    @background_request(server, types.TEXT_DOCUMENT_CODE_ACTION, options)
    async def code_action(params: types.CodeActionParams) -> list[types.Command | types.CodeAction]:
        path = path_from_uri(params.text_document.uri)
        wanted = params.context.only
        if path is None:
            return []
        document = session.documents.get(path)
        if document is not None:
            document.focus = params.range.start.line  # clients request actions wherever the cursor comes to rest
        # Only on request: as one of the actions at a position it would be listed everywhere.
        if wanted and _includes(wanted, FIX_ALL) and _supports_literals(server):
            edit = resolver.certain_fixes(path)
            title = "Fix everything that is certain (gpuemu)"
            if edit is not None:
                return [types.CodeAction(title, FIX_ALL, edit=edit)]
        if wanted and not _includes(wanted, _FIX):
            return []
        actions: list[types.CodeAction] = []
        for diagnostic in params.context.diagnostics:
            if diagnostic.source == SOURCE:
                async for action in _actions(session, resolver, params.text_document.uri, path, diagnostic):
                    _add(actions, action)
        _make_titles_unique(actions)
        if not _supports_resolve(server):
            for action in actions:
                await resolver.resolve(action)
            actions = [action for action in actions if action.edit is not None or action.command is not None]
        if _supports_literals(server):
            return list(actions)
        return [action.command for action in actions if action.command is not None]

    @background_request(server, types.CODE_ACTION_RESOLVE)
    async def resolve(action: types.CodeAction) -> types.CodeAction:
        await resolver.resolve(action)
        return action


async def _actions(
    session: Session, resolver: CodeActionResolver, uri: str, path: str, diagnostic: types.Diagnostic
) -> AsyncIterator[types.CodeAction]:
    """Yield the actions for one diagnostic."""
    data: dict[str, Any] = plain(diagnostic.data) or {}
    rule, kernel, dtype, case = str(diagnostic.code), data.get("kernel"), data.get("dtype"), data.get("case")
    file = str(data.get("file") or uri)

    def run(title: str, command: str, *arguments: Any) -> types.CodeAction:
        given = [argument for argument in arguments if argument is not None]
        return types.CodeAction(
            title=title,
            kind=_FIX,
            diagnostics=[diagnostic],
            command=types.Command(title=title, command=command, arguments=given),
        )

    def edit(title: str, deferred: DeferredEdit) -> types.CodeAction:
        return types.CodeAction(title=title, kind=_FIX, diagnostics=[diagnostic], data=deferred.to_json())

    suggested = data.get("suggestion")
    if isinstance(suggested, str) and (change := resolver.replacement(path, diagnostic.range, suggested)) is not None:
        title = f"Change to '{suggested}'"
        yield types.CodeAction(title, _FIX, diagnostics=[diagnostic], is_preferred=True, edit=change)
    if rule == UNUSED_SUPPRESSION and (removal := resolver.unused(path, diagnostic.range)) is not None:
        title = "Remove this suppression"
        yield types.CodeAction(title, _FIX, diagnostics=[diagnostic], is_preferred=True, edit=removal)
    parsed = await session.parse(path) if path_from_uri(file) == path else None
    if isinstance(kernel, str) and parsed is not None:
        kernel = parsed.name_at(kernel, diagnostic.range.start.line)
    if isinstance(case, str) and data.get("stored"):
        label = _case_label(data)
        yield run(f"Reproduce failure{label}", REPRODUCE, file, case, kernel, dtype)
        yield run(f"Minimize{label}", MINIMIZE, file, case, kernel, dtype)
        if session.settings.debugger and session.settings.trusted:
            yield run(f"Debug the failing thread{label}", DEBUG, file, case, kernel, dtype)
    if isinstance(kernel, str):
        yield run("Check again", CHECK, file, kernel)
        if not rule.startswith(("compile/", "config/")) and session.settings.trusted:
            yield run("Fuzz deeper", FUZZ, file, kernel)
    if rule.startswith("artifact/") and isinstance(kernel, str) and session.settings.trusted:
        yield run(f"Accept the measurements of {kernel} as baseline", ACCEPT, file, kernel)
    if rule == "numeric/tolerance-exceeded" and isinstance(kernel, str):
        tolerance = await resolver.tolerance(path_from_uri(file) or path, kernel, dtype)
        if tolerance is not None:
            title = f"Set the {dtype} tolerance of {kernel} to {tolerance:g} (1.5 x the largest error found)"
            yield edit(title, DeferredEdit("tolerance", file, kernel, rule, dtype=dtype, value=tolerance))
    if rule in LIMITS and isinstance(data.get("value"), int) and isinstance(kernel, str):
        title = f"Raise {LIMITS[rule]} of {kernel} to the measured {data['value']}"
        yield edit(title, DeferredEdit("limit", file, kernel, rule, value=data["value"]))
    if (
        (rule in _UNREGISTERED_RULES or diagnostic.severity == types.DiagnosticSeverity.Information)
        and isinstance(kernel, str)
        and await resolver.can_register(path_from_uri(file) or path, kernel)
    ):
        clean = resolver.clean_at(path_from_uri(file) or path, kernel)
        if clean is not None and resolver.can_create:
            title = f"Register {kernel} in gpuemu.toml for {clean.name} that are multiples of {clean.multiple}"
            yield edit(title, DeferredEdit("register", file, kernel, "", value=clean.multiple, size=clean.name))
        title = f"Register {kernel} in gpuemu.toml, with a template of its reference"
        if resolver.can_create:
            yield edit(title, DeferredEdit("register", file, kernel, ""))
        elif session.settings.trusted:
            yield run(title, REGISTER, file, kernel)
    if ignorable(rule):
        at = diagnostic.range.start
        yield edit(f"Ignore {rule} here", DeferredEdit("ignore", uri, "", rule, line=at.line, column=at.character))


def _includes(wanted: Iterable[str], kind: str) -> bool:
    """Return whether a kind of code action is among the requested ones, whose sub-kinds they include."""
    return any(kind == one or kind.startswith(f"{one}.") for one in map(_kind_text, wanted))


def _kind_text(kind: str) -> str:
    return str(getattr(kind, "value", kind))


def _case_label(data: dict[str, Any]) -> str:
    """Return dtype and sizes of a case, which distinguish the failing cases of one line."""
    dims = data.get("dims")
    sizes = [f"{name}={size}" for name, size in dims.items()] if isinstance(dims, dict) else []
    facts = [str(fact) for fact in (data.get("dtype"), *sizes) if fact]
    return f" ({', '.join(facts)})" if facts else ""


def _add(actions: list[types.CodeAction], action: types.CodeAction) -> None:
    """Add an action, or its diagnostics to an action that has the same effect."""
    same = next((other for other in actions if _effect(other) == _effect(action)), None)
    if same is None:
        actions.append(action)
    else:
        same.diagnostics = [*(same.diagnostics or ()), *(action.diagnostics or ())]


def _make_titles_unique(actions: list[types.CodeAction]) -> None:
    """Append their commands' arguments (case, kernel) to titles that occur more than once."""
    counts = Counter(action.title for action in actions)
    for action in actions:
        if counts[action.title] > 1 and action.command is not None and action.command.arguments:
            action.title = action.command.title = f"{action.title}: {', '.join(map(str, action.command.arguments[1:]))}"


def _effect(action: types.CodeAction) -> object:
    command = action.command
    if command is None:
        return action.data if action.data is not None else (action.title, repr(action.edit))
    return command.command, command.arguments


def _supports_literals(server: GpuemuServer) -> bool:
    """Return whether the client supports code actions that are not commands (LSP 3.8)."""
    return bool(get_capability(server.client_capabilities, "text_document.code_action.code_action_literal_support"))


def _supports_resolve(server: GpuemuServer) -> bool:
    support = get_capability(server.client_capabilities, "text_document.code_action.resolve_support.properties", None)
    data = get_capability(server.client_capabilities, "text_document.code_action.data_support", False)
    return bool(data) and "edit" in (support or ())
