"""Events of checks, jobs, documents and settings, and the bus that delivers them.

Producers publish without knowledge of their subscribers, so every service can be constructed before those that react to
it. Subscribers receive an event synchronously, on the event loop's thread, in the order in which they subscribed;
:mod:`gpuemu_lsp.server.services` documents that order.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from gpuemu_lsp.server.settings import Settings
from gpuemu_lsp.server.work import Batch, KernelCheck, RunningJob

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BatchStarted:
    """A batch was submitted to the workers."""

    batch: Batch


@dataclass(frozen=True, slots=True)
class KernelStarted:
    """A worker has started with a kernel."""

    batch: Batch
    check: KernelCheck


@dataclass(frozen=True, slots=True)
class KernelCompiled:
    """The compile stage of a kernel has ended; its cases run next."""

    batch: Batch
    check: KernelCheck


@dataclass(frozen=True, slots=True)
class RunErrorFound:
    """A case of a kernel has failed; other cases still run."""

    batch: Batch
    check: KernelCheck


@dataclass(frozen=True, slots=True)
class KernelFinished:
    """A kernel has its report, possibly of a check that crashed or timed out."""

    batch: Batch
    check: KernelCheck


@dataclass(frozen=True, slots=True)
class BatchEnded:
    """A batch has ended. ``completed`` is False where it was cancelled or superseded by a newer batch of its key."""

    batch: Batch
    completed: bool


@dataclass(frozen=True, slots=True)
class CheckSkipped:
    """A requested check of a file has nothing to run, or was cancelled before it began."""

    path: str
    cancelled: bool = False


@dataclass(frozen=True, slots=True)
class PlansRead:
    """The plans of a file's kernels, as last parsed, are known."""

    path: str


@dataclass(frozen=True, slots=True)
class TextEdited:
    """The text of a file differs from the one last checked."""

    path: str


@dataclass(frozen=True, slots=True)
class JobStarted:
    """A job was submitted to the workers."""

    job: RunningJob


@dataclass(frozen=True, slots=True)
class JobEnded:
    """A job has ended."""

    job: RunningJob


@dataclass(frozen=True, slots=True)
class SettingsChanged:
    """New settings apply. Also published once with the settings of ``initialize``."""

    old: Settings
    new: Settings


@dataclass(frozen=True, slots=True)
class PauseChanged:
    """The checks that changes of files start were paused or resumed."""

    paused: bool


@dataclass(frozen=True, slots=True)
class StoredFailuresChanged:
    """The list of stored failing cases of a project has changed."""

    root: str


@dataclass(frozen=True, slots=True)
class MeasurementsCompared:
    """Measurements of kernels were compared with those of the previous save and of the baseline."""

    root: str


@dataclass(frozen=True, slots=True)
class AnswerJudged:
    """A judgement of a file's answer has ended: the verdict of ``gpuemu judge``, or ``cancelled``, and its reason."""

    path: str
    verdict: str
    reason: str


@dataclass(frozen=True, slots=True)
class SubscriberFailed:
    """A subscriber raised ``error`` on an event, which the others received."""

    error: Exception


ServerEvent: TypeAlias = (
    BatchStarted
    | KernelStarted
    | KernelCompiled
    | RunErrorFound
    | KernelFinished
    | BatchEnded
    | CheckSkipped
    | PlansRead
    | TextEdited
    | JobStarted
    | JobEnded
    | SettingsChanged
    | PauseChanged
    | StoredFailuresChanged
    | MeasurementsCompared
    | AnswerJudged
    | SubscriberFailed
)
Subscriber: TypeAlias = Callable[[ServerEvent], None]


class EventBus:
    """Delivers events to subscribers, in order of subscription.

    A subscriber that raises keeps the event from no other, nor the producer from going on: a batch whose diagnostics
    cannot be published ends as every other one. What it raised is logged and is an event itself.
    """

    def __init__(self) -> None:
        self._subscribers: list[Subscriber] = []

    def subscribe(self, *subscribers: Subscriber) -> None:
        """Add subscribers behind those there are."""
        self._subscribers += subscribers

    def publish(self, event: ServerEvent) -> None:
        """Deliver an event to every subscriber before returning."""
        errors = [error for subscriber in self._subscribers if (error := _raised(subscriber, event)) is not None]
        for error in errors if not isinstance(event, SubscriberFailed) else ():
            self.publish(SubscriberFailed(error))


def _raised(subscriber: Subscriber, event: ServerEvent) -> Exception | None:
    try:
        subscriber(event)
    except Exception as error:
        _log.exception("%s could not be handled", type(event).__name__)
        return error
    return None
