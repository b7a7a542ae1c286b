"""Exit codes of every command.

Separate from :mod:`~gpuemu_lsp.engine.report.model` so that ``--help`` and ``--explain`` do not load the source parser.
"""

from __future__ import annotations

EXIT_CLEAN = 0
"""Everything was checked, without error findings."""
EXIT_FINDINGS = 1
"""Error findings."""
EXIT_USAGE = 2
"""Bad usage or configuration, or something was not checked."""
EXIT_INTERNAL = 3
"""Internal error (a bug in gpuemu-lsp)."""
EXIT_INTERRUPTED = 130
"""128 + SIGINT, the convention of shells."""
