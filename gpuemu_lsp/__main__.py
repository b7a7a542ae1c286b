"""``python -m gpuemu_lsp``."""

from __future__ import annotations

import sys

from gpuemu_lsp.cli.start import gpuemu_lsp

if __name__ == "__main__":
    sys.exit(gpuemu_lsp())
