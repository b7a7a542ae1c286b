"""What a coding agent gets of each planted bug through `gpuemu mcp`: the kernel comes as text, outside of its project.

    python -m benchmarks.agents [--host | --bare] [--show] [NAME ...]

Each kernel is sent with its entry of gpuemu.toml and its reference as texts. With ``--host`` it is its source alone,
with the program that launches it: sizes from the command line, allocations, values, copies, the launch; these are the
bugs that need no reference. With ``--bare`` it is the text of the kernel.

`check`, then `explain` of its first error: a kernel counts where the structured results name the line of
``kernels/minimal.toml``, the element (of rules about one), both parties (of a race), a path of statements, and its
smallest sizes.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import tomli

from tests.support.mcp_client import McpClient

KERNELS = Path(__file__).parent.parent / "kernels"
FOLDERS = ("memory", "index", "sync", "ops")
ABOUT_AN_ELEMENT = ("memory/", "numeric/")
ABOUT_NO_ELEMENT = ("memory/null-pointer",)
INTEGERS = ("char", "short", "int", "unsigned", "unsigned int", "long long", "int8_t", "uint8_t", "int64_t", "size_t")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", action="store_true", help="send the kernel with a program that launches it")
    parser.add_argument("--bare", action="store_true", help="send the text of the kernel alone")
    parser.add_argument("--show", action="store_true", help="print what is missing of each kernel")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    minima = tomli.loads((KERNELS / "minimal.toml").read_text())
    missing: Counter[str] = Counter()
    complete = total = 0
    with McpClient(Path.cwd()) as client:
        for folder in FOLDERS:
            entries = {entry["name"]: entry for entry in read_config(folder)["kernels"]}
            for name, entry in entries.items():
                if not entry["source"].endswith("_buggy.cu") or (options.names and name not in options.names):
                    continue
                files = as_texts(folder, entry, entries)
                if options.host:
                    if not any(item["rule"].startswith(("memory/", "sync/")) for item in minima.get(name, [])):
                        continue
                    files = {entry["source"]: files[entry["source"]] + program(folder, entry, entries)}
                if options.bare:
                    files = {entry["source"]: files[entry["source"]]}
                lacks = lacking(client, files, minima.get(name, []))
                total += 1
                complete += not lacks
                missing.update(lacks[:1])
                if options.show and lacks:
                    print(f"{folder}/{name}: {'; '.join(lacks)}", flush=True)
    print(f"{complete} of {total} complete; first thing that is missing: {dict(missing)}")


def read_config(folder: str) -> dict[str, Any]:
    return tomli.loads((KERNELS / folder / "gpuemu.toml").read_text())


def merged(entry: dict[str, Any], entries: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return an entry with what it has from the one that it is like."""
    like = entries.get(entry.get("like", ""), {})
    own = {**like, **entry, "launch": like.get("launch", {}) | entry.get("launch", {})}
    return {key: value for key, value in own.items() if key != "like"}


def as_texts(folder: str, entry: dict[str, Any], entries: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Return a kernel, its entry and its reference by file name."""
    own = merged(entry, entries)
    files = {own["source"]: (KERNELS / folder / own["source"]).read_text()}
    if "reference" in own:
        path, _, function = own["reference"].partition(":")
        files["ref.py"] = (KERNELS / folder / path).resolve().read_text()
        own["reference"] = f"ref.py:{function}" if function else "ref.py"
    shared = {key: value for key, value in read_config(folder).items() if key not in ("kernels", "project")}
    tables = "".join(f"[{key}]\n{lines(value)}" for key, value in shared.items())
    files["gpuemu.toml"] = f"{tables}[[kernels]]\n{lines(own)}"
    return files


def program(folder: str, entry: dict[str, Any], entries: dict[str, dict[str, Any]]) -> str:
    """Return a program that launches a kernel as its entry says."""
    own = merged(entry, entries)
    text = (KERNELS / folder / own["source"]).read_text()
    header = re.search(r"__global__\s+void\s+(?:__launch_bounds__\([^)]*\)\s*)?(\w+)\(([^)]*)\)", text)
    assert header is not None
    # Of a template the first type, as its entry does by default.
    template = re.search(r"template\s*<\s*(?:typename|class)\s+(\w+)\s*>", text)
    body = [f"int {dim} = atoi(argv[{number}]);" for number, dim in enumerate(own.get("dims", {}), 1)]
    arguments = []
    for parameter in header[2].split(","):
        kind, name = re.sub(r"\b(const|__restrict__)\b", "", parameter).strip().rsplit(" ", 1)
        kind, name = f"{kind}{'*' * name.count('*')}".replace(" *", "*"), name.lstrip("*")
        if template is not None:
            kind = re.sub(rf"\b{template[1]}\b", "float", kind)
        given = own["args"][name]
        if kind.endswith("*"):
            body += memory(kind[:-1], name, given)
            arguments.append(name)
        else:
            arguments.append(f"({kind})({expression(given)})")
    launch = own["launch"]
    shared = f", {expression(launch['shared'])}" if "shared" in launch else ""
    instance = f"{header[1]}<float>" if template is not None else header[1]
    configuration = f"{extents(launch['grid'])}, {extents(launch['block'])}{shared}"
    body.append(f"{instance}<<<{configuration}>>>({', '.join(arguments)});")
    code = "".join(f"    {line}\n" for line in body)
    helper = "static int ceil_div(int a, int b) { return (a + b - 1) / b; }\n"
    minimum = "static int least(int a, int b) { return a < b ? a : b; }\n"
    return f"\n#include <cstdlib>\n{helper}{minimum}int main(int argc, char** argv) {{\n{code}}}\n"


def memory(kind: str, name: str, given: dict[str, Any]) -> list[str]:
    """Return the statements that allocate the memory of an argument, with values as its entry says."""
    if "may_alias" in given:
        return [f"{kind}* {name} = {given['may_alias']};"]
    shape = next(given[way] for way in ("in", "inout", "out") if way in given)
    count = " * ".join([f"({expression(extent)})" for extent in shape] or ["1"])
    size = f"{count} * sizeof({kind})"
    allocated = [f"{kind}* {name};", f"cudaMalloc(&{name}, {size});"]
    if "out" in given:
        return allocated
    if given.get("range") == [0, 1] and kind in INTEGERS:
        return [*allocated, f"cudaMemset({name}, 0, {size});"]
    host, value = f"host_{name}", drawn(kind, given.get("range"))
    fill = [f"for (int i = 0; i < {count}; ++i) {host}[i] = {value};"] if value else []
    copy = f"cudaMemcpy({name}, {host}, {size}, cudaMemcpyHostToDevice);"
    return [*allocated, f"{kind}* {host} = ({kind}*)malloc({size});", *fill, copy]


def drawn(kind: str, limits: list[Any] | None) -> str:
    """Return the expression of a random value; empty for types that are not numbers of C++."""
    if kind in ("float", "double"):
        low, high = map(str, limits or (-1.0, 1.0))
        return f"{low} + ({high} - {low}) * (rand() / ({kind})RAND_MAX)"
    if kind not in INTEGERS or limits is None:
        return "rand()" if kind in INTEGERS else ""
    low, high = map(expression, limits)
    return f"rand() % ({high})" if low == "0" else f"{low} + rand() % (({high}) - ({low}))"


def extents(value: Any) -> str:
    return f"dim3({', '.join(map(expression, value))})" if isinstance(value, list) else expression(value)


def expression(value: Any) -> str:
    """Return an expression of gpuemu.toml in C++."""
    return str(value).replace("//", "/").replace("min(", "least(")


def lines(table: dict[str, Any]) -> str:
    return "".join(f"{key} = {toml(value)}\n" for key, value in table.items())


def toml(value: Any) -> str:
    """Return a value of TOML, tables inline."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def lacking(client: McpClient, files: dict[str, str], minima: list[dict[str, Any]]) -> list[str]:
    """Return what the results about a kernel lack."""
    result = client.call("check", files=files)
    errors = [finding for finding in result["findings"] if finding["severity"] == "error"]
    if result["verdict"] not in ("wrong", "unsafe") or not errors:
        return [f"verdict {result['verdict']}"]
    places = {(item["rule"], item["line"]): item["dims"] for item in minima}
    # A finding may be there in place of one of the same line that follows from it.
    same_line = {line: dims for (_, line), dims in places.items()}
    finding = next((one for one in errors if (one["rule"], one["line"]) in places), None)
    finding = finding or next((one for one in errors if one["line"] in same_line), None)
    if finding is None:
        return [f"line: {[(one['rule'], one['line']) for one in errors]} instead of {list(places)}"]
    lacks = []
    has_element = finding["rule"].startswith(ABOUT_AN_ELEMENT) and finding["rule"] not in ABOUT_NO_ELEMENT
    if has_element and finding["element"] is None:
        lacks.append("element")
    if finding["rule"].endswith("-race") and len(finding["parties"]) != 2:
        lacks.append("both parties")
    answer = client.ask("tools/call", {"name": "explain", "arguments": {"id": finding["id"]}})["result"]
    if answer["isError"]:
        return [*lacks, f"explanation: {answer['content'][0]['text']}"]
    explanation = answer["structuredContent"]["explanations"][0]
    if not any(chain["steps"] for chain in explanation["chains"]) and not explanation["notes"]:
        lacks.append(f"path: {explanation['problem']}")
    minimal = explanation["minimal"]
    if minimal is None:
        lacks.append(f"smallest sizes: {explanation['minimal_problem']}")
    elif not as_small(
        minimal["sizes"], expected := places.get((finding["rule"], finding["line"]), same_line[finding["line"]])
    ):
        lacks.append(f"smallest sizes: {minimal['sizes']} instead of {expected}")
    return lacks


def as_small(sizes: dict[str, int], least: dict[str, int]) -> bool:
    """Return whether sizes are the least known ones, or smaller: of another rule they may be."""
    return sizes.keys() == least.keys() and all(sizes[name] <= least[name] for name in sizes)


if __name__ == "__main__":
    sys.exit(main())
