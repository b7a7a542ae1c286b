"""The exit codes of every command."""

from __future__ import annotations

EXIT_CLEAN = 0
"""All checked and clean."""
EXIT_FINDINGS = 1
"""Error findings."""
EXIT_USAGE = 2
"""Bad usage or configuration, or something was not checked."""
EXIT_INTERNAL = 3
"""A bug of ours."""
