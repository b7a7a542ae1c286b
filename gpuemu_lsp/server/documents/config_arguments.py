"""Names of a kernel's arguments for `[kernels.args]`: its parameters, and the fields of structs, ``p.x``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuemu_lsp.engine.plan.context import KernelContext
from gpuemu_lsp.engine.plan.entry import choose_kernel
from gpuemu_lsp.engine.plan.resolve import unregistered
from gpuemu_lsp.engine.plan.skeleton import argument_types
from gpuemu_lsp.engine.project.model import KernelSpec
from gpuemu_lsp.engine.regular_file import file_text
from gpuemu_lsp.engine.source import read
from gpuemu_lsp.server.documents.outline import ConfigSection, config_sections

_ASSIGNED = re.compile(r"^\s*(?P<key>[\w.\"\[\]]+)\s*=")
_STRING = re.compile(r"^\s*(?P<key>\w+)\s*=\s*(?P<quote>[\"'])(?P<value>.*?)(?P=quote)")
_MAX_LIKE = 8


@dataclass(frozen=True, slots=True)
class ArgumentName:
    """A key of `[kernels.args]` and the C type of the parameter or field."""

    key: str
    type: str


def argument_names(lines: Sequence[str], path: str, line: int) -> list[ArgumentName]:
    """Return the arguments of the kernel whose `[kernels.args]` a line is in, without those that are set already.

    Reads the source from disk; ``path`` is that of gpuemu.toml.
    """
    sections = config_sections(lines)
    entries = [one for one in sections if one.is_entry and one.path == "kernels"]
    own = next((one for one in reversed(entries) if one.first <= line), None)
    table = next((one for one in reversed(sections) if one.first < line), None)
    if own is None or table is None or table.path != "kernels.args":
        return []
    values = _strings(lines, own, sections)
    spec, given = values, dict[str, str]()
    for _ in range(_MAX_LIKE):
        given = {**spec, **given}
        base = next((one for one in entries if one.name and one.name == spec.get("like")), None)
        if base is None:
            break
        spec = _strings(lines, base, sections)
    if "source" not in given:
        return []
    kernel = KernelSpec(values.get("name", ""), str(Path(path).parent / given["source"]), None, given.get("entry"))
    written = {match["key"].replace('"', "") for row in lines[table.first :] if (match := _ASSIGNED.match(row))}
    return [one for one in _arguments(kernel) if one.key.replace('"', "") not in written]


def _strings(lines: Sequence[str], entry: ConfigSection, sections: Sequence[ConfigSection]) -> dict[str, str]:
    end = next((one.first for one in sections if one.first > entry.first), len(lines))
    return {match["key"]: match["value"] for row in lines[entry.first : end] if (match := _STRING.match(row))}


def _arguments(kernel: KernelSpec) -> Iterator[ArgumentName]:
    try:
        text = file_text(kernel.source)
    except (OSError, UnicodeDecodeError):
        return
    source = read(kernel.source, text)
    declaration, _ = choose_kernel(kernel, source)
    if declaration is not None:
        context = KernelContext(unregistered(source, declaration), declaration, source)
        yield from (ArgumentName(key, type_) for key, type_ in argument_types(context))
