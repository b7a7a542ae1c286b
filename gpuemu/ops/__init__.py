"""Ops of gpuemu.toml for Python programs: cases, runs, judgements, stored validations, and checks of the project."""
