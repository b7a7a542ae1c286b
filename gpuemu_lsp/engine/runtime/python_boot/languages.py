"""The languages in Python whose programs use our runtime, but for Triton, whose launches are PyTorch's device's."""

from typing import Final

from gpuemu_lsp.engine.runtime import cute_launches, tilelang_launches, warp_launches
from gpuemu_lsp.engine.runtime.python_process.language import LaunchingLanguage

LANGUAGES: Final[tuple[LaunchingLanguage, ...]] = (
    cute_launches.LANGUAGE,
    warp_launches.LANGUAGE,
    tilelang_launches.LANGUAGE,
)
