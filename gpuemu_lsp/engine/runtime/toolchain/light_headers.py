"""Headers in place of PyTorch's that include everything: only what a source names, with the same meaning.

``torch/extension.h`` has 290,000 lines, of which an extension needs the class of tensors and a few operators.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

_REPLACED = (
    *("torch/extension.h", "torch/torch.h", "torch/all.h", "torch/types.h", "torch/script.h"),
    *("ATen/ATen.h", "ATen/Functions.h", "ATen/NativeFunctions.h"),
)
_EVERYTHING = re.compile(r"\btorch::(?:nn|optim|jit|data|serialize|fft|linalg|special|sparse|nested)\b|requires_grad")
"""Names with which a source needs PyTorch's own headers."""

_OPTIONAL = {
    r"\bAT_DISPATCH_V2\b": "ATen/Dispatch_v2.h",
    r"\bindexing\b": "ATen/TensorIndexing.h",
    r"\bparallel_for\b": "ATen/Parallel.h",
    r"\bTORCH_LIBRARY|\bTorchLibrary": "torch/library.h",
    r"\btorch::autograd\b": "torch/csrc/autograd/custom_function.h",
    r"\bPYBIND11_|\bpy::|\bpybind11::": "torch/csrc/utils/pybind.h",
    r"\bwrap_pybind_function\b": "torch/csrc/Exceptions.h",
    r"\bTensorIterator\b": "ATen/TensorIterator.h",
    r"\bGenerator\b": "ATen/core/Generator.h",
    r"\bInferenceMode\b": "c10/core/InferenceMode.h",
    r"\bNoGradGuard\b|\bAutoGradMode\b": "ATen/core/grad_mode.h",
    r"\bgetCPUAllocator\b|\bglobalContext\b": "ATen/Context.h",
}
_PYTHON = ("torch/csrc/utils/pybind.h", "torch/csrc/Exceptions.h")
_ALWAYS = (
    *("ATen/core/Tensor.h", "ATen/Dispatch.h", "ATen/TensorOperators.h", "ATen/TensorUtils.h", "ATen/DeviceGuard.h"),
    *("ATen/ScalarOps.h", "c10/core/ScalarType.h", "c10/util/Exception.h", "c10/util/Half.h", "c10/util/BFloat16.h"),
)
# Else the header of the operators' overloads includes all operators.
_BEGIN = "#define AT_PER_OPERATOR_HEADERS\n#include <memory>\n"
_NAMES = """
#ifndef GPUEMU_NAMES
#define GPUEMU_NAMES
namespace torch {
using namespace at;
using std::nullopt;
using std::optional;
using Dtype = at::ScalarType;
constexpr auto kUInt8 = at::kByte, kInt8 = at::kChar, kInt16 = at::kShort, kInt32 = at::kInt, kInt64 = at::kLong;
constexpr auto kFloat16 = at::kHalf, kFloat32 = at::kFloat, kFloat64 = at::kDouble;
constexpr auto kU8 = kUInt8, kI8 = kInt8, kI16 = kInt16, kI32 = kInt32, kI64 = kInt64;
constexpr auto kF16 = kFloat16, kF32 = kFloat32, kF64 = kFloat64;
}
#endif
"""
"""As ``torch/types.h`` has them."""


def write_light_headers(text: str, includes: Path, folder: Path) -> bool:
    """Write the headers for a source into a folder, which is to be the first that is searched.

    ``includes`` is PyTorch's folder of headers. Returns whether the source may do with them; only a compiler knows.
    """
    if _EVERYTHING.search(text):
        return False
    content = "".join(f"#include <{name}>\n" for name in _included(text, includes))
    folder.mkdir(parents=True, exist_ok=True)
    shared = folder / "gpuemu_light.h"
    shared.write_text(f"#pragma once\n{_BEGIN}{content}{_NAMES}")
    for name in _REPLACED:
        header = folder / name
        header.parent.mkdir(parents=True, exist_ok=True)
        header.write_text(f'#include "{shared}"\n')
    return True


def common_headers(text: str, includes: Path) -> str:
    """Return the part of these headers that other sources have too: of those for Python, all or none."""
    python = _PYTHON if re.search(r"\b(?:PYBIND11_|py::|pybind11::)", text) else ()
    names = [name for name in (*_ALWAYS, *python) if (includes / name).is_file()]
    return _BEGIN + "".join(f"#include <{name}>\n" for name in names) + _NAMES


def _included(text: str, includes: Path) -> Iterator[str]:
    yield from (name for name in _ALWAYS if (includes / name).is_file())
    for pattern, name in _OPTIONAL.items():
        if re.search(pattern, text) and (includes / name).is_file():
            yield name
    called = r"\b([a-z_]\w*)" if re.search(r"\busing\s+namespace\s+(?:at|torch)\b", text) else r"\b(?:at|torch)::(\w+)"
    for operator in sorted(set(re.findall(called, text))):
        if (includes / "ATen" / "ops" / f"{operator}_ops.h").is_file() or operator in ("from_blob", "tensor"):
            yield f"ATen/ops/{operator}.h"
