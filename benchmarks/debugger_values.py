"""Values of variables: what the debugger shows, and what `printf` prints at the same place of the same program.

    python -m benchmarks.debugger_values [--kernels 60] [--samples 17] [--seed 0] [--show] [NAME ...]

Of each kernel random executions of random statements by random threads are chosen, and a variable that is visible
there. The debugger looks the values up in its recording. Then a call that prints the variable is inserted before each
statement, the program is compiled again, without optimisation and with it, and run. The number of executions of each
statement is compared, too. Loops' own lines are left out: a text before them is executed once.
"""

from __future__ import annotations

import argparse
import random
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from gpuemu_lsp.engine.check.case_runner import choose_executor
from gpuemu_lsp.engine.check.launch_recorder import Recorder
from gpuemu_lsp.engine.check.plan_run import PlanRun
from gpuemu_lsp.engine.check.plan_setup import open_plan, unoptimized_run
from gpuemu_lsp.engine.check.prepare import prepare
from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.debug.dwarf.model import Type
from gpuemu_lsp.engine.debugger.breakpoints import Hit
from gpuemu_lsp.engine.debugger.evaluate import evaluate
from gpuemu_lsp.engine.debugger.objects import Moment, Object
from gpuemu_lsp.engine.debugger.session import DebuggedCase, DebugSession
from gpuemu_lsp.engine.debugger.syntax import CExpressionError, parse
from gpuemu_lsp.engine.debugger.views import View
from gpuemu_lsp.engine.emulator import Emulator
from gpuemu_lsp.engine.emulator.launch.recorder import BlockRecording, RecordingLimits
from gpuemu_lsp.engine.execution import Request
from gpuemu_lsp.engine.findings import Severity
from gpuemu_lsp.engine.fuzz import cases as draw_cases
from gpuemu_lsp.engine.fuzz.model import Case
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.subjects.language import PreparedKernel
from gpuemu_lsp.engine.subjects.request import FIRST_CASES, CheckOptions, CheckRequest
from tests.support.corpus import copy_kernels, corpus_kernels
from tests.support.expectations import read_expectations

_PRINTER = (
    "template <class T> __device__ void gpuemu_show(int site, T value) {"
    " unsigned long long bits = 0;"
    " for (unsigned i = 0; i < sizeof(T); i++) ((unsigned char*)&bits)[i] = ((const unsigned char*)&value)[i];"
    ' printf("gpuemu_show %d %llx\\n", site, bits); } '
)
_PRINTED = re.compile(r"^gpuemu_show (\d+) ([0-9a-f]+)$", re.MULTILINE)
_WHOLE = re.compile(r"[^\s#/}].*[;{]$")
"""A line that a statement, or several, take up."""
_NOT_FIRST = re.compile(r"(else|for|while|do|case|default|struct|template|using|typedef|namespace|extern)\b|\w+:(?!:)")
_LOOP = re.compile(r"\b(for|while|do)\b")
_MOST_TRIES = 40
_LARGEST_PRINT = 16 << 20
_SMALL = RecordingLimits(100_000)
"""Of a program that prints only the addresses of its memory are needed."""
_MOST_EXECUTIONS = 2000
"""Executions of a statement by one thread, up to which it is chosen: each is printed."""


Value: TypeAlias = "int | tuple[str, int]"
"""The bits of a number; of a pointer an array of the launch and the bytes from its begin, which is elsewhere in another
program."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A variable, or a part of it, before execution ``number`` of a line by a thread of a block.

    ``line`` is 0-based, ``executions`` how often the thread executes it by the recording. ``value`` is what the
    debugger has, None if it has none.
    """

    site: int
    line: int
    thread: int
    block: int
    number: int
    executions: int
    expression: str
    type: Type
    value: Value | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """A sample, and the values that the program printed each time; ``optimised`` is the program as it is checked.

    ``fill`` is the byte with which memory without a value is filled.
    """

    kernel: str
    sample: Sample
    fill: int
    printed: tuple[Value, ...]
    optimised: tuple[Value, ...]

    @property
    def counted(self) -> bool:
        """Whether the line is executed as often as the recording has it."""
        return len(self.printed) == self.sample.executions

    @property
    def equal(self) -> bool:
        """Whether the debugger shows what the unoptimised program prints."""
        return self.counted and self.printed[self.sample.number] == self.expected

    @property
    def expected(self) -> Value:
        """What is to be printed: memory that has no value yet has the bytes with which it is filled."""
        value, size = self.sample.value, self.sample.type.size
        return int.from_bytes(size * bytes([self.fill]), "little") if value is None else value

    @property
    def equal_optimised(self) -> bool:
        """Whether the optimised program prints the same as the unoptimised one."""
        at = self.sample.number
        return self.counted and at < len(self.optimised) and self.optimised[at] == self.printed[at]


@dataclass(frozen=True, slots=True)
class _Opened:
    """A kernel, and one of its cases on the code without optimisation."""

    request: CheckRequest
    prepared: PreparedKernel
    run: PlanRun
    case: Case


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--kernels", type=int, default=60)
    parser.add_argument("--samples", type=int, default=17)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    found: list[Comparison] = []
    kernels = 0
    for name in options.names or shuffled(options.seed):
        compared = list(comparisons(name, options.samples, options.seed))
        kernels += bool(compared)
        found += compared
        print(f"{name}: {len(compared)} values, {sum(one.equal for one in compared)} equal", flush=True)
        for one in compared:
            if options.show or not one.equal or not one.equal_optimised:
                print(f"    {row(one)}", flush=True)
        if kernels == options.kernels:
            break
    print(summary(found, kernels))


def shuffled(seed: int) -> list[str]:
    """Return the correct kernels of the corpus in a random order."""
    names = [spec.name for spec in corpus_kernels() if not read_expectations(Path(spec.source)).required]
    random.Random(seed).shuffle(names)
    return names


def summary(found: Sequence[Comparison], kernels: int) -> str:
    """Return the counts."""
    moments = {(one.kernel, one.sample.block, one.sample.thread, one.sample.line, one.sample.number) for one in found}
    return "\n".join(
        [
            f"{len(found)} values at {len(moments)} moments of {kernels} kernels",
            f"executed as often as recorded: {sum(one.counted for one in found)}",
            f"equal to what the program prints: {sum(one.equal for one in found)}",
            f"of these without a value yet: {sum(one.equal and one.sample.value is None for one in found)}",
            f"equal in optimised code: {sum(one.equal and one.equal_optimised for one in found)}",
        ]
    )


def row(one: Comparison) -> str:
    """Return one row of the list of differences."""
    sample = one.sample
    at = sample.number
    printed = _text(one.printed[at]) if at < len(one.printed) else "nothing"
    optimised = _text(one.optimised[at]) if at < len(one.optimised) else "nothing"
    shown = "no value" if sample.value is None else _text(sample.value)
    mark = "=" if one.equal and one.equal_optimised else "optimised" if one.equal else "DIFFERS"
    return (
        f"{mark} line {sample.line + 1}, thread {sample.thread} of block {sample.block}, execution {at + 1} of "
        f"{sample.executions} ({len(one.printed)}): {sample.type.name} {sample.expression}: debugger {shown}, "
        f"printed {printed}, optimised {optimised}"
    )


def _text(value: Value) -> str:
    return f"{value:#x}" if isinstance(value, int) else f"{value[0]} + {value[1]}"


def comparisons(name: str, count: int, seed: int) -> Iterator[Comparison]:
    """Yield comparisons of one kernel; none if it cannot be recorded with its variables."""
    generator = random.Random(f"{seed} {name}")
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        opened = _opened(name, Path(first))
        if opened is None:
            return
        text = Path(opened.request.spec.source).read_text()
        launch = opened.run.runner.complete(opened.case)
        x, y, z = launch.grid
        recorder = Recorder(opened.run, opened.case)
        block = recorder.block(generator.randrange(x * y * z))
        if block is None or not block.named:
            return
        session = DebugSession(block, recorder, DebuggedCase())
        samples = list(_samples(session, opened.request.spec.source, text.split("\n"), count, generator))
        copy_kernels([name], Path(second))
        launch = replace(launch, max_printed=_LARGEST_PRINT, max_seconds=60.0, translate_seconds=600.0)
        yield from _printed(name, opened, launch, samples, text, Path(second))


def _opened(name: str, root: Path) -> _Opened | None:
    copy_kernels([name], root)
    (request,) = collect([], CheckOptions(), root).requests
    request = replace(request, options=replace(request.options, store_root=None))
    prepared = prepare(request)
    if prepared.artifact is None or prepared.unoptimized is None:
        return None
    emulator, _ = choose_executor(request, prepared)
    run = open_plan(request, prepared, prepared.plans[0], emulator)
    cases = sorted(
        draw_cases(run.plan, run.context.seed, FIRST_CASES, run.context.hints), key=lambda one: sum(one.dims.values())
    )
    artifact = prepared.without_optimization().artifact
    if artifact is None:
        return None
    case = cases[len(cases) // 2]
    return _Opened(request, prepared, unoptimized_run(run, prepared, artifact), case)


# ---- what the debugger shows -----------------------------------------------------------------------------------------


def _samples(
    session: DebugSession, path: str, lines: list[str], count: int, generator: random.Random
) -> Iterator[Sample]:
    """Yield random samples, each of its own execution of a line."""
    block, timeline = session.block, session.debuggee.timeline
    usable = _usable(lines)
    taken = set()
    for _ in range(count * _MOST_TRIES):
        if len(taken) == count:
            return
        thread = generator.randrange(block.recording.thread_count)
        firsts = block.statements.spans(thread)[0]
        if not len(firsts):
            continue
        statement = block.statements.at(thread, int(generator.choice(firsts)))
        if statement is None or statement.place.path != path or statement.line not in usable:
            continue
        executions = [int(one["tick"]) for one in timeline.executions((thread,), path, statement.line)]
        if statement.first not in executions or len(executions) > _MOST_EXECUTIONS:
            continue
        session.move(Hit(statement.first, thread))
        view = session.view(thread, session.stack(thread)[0])
        seen = [name for name in view.names.visible(view.frame) if _is_declared(name, lines, statement.line)]
        if not seen:
            continue
        shown = _shown(view, generator.choice(seen), generator)
        number = executions.index(statement.first)
        if shown is None or (statement.line, thread, number, shown[0]) in taken:
            continue
        expression, object_ = shown
        taken.add((statement.line, thread, number, expression))
        data = view.moment.load(object_)
        value = None if data is None else _value(object_.type, int.from_bytes(data, "little"), block.recording)
        yield Sample(
            len(taken) - 1, statement.line, thread, block.recording.block, number, len(executions), expression,
            object_.type, value,
        )  # fmt: skip


def _usable(lines: Sequence[str]) -> frozenset[int]:
    """Return the lines before whose text another statement can be written."""
    found = set()
    before = ""
    for number, line in enumerate(lines):
        code = line.partition("//")[0].strip()
        begins = before == "" or before.endswith((";", "{", "}"))
        balanced = code.count("(") == code.count(")")
        if begins and balanced and _WHOLE.match(code) and not _NOT_FIRST.match(code) and not _LOOP.search(code):
            found.add(number)
        before = code or before
    return frozenset(found)


def _is_declared(name: str, lines: Sequence[str], line: int) -> bool:
    """Return whether a line above has the name: before its declaration a variable has no value."""
    return any(re.search(rf"\b{re.escape(name)}\b", text.partition("//")[0]) for text in lines[:line])


def _shown(view: View, name: str, generator: random.Random) -> tuple[str, Object] | None:
    """Return a variable or a random part of it that is a number, as an expression and what it is."""
    expression = name
    while True:
        try:
            value = evaluate(parse(expression), view.lookup, view.moment)
        except CExpressionError:
            return None
        if not isinstance(value, Object):
            return None
        part = _part(value.type, generator) if not _is_number(value) else ""
        if part == "":
            return (expression, value) if not _is_local(view.moment, value) else None
        if part is None:
            return None
        expression += part


def _part(type_: Type, generator: random.Random) -> str | None:
    if type_.kind == "array" and type_.counts and type_.counts[0] > 0:
        return f"[{generator.randrange(type_.counts[0])}]"
    names = [name for name, _, _ in type_.members if name and not name.startswith("_")]
    return f".{generator.choice(names)}" if type_.kind == "struct" and names else None


def _is_number(value: Object) -> bool:
    return value.type.kind in ("base", "enum", "pointer") and 0 < value.type.size <= 8 and value.type.bits is None


def _is_local(moment: Moment, value: Object) -> bool:
    """Return whether a value is a pointer to memory of the thread, where printing adds variables."""
    data = moment.load(value) if value.type.kind == "pointer" else None
    picture = None if data is None else moment.block.accesses.picture(int.from_bytes(data, "little"))
    return picture is not None and picture.kind == "local"


def _value(type_: Type, bits: int, recording: BlockRecording) -> Value:
    """Return a value as it is the same in another run."""
    if type_.kind == "pointer":
        for picture in recording.memory:
            if picture.address <= bits <= picture.address + len(picture.data):
                return picture.name or picture.kind, bits - picture.address
    return bits


# ---- what the program prints -----------------------------------------------------------------------------------------


def _printed(
    name: str, opened: _Opened, launch: Request, samples: Sequence[Sample], text: str, root: Path
) -> Iterator[Comparison]:
    """Yield comparisons of the samples whose printing compiles."""
    path = root / Path(opened.request.spec.source).relative_to(opened.request.root or "/")
    kept = list(samples)
    while kept:
        path.write_text(_with_prints(text, kept))
        (request,) = collect([], CheckOptions(), root).requests
        prepared = prepare(replace(request, options=replace(request.options, store_root=None)))
        wrong = {
            one.place.range.start.line
            for one in prepared.findings
            if one.severity is Severity.ERROR and Path(one.place.path) == path
        }
        rest = [one for one in kept if one.line not in wrong]
        if prepared.artifact is not None:
            break
        if len(rest) == len(kept):
            return
        kept = rest
    if not kept:
        return
    plain = prepared.without_optimization().artifact
    if plain is None or prepared.artifact is None:
        return
    runs = [_run(opened, launch, one, kept[0].block) for one in (plain, prepared.artifact)]
    for sample in kept:
        yield Comparison(name, sample, launch.fill, *(_values_of(sample, *one) for one in runs))


def _with_prints(text: str, samples: Sequence[Sample]) -> str:
    """Return the program with a call before the text of each line, so that lines stay where they are."""
    lines = text.split("\n")
    for line in {one.line for one in samples}:
        code = lines[line].lstrip()
        calls = "".join(_call(one) for one in samples if one.line == line)
        lines[line] = f"{lines[line][: len(lines[line]) - len(code)]}{calls}{code}"
    return _PRINTER + "\n".join(lines)


def _call(sample: Sample) -> str:
    thread = "threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)"
    block = "blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z)"
    condition = f"{thread} == {sample.thread} && {block} == {sample.block}"
    return f"if ({condition}) gpuemu_show({sample.site}, {sample.expression}); "


def _run(opened: _Opened, launch: Request, artifact: Artifact, block: int) -> tuple[str, BlockRecording]:
    """Return what a program prints, and where its memory is."""
    emulator: Emulator = opened.run.runner.executor  # type: ignore[assignment]
    entry = artifact.entries[opened.run.plan.entry]
    outcome, recording = emulator.record(replace(launch, artifact=artifact, entry=entry), block, _SMALL)
    assert recording is not None
    return outcome.printed, recording


def _values_of(sample: Sample, output: str, recording: BlockRecording) -> tuple[Value, ...]:
    printed = (bits for site, bits in _PRINTED.findall(output) if int(site) == sample.site)
    return tuple(_value(sample.type, int(bits, 16), recording) for bits in printed)


if __name__ == "__main__":
    main()
