"""The checker: a bounded queue of calls, and the thread that compares them with their ground truths."""

from __future__ import annotations

import atexit
import collections
import contextlib
import dataclasses
import logging
import math
import os
import random
import threading
import time
from pathlib import Path
from typing import Any, ClassVar, Literal

from gpuemu.verifier.cases import keep, store_root
from gpuemu.verifier.devices import after_event, current_autocast, is_capturing, observing, recorded_event
from gpuemu.verifier.judgement import Judgement, judge_call
from gpuemu.verifier.operations import Operation, PendingCheck, registered
from gpuemu.verifier.options import check_options, check_probability
from gpuemu.verifier.records import FailureCallbackArgs, FailureRecord, Report
from gpuemu.verifier.summary import log_line, print_summary
from gpuemu.verifier.values import size_of, snapshot

logger = logging.getLogger("gpuemu.verifier")

MAX_PENDING_BYTES = 256 << 20
"""Default limit of the snapshots that wait for their check, in bytes."""
_KEPT_FAILURES = 100
_LOGGED_FAILURES = 10
"""Failures of one operation without a callback that are logged."""
_EXIT_SECONDS = 10.0
"""Time for the remaining checks of a program that ends without :meth:`EquivalenceChecker.stop`."""


class EquivalenceChecker:
    """The checker of the process. All methods are class methods.

    A call that is checked costs a copy of its arguments and result. The ground truth and the comparison run in one
    background thread.
    """

    _lock: ClassVar[threading.Condition] = threading.Condition()
    _queue: ClassVar[collections.deque[PendingCheck]] = collections.deque()
    _thread: ClassVar[threading.Thread | None] = None
    _running: ClassVar[bool] = False
    _active: ClassVar[bool] = False
    """Whether calls are observed: the checker runs, and the probability is not 0."""
    _probability: ClassVar[float] = 0.5
    _max_checks: ClassVar[int] = 0
    _max_bytes: ClassVar[int] = MAX_PENDING_BYTES
    _pending_bytes: ClassVar[int] = 0
    _busy: ClassVar[int] = 0
    _random: ClassVar[random.Random] = random.Random()
    _on_error: ClassVar[str] = "raise"
    _error: ClassVar[BaseException | None] = None
    _failures: ClassVar[collections.deque[FailureRecord]] = collections.deque(maxlen=_KEPT_FAILURES)
    _root: ClassVar[Path | None] = None
    _log_every: ClassVar[float | None] = None
    _line_due: ClassVar[float] = math.inf

    @classmethod
    def start(
        cls,
        max_execution_queue_size: int = 0,
        execution_sample_probability: float = 0.5,
        *,
        seed: int | None = None,
        max_pending_bytes: int = MAX_PENDING_BYTES,
        on_error: Literal["raise", "warn"] = "raise",
        store: bool | str | os.PathLike[str] = True,
        log_every: float | None = None,
    ) -> None:
        """Start the background thread and forget earlier calls; a checker that runs keeps its thread.

        Parameters
        ----------
        max_execution_queue_size : int
            Calls that may wait for their check; 0 for any number.
        execution_sample_probability : float
            Share of calls that are checked whatever their inputs are. With 0 no call is checked.
        seed : int, optional
            Seed of the choice.
        max_pending_bytes : int
            Bytes of tensors that may wait for their check. Calls beyond either limit are dropped and counted.
        on_error : {"raise", "warn"}
            What happens with an exception of a failure callback: it is raised by the next call of any operation, by
            :meth:`flush` or by :meth:`stop`, or it is logged.
        store : bool or path
            Folder whose ``.gpuemu/`` gets the failing calls, the first eight of each operation, for
            ``gpuemu reproduce``. True is the folder of gpuemu.toml, or the current one; False stores nothing.
        log_every : float, optional
            Seconds between lines of the counts, as JSON, in the log ``gpuemu.verifier`` at level INFO.
        """
        check_options(on_error, max_execution_queue_size, max_pending_bytes, execution_sample_probability, log_every)
        root = store_root(store)
        hooks = observing(_before, _after)
        with cls._lock:
            cls._root = root
            cls._observe_call, cls._observe_result = staticmethod(hooks[0]), staticmethod(hooks[1])
            cls._random = random.Random(seed)
            cls._max_checks, cls._max_bytes, cls._on_error = max_execution_queue_size, max_pending_bytes, on_error
            cls._log_every, cls._line_due = log_every, math.inf if log_every is None else time.monotonic() + log_every
            cls._queue.clear()
            cls._pending_bytes, cls._error = 0, None
            cls._failures.clear()
            for operation in registered():
                operation.reset()
            cls._probability = execution_sample_probability
            cls._running = True
            cls._active = execution_sample_probability > 0
            if cls._thread is None or not cls._thread.is_alive():
                cls._thread = threading.Thread(target=cls._work, name="gpuemu-verifier", daemon=True)
                cls._thread.start()

    @classmethod
    def stop(cls, drain: bool = True, timeout: float | None = None) -> Report:
        """Stop the thread and return the report.

        Parameters
        ----------
        drain : bool
            Check the calls that wait; otherwise they are dropped and counted.
        timeout : float, optional
            Seconds after which waiting calls are dropped; None waits for all of them.

        Raises
        ------
        BaseException
            That of a failure callback, if ``on_error`` is ``raise``. The report is then that of :meth:`statistics`.
        """
        with cls._lock:
            cls._active = False
            thread = cls._thread
        ends = None if timeout is None else time.monotonic() + timeout
        if drain and cls._running:
            cls._wait(ends)
        with cls._lock:
            cls._drop_all()
            cls._running = False
            cls._lock.notify_all()
        if thread is not None and thread is not threading.current_thread():
            thread.join(None if ends is None else max(0.0, ends - time.monotonic()))
        report = cls.statistics()
        if thread is not None:
            logger.info("%s", report)
        with cls._lock:
            if cls._thread is thread:
                cls._thread = None
        cls._raise_error()
        return report

    @classmethod
    def is_running(cls) -> bool:
        """Return whether the checker runs."""
        return cls._running

    @classmethod
    def set_execution_sample_probability(cls, probability: float) -> None:
        """Set the share of calls that are checked whatever their inputs are; 0 turns all checks off."""
        check_probability(probability)
        with cls._lock:
            cls._probability = probability
            cls._active = cls._running and probability > 0

    @classmethod
    def flush(cls, timeout: float | None = None) -> Report:
        """Wait until all calls so far are judged, at most ``timeout`` seconds, and return the report.

        Raises
        ------
        BaseException
            As :meth:`stop`.
        """
        cls._wait(None if timeout is None else time.monotonic() + timeout)
        cls._raise_error()
        return cls.statistics()

    @classmethod
    def statistics(cls) -> Report:
        """Return the counts since the start."""
        with cls._lock:
            operations = {operation.shown: dataclasses.replace(operation.statistics) for operation in registered()}
            totals = {
                name: sum(getattr(one, name) for one in operations.values())
                for name in ("calls", "checked", "outliers", "failed", "dropped", "not_executed")
            }
            return Report(
                **totals,
                pending=len(cls._queue) + cls._busy,
                pending_bytes=cls._pending_bytes,
                operations={name: one for name, one in operations.items() if one.calls},
                failures=tuple(cls._failures),
            )

    _observe_call: ClassVar[Any] = None
    _observe_result: ClassVar[Any] = None

    @classmethod
    def _before(cls, operation: Operation, args: tuple[Any, ...], kwargs: dict[str, Any]) -> PendingCheck | None:
        """Return the snapshot of a call's arguments before it runs, None if it is not judged."""
        if threading.current_thread() is cls._thread:
            return None
        cls._raise_error()
        if is_capturing():
            return None
        step = next(operation.steps)
        sampled = cls._random.random() < cls._probability
        operation.statistics.calls += 1
        pending = PendingCheck(operation, args, kwargs, sampled, step, 0)
        try:
            pending.size = size_of(args) + (size_of(kwargs) if kwargs else 0)
            if not cls._has_capacity(pending.size):
                operation.statistics.dropped += 1
                return None
            pending.args, pending.kwargs = snapshot(args), snapshot(kwargs) if kwargs else {}
            pending.autocast = current_autocast()
        except Exception as error:
            # A call must not fail because its arguments cannot be copied.
            cls._not_executed(pending, error)
            return None
        return pending

    @classmethod
    def _after(cls, pending: PendingCheck, result: Any) -> None:
        """Add a call whose result is known to the queue."""
        try:
            pending.size += size_of(result)
            if not cls._has_capacity(pending.size):
                pending.operation.statistics.dropped += 1
                return
            pending.result = snapshot(result)
            pending.ready = recorded_event((pending.args, pending.kwargs, pending.result))
        except Exception as error:
            cls._not_executed(pending, error)
            return
        with cls._lock:
            if not cls._running:
                return
            cls._queue.append(pending)
            cls._pending_bytes += pending.size
            cls._lock.notify_all()

    @classmethod
    def _has_capacity(cls, size: int) -> bool:
        if cls._max_checks and len(cls._queue) >= cls._max_checks:
            return False
        return cls._pending_bytes + size <= cls._max_bytes

    @classmethod
    def _raise_error(cls) -> None:
        if cls._error is not None:
            with cls._lock:
                error, cls._error = cls._error, None
            if error is not None:
                raise error

    @classmethod
    def _work(cls) -> None:
        thread = threading.current_thread()
        while True:
            cls._log_line()
            with cls._lock:
                if cls._running and cls._thread is thread and not cls._queue:
                    left = cls._line_due - time.monotonic()
                    cls._lock.wait(None if left == math.inf else max(left, 0.0))
                if not cls._running or cls._thread is not thread:
                    return
                if not cls._queue:
                    continue
                pending = cls._queue.popleft()
                cls._busy = 1
            try:
                cls._judge(pending)
            except Exception as error:
                cls._not_executed(pending, error)
            finally:
                with cls._lock:
                    if cls._thread is thread:  # else the counts are those of another start
                        cls._busy = 0
                        cls._pending_bytes = max(0, cls._pending_bytes - pending.size)
                        cls._lock.notify_all()

    @classmethod
    def _log_line(cls) -> None:
        if time.monotonic() >= cls._line_due:
            cls._line_due = time.monotonic() + (cls._log_every or math.inf)
            logger.info("%s", log_line(cls.statistics()))

    @classmethod
    def _judge(cls, pending: PendingCheck) -> None:
        operation = pending.operation
        with after_event(pending.ready, (pending.args, pending.kwargs, pending.result)):
            unusual = operation.is_unusual((pending.args, pending.kwargs))
            if not (pending.sampled or unusual):
                return
            judgement = judge_call(pending)
        operation.statistics.checked += 1
        operation.statistics.outliers += not pending.sampled
        if judgement.difference is not None:
            cls._failed(pending, judgement)

    @classmethod
    def _failed(cls, pending: PendingCheck, judgement: Judgement) -> None:
        operation, difference = pending.operation, judgement.difference
        assert difference is not None
        operation.statistics.failed += 1
        case = None if cls._root is None else keep(cls._root, pending, difference)
        found = FailureCallbackArgs(
            original_result=pending.result,
            ground_truth_result=judgement.expected,
            inputs=pending.args,
            kwargs=pending.kwargs,
            operation=operation.shown,
            step=pending.step,
            max_abs=difference.max_abs,
            max_rel=difference.max_rel,
            index=difference.index,
            shape=difference.shape,
            dtype=difference.dtype,
            output=difference.output,
            message=difference.message,
            case_id=case,
        )
        record = FailureRecord(
            operation.shown, pending.step, difference.message, case, difference.max_abs, difference.max_rel
        )
        with cls._lock:
            cls._failures.append(record)
        if operation.callback is None:
            if operation.statistics.failed <= _LOGGED_FAILURES:
                replay = "" if case is None else f"; gpuemu reproduce {case}"
                logger.error("%s, call %d: %s%s", operation.shown, pending.step, difference.message, replay)
            return
        try:
            operation.callback(found)
        except BaseException as error:
            if cls._on_error == "warn":
                logger.exception("%s, call %d: %s", operation.shown, pending.step, difference.message)
                return
            with cls._lock:
                cls._error = cls._error or error

    @classmethod
    def _not_executed(cls, pending: PendingCheck, error: Exception) -> None:
        operation = pending.operation
        operation.statistics.not_executed += 1
        operation.reported_errors += 1
        if operation.reported_errors == 1:
            logger.error("%s, call %d was not checked: %r", operation.shown, pending.step, error, exc_info=error)

    @classmethod
    def _wait(cls, ends: float | None) -> None:
        if threading.current_thread() is cls._thread:
            return
        with cls._lock:
            while (cls._queue or cls._busy) and cls._thread is not None and cls._thread.is_alive():
                left = 1.0 if ends is None else ends - time.monotonic()
                if left <= 0:
                    return
                cls._lock.wait(min(left, 1.0))

    @classmethod
    def _drop_all(cls) -> None:
        for pending in cls._queue:
            pending.operation.statistics.dropped += 1
            cls._pending_bytes -= pending.size
        cls._queue.clear()

    @classmethod
    def _after_fork(cls) -> None:
        """Turn the checker off in a forked child, which has no checker thread."""
        cls._lock = threading.Condition()
        cls._queue = collections.deque()
        cls._thread, cls._running, cls._active, cls._busy, cls._pending_bytes = None, False, False, 0, 0


def _before(operation: Operation, args: tuple[Any, ...], kwargs: dict[str, Any]) -> PendingCheck | None:
    return EquivalenceChecker._before(operation, args, kwargs)


def _after(pending: PendingCheck, result: Any) -> None:
    EquivalenceChecker._after(pending, result)


@atexit.register
def _at_exit() -> None:
    if EquivalenceChecker.is_running():
        with contextlib.suppress(RuntimeError):
            try:
                EquivalenceChecker.stop(timeout=_EXIT_SECONDS)
            except BaseException as error:
                logger.error("a failure callback raised %r", error)
            print_summary(EquivalenceChecker.statistics())


os.register_at_fork(after_in_child=EquivalenceChecker._after_fork)
