"""``python -m gpuemu_lsp.cli.pages docs``: write the generated pages of the documentation."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from gpuemu_lsp.engine.project import document, json_schema
from gpuemu_lsp.engine.report.catalogue import rules_page
from gpuemu_lsp.engine.report.exit_codes import EXIT_CLEAN, EXIT_USAGE
from gpuemu_lsp.mcp.tools import TOOLS


def pages() -> Mapping[str, str]:
    """Return the content of every generated page, by file name."""
    schema = json.dumps(json_schema(), indent=1) + "\n"
    tools = {tool.name: {"arguments": tool.arguments, "result": tool.output} for tool in TOOLS}
    return {
        "rules.md": rules_page(),
        "config.md": document(),
        "gpuemu.schema.json": schema,
        "mcp-tools.schema.json": json.dumps(tools, indent=1) + "\n",
    }


def main() -> int:
    """Write the pages to the folder named on the command line."""
    if len(sys.argv) != 2:
        print("usage: python -m gpuemu_lsp.cli.pages FOLDER", file=sys.stderr)
        return EXIT_USAGE
    for name, text in pages().items():
        (Path(sys.argv[1]) / name).write_text(text, encoding="utf-8")
    return EXIT_CLEAN


if __name__ == "__main__":
    sys.exit(main())
