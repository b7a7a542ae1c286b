"""Arguments of ``gpuemu mcp``."""

from __future__ import annotations

import argparse

from gpuemu_lsp.cli.arguments import Verbs


def add(verbs: Verbs) -> None:
    """Add the parsers."""
    mcp = verbs.add_parser("mcp", help="serve coding agents: the Model Context Protocol over standard input and output")
    mcp.set_defaults(run=_mcp)


def _mcp(options: argparse.Namespace) -> int:
    from gpuemu_lsp.mcp.start import serve

    return serve()
