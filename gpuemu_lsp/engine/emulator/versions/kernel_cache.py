"""Parsed modules and their kernels, kept for later launches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from gpuemu_lsp.engine.emulator.versions.compiled_kernel import CompiledKernel
from gpuemu_lsp.engine.ptx.model import Module
from gpuemu_lsp.engine.ptx.parser import parse
from gpuemu_lsp.engine.time_limit import scheduled_clock

_MAX_MODULES: Final = 16


@dataclass(slots=True)
class KernelCache:
    """Parsed modules and their kernels by PTX text; the least recently used go first."""

    optimised: bool = False
    """Whether kernels are optimised from their first launch on."""
    wide: bool = False
    """Whether the arena may be larger than 2 GiB."""
    _modules: dict[str, tuple[Module, dict[str, CompiledKernel]]] = field(default_factory=dict)

    def known(self, ptx: str, entry: str) -> bool:
        """Whether :meth:`kernel` returns a kernel that it has returned before."""
        return ptx in self._modules and entry in self._modules[ptx][1]

    def kernel(self, ptx: str, entry: str) -> tuple[CompiledKernel, Module, float]:
        """Return a kernel, its module, and the milliseconds that parsing and analysing took.

        Raises
        ------
        PtxError
            If the text is not PTX.
        KeyError
            If it has no such kernel.
        TranslationError
            If the kernel is malformed.
        """
        if self.known(ptx, entry):
            self._modules[ptx] = module, kernels = self._modules.pop(ptx)
            return kernels[entry], module, 0.0
        started = scheduled_clock()
        # By the text itself, whose hash Python computes once: the same text is launched many times.
        known = self._modules.pop(ptx, None) or (parse(ptx), {})
        self._modules[ptx] = known
        while len(self._modules) > _MAX_MODULES:
            del self._modules[next(iter(self._modules))]
        module, kernels = known
        function = module.functions.get(entry)
        if function is None or not function.is_entry or function.body is None:
            raise KeyError(entry)
        kernels[entry] = CompiledKernel(module, entry, optimised=self.optimised, wide=self.wide)
        return kernels[entry], module, (scheduled_clock() - started) * 1e3
