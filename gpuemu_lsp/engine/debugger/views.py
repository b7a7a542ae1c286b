"""What a client shows of a moment: variables in scopes, with parts that are read when they are opened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Final

from gpuemu_lsp.engine.debugger.frames import StackFrame
from gpuemu_lsp.engine.debugger.names import Names
from gpuemu_lsp.engine.debugger.objects import Moment, Object, shown
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE

_MOST_PARTS: Final = 1000
"""Elements that are returned to a client that does not ask for pages."""
NOT_HERE: Final = "elsewhere"


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a value: ``indexed`` elements, or ``named`` ones; ``read`` returns ``count`` from ``start`` on."""

    read: Callable[[int, int], list[Row]]
    indexed: int = 0
    named: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """A row: ``expression`` evaluates to its value; ``address`` and ``size``, in bytes, are those of its memory."""

    name: str
    value: str
    type: str = ""
    expression: str = ""
    parts: Parts | None = None
    address: int | None = None
    size: int = 0


def item(moment: Moment, name: str, object_: Object, expression: str) -> Row:
    """Return the row of an object."""
    return Row(
        name,
        shown(moment, object_),
        object_.type.name,
        expression,
        parts_of(moment, object_, expression),
        object_.address,
        object_.type.size,
    )


def parts_of(moment: Moment, object_: Object, expression: str) -> Parts | None:
    """Return the elements of an array, the members of a structure, or the elements behind a pointer."""
    if object_.element is not None:
        return _elements(moment, object_.index, object_.count, expression)
    if object_.type.kind == "struct" and object_.type.members:
        members = list(object_.members())

        def read_members(start: int, count: int) -> list[Row]:
            return [item(moment, name, one, f"{expression}.{name}") for name, one in members[start : start + count]]

        return Parts(read_members, named=len(members))
    target = object_.type.target
    data = moment.load(object_) if object_.type.kind == "pointer" and target is not None and target.size else None
    if data is None or target is None:
        return None
    address = int.from_bytes(data[:8], "little")
    picture = moment.block.accesses.picture(address)
    if picture is None:
        return None
    count = (picture.address + len(picture.data) - address) // target.size
    return _elements(moment, lambda number: Object(target, address + number * target.size), count, expression)


def _elements(moment: Moment, element: Callable[[int], Object | None], count: int, expression: str) -> Parts:
    def read(start: int, wanted: int) -> list[Row]:
        rows = []
        for number in range(start, min(start + wanted, count)):
            one = element(number)
            if one is not None:
                rows.append(item(moment, f"[{number}]", one, f"{_operand(expression)}[{number}]"))
        return rows

    return Parts(read, indexed=count)


def _operand(expression: str) -> str:
    return f"({expression})" if expression.startswith(("*", "&", "(")) else expression


def of_items(rows: Callable[[], Sequence[Row]]) -> Parts:
    """Return parts that are listed whole."""
    return Parts(lambda start, count: list(rows())[start : start + count])


# ---- scopes ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class View:
    """A frame of a thread at a moment, with the names there."""

    moment: Moment
    frame: StackFrame
    names: Names

    def lookup(self, name: str) -> Object | None:
        """Return the object of a name: a variable, an index, an array, an argument, a register, an enumerator."""
        variable = self.names.visible(self.frame).get(name)
        if variable is not None:
            return self.names.variable(self.moment, self.frame, variable).object
        for table in self._tables():
            if name in table:
                return table[name]
        if name.startswith("%"):
            return self.names.register(self.moment, self.frame, name)
        return self.names.enumerators.get(name.rpartition("::")[2])

    def all_names(self) -> list[str]:
        """Return the names that :meth:`lookup` finds, without registers."""
        names = (name for table in self._tables() for name in table)
        return list(dict.fromkeys([*self.names.visible(self.frame), *names]))

    def _tables(self) -> tuple[dict[str, Object], ...]:
        names = self.names
        return names.builtins(self.moment), names.shared, names.buffers, names.arguments

    def locals(self) -> list[Row]:
        """Return the variables of the function."""
        return [
            item(self.moment, name, self.names.variable(self.moment, self.frame, variable).object, name)
            for name, variable in self.names.visible(self.frame).items()
        ]

    def arguments(self) -> list[Row]:
        """Return the arguments of the launch that are passed by value."""
        return self._rows(self.names.arguments)

    def thread(self) -> list[Row]:
        """Return the indices of the thread, and the time."""
        return self._rows(self.names.builtins(self.moment))

    def shared(self) -> list[Row]:
        """Return the arrays in shared memory."""
        return self._rows(self.names.shared)

    def buffers(self) -> list[Row]:
        """Return the buffers of the launch."""
        return self._rows(self.names.buffers)

    def registers(self) -> list[Row]:
        """Return the registers of the PTX that have a value."""
        rows = []
        for name in self.names.registers(self.frame):
            value = self.names.register(self.moment, self.frame, name)
            if value is not None and value.data is not None:
                rows.append(item(self.moment, name, value, name))
        return rows

    def _rows(self, table: dict[str, Object]) -> list[Row]:
        return [item(self.moment, name, one, name) for name, one in table.items()]

    # ---- lanes -------------------------------------------------------------------------------------------------------

    def lanes(self) -> list[Row]:
        """Return the variables of the function in all lanes of the warp."""
        return [self.lanes_of(name) for name in self.names.visible(self.frame)]

    def lanes_of(self, name: str) -> Row:
        """Return one variable in all lanes of the warp that are at the same line, equal neighbours as one."""
        variable = self.names.visible(self.frame)[name]
        moments = self._moments_of_lanes()

        def value(moment: Moment) -> Object:
            return self.names.variable(moment, self.frame, variable).object

        def read(start: int, count: int) -> list[Row]:
            rows = []
            for lane in range(start, min(start + count, len(moments))):
                one = moments[lane]
                label = f"lane {lane}"
                rows.append(Row(label, NOT_HERE) if one is None else item(one, label, value(one), ""))
            return rows

        shown_lanes = self.folded_lanes(lambda moment: shown(moment, value(moment)))
        return Row(name, shown_lanes, parts=Parts(read, named=len(moments)))

    def lane_texts(self, name: str) -> list[str]:
        """Return one variable in each lane of the warp."""
        variable = self.names.visible(self.frame)[name]
        return self._texts(lambda moment: shown(moment, self.names.variable(moment, self.frame, variable).object))

    def folded_lanes(self, value: Callable[[Moment], str]) -> str:
        """Return a text of each lane of the warp that is at the same line, equal neighbours as one."""
        return folded(self._texts(value))

    def _texts(self, value: Callable[[Moment], str]) -> list[str]:
        return [NOT_HERE if one is None else value(one) for one in self._moments_of_lanes()]

    def _moments_of_lanes(self) -> list[Moment | None]:
        history, moment = self.moment.block.history, self.moment
        first = moment.thread // WARP_SIZE * WARP_SIZE
        present = int(history.lanes[history.run_at(moment.tick)])
        count = min(WARP_SIZE, moment.block.recording.thread_count - first)
        return [
            Moment(moment.block, first + lane, moment.tick) if present >> lane & 1 else None for lane in range(count)
        ]


def folded(texts: Sequence[str]) -> str:
    """Return the values of lanes on one line: equal neighbours together, a sequence with a constant step as one."""
    if len(set(texts)) == 1:
        return f"all {texts[0]}" if len(texts) > 1 else texts[0]
    numbers = [int(text) for text in texts if text.lstrip("-").isdecimal()]
    steps = {after - before for before, after in pairwise(numbers)}
    if len(numbers) == len(texts) > 2 and len(steps) == 1:
        return f"{numbers[0]}..{numbers[-1]} step {steps.pop()}"
    return "; ".join(f"{lane_range(first, last)}: {text}" for first, last, text in equal_runs(texts))


def equal_runs(texts: Sequence[str]) -> list[tuple[int, int, str]]:
    """Return the values of lanes, equal neighbours as one: the first lane, the last one, the value."""
    runs, lane = [], 0
    for text, group in groupby(texts):
        first, lane = lane, lane + len(list(group))
        runs.append((first, lane - 1, text))
    return runs


def lane_range(first: int, last: int) -> str:
    """Return the numbers of lanes that follow each other."""
    return str(first) if first == last else f"{first}-{last}"
