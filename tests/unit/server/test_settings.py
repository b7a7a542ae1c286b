"""Settings: layouts that clients send, defaults, and invalid values."""

from __future__ import annotations

import pytest

from gpuemu_lsp.server.settings import Settings, camel, read


@pytest.mark.parametrize(
    "given",
    [
        {"cases": 3, "inlayHints": True},
        {"gpuemu": {"cases": 3, "inlayHints": True}},
        {"settings": {"cases": 3, "inlayHints": True}},
        {"settings": {"gpuemu": {"cases": 3}}, "inlayHints": True},
    ],
)
def test_the_section_may_be_nested(given):
    settings, problems = read(Settings(), given)
    assert (settings.cases, settings.inlay_hints, problems) == (3, True, [])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("cases", 0),
        ("cases", True),
        ("cases", "8"),
        ("deepCases", 1.5),
        ("checkOn", "type"),
        ("codeLens", 1),
        ("logFile", ""),
    ],
)
def test_an_invalid_value_is_reported_and_the_default_is_used(key, value):
    settings, (problem,) = read(Settings(), {key: value})
    assert settings == Settings() and problem.startswith(f"gpuemu.{key} must be ") and repr(value) in problem


def test_null_requests_the_default():
    settings, problems = read(Settings(), {"cases": None, "deepCases": None, "logFile": None})
    assert settings == Settings() and problems == []


def test_unknown_keys_belong_to_the_client():
    assert read(Settings(), {"server": {"path": "x"}, "trace": "off"}) == (Settings(), [])


def test_a_later_configuration_is_complete_except_for_the_log():
    old, _ = read(Settings(), {"cases": 3, "logLevel": "debug"}, initial=True)
    new, _ = read(old, {"deepCases": 32})
    assert (new.cases, new.deep_cases, new.log_level) == (None, 32, "debug")


def test_trust_is_read_at_initialize_only():
    untrusted, _ = read(Settings(), {"trusted": False}, initial=True)
    assert not untrusted.trusted
    assert not read(untrusted, {"trusted": True})[0].trusted


def test_anything_but_an_object_changes_nothing():
    settings = Settings(cases=3)
    for given in (None, [], "x", 3):
        assert read(settings, given) == (settings, [])


def test_names_are_camel_case_for_clients():
    assert camel("compile_while_typing") == "compileWhileTyping"
