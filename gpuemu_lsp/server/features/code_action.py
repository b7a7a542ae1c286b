"""textDocument/codeAction and codeAction/resolve: what can be done about our own diagnostics.

The list is made at once; edits are worked out when one is chosen, where the client can wait for that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

from lsprotocol import types
from pygls.capabilities import get_capability

from gpuemu_lsp.engine.source.ignore_comments import ignorable
from gpuemu_lsp.server.client.protocol import Server
from gpuemu_lsp.server.code_actions.fixes import LIMITS
from gpuemu_lsp.server.code_actions.resolver import Actions, Chosen
from gpuemu_lsp.server.diagnostics.publisher import SOURCE
from gpuemu_lsp.server.documents.uris import path_of
from gpuemu_lsp.server.features.commands import ACCEPT, CHECK, FUZZ, MINIMIZE, REPRODUCE
from gpuemu_lsp.server.session import Session
from gpuemu_lsp.server.workspace.settings import plain

_UNREGISTERED = frozenset({"config/launch-inferred", "engine/not-executed"})
_FIX = types.CodeActionKind.QuickFix


def register(server: Server, session: Session, actions: Actions) -> None:
    """Add the handlers."""

    @server.feature(
        types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions(code_action_kinds=[_FIX], resolve_provider=True)
    )
    async def code_action(params: types.CodeActionParams) -> list[types.Command | types.CodeAction]:
        path = path_of(params.text_document.uri)
        wanted = params.context.only
        if path is None or (wanted and not any(kind == _FIX or _FIX.startswith(f"{kind}.") for kind in wanted)):
            return []
        found: list[types.CodeAction] = []
        for diagnostic in params.context.diagnostics:
            if diagnostic.source == SOURCE:
                async for action in _actions(session, actions, params.text_document.uri, path, diagnostic):
                    _add(found, action)
        _tell_apart(found)
        if not _resolves(server):
            for action in found:
                await actions.resolve(action)
            found = [action for action in found if action.edit is not None or action.command is not None]
        if _literals(server):
            return list(found)
        return [action.command for action in found if action.command is not None]

    @server.feature(types.CODE_ACTION_RESOLVE)
    async def resolve(action: types.CodeAction) -> types.CodeAction:
        await actions.resolve(action)
        return action


async def _actions(
    session: Session, actions: Actions, uri: str, path: str, diagnostic: types.Diagnostic
) -> AsyncIterator[types.CodeAction]:
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

    def edit(title: str, chosen: Chosen) -> types.CodeAction:
        return types.CodeAction(title=title, kind=_FIX, diagnostics=[diagnostic], data=chosen.to_json())

    if isinstance(case, str) and data.get("stored"):
        which = _case(data)
        yield run(f"Reproduce failure{which}", REPRODUCE, file, case, kernel, dtype)
        yield run(f"Minimize{which}", MINIMIZE, file, case, kernel, dtype)
    if isinstance(kernel, str):
        yield run("Check again", CHECK, file, kernel)
        if not rule.startswith(("compile/", "config/")) and session.settings.trusted:
            yield run("Fuzz deeper", FUZZ, file, kernel)
    if rule.startswith("artifact/") and isinstance(kernel, str) and session.settings.trusted:
        yield run(f"Accept what {kernel} measures as baseline", ACCEPT, file, kernel)
    if rule == "numeric/tolerance-exceeded" and isinstance(kernel, str):
        tolerance = await actions.tolerance(path_of(file) or path, kernel, dtype)
        if tolerance is not None:
            title = f"Set the {dtype} tolerance of {kernel} to {tolerance:g} (1.5 x the largest error seen)"
            yield edit(title, Chosen("tolerance", file, kernel, rule, dtype=dtype, value=tolerance))
    if rule in LIMITS and isinstance(data.get("value"), int) and isinstance(kernel, str):
        title = f"Raise {LIMITS[rule]} of {kernel} to {data['value']}, as measured"
        yield edit(title, Chosen("limit", file, kernel, rule, value=data["value"]))
    if rule in _UNREGISTERED and isinstance(kernel, str) and await actions.unregistered(path_of(file) or path, kernel):
        title = f"Register {kernel} in gpuemu.toml, with a reference to fill in"
        yield edit(title, Chosen("register", file, kernel, rule))
    if ignorable(rule):
        line = diagnostic.range.start.line
        yield edit(f"Ignore {rule} here", Chosen("ignore", uri, "", rule, line=line))


def _case(data: dict[str, Any]) -> str:
    """Say which of several failing cases of a line is meant, as briefly as their types and sizes do."""
    dims = data.get("dims")
    sizes = [f"{name}={size}" for name, size in dims.items()] if isinstance(dims, dict) else []
    facts = [str(fact) for fact in (data.get("dtype"), *sizes) if fact]
    return f" ({', '.join(facts)})" if facts else ""


def _add(found: list[types.CodeAction], action: types.CodeAction) -> None:
    """Add an action; one that does what another does already is the same one, for both diagnostics."""
    same = next((other for other in found if _does(other) == _does(action)), None)
    if same is None:
        found.append(action)
    else:
        same.diagnostics = [*(same.diagnostics or ()), *(action.diagnostics or ())]


def _tell_apart(found: list[types.CodeAction]) -> None:
    """Add to titles that are not unique what their commands are about: a case, or a kernel."""
    counts = Counter(action.title for action in found)
    for action in found:
        if counts[action.title] > 1 and action.command is not None and action.command.arguments:
            action.title = action.command.title = f"{action.title}: {', '.join(map(str, action.command.arguments[1:]))}"


def _does(action: types.CodeAction) -> object:
    command = action.command
    return action.data if command is None else (command.command, command.arguments)


def _literals(server: Server) -> bool:
    """Say whether the client knows more than commands (LSP 3.8)."""
    return bool(get_capability(server.client_capabilities, "text_document.code_action.code_action_literal_support"))


def _resolves(server: Server) -> bool:
    support = get_capability(server.client_capabilities, "text_document.code_action.resolve_support.properties", None)
    data = get_capability(server.client_capabilities, "text_document.code_action.data_support", False)
    return bool(data) and "edit" in (support or ())
