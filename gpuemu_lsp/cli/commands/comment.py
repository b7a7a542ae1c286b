"""``gpuemu comment``: the result of a check as a comment on its pull request."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

from gpuemu_lsp.cli.github import GitHubError, pull_request_of, put_comment
from gpuemu_lsp.cli.process_boundary import print_out
from gpuemu_lsp.engine.report.exit_codes import EXIT_CLEAN, EXIT_USAGE
from gpuemu_lsp.engine.report.markdown import MARK
from gpuemu_lsp.engine.report.pull_request import Side, render_comment


def comment(report: Path, base: Path | None, folder: str, show: bool) -> int:
    """Write the comment.

    Parameters
    ----------
    report, base
        Results of ``--format json`` for the change and its base; a base that does not exist was not checked.
    folder
        The folder of the checks, relative to that of the repository.
    show
        Print the comment instead of writing it to GitHub.
    """
    try:
        event = json.loads(Path(os.environ.get("GITHUB_EVENT_PATH", "")).read_text("utf-8"))
    except (OSError, ValueError):
        event = {}
    try:
        request = pull_request_of(os.environ, event)
        head = Side(_read(report), _blob(request.pages, request.head, folder))
        before, why = None, "it was not checked"
        if base is not None:
            try:
                before = Side(_read(base), _blob(request.pages, request.base, folder))
            except GitHubError as error:
                why = str(error)
        text = render_comment(head, before, why)
        print_out(text if show else put_comment(request, MARK, text) + "\n")
    except GitHubError as error:
        print(f"gpuemu: no comment was written: {error}.", file=sys.stderr)
        return EXIT_USAGE
    return EXIT_CLEAN


def _read(report: Path) -> dict[str, Any]:
    try:
        document = json.loads(report.read_text("utf-8"))
    except OSError as error:
        raise GitHubError(f"the result {report.name} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise GitHubError(f"{report.name} is not a result of --format json") from error
    if not isinstance(document, dict) or document.get("version") != 1 or "kernels" not in document:
        raise GitHubError(f"{report.name} is not a result of --format json")
    return document


def _blob(pages: str, commit: str, folder: str) -> str:
    inside = os.path.normpath(folder)
    return f"{pages}/blob/{commit}" + ("" if inside == "." else f"/{quote(inside)}")
