"""Arguments of ``gpuemu mcp``, ``gpuemu skill`` and ``gpuemu comment``."""

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
    comment = verbs.add_parser(
        "comment", help="in a job of GitHub Actions: write the result of a check as a comment on the pull request"
    )
    comment.add_argument("report", type=Path, metavar="REPORT", help="the result of the change, of --format json")
    comment.add_argument(
        "--base", type=Path, metavar="REPORT", help="the result of the commit that it is compared with"
    )
    comment.add_argument("--folder", default=".", metavar="DIR", help="folder of both checks in the repository")
    comment.add_argument("--show", action="store_true", help="print the comment instead of writing it to GitHub")
    comment.set_defaults(run=_comment)
    skill = verbs.add_parser("skill", help="install the skill that says to coding agents when to call what")
    skill.add_argument("action", choices=("install",))
    skill.add_argument(
        "--to", type=Path, default=_SKILLS, metavar="DIR", help=f"a folder of skills (default: {_SKILLS})"
    )
    skill.set_defaults(run=_skill)


def _mcp(options: argparse.Namespace) -> int:
    from gpuemu_lsp.mcp.start import serve

    return serve()


def _comment(options: argparse.Namespace) -> int:
    from gpuemu_lsp.cli.commands.comment import comment

    return comment(options.report, options.base, options.folder, options.show)


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
