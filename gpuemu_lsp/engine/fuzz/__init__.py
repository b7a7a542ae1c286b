"""Seeds to cases: the generator, sizes, values and strategies. The seed alone rebuilds a case, bit for bit.

``cases`` yields them, ``rebuild`` makes one again from its key, ``pack_arguments`` turns one into what an executor
takes.
"""

from gpuemu_lsp.engine.fuzz.cases import cases, rebuild
from gpuemu_lsp.engine.fuzz.pack import pack_arguments

__all__ = ["cases", "pack_arguments", "rebuild"]
