"""``python -m gpuemu_lsp``."""

from __future__ import annotations

import sys

from gpuemu_lsp.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
