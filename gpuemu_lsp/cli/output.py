"""Output of a finished run: format, destination, colours and width."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from gpuemu_lsp.cli.process_boundary import accepts_unicode
from gpuemu_lsp.cli.process_boundary import print_out as print_out
from gpuemu_lsp.engine.report.exit_codes import EXIT_USAGE
from gpuemu_lsp.engine.report.github import render_github
from gpuemu_lsp.engine.report.gitlab import render_gitlab
from gpuemu_lsp.engine.report.html import render_html
from gpuemu_lsp.engine.report.json_format import render_json, render_jsonl
from gpuemu_lsp.engine.report.junit import render_junit
from gpuemu_lsp.engine.report.markdown import render_markdown
from gpuemu_lsp.engine.report.model import Run
from gpuemu_lsp.engine.report.sarif import render_sarif
from gpuemu_lsp.engine.report.text import TextStyle, render_text

_FORMATS: dict[str, Callable[[Run], str]] = {
    "json": render_json,
    "jsonl": render_jsonl,
    "github": render_github,
    "gitlab": render_gitlab,
    "html": render_html,
    "junit": render_junit,
    "markdown": render_markdown,
    "sarif": render_sarif,
}


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """Format, file (None for standard output), hints, colours, and whether a kernel must have a reference.

    ``report`` is a file for the same run as JSON.
    """

    format: str = "text"
    file: Path | None = None
    hints: bool = False
    colour: str = "auto"
    needs_reference: bool = False
    report: Path | None = None

    def write(self, run: Run) -> int:
        """Write ``run`` and return its exit code."""
        run = replace(run, needs_reference=self.needs_reference)
        if self.format == "text":
            text = render_text(run, self.style())
        else:
            text = _FORMATS[self.format](run)
        written = self.report is None or write(render_json(run), self.report)
        return run.exit_code if write(text, self.file) and written else EXIT_USAGE

    def style(self) -> TextStyle:
        """Return the text options; colours and the terminal's width are used only for a terminal."""
        if self.file is not None:
            return TextStyle(colour=self.colour == "always", hints=self.hints)
        terminal = sys.stdout.isatty()
        return TextStyle(
            colour=wants_colour(self.colour, terminal),
            hints=self.hints,
            width=max(shutil.get_terminal_size().columns, 40) if terminal else TextStyle().width,
            unicode=accepts_unicode(),
        )


def output_of(options: argparse.Namespace) -> OutputOptions:
    """Return the output options of the command line."""
    return OutputOptions(
        options.format, options.output, options.hints, options.color, options.require_reference, options.also_json
    )


def write(text: str, file: Path | None) -> bool:
    """Write to a file, or to standard output for None; on failure print the reason and return False."""
    if file is None:
        print_out(text)
        return True
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        print(f"gpuemu: --output {file}: {error.strerror or error}", file=sys.stderr)
        return False
    return True


def wants_colour(wish: str, terminal: bool) -> bool:
    """Return whether to use colours: by flag, ``NO_COLOR`` or ``GPUEMU_NO_COLOR``, ``FORCE_COLOR``, then terminal.

    The variables count if they are not empty (https://no-color.org, https://force-color.org).
    """
    if wish != "auto":
        return wish == "always"
    if os.environ.get("NO_COLOR") or os.environ.get("GPUEMU_NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (terminal and os.environ.get("TERM") != "dumb")
