"""Test items: labels that do not repeat, states of stored cases, and the values of a failure."""

from __future__ import annotations

from typing import Any

from support.server_kernels import GOOD, STORE_LINE, TOML

from gpuemu_lsp.engine.findings import Finding, Place, Range
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.server.documents.locations import uri_from_path
from gpuemu_lsp.server.test_explorer.items import TestItem, item_to_client, items_of


def stored(case: str, n: int, rule: str = "numeric/nan") -> dict[str, Any]:
    return {
        "id": case,
        "kernel": "scale",
        "dtype": "float32",
        "dims": {"n": n},
        "rule": rule,
        "message": f"y[0] = NaN, expected 2 (n = {n})",
        "line": STORE_LINE,
    }


def dtypes_of(parsed) -> dict[str, tuple[str, ...]]:
    return {entry.id: tuple(plan.dtype for plan in entry.plans) for entry in parsed.entries}


async def cases(harness, *failures: dict[str, Any]) -> list[TestItem]:
    parsed = await harness.services.session.parse(harness.path)
    return [item for item in items_of("file:///scale.cu", parsed, failures, dtypes_of(parsed)) if item.kind == "case"]


async def test_cases_of_the_same_sizes_have_different_labels(harness):
    found = await cases(harness, stored("4937353349871290361", 5), stored("11", 5), stored("12", 6))
    assert [item.label for item in found] == [
        "n = 5 (numeric/nan), case 290361",
        "n = 5 (numeric/nan), case 11",
        "n = 6 (numeric/nan)",
    ]


async def test_a_case_that_failed_by_two_rules_is_one_item(harness):
    (found,) = await cases(harness, stored("11", 5, "memory/out-of-bounds"), stored("11", 5))
    assert found.label == "n = 5 (memory/out-of-bounds)"


async def test_a_stored_case_has_failed_before_it_is_checked_again(harness):
    (found,) = await cases(harness, stored("11", 5))
    sent = item_to_client(found, "file:///scale.cu")
    assert (sent["state"], sent["message"]) == ("failed", "y[0] = NaN, expected 2 (n = 5)")
    kernel = item_to_client(TestItem("id", "scale", "kernel", None), "file:///scale.cu")
    assert (kernel["state"], kernel["message"]) == (None, None)


async def test_items_of_an_edited_text_keep_their_dtypes_and_do_not_read_plans(harness):
    harness.open()
    (job,) = await harness.until(1)
    await harness.services.explorer.discover()
    before = [item.label for item in harness.services.explorer.items(harness.path) if item.kind == "dtype"]
    harness.edit(GOOD.replace("n)", "n) ", 1))
    parsed = await harness.services.session.parse(harness.path)
    during = [item.label for item in harness.services.explorer.items(harness.path) if item.kind == "dtype"]
    assert (before, during) == (["float32"], ["float32"])
    assert all("plans" not in vars(entry) for entry in parsed.entries)
    await job.finish(harness.report("passed"))


async def test_files_of_one_name_are_labelled_with_their_folders(harness):
    config = TOML
    for folder in ("a", "b"):
        (harness.root / folder).mkdir()
        (harness.root / folder / "k.cu").write_text(GOOD)
        entry = TOML.replace('name = "scale"', f'name = "{folder}"').replace("scale.cu", f"{folder}/k.cu")
        config += "\n" + entry
    (harness.root / "gpuemu.toml").write_text(config)
    harness.services.session.projects.read_all([harness.root.as_posix()])
    labels = {item.label for item in await harness.services.explorer.discover() if item.kind == "file"}
    assert labels == {"scale.cu", "a/k.cu", "b/k.cu"}


async def test_expected_and_actual_are_one_line_of_seven_digits(harness):
    harness.services.explorer.active = True
    harness.open()
    (job,) = await harness.until(1)
    await job.finish(wrong(harness.path), harness.report("failed"))
    states = [params for method, params in harness.sent if method == "gpuemu/testState" and "expected" in params]
    assert {(item["expected"], item["actual"]) for item in states} == {("y[3, 0] = 0.1234568", "y[3, 0] = NaN")}


def wrong(path: str) -> Finding:
    rows = [
        {"index": [3, 0], "expected": 0.12345678901234567, "actual": "NaN"},
        {"index": [4, 0], "expected": 1.0, "actual": 2.0},
    ]
    place = Place(path, Range.of(STORE_LINE, 8, STORE_LINE, 9))
    return make("numeric/nan", "found", place, dtype="float32", case="1", data={"elements": rows, "output": "y"})


async def test_a_case_that_is_not_stored_cannot_be_reproduced(harness):
    """A read-only folder: reproducing and minimising would fail."""
    harness.open()
    (job,) = await harness.until(1)
    place = Place((harness.root / "gpuemu.toml").as_posix(), Range.of(0, 0, 0, 1))
    await job.finish(make("engine/not-stored", "x", place), wrong(harness.path), harness.report("failed"))
    uri = uri_from_path(harness.path)
    sent = [params for method, params in harness.sent if method == "textDocument/publishDiagnostics"]
    (diagnostic,) = [item for params in sent if params.uri == uri for item in params.diagnostics][-1:]
    assert diagnostic.code == "numeric/nan" and diagnostic.data["stored"] is False
    (result,) = harness.services.session.results.of_file(harness.path)
    assert not result.stored
