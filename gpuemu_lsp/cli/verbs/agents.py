"""Arguments of ``gpuemu mcp`` and ``gpuemu skill``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from gpuemu_lsp.cli.arguments import Verbs

_SKILLS = Path(".claude/skills")


def add(verbs: Verbs) -> None:
    """Add the parsers."""
    mcp = verbs.add_parser("mcp", help="serve coding agents: the Model Context Protocol over standard input and output")
    mcp.set_defaults(run=_mcp)
    skill = verbs.add_parser("skill", help="install the skill that says to coding agents when to call what")
    skill.add_argument("action", choices=("install",))
    skill.add_argument(
        "--to", type=Path, default=_SKILLS, metavar="DIR", help=f"a folder of skills (default: {_SKILLS})"
    )
    skill.set_defaults(run=_skill)


def _mcp(options: argparse.Namespace) -> int:
    from gpuemu_lsp.mcp.start import serve

    return serve()


def _skill(options: argparse.Namespace) -> int:
    from gpuemu_lsp.cli.process_boundary import print_out
    from gpuemu_lsp.engine.report.exit_codes import EXIT_CLEAN, EXIT_USAGE
    from gpuemu_lsp.skill import SkillError, install

    try:
        path = install(options.to)
    except SkillError as error:
        print(f"gpuemu: {error}", file=sys.stderr)
        return EXIT_USAGE
    print_out(f"Installed {path}.\n")
    return EXIT_CLEAN
