"""``python -m gpuemu_lsp``."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    if not sys.flags.safe_path:
        # With -m the current folder comes first, which is the workspace of an editor: its copy.py would be imported in
        # place of the standard library's.
        del sys.path[0]
    from gpuemu_lsp.cli.start import gpuemu_lsp

    sys.exit(gpuemu_lsp())
