"""The ``gpuemu`` command as a child of the language server, which ends with it: ``PARENT-PID ARGUMENT ...``."""

from __future__ import annotations

import sys

from gpuemu_lsp.engine.workers.system import die_with_parent

if __name__ == "__main__":
    die_with_parent(int(sys.argv[1]))
    from gpuemu_lsp.cli.gpuemu import main

    sys.exit(main(sys.argv[2:]))
