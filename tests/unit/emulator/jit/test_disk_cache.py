"""Disk cache of machine code: hits, misses, and entries that are rejected."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.emulator_launch import artifact, compile_ptx, launch, result

from gpuemu_lsp.engine.emulator import Emulator
from gpuemu_lsp.engine.emulator.devicelib.library import DEVICE_LIBRARY
from gpuemu_lsp.engine.emulator.jit import disk_cache
from gpuemu_lsp.engine.emulator.jit.disk_cache import ObjectCache, key_of
from gpuemu_lsp.engine.emulator.versions import code_cache
from gpuemu_lsp.engine.execution import Buffer, Request

KEY = key_of(["some", "thing"])
SOURCE = 'extern "C" __global__ void k(int* y) { y[threadIdx.x] = 3 * threadIdx.x; }'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    DEVICE_LIBRARY.link()
    monkeypatch.setenv("GPUEMU_CACHE_DIR", str(tmp_path))
    disk_cache.shared_cache.cache_clear()
    code_cache.clear_code_cache()
    yield tmp_path / "machine-code"
    disk_cache.shared_cache.cache_clear()
    code_cache.clear_code_cache()


def _run(ptx: str) -> list[int]:
    code_cache.clear_code_cache()
    out = Buffer("y", np.zeros(128, np.uint8), initialized=False)
    outcome = Emulator().run(Request(artifact(ptx), "k", (1, 1, 1), (32, 1, 1), 0, (out,)))
    assert outcome.status == "completed", outcome.events
    values: list[int] = outcome.buffers["y"].view(np.int32).tolist()
    return values


def test_a_stored_entry_is_found(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path / "new")
    assert cache.load(KEY) is None
    cache.store(KEY, b"code")
    assert cache.load(KEY) == b"code"
    assert cache.load(key_of(["some thing"])) is None
    (file,) = (tmp_path / "new").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700


def test_keys_depend_on_every_source_of_the_translator() -> None:
    package = Path(disk_cache.__file__).parents[2]
    names = {path.relative_to(package).as_posix() for path in disk_cache.translator_files()}
    assert {"emulator/codegen/translate.py", "emulator/devicelib/library.py", "emulator/abi/structs.py",
            "emulator/ops/__init__.py", "ptx/parser.py"} <= names  # fmt: skip


@pytest.mark.parametrize("change", [lambda raw: raw[:-1], lambda raw: raw + b"\0", lambda raw: b"", lambda raw: b"\x7fELF" + raw,
                                    lambda raw: raw[:-1] + bytes([raw[-1] ^ 1]), lambda raw: raw[:30] + bytes([raw[30] ^ 1]) + raw[31:]])  # fmt: skip
def test_a_damaged_entry_is_ignored_and_replaced(tmp_path: Path, change) -> None:
    cache = ObjectCache(tmp_path)
    cache.store(KEY, b"code")
    path = tmp_path / KEY.hex()
    path.write_bytes(change(path.read_bytes()))
    assert cache.load(KEY) is None
    cache.store(KEY, b"code")
    assert cache.load(KEY) == b"code"


def test_an_entry_under_another_name_is_ignored(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path)
    cache.store(KEY, b"code")
    other = key_of(["other"])
    (tmp_path / KEY.hex()).rename(tmp_path / other.hex())
    assert cache.load(other) is None


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owner here")
def test_code_that_other_users_can_write_is_rejected(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path)
    cache.store(KEY, b"code")
    (tmp_path / KEY.hex()).chmod(0o622)
    assert cache.load(KEY) is None
    (tmp_path / KEY.hex()).chmod(0o600)
    tmp_path.chmod(0o777)
    assert cache.load(KEY) is None


def test_the_folder_is_kept_below_its_limit(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path, limit_bytes=4000)
    for number in range(70):
        cache.store(key_of([str(number)]), bytes(500))
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 4000 + 32 * 700


def test_an_unusable_folder_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = ObjectCache(tmp_path / "file" / "folder")
    cache.store(KEY, b"code")
    assert cache.load(KEY) is None


def test_code_is_stored_and_loaded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ptx = compile_ptx(SOURCE)
    expected = [3 * i for i in range(32)]
    assert _run(ptx) == expected
    assert len(list(folder.iterdir())) == 1

    def never(*unused: object) -> None:
        raise AssertionError("translated again")

    monkeypatch.setattr(code_cache, "translate", never)
    assert _run(ptx) == expected
    assert _run(compile_ptx("\n\n// moved\n" + SOURCE)) == expected  # other line numbers, same code


def test_a_damaged_object_is_translated_again(folder: Path) -> None:
    ptx = compile_ptx(SOURCE)
    _run(ptx)
    (file,) = folder.iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[:200] + bytes(len(whole) - 200))
    assert _run(ptx) == [3 * i for i in range(32)]
    assert file.read_bytes() == whole


def test_code_depends_on_constants(folder: Path) -> None:
    _run(compile_ptx(SOURCE))
    assert _run(compile_ptx(SOURCE.replace("3 *", "5 *"))) == [5 * i for i in range(32)]
    assert len(list(folder.iterdir())) == 2


def test_loaded_code_reports_faults(folder: Path) -> None:
    source = 'extern "C" __global__ void k(int* y) { y[threadIdx.x + 8] = 1; }'
    for _ in range(2):
        code_cache.clear_code_cache()
        outcome = launch(source, 1, 32, np.zeros(32, np.int32))
        assert [event.rule for event in outcome.events] == ["memory/out-of-bounds"]
        assert outcome.events[0].count == 8
    assert result(launch(source, 1, 8, np.zeros(32, np.int32)), 0, np.int32).sum() == 8
