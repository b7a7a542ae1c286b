"""Functions that the package ``gpuemu`` adds to the engine."""

from importlib import metadata

import pytest

from gpuemu_lsp.engine.extensions import GROUP, MissingExtensionError, extension


def test_a_function_of_another_package_is_found_by_its_name():
    assert extension("replay-call").__module__ == "gpuemu.ops.replay"


def test_a_name_that_no_package_declares_is_an_error_that_says_what_to_do():
    with pytest.raises(MissingExtensionError, match=r"'replay-nothing'.*install gpuemu-lsp again"):
        extension("replay-nothing")


def test_every_declared_function_is_that_of_the_package_of_users():
    assert {point.module.partition(".")[0] for point in metadata.entry_points(group=GROUP)} == {"gpuemu"}
