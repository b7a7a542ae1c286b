"""Order of the work on streams: which operations have ended before another one begins, or before the host goes on.

Every stream, every event and the host has a vector clock: for each stream the number of its last operation that is
known to have ended. Operations execute in the order of the calls; the clocks say which other orders are possible.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuemu_lsp.engine.runtime.protocol.calls import WaitScope

Clock = dict[int, int]

DEFAULT_STREAM = 0
_NON_BLOCKING = 1
"""``cudaStreamNonBlocking``: such a stream is not ordered with the default stream."""


@dataclass(frozen=True, slots=True)
class StreamOperation:
    """A copy, fill, launch or operator: its stream, its number there, and what it is in messages."""

    stream: int
    number: int
    name: str = "the call"


class StreamOrder:
    """Vector clocks of streams, events and the host."""

    def __init__(self) -> None:
        self._streams: dict[int, Clock] = {DEFAULT_STREAM: {}}
        self._events: dict[int, Clock] = {}
        self._independent: set[int] = set()
        self._host: Clock = {}
        self._asked: set[tuple[WaitScope, int]] = set()

    @property
    def single(self) -> bool:
        """Whether the program has made no stream of its own."""
        return len(self._streams) == 1

    def create(self, stream: int, flags: int) -> None:
        """Add a stream, which was created with ``flags``."""
        self._streams[stream] = {}
        if flags & _NON_BLOCKING:
            self._independent.add(stream)

    def begin(self, stream: int, name: str = "the call") -> StreamOperation:
        """Add an operation to a stream; return it. ``name`` is what it is in messages."""
        clock = self._streams.setdefault(stream, {})
        _join(clock, self._host)
        if stream == DEFAULT_STREAM:
            for other, known in self._streams.items():
                if other not in self._independent:
                    _join(clock, known)
        elif stream not in self._independent:
            _join(clock, self._streams[DEFAULT_STREAM])
        clock[stream] = clock.get(stream, 0) + 1
        return StreamOperation(stream, clock[stream], name)

    def precedes(self, first: StreamOperation, second: StreamOperation) -> bool:
        """Return whether an operation has ended when the last one of its stream, ``second``, begins."""
        return self._streams[second.stream].get(first.stream, 0) >= first.number

    def known(self, operation: StreamOperation) -> bool:
        """Return whether the host has waited for an operation."""
        return self._host.get(operation.stream, 0) >= operation.number

    def record(self, event: int, stream: int) -> None:
        """Record an event in a stream."""
        self.begin(stream)
        self._events[event] = dict(self._streams[stream])

    def wait(self, stream: int, event: int) -> None:
        """Make what follows in a stream wait for an event."""
        _join(self._streams.setdefault(stream, {}), self._events.get(event, {}))

    def synchronize(self, scope: WaitScope, which: int) -> None:
        """Make the host wait."""
        if scope is WaitScope.EVENT:
            _join(self._host, self._events.get(which, {}))
        elif scope is WaitScope.STREAM:
            if which == DEFAULT_STREAM:
                self.begin(DEFAULT_STREAM)
            _join(self._host, self._streams.get(which, {}))
        else:
            for clock in self._streams.values():
                _join(self._host, clock)

    def query(self, scope: WaitScope, which: int) -> bool:
        """Return whether work has ended, for which the host then has waited.

        It has not at the first question, unless the host has waited already: a program must not rely on that.
        """
        clocks = self._events if scope is WaitScope.EVENT else self._streams
        ended = all(number <= self._host.get(stream, 0) for stream, number in clocks.get(which, {}).items())
        if not ended and (scope, which) not in self._asked:
            self._asked.add((scope, which))
            return False
        self._asked.discard((scope, which))
        self.synchronize(scope, which)
        return True


def _join(clock: Clock, other: Clock) -> None:
    for stream, number in list(other.items()):
        if number > clock.get(stream, 0):
            clock[stream] = number
