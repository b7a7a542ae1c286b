"""Errors of one part of a split source that the whole source has too."""

from __future__ import annotations

import pytest

from gpuemu_lsp.engine.runtime.toolchain.certain_errors import certain_errors

UNDEFINED = 'cuda.cu(5): error: identifier "some_own_name" is undefined'
NO_MEMBER = 'cuda.cu(4): error: class "uint3" has no member "w"'


@pytest.fixture
def headers(tmp_path):
    (tmp_path / "a.h").write_text("void header_name(int);\n")
    (tmp_path / "elsewhere.h").write_text("void linked_name();\n")
    toolkit = tmp_path / "toolkit"
    toolkit.mkdir()
    (toolkit / "a.h").symlink_to(tmp_path / "a.h")
    (toolkit / "b.h").symlink_to(tmp_path / "elsewhere.h")
    return toolkit


@pytest.mark.parametrize(
    ("message", "certain"),
    [
        (UNDEFINED, True),
        (UNDEFINED.replace("some_own_name", "header_name"), False),
        (UNDEFINED.replace("some_own_name", "linked_name"), False),
        (UNDEFINED.replace("some_own_name", "of_the_host"), False),
        (NO_MEMBER, True),
        (NO_MEMBER.replace("uint3", "Own"), False),
        ("cuda.cu:7:3: error: ‘some_own_name’ was not declared in this scope", True),
        ("cuda.cu:7:3: error: ‘header_name’ was not declared in this scope", False),
        ("cuda.cu:7:3: error: ‘class at::Tensor’ has no member named ‘dat_ptr’", True),
        ("cuda.cu(9): error: expected a ;", False),
    ],
)
def test_an_error_that_no_header_prevents_is_certain(headers, message, certain):
    errors = certain_errors(f"{message}\n      x = 1;\n          ^\n", "int of_the_host(float);", [headers])
    assert errors == ([message] if certain else [])


def test_uncertain_errors_are_left_out_of_those_that_are_reported(headers):
    uncertain = UNDEFINED.replace("some_own_name", "header_name")
    assert certain_errors(f"{uncertain}\n{NO_MEMBER}\n", "", [headers]) == [NO_MEMBER]
