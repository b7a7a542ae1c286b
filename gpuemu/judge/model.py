"""Records of a judgement: the answer, what each call showed, and the row of the report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from gpuemu.judge.raised import Raised

USUAL, ALIGNED = "small", "aligned"
"""Labels of sizes: the usual ones, and those that the usual tiles of kernels divide wherever they divide the task's."""
NAMED = "named"
"""That of sizes of which those that the answer's text has are the task's own."""
LONG, SHORT = "long", "short"
"""Those at which blocks pass over several tiles of a sequence, and the same but for a short sequence."""


TF32, F16, BF16 = "tf32", "f16", "bf16"
"""Formats whose rounding may explain a difference: of the operands of products, and of all results."""


class Verdict(StrEnum):
    """What an answer is worth. There is no ``clean``: what did not run is ``not judged``."""

    SAME = "same"
    DIFFERS = "differs"
    UNSAFE = "unsafe"
    HACK = "hack"
    DOES_NOT_BUILD = "does not build"
    NOT_JUDGED = "not judged"


class Values(StrEnum):
    """What the tensors of a case hold: as the task makes them, or what it does not try."""

    TASK = "task"
    NORMAL = "normal values"
    AGAIN = "second call"
    WEIGHTS = "other weights"
    EVAL = "eval() mode"


@dataclass(frozen=True, slots=True)
class Texts:
    """An answer and its task as texts of modules, where no files have them in this form.

    ``answer`` is None where its own file is its module. ``tasks`` are the task with each of its settings. ``files``
    have the names and texts of what the answer needs in its folder. ``task_model`` is the class of the task.
    """

    answer: str | None
    tasks: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=dict)
    task_model: str = "Model"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to a task: files with the classes ``model`` and ``task_model``. ``name`` is how reports call it.

    ``texts`` are those that run instead of the files, None if the files do. ``sources`` are more files of the answer.
    ``problem`` is why it has no task that can be read, empty if it has one. ``imports`` is the folder of the modules
    that it imports, None if that is the folder of its file.
    """

    name: str
    path: Path
    task: Path
    model: str = "ModelNew"
    task_model: str = "Model"
    texts: Texts | None = None
    sources: tuple[Path, ...] = ()
    problem: str = ""
    imports: Path | None = None

    def in_files(self, folder: Path) -> tuple[Answer, ...]:
        """Return the answer for each setting of its task, in files below a folder if it has none of its own."""
        if self.texts is None:
            return (self,)
        answers = []
        for place, task in enumerate(self.texts.tasks):
            inner = folder / f"setting-{place}"
            files, answer = {**self.texts.files, "task.py": task}, self.path
            if self.texts.answer is not None:
                files["answer.py"], answer = self.texts.answer, inner / "answer.py"
            for name, text in files.items():
                path = inner / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            sources = (*self.sources, *(inner / name for name in self.texts.files))
            task_file, model = inner / "task.py", self.texts.task_model
            answers.append(replace(self, path=answer, task=task_file, task_model=model, texts=None, sources=sources))
        return tuple(answers)

    @property
    def text(self) -> str:
        """The text of its module."""
        return _text(self.path)

    @property
    def file_texts(self) -> tuple[str, ...]:
        """The texts of its module and of its further files."""
        return tuple(map(_text, (self.path, *self.sources)))

    @property
    def all_text(self) -> str:
        """These as one text."""
        return "\n".join(self.file_texts)


@dataclass(frozen=True, slots=True)
class Case:
    """Sizes and values at which an answer is called.

    ``own`` sizes are the task's; ``regular`` ones are divided by powers of two. ``layers``: weights are smaller than
    the task's. ``random``: the results of the task's model depend on random numbers.
    ``weak`` is why its results hardly tell a right answer from a wrong one, empty if they do. ``work`` counts the
    multiplications and elements of the task's model, which changes ``changed_inputs``, positions among the tensors.
    ``after`` is the case whose model and tensors are called once more, with the values of this one.
    """

    name: str
    label: str
    values: Values
    after: str
    own: bool
    regular: bool
    layers: bool
    shapes: tuple[tuple[int, ...], ...]
    random: bool
    weak: str
    work: int
    changed_inputs: tuple[int, ...]

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> Case:
        """Return the case that ``dataclasses.asdict`` made a record of, after its way through JSON."""
        lists: dict[str, Any] = {name: tuple(record[name]) for name in ("changed_inputs",)}
        lists["shapes"] = tuple(map(tuple, record["shapes"]))
        return Case(**{**record, **lists, "values": Values(record["values"])})

    @property
    def decides(self) -> bool:
        """Whether the task itself has such sizes and values; others only add a note."""
        return self.regular and self.values is Values.TASK

    @property
    def described(self) -> str:
        """The shapes of its inputs, as in ``2x512, 2x1024``."""
        shapes = ", ".join("x".join(map(str, shape)) or "scalar" for shape in self.shapes)
        return f"{shapes or 'no tensor'}{'' if self.values is Values.TASK else f' ({self.values})'}"


@dataclass(frozen=True, slots=True)
class Call:
    """One call of an answer, as its process saw it.

    ``raised`` is its exception, None if it returned. ``weights`` says how the model got those of the task: by their
    ``names``, from the ``seed``, or as the ``same model``. ``changed_inputs`` are positions among the tensors.
    """

    case: str
    raised: Raised | None = None
    weights: str = ""
    changed_inputs: tuple[int, ...] = ()


class Status(StrEnum):
    """What a case showed."""

    SAME = "same"
    DIFFERS = "differs"
    UNDECIDED = "undecided"
    RAISED = "raised"
    NOT_RUN = "not run"


@dataclass(frozen=True, slots=True)
class Explanation:
    """What explains a difference: an approximation, and a format whose rounding does; empty where none is needed."""

    approximation: str = ""
    format: str = ""

    def __bool__(self) -> bool:
        return bool(self.approximation or self.format)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A result compared with that of the task's model.

    ``worst`` is the largest absolute error, ``accepted`` says which of the benchmarks' own tolerances accept the
    result. Of one that differs ``explanation`` is what explains it; ``repeats``: it is that of the call before;
    ``ignored`` are weights with whose initial values it would be right; ``unwritten``: all its elements hold what new
    memory was filled with.
    """

    status: Status
    message: str = ""
    worst: float | None = None
    accepted: Mapping[str, bool] = field(default_factory=dict)
    explanation: Explanation = Explanation()
    repeats: bool = False
    ignored: tuple[str, ...] = ()
    unwritten: bool = False

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> Comparison:
        """Return the comparison that ``dataclasses.asdict`` made a record of, after its way through JSON."""
        values = {"status": Status(record["status"]), "explanation": Explanation(**record["explanation"])}
        return Comparison(**{**record, **values, "ignored": tuple(record["ignored"])})


_REFUSALS = frozenset({"RuntimeError", "ValueError", "AssertionError", "NotImplementedError"})
"""Errors by which functions refuse sizes."""


@dataclass(frozen=True, slots=True)
class CaseResult:
    """A case, the answer's call, None if it was not made, and the comparison, None if there is no result."""

    case: Case
    call: Call | None
    comparison: Comparison | None
    reason: str = ""
    """Why it was not run."""

    @property
    def raised(self) -> Raised | None:
        """The exception of the call."""
        return self.call.raised if self.call is not None else None

    @property
    def status(self) -> Status:
        """What the case showed."""
        if self.raised is not None:
            return Status.RAISED
        return self.comparison.status if self.comparison is not None else Status.NOT_RUN

    @property
    def is_wrong(self) -> bool:
        """Whether the answer has failed here, and not its emulation."""
        if self.raised is not None:
            return not self.raised.is_not_emulated
        return self.status is Status.DIFFERS

    @property
    def is_refused(self) -> bool:
        """Whether the answer has raised an error by which functions refuse sizes."""
        return self.raised is not None and self.raised.error in _REFUSALS and not self.case.own

    @property
    def sentence(self) -> str:
        """What is wrong, in one line."""
        if self.raised is not None:
            return f"raises {self.raised.sentence}"
        return self.reason or (self.comparison.message if self.comparison is not None else "")


@dataclass(frozen=True, slots=True)
class Row:
    """The verdict on one answer.

    ``reason`` is a sentence; ``notes`` say what does not decide, such as sizes that the task does not have.
    ``findings`` are records of ``gpuemu run --format json``. ``own_work`` is the share of the task's multiplications
    and elements that PyTorch's operators did not compute, from 0 to 1.
    """

    answer: Answer
    verdict: Verdict
    reason: str
    results: tuple[CaseResult, ...] = ()
    findings: tuple[Mapping[str, Any], ...] = ()
    launches: int = 0
    own_work: float | None = None
    notes: tuple[str, ...] = ()
    seconds: float = 0.0


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")
