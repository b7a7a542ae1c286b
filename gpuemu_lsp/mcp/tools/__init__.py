"""The tools, one module for each kind of question."""

from __future__ import annotations

from gpuemu_lsp.mcp.tools.check import CHECK
from gpuemu_lsp.mcp.tools.rest import MORE

TOOLS = (CHECK, MORE)
"""All tools, in the order in which clients list them."""
