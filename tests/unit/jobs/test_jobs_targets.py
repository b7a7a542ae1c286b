"""Resolution of command-line targets to check requests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpuemu_lsp.engine.jobs.requests.targets import TargetError, collect
from gpuemu_lsp.engine.subjects.request import CheckOptions

ONE = "__global__ void {name}(const float* x, float* y, int n) {{ if (threadIdx.x < n) y[threadIdx.x] = x[threadIdx.x]; }}\n"
ENTRY = '[[kernels]]\nname = "{name}"\nsource = "{source}"\n'

FILES = {
    "a.cu": ONE.format(name="a") + ONE.format(name="helper"),
    "sub/b.cu": ONE.format(name="b"),
    "sub/deep/c.cu": ONE.format(name="c"),
    ".hidden/d.cu": ONE.format(name="d"),
    "build/e.cu": ONE.format(name="e"),
    "host.cu": "int main() { return 0; }\n",
    "binary.cu": b"\xff\xfe\x00",
    "notes.txt": "nothing",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.delenv("GPUEMU_CONFIG", raising=False)

    def make(**more):
        for name, text in (FILES | {key.replace("__", "/"): value for key, value in more.items()}).items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return tmp_path

    return make


def names(targets):
    return [(request.spec.name, request.registered) for request in targets.requests]


def rules(targets):
    return [(finding.rule, Path(finding.place.path).name) for finding in targets.findings]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], ["a", "helper", "b", "c"]),
        (["."], ["a", "helper", "b", "c"]),
        (["sub"], ["b", "c"]),
        (["sub/../a.cu"], ["a", "helper"]),
        (["a.cu", "a.cu", "."], ["a", "helper", "b", "c"]),
        (["sub/deep/c.cu", "a.cu"], ["c", "a", "helper"]),
        (["host.cu"], []),
        (["binary.cu"], []),
    ],
)
def test_without_a_configuration(folder, arguments, expected):
    targets = collect(arguments, CheckOptions(), folder())
    assert names(targets) == [(name, False) for name in expected]
    assert all(request.options.store_root is None for request in targets.requests)


def test_files_without_a_kernel_are_reported(folder):
    targets = collect([], CheckOptions(), folder())
    assert rules(targets) == [("engine/not-executed", "binary.cu"), ("engine/not-executed", "host.cu")]


@pytest.mark.parametrize("header", ["k.h", "k.cuh", "inner/k.hpp", "k.cu.in"])
def test_headers_with_kernels_are_checked_and_their_sources_lead_to_them(folder, header):
    launching = {header: ONE.format(name="k"), "host.cu": f'#include "{header}"\nvoid f();\n', "own.h": "int f();\n"}
    root = folder(**launching)
    assert [names(collect([one], CheckOptions(), root)) for one in (header, "host.cu", "own.h")] == [
        [("k", False)],
        [("k", False)],
        [],
    ]
    whole = collect(["."], CheckOptions(), root)
    assert sorted(names(whole)) == [(name, False) for name in ["a", "b", "c", "helper", "k"]]
    assert rules(whole) == [("engine/not-executed", "binary.cu")]


CONFIG = ENTRY.format(name="second", source="sub/b.cu") + 'entry = "b"\n' + ENTRY.format(name="a", source="a.cu")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], [("second", True), ("a", True), ("helper", False)]),
        (["gpuemu.toml"], [("second", True), ("a", True), ("helper", False)]),
        (["a"], [("a", True)]),
        (["second", "a"], [("second", True), ("a", True)]),
        (["a.cu"], [("a", True), ("helper", False)]),
        (["sub"], [("second", True)]),
        (["sub/deep"], [("c", False)]),
        (["sub/deep/c.cu", "second"], [("c", False), ("second", True)]),
    ],
)
def test_with_a_configuration(folder, arguments, expected):
    root = folder(**{"gpuemu.toml": CONFIG})
    targets = collect(arguments, CheckOptions(), root)
    assert names(targets) == expected
    assert {request.options.store_root for request in targets.requests} == {root.as_posix()}


@pytest.mark.parametrize(
    ("argument", "says"),
    [
        ("secnd", "did you mean 'second'?"),
        ("zzz", "there are: second, a"),
        ("notes.txt", "not a .cu, .hip, .py or .ipynb file"),
        ("missing.cu", "neither a file nor a registered kernel"),
        ("nul\0", "neither a file nor a registered kernel"),
    ],
)
def test_unknown_argument(folder, argument, says):
    root = folder(**{"gpuemu.toml": CONFIG})
    with pytest.raises(TargetError) as caught:
        collect([argument], CheckOptions(), root)
    assert says in str(caught.value)


def test_the_whole_file_system_is_not_searched(folder):
    with pytest.raises(TargetError, match="name the folder"):
        collect(["/"], CheckOptions(), folder())


def test_nested_projects_use_their_own_configuration(folder):
    nested = ENTRY.format(name="nested", source="b.cu") + 'entry = "b"\n'
    targets = collect([], CheckOptions(), folder(**{"sub/gpuemu.toml": nested}))
    assert names(targets) == [("a", False), ("helper", False), ("nested", True)]


def test_a_name_is_looked_up_in_the_projects_below_a_folder_without_one(folder):
    one = ENTRY.format(name="first", source="../a.cu") + 'entry = "a"\n'
    two = ENTRY.format(name="second", source="b.cu") + 'entry = "b"\n'
    root = folder(**{"other/gpuemu.toml": one, "sub/gpuemu.toml": two})
    assert names(collect(["second", "first"], CheckOptions(), root)) == [("second", True), ("first", True)]
    assert names(collect(["second"], CheckOptions(), root / "sub")) == [("second", True)]
    with pytest.raises(TargetError, match="did you mean 'second'"):
        collect(["secnd"], CheckOptions(), root)
    with pytest.raises(TargetError, match="there are: second"):
        collect(["first"], CheckOptions(), root / "sub")


def test_a_registered_source_may_have_any_name(folder):
    targets = collect(
        [],
        CheckOptions(),
        folder(**{"gpuemu.toml": ENTRY.format(name="k", source="k.inc"), "k.inc": ONE.format(name="k")}),
    )
    assert names(targets) == [("k", True)]


def test_kernels_of_a_file_with_a_broken_entry_are_not_inferred(folder):
    broken = CONFIG.replace('name = "a"', 'name = "a"\ndtypes = 3')
    targets = collect(["a.cu"], CheckOptions(), folder(**{"gpuemu.toml": broken}))
    assert names(targets) == []
    assert rules(targets) == [("config/bad-value", "gpuemu.toml")]


def test_kernel_registered_under_another_kernels_name(folder):
    config = ENTRY.format(name="helper", source="a.cu") + 'entry = "a"\n'
    targets = collect([], CheckOptions(), folder(**{"gpuemu.toml": config}))
    assert [(request.spec.name, request.spec.entry) for request in targets.requests] == [
        ("helper", "a"),
        ("helper", "helper"),
    ]


def test_headers_and_references_are_watched(folder):
    config = ENTRY.format(name="a", source="a.cu") + 'reference = "ref.py"\n'
    files = {
        "gpuemu.toml": config,
        "a.cu": '#include "h.cuh"\n' + FILES["a.cu"],
        "h.cuh": '#include "sub/deep.h"\n',
        "sub/deep.h": "\n",
    }
    root = folder(**files, **{"ref.py": ""})
    watched = collect([], CheckOptions(), root).watched
    assert [os.path.relpath(path, root) for path in watched] == ["a.cu", "gpuemu.toml", "h.cuh", "ref.py", "sub/deep.h"]


def test_a_named_pipe_does_not_block(folder):
    root = folder()
    os.mkfifo(root / "pipe.cu")
    targets = collect(["pipe.cu"], CheckOptions(), root)
    assert rules(targets) == [("engine/not-executed", "pipe.cu")]
