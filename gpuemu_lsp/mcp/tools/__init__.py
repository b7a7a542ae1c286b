"""The tools, one module for each kind of question."""

from __future__ import annotations

from gpuemu_lsp.mcp.tools.cases import EXPLAIN, MINIMIZE, REPRODUCE
from gpuemu_lsp.mcp.tools.check import CHECK
from gpuemu_lsp.mcp.tools.judge import JUDGE
from gpuemu_lsp.mcp.tools.measures import COUNTERS, COVERAGE
from gpuemu_lsp.mcp.tools.rest import MORE
from gpuemu_lsp.mcp.tools.sources import KERNELS, PTX, REGISTER
from gpuemu_lsp.mcp.tools.versions import COMPARE

TOOLS = (CHECK, EXPLAIN, MINIMIZE, REPRODUCE, COMPARE, JUDGE, COVERAGE, COUNTERS, KERNELS, PTX, REGISTER, MORE)
"""All tools, in the order in which clients list them."""
