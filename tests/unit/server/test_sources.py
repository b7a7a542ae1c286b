"""The diagnostic store: results by source, and the paths whose diagnostics change."""

from __future__ import annotations

from gpuemu_lsp.engine.findings import Finding, Place, Range
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.server.diagnostics.sources import DiagnosticSource, DiagnosticStore, split_by_layer

SOURCE, HEADER = "/p/k.cu", "/p/k.h"
RUN = DiagnosticSource("run", SOURCE, "k")
COMPILE = DiagnosticSource("compile", SOURCE, "k")


def finding(rule: str, path: str = SOURCE, line: int = 0, **fields) -> Finding:
    return make(rule, "message", Place(path, Range.of(line, 0, line, 1)), **fields)


def rules(store: DiagnosticStore, path: str) -> list[str]:
    return [found.rule for _, _, found in store.in_file(path)]


def test_a_newer_result_replaces_the_older_one_of_its_source_only():
    store = DiagnosticStore()
    store.replace(COMPILE, [finding("artifact/spills")], 1)
    store.replace(RUN, [finding("numeric/nan")], 1)
    assert store.replace(RUN, [finding("memory/out-of-bounds")], 2) == {SOURCE}
    assert rules(store, SOURCE) == ["artifact/spills", "memory/out-of-bounds"]


def test_changed_paths_include_those_of_the_replaced_result():
    store = DiagnosticStore()
    assert store.replace(COMPILE, [finding("compile/error", HEADER)], 1) == {HEADER}
    assert store.paths_of(SOURCE) == {HEADER}
    assert store.replace(COMPILE, [], 2) == {HEADER}
    assert store.paths_of(SOURCE) == set()


def test_a_compile_error_reported_by_every_kernel_is_listed_once():
    store = DiagnosticStore()
    for kernel in ("a", "b"):
        store.replace(DiagnosticSource("compile", SOURCE, kernel), [finding("compile/error", kernel=kernel)], 1)
        store.replace(DiagnosticSource("run", SOURCE, kernel), [finding("numeric/nan", kernel=kernel)], 1)
    assert rules(store, SOURCE) == ["compile/error", "numeric/nan", "numeric/nan"]


def test_ignored_findings_are_not_listed():
    store = DiagnosticStore()
    store.replace(RUN, [finding("numeric/nan", data={"ignored": True})], 1)
    assert rules(store, SOURCE) == [] and store.findings_from(RUN)


def test_dropping_a_layer_keeps_the_named_kernels():
    store = DiagnosticStore()
    for kernel in ("a", "b"):
        store.replace(DiagnosticSource("run", SOURCE, kernel), [finding("numeric/nan", kernel=kernel)], 1)
    assert store.drop("run", SOURCE, frozenset({"b"})) == {SOURCE}
    assert [found.kernel for found in store.findings_of(SOURCE)] == ["b"]
    assert store.drop("compile", SOURCE) == set()


def test_revalidation_updates_the_revision():
    store = DiagnosticStore()
    store.replace(RUN, [finding("numeric/nan", HEADER)], 1)
    assert store.revalidate(SOURCE, 5) == {HEADER}
    assert [result.revision for _, result, _ in store.in_file(HEADER)] == [5]


def test_configurations_are_not_checked_files():
    store = DiagnosticStore()
    store.replace(DiagnosticSource("config", "/p/gpuemu.toml"), [], 1)
    store.replace(RUN, [], 1)
    assert store.files() == {SOURCE, "/p/gpuemu.toml"} and store.checked_files() == {SOURCE}


def test_findings_are_split_by_the_layer_that_replaces_them():
    compiled, ran = split_by_layer([finding("numeric/nan"), finding("compile/error"), finding("artifact/spills")])
    assert [item.rule for item in compiled] == ["compile/error", "artifact/spills"]
    assert [item.rule for item in ran] == ["numeric/nan"]
