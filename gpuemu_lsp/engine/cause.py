"""Causes of events and findings, and traits of compile errors: what is decided on where the rule does not suffice.

Messages are for people: an edit of a sentence must not change a verdict. Whatever a policy, a report or the server
decides on is a rule, a cause or a field.
"""

from __future__ import annotations

from enum import StrEnum


class Cause(StrEnum):
    """What went wrong, in terms that something decides on; the rule says the rest."""

    STEP_LIMIT = "step-limit"
    """A warp took more steps than a launch may: the loop may be long and not endless."""
    LONG_LOOP = "long-loop"
    """A warp took more steps than a launch may, in loops that count to a bound: they end."""
    TIME_LIMIT = "time-limit"
    """The launch reached its time limit while the registers of a loop changed: it may only be slow."""
    TIME_LIMIT_WAITING = "time-limit-waiting"
    """The launch reached its time limit in a loop that only waits."""
    DRIVER_TIME_LIMIT = "driver-time-limit"
    """The driver of a GPU ended the launch at its own time limit."""
    ENDLESS_WAIT = "endless-wait"
    """The launch waits for what no thread will do: that is proved, and does not depend on the machine's speed."""
    FAILED_ASSERT = "failed-assert"
    """An assertion of device code failed."""
    STOPPED = "stopped"
    """The launch was asked to stop in a loop whose registers changed."""
    STOPPED_WAITING = "stopped-waiting"
    """The launch was asked to stop in a loop that only waits."""
    TRANSLATION_TIME = "translation-time"
    """The translation of the kernel to machine code took longer than it may."""
    WITHIN_PROGRAM = "within-program"
    """A race is between a store and a later load of one Triton program."""
    NO_ENTRY = "no-entry"
    """A PTX file has no entry of the kernel."""
    INCOMPLETE = "incomplete"
    """With the assumed sizes or values the launch does not come to its end, or shows nothing."""
    UNKNOWN_INSTANCE = "unknown-instance"
    """No launch says with which template arguments the kernel is used."""
    EXCLUDED = "excluded"
    """The preprocessor excludes the kernel."""
    DEVICE_RUNTIME = "device-runtime"
    """The kernel uses the CUDA device runtime."""
    DYNAMIC_INITIALIZATION = "dynamic-initialization"
    """A constant at file scope is initialised at run time."""
    TEXTURE_REFERENCE = "texture-reference"
    """The kernel uses a texture reference, which CUDA 12 does not have."""
    TEXTURE_OBJECT = "texture-object"
    """The kernel reads a texture or surface object that is not made for the launch."""
    LOCKSTEP = "lockstep"
    """Lanes of a wavefront of 64 access memory without synchronisation, and may rely on lockstep."""
    NOT_IMPORTED = "not-imported"
    """The Python file of the kernel cannot be imported."""

    @property
    def is_time_limit(self) -> bool:
        """Whether a time limit ended the launch: on a faster machine it might have come to its end."""
        return self in (Cause.TIME_LIMIT, Cause.TIME_LIMIT_WAITING, Cause.DRIVER_TIME_LIMIT)

    @property
    def may_end(self) -> bool:
        """Whether the launch was ended in a loop that may have an end: with more time it might have come to it."""
        return self in (Cause.LONG_LOOP, Cause.TIME_LIMIT)


class ErrorTrait(StrEnum):
    """What the error of a compiler is about; an error may have several traits. Set where its text is parsed."""

    UNDECLARED = "undeclared"
    """A name is not declared; ``data["name"]`` of the finding is the name, if the compiler quotes it."""
    FOLLOWS = "follows"
    """It follows from an earlier error, wherever that is."""
    DEVICE_RUNTIME = "device-runtime"
    """A function of the CUDA device runtime is called."""
    DYNAMIC_INITIALIZATION = "dynamic-initialization"
    """A variable at file scope has an initialiser that is not constant."""
    TYPE_INDEPENDENT = "type-independent"
    """Other types, sizes or template arguments would not fix it."""
    NEWER_ARCHITECTURE = "newer-architecture"
    """It names an architecture, or a feature that not every architecture has."""
