"""C++ is read by the front ends, the preprocessor and the compiler, and by no regular expression elsewhere.

What a plan, a check or a job has to know of a kernel is in its compiled code, and of host code in `hostcode/`.
"""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2] / "gpuemu_lsp" / "engine"
FOLDERS = ("plan", "check", "subjects", "jobs", "hostcode")

READERS_OF_CPP = {
    "hostcode/cpp/declarations.py", "hostcode/cpp/launch_macros.py", "hostcode/cpp/lower.py",
    "hostcode/cpp/translation_units.py", "hostcode/program.py", "hostcode/type_names.py",
}  # fmt: skip
"""The front end, and the names of types and templates."""

OTHER_TEXT = {
    # Names of our own: of dims, members and instances. Arguments of templates.
    "plan/entry.py",
    "check/plan_setup.py", "hostcode/tensors.py", "jobs/requests/new_entry.py", "plan/arguments.py",
    "plan/host/constraints.py", "plan/host/parameters/arguments.py", "plan/resolve.py", "plan/skeleton.py",
    "plan/struct_arguments.py",
    # Python.
    "hostcode/python/declarations.py", "hostcode/python/modules.py", "hostcode/python/parameters.py", "plan/triton.py",
    "subjects/triton/language.py",
    # PTX, MLIR, types in mangled names, and what compilers and Python print.
    "check/failing_thread/line_values.py", "check/failing_thread/ptx_log.py",
    "jobs/artifacts.py", "jobs/crash_findings.py", "jobs/requests/cuda_strings.py", "plan/recordings/plans.py",
    "plan/struct_sizes.py",
    "check/access_traits.py", "subjects/ptx/line_numbers.py", "subjects/pyptx/preparation.py",
    "subjects/cuda/missing_headers.py", "subjects/assembly.py", "subjects/triton/compile_errors.py",
    "subjects/triton/mlir_lines.py", "subjects/triton/resources.py",
}  # fmt: skip


def test_no_other_module_reads_cpp_by_regular_expressions():
    """A module that begins to use them says here what it reads."""
    found = {
        path.relative_to(ROOT).as_posix()
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        if any(
            isinstance(node, ast.Import) and any(each.name == "re" for each in node.names)
            for node in ast.walk(ast.parse(path.read_text()))
        )
    }
    assert found - READERS_OF_CPP - OTHER_TEXT == set()
    assert (READERS_OF_CPP | OTHER_TEXT) - found == set(), "no longer there: remove them from the lists"
