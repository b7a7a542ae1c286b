"""Settings of the tests of properties."""

from __future__ import annotations

from hypothesis import settings

# A machine that other programs share may take any time for an example.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
