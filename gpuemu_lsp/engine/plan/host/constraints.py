"""Sizes with which a program can reach a launch, as dims: what the conditions on the path say, scaled to be small."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Sequence

from gpuemu_lsp.engine.hostcode.state import HostSymbol
from gpuemu_lsp.engine.hostcode.values import HostLaunch, Pointer
from gpuemu_lsp.engine.plan.host.chosen_launches import ReadHostLaunch
from gpuemu_lsp.engine.plan.host.lookup.comparisons import rounds_up
from gpuemu_lsp.engine.project.model import DimSpec
from gpuemu_lsp.engine.symbolic.bounds import ANY
from gpuemu_lsp.engine.symbolic.conditions import Condition, conjuncts
from gpuemu_lsp.engine.symbolic.constraints import Constraints
from gpuemu_lsp.engine.symbolic.size import (
    ONE,
    Size,
    SizeOperation,
    SizeSymbol,
    atoms,
    multiply,
    symbol,
    symbols,
)

_MAX_STEP = 2048
_LARGEST = 4096
_COMPLETE = 1 << 20
_SMALL_TILE, _LARGEST_UNIT, _TILE, _DIVISOR = 64, 16, 192, 256
_WARP = 32


class LaunchSizes:
    """The symbols of a launch: values that the program gives them, and conditions on the path."""

    def __init__(
        self, found: ReadHostLaunch, tiles: Collection[int] = (), guarded: frozenset[str] = frozenset()
    ) -> None:
        self._found = found
        self._guarded = guarded
        self._tiles = tiles
        self._smaller: dict[str, frozenset[int]] = {}
        self._named = frozenset(_names(found.launch))
        self._block = [extent.constant or 1 for extent in found.launch.block if extent is not None]
        self.known = Constraints()
        for condition in conjuncts(found.launch.conditions):
            self._assume(self._least_tensor(condition) or condition)
        for numel, tensor in found.run.numels.items():
            self._add_numel(numel, tensor)

    def _assume(self, condition: Condition) -> None:
        """Add a condition, unless the store says that it does not hold."""
        self.known = self.known.assume(condition) or self.known

    def _add_numel(self, numel: str, tensor: str) -> None:
        """Replace the number of elements of a tensor by the product of its sizes.

        Its rank is that of a check of ``dim()``, else that of the sizes which the program reads: a caller may pass such
        a tensor, unless sizes of other tensors show that theirs is larger.
        """
        own = self._axes(tensor)
        read = [int(found[1]) for name in self._found.run.symbols if (found := re.fullmatch(r".+_size_(\d+)", name))]
        last = any(name.startswith(f"{tensor}_size_m") for name in self._found.run.symbols)
        # Of which the first and the last size are read is not a vector.
        least = 2 if last and own == [0] else len(own)
        rank = self._stated_rank(tensor) or (least if own and max(read) + 1 == len(own) else 0)
        product = self._product(tensor, rank) if rank else self._partial_product(tensor)
        # A number of elements may be that of another tensor, of which the program does not read the sizes.
        known = self.known.resolved(symbol(numel, 1))
        if product is None or known == product:
            return
        # Or a size of that one, which is a size of this one too.
        if known.name in self._found.run.numels or (known.name is not None and product.name is not None):
            self._assume(Condition(None, "==", known, product))

    def tensor_elements(self, tensor: str) -> tuple[Size | None, bool]:
        """Return the elements of a tensor whose number the program does not read, and whether its rank is assumed.

        None if nothing says its rank. A program that checks its last size, and reads no further one, accepts a tensor
        without further dimensions.
        """
        rank = self._stated_rank(tensor)
        if rank:
            return self._product(tensor, rank), False
        own = self._axes(tensor)
        last = f"{tensor}_size_{len(own) - 1}"
        checked = any(
            condition.operator == "==" and any(side is not None and last in symbols(side) for side in sides)
            for condition in conjuncts(self._found.launch.conditions)
            if (sides := (condition.left, condition.right))
        )
        return (self._product(tensor, len(own)), True) if own and checked else (None, True)

    def reads_sizes(self, tensor: str) -> bool:
        """Return whether the program reads the first sizes of a tensor: its length is a multiple of their product."""
        return bool(self._axes(tensor))

    def _axes(self, tensor: str) -> list[int]:
        """Return the axes of a tensor whose sizes the program reads, if they are the first ones."""
        pattern = re.compile(rf"{re.escape(tensor)}_size_(\d+)")
        found = sorted(int(found[1]) for name in self._found.run.symbols if (found := pattern.fullmatch(name)))
        return found if found == list(range(len(found))) else []

    def _stated_rank(self, tensor: str) -> int:
        stated = self.known.equal.get(f"{tensor}_dim")
        return (stated.constant or 0) if stated is not None else 0

    def _partial_product(self, tensor: str) -> Size | None:
        """Return the product of the sizes that the program reads and of a symbol for all others."""
        pattern = re.compile(rf"{re.escape(tensor)}_size_m?\d+")
        read = sorted(name for name in self._found.run.symbols if pattern.fullmatch(name))
        product = symbol(self._new(f"{tensor}_rest"), 1)
        for name in read:
            product = multiply(product, symbol(name, 1))
        return product if read else None

    def _new(self, name: str) -> str:
        """Return the name of a size that the program does not read."""
        self._found.run.symbols.setdefault(name, HostSymbol(name, "parameter"))
        return name

    def _product(self, tensor: str, rank: int) -> Size | None:
        """Return the product of the sizes of a tensor of a known rank."""
        known = self._found.run.symbols
        product = ONE
        for axis in range(rank):
            name, last = f"{tensor}_size_{axis}", f"{tensor}_size_m{rank - axis}"
            if name in known and last in known:
                self._assume(Condition(None, "==", symbol(last, 1), symbol(name, 1)))
            product = multiply(product, symbol(last if last in known and name not in known else self._new(name), 1))
        return product if rank else None

    def _least_tensor(self, condition: Condition) -> Condition | None:
        """Return that a tensor has as many elements as it must have: a caller may pass the smallest one."""
        if condition.operator not in ("<=", ">=") or condition.sides is None:
            return None
        small, large = condition.sides if condition.operator == "<=" else condition.sides[::-1]
        known = large.name in self._found.run.numels and large.name not in symbols(small)
        return Condition(None, "==", large, small) if known and small.constant is None else None

    def is_selected(self) -> bool:
        """Return whether the sizes are those for which the program selects this kernel among several."""
        known = self._found.run.symbols
        return all(
            self.known.holds(one) is True and not any(known[name].origin == "computed" for name in symbols(one.left))
            for one in self._found.launch.selected
            if one.operator == "==" and one.left is not None and one.right is not None
        )

    def values(self, name: str) -> frozenset[int]:
        """Return the sizes that the program gives a symbol, scaled down if they are large."""
        known = self._found.run.symbols[name]
        if known.origin != "constant":
            return known.values
        if not self._smaller:
            self._smaller = self._scaled_constants()
        return self._smaller[name]

    def _scaled_constants(self) -> dict[str, frozenset[int]]:
        """Return smaller sizes for the constants: the smallest are in the same order as those of the program.

        The kernel is written for the program's own blocks and shared memory. Of two amounts, which mostly are for two
        types, the larger one suits both.
        """
        known, launch = self._found.run.symbols, self._found.launch
        extents = [extent for extent in (*launch.block, launch.shared) if extent is not None]
        kept = frozenset[str]().union(*map(symbols, extents))
        constants = [one for one in known.values() if one.origin == "constant"]
        constants.sort(key=lambda one: (max(one.values), one.name))
        found: dict[str, frozenset[int]] = {}
        floor = 1
        for one in constants:
            if one.name in kept:
                found[one.name] = frozenset({max(one.values)}) if one.name in self._found.run.sides else one.values
                continue
            found[one.name] = frozenset(self._scaled(one.name, one.values, max(floor, self._least(one.name))))
            if one.name in self._named and found[one.name]:
                floor = max(floor, min(found[one.name]))
        return found

    def _least(self, name: str) -> int:
        """Return the smallest size with which neither a buffer nor a grid that is a quotient of it is empty."""
        known, launch = self._found.run.symbols, self._found.launch
        sizes = [one.size for one in launch.memory.values() if one.size is not None]
        quotients = [atom for atom in _quotients(sizes, name) if atom.left == symbol(name)]
        for atom in _quotients([one for one in launch.grid if one is not None], name):
            # Of a product of several constants each may be smaller.
            if not any(known[one].origin == "constant" for one in symbols(atom.left) - {name}):
                quotients.append(atom)
        return max((atom.right.constant or 1 for atom in quotients), default=1)

    def _scaled(self, name: str, values: Collection[int], floor: int) -> Iterator[int]:
        for value in values:
            step = self._period(name, value)
            power = value & (value - 1) == 0
            rest = 0 if power else value % step
            first = step
            while first + rest < floor:
                first += first if power else step
            several = [first, 2 * first, 4 * first] if step <= _SMALL_TILE else [first, 2 * first]
            found = [rest + one for one in several if rest + one <= value and not (power and one & (one - 1))]
            if found and value % step == 0 and self._is_ragged(name):
                found[0] += self._unit(value)
            if value <= 1024 and len(values) > 1:
                found = [value]
            elif power and step & (step - 1):
                found.append(min(value, 1024))
            yield from found or [value]

    def _is_ragged(self, name: str) -> bool:
        """Return whether the launch rounds a size up and the kernel compares with it: they are for any size."""
        grid = self._found.launch.grid
        if name not in self._guarded or len(grid) != 1 or grid[0] is None:
            return False
        extent = self.known.resolved(grid[0])
        # A kernel with a block, or several axes of blocks, for each element may demand more of the size.
        return not any(SizeSymbol(name) in factors for factors, _ in extent.terms) and rounds_up(extent, name)

    def _unit(self, value: int) -> int:
        """Return a number that divides the size for other reasons than that threads work on several elements."""
        odd = [one for one in self._tiles if one <= _LARGEST_UNIT and one & (one - 1) and value % one == 0]
        return math.lcm(*odd)

    def _period(self, name: str, value: int) -> int:
        """Return a number of which a smaller size must differ by multiples from that of the program.

        The block and what the host code divides the size by decide which threads have work. A tile of the kernel may be
        one of which the program's size is a multiple.
        """
        period = min(max(_WARP, math.lcm(*self._block)), _MAX_STEP)
        exact = math.lcm(*(one for one in self.exact_divisors(name) if value % one == 0))
        if value % period == 0 and math.lcm(period, exact) > _DIVISOR and self._rounds_up(name):
            # With a partial block at the end: sizes that the heads divide matter more than those that the block does.
            period = math.lcm(_WARP, exact)
        tiles = [tile for tile in self._tiles if value % tile == 0]
        for divisor, most in (*((one, _DIVISOR) for one in self._divisors(name)), *((one, _TILE) for one in tiles)):
            common = math.lcm(period, divisor)
            period = common if common <= min(most, value) else period
        return period

    def _rounds_up(self, name: str) -> bool:
        """Return whether the grid has blocks for every value of a size, where it depends on the size at all."""
        extents = [self.known.resolved(one) for one in self._found.launch.grid if one is not None]
        return all(rounds_up(one, name) for one in extents if name in symbols(one))

    def _divisors(self, name: str) -> list[int]:
        """Return the constants by which the launch divides a size."""
        return sorted(
            divisor
            for atom in self._operations()
            if atom.operator in ("//", "%", "ceil_div") and name in symbols(atom.left)
            if (divisor := atom.right.constant or 0) > 1
        )

    def exact_divisors(self, name: str) -> tuple[int, ...]:
        """Return the constants by which the launch divides just a size, such as the channels by the heads."""
        quotients = [one for one in self._operations() if one.operator == "//" and one.left == symbol(name)]
        return tuple(sorted(divisor for one in quotients if (divisor := one.right.constant or 0) > 1))

    def _operations(self) -> Iterator[SizeOperation]:
        launch = self._found.launch
        written = [one for one in (*launch.grid, *launch.arguments, launch.shared) if isinstance(one, Size)]
        yield from (one for one in {atom for each in written for atom in atoms(each)} if isinstance(one, SizeOperation))

    def program_sizes(self) -> dict[str, int]:
        """Return the constants of the program that are replaced by smaller ones, where they have one value."""
        return {
            name: next(iter(known.values))
            for name, known in self._found.run.symbols.items()
            if known.origin == "constant" and len(known.values) == 1
        }

    def is_free(self, name: str, used: Collection[str]) -> bool:
        """Return whether the value of a symbol may depend on others in a way that the ``used`` ones do not show."""
        others = (symbols(left) | symbols(right) for left, right in self._relations())
        other = any(name in names and not names.issubset(used) for names in others)
        return self._found.run.symbols[name].origin == "computed" or other

    def _relations(self) -> Iterator[tuple[Size, Size]]:
        """Yield the sides of comparisons that say more than what equals what, and which values a size has."""
        for condition in self.known.others:
            if condition.sides is not None and condition.operator != "!=":
                yield condition.sides

    def _multiple(self, name: str) -> int:
        """Return a number of which the program states that a size is a multiple, 1 for one that is too large to try."""
        divisor = self.known.divisors.get(name, 1)
        return divisor if divisor <= _MAX_STEP else 1

    def is_ragged(self, name: str) -> bool:
        """Return whether the program launches with any value of a size, or with any multiple of a number it states."""
        extents = [self.known.resolved(one) for one in self._found.launch.grid if one is not None]
        extents = [one for one in extents if one.constant != 1]
        return self._multiple(name) > 1 or any(rounds_up(one, name) for one in extents) or self.is_rounded_down(name)

    def is_rounded_down(self, name: str) -> bool:
        """Return whether a grid of ``n // 256`` blocks drops elements of a size that any caller determines.

        The bound in the kernel, ``i < n``, is for sizes that are not multiples of the block. Both may be the product of
        several sizes.
        """
        grid = [self.known.resolved(one) for one in self._found.launch.grid if one is not None]
        grid = [one for one in grid if one.constant != 1]
        quotient = grid[0].atom if len(grid) == 1 else None
        if not isinstance(quotient, SizeOperation) or quotient.operator != "//":
            return False
        sizes = _factors(quotient.left)
        declared = self._found.run.symbols
        return name in sizes and all(size in self._guarded and declared[size].origin == "parameter" for size in sizes)

    def dim(self, name: str) -> DimSpec:
        """Return a symbol as a dim."""
        known = self._found.run.symbols[name]
        if known.origin == "constant":
            choices = tuple(sorted(set(self.values(name)))) or tuple(sorted(known.values))
            return DimSpec(name, choices[0], choices[-1], choices=choices)
        include = tuple(sorted(value for value in known.values if 1 <= value <= _LARGEST))
        bounds = self.known.ranges.get(name, ANY)
        return DimSpec(
            name,
            minimum=int(bounds.low) if 1 <= bounds.low <= _COMPLETE else None,
            maximum=int(bounds.high) if 1 <= bounds.high <= _COMPLETE else None,
            include=include,
            multiple_of=self._multiple(name),
        )


def _factors(size: Size) -> list[str]:
    """Return the symbols that a size is the product of; none for another one."""
    factors = size.terms[0][0] if len(size.terms) == 1 and size.terms[0][1] == 1 else ()
    named = [factor.name for factor in factors if isinstance(factor, SizeSymbol)]
    return named if len(named) == len(factors) else []


def _names(launch: HostLaunch) -> Iterator[str]:
    """Yield the symbols that decide how a launch runs: those of its extents, its arguments and their memory."""
    for value in (*launch.grid, *launch.block, launch.shared, *launch.arguments):
        if isinstance(value, Size):
            yield from symbols(value)
        elif isinstance(value, Pointer) and value.allocation is not None:
            size = launch.memory[value.allocation].size
            yield from symbols(size) if size is not None else ()


def _quotients(sizes: Sequence[Size], name: str) -> Iterator[SizeOperation]:
    """Yield the quotients in some sizes whose dividend depends on a symbol."""
    for atom in (atom for size in sizes for atom in atoms(size)):
        if isinstance(atom, SizeOperation) and atom.operator == "//" and name in symbols(atom.left):
            yield atom
