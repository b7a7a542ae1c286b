"""Where benchmarks keep answers and the tasks that they answer: files to pairs.

Nothing is executed. A layout is a function from a file with an answer to the file of its task, or to None where it has
another layout; :func:`find_answers` asks them in order. Files of JSON lines hold both texts, and :mod:`.forms` writes
those of benchmarks whose answers are not called ``ModelNew``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpuemu.judge.forms import flashinfer_bench, kernelbot, listed_shapes, robust_kbench
from gpuemu.judge.forms.fields import FormError
from gpuemu.judge.model import Answer, Texts

_KERNELBENCH = re.compile(r"level_(\d+)_problem_(\d+)_sample_(\d+)_kernel\.py$")
_TASK_NAMES = ("reference.py", "original.py", "problem.py", "ref_code.py", "model.py")
_TASK_FOLDERS = ("tasks", "problems", "references")
_COMMON_NAMES = frozenset(
    {
        "solution.py",
        "custom_code.py",
        "submission.py",
        "model_new.py",
        "answer.py",
        "forward.cu",
        "backward.cu",
        "kernel.cu",
    }
)
_NEW_MODEL = re.compile(r"^class\s+ModelNew\b", re.M)
_MODEL = re.compile(r"^class\s+Model\b", re.M)
_INPUTS = re.compile(r"^def\s+get_inputs\b", re.M)
_SKIPPED = frozenset({".git", "__pycache__", "node_modules", ".venv"})
_KEYS = (("custom_code", "ref_code"), ("solution", "reference"), ("code", "ref_code"))
"""Keys of the answer and of the task in JSON lines: those of CUDA-L1 first."""
_JSON = (".json", ".jsonl")
_EXTENSION = ".cu"
_NO_ANSWER = "no file with `class ModelNew`, nor an answer of another benchmark with its task"
_NO_TASK = (
    "no task was found for this answer: name it with --reference PATH, a file with `class Model` and `get_inputs()`, "
    "or the folder of a benchmark or of one of its tasks"
)


class NoAnswerError(Exception):
    """A path holds no answer, or no answer has a task."""


def find_answers(paths: Sequence[Path], references: Sequence[Path]) -> tuple[Answer, ...]:
    """Return the answers below paths, each with its task, or with the problem why it has none.

    Parameters
    ----------
    paths
        Files and folders with answers.
    references
        Files and folders with tasks, for benchmarks that keep them apart.

    Raises
    ------
    NoAnswerError
        If a path does not exist, a folder holds no answer, or no answer has a task.
    """
    answers: list[Answer] = []
    for path in (*paths, *references):
        if not path.exists():
            raise NoAnswerError(f"{path}: No such file or directory")
    for path in paths:
        own = [answer for file in _files(path) for answer in _answers(file, references)]
        if not own and path.is_file():
            own = [_without_task(path, _NO_ANSWER)]  # a file that is named gets a row
        if not own:
            raise NoAnswerError(f"{path}: {_NO_ANSWER}")
        answers += own
    if answers and all(answer.problem for answer in answers):
        raise NoAnswerError(f"{answers[0].path}: {answers[0].problem}")
    return tuple(_with_names(answers))


def _with_names(answers: Sequence[Answer]) -> Iterator[Answer]:
    """Yield answers with names of their own: those that share one get the folders in which they differ."""
    paths: dict[str, set[Path]] = {}
    for answer in answers:
        paths.setdefault(answer.name, set()).add(answer.path)
    for answer in answers:
        alike, folders = paths[answer.name], answer.path.parts[:-1]
        count = answer.name.count("/")
        while len({path.parts[-count - 1 :] for path in alike}) < len(alike):
            count += 1
        last = answer.name.rpartition("/")[2]
        yield replace(answer, name="/".join((*folders[len(folders) - count :], last)))


def _is_answer(file: Path) -> bool:
    text = _text(file)
    if file.suffix == _EXTENSION:
        return robust_kbench.is_extension(text)
    if file.suffix in _JSON:
        value = _value(text)
        return flashinfer_bench.is_solution(value) or (value is None and flashinfer_bench.seems_solution(text))
    return _NEW_MODEL.search(text) is not None or kernelbot.is_submission(text)


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
        return
    for file in sorted(path.rglob("*"), key=_in_natural_order):
        if file.suffix in (".py", _EXTENSION, *_JSON) and not _SKIPPED.intersection(file.parts) and file.is_file():
            yield file


def _in_natural_order(path: Path) -> list[tuple[int, str]]:
    """Order ``problem_2`` before ``problem_10``."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", str(path))]


def _answers(file: Path, references: Sequence[Path]) -> list[Answer]:
    """Return the answers of a file; one whose task is missing or cannot be read has a problem instead."""
    return _with_tasks(file, references) or ([_without_task(file, _NO_TASK)] if _is_answer(file) else [])


def _without_task(file: Path, problem: str, line: int = 0) -> Answer:
    name = f"{file.name}:{line}" if line else _name(file)
    return Answer(name, file.absolute(), file.absolute(), problem=problem)


def _with_tasks(file: Path, references: Sequence[Path]) -> list[Answer]:
    text = _text(file)
    if file.suffix in _JSON:
        return list(_of_json(file, text, references))
    if file.suffix == _EXTENSION:
        extension = robust_kbench.task_of(file, references)
        return [] if extension is None else [_written(file, extension.module, robust_kbench.texts, file, extension)]
    if kernelbot.is_submission(text):
        folder = kernelbot.problem_folder(file, references)
        return [] if folder is None else [_written(file, folder, kernelbot.texts, text, folder)]
    new = _NEW_MODEL.search(text) is not None
    if not new and not _MODEL.search(text):
        return []
    for layout in _LAYOUTS:
        task = layout(file, references)
        if task is not None and (new or task.absolute() != file.absolute()):
            texts = None if task.absolute() == file.absolute() else listed_shapes.texts(task)
            model = "ModelNew" if new else "Model"
            return [Answer(_name(file), file.absolute(), task.absolute(), model=model, texts=texts)]
    return []


def _written(file: Path, task: Path, texts: Callable[..., Texts], *arguments: Any) -> Answer:
    """Return an answer of another form, with the texts of its modules, or the problem that its task is not of it."""
    try:
        sources = (file,) if file.suffix == _EXTENSION else ()
        return Answer(_name(file), file.absolute(), task.absolute(), texts=texts(*arguments), sources=sources)
    except (FormError, OSError, UnicodeDecodeError) as error:
        return _without_task(file, f"this answer or its task cannot be read: {error}")


def _name(file: Path) -> str:
    return f"{file.parent.name}/{file.name}" if file.name in _COMMON_NAMES else file.name


def _of_json(file: Path, text: str, references: Sequence[Path]) -> Iterator[Answer]:
    """Yield the answers of a file of JSON: a solution of FlashInfer-Bench, or records that hold the texts of both.

    The records are lines, a list, or the only value of the file.
    """
    whole = _value(text)
    if flashinfer_bench.is_solution(whole):
        definition = flashinfer_bench.definition_file(file, whole, references)
        if definition is not None:
            yield _written(file, definition, flashinfer_bench.texts, file, definition)
        return
    if isinstance(whole, list):
        records = list(enumerate(whole, 1))
    elif whole is not None:
        records = [(0, whole)]
    else:
        records = [(number, _value(line)) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    pairs = {number: _pair(record) for number, record in records}
    if not any(isinstance(pair, tuple) for pair in pairs.values()) and not any(_has_answer(one) for _, one in records):
        return
    for number, pair in pairs.items():
        if isinstance(pair, str):
            yield _without_task(file, f"this record cannot be read: {pair}", number)
        else:
            name = f"{file.name}:{number}" if number else _name(file)
            yield Answer(name, file.absolute(), file.absolute(), texts=Texts(pair[0], (pair[1],)))


def _has_answer(record: Any) -> bool:
    """Return whether a record has the text of an answer under one of its keys."""
    texts = [record.get(answer) for answer, _ in _KEYS] if isinstance(record, dict) else []
    return any(isinstance(text, str) and _NEW_MODEL.search(text) is not None for text in texts)


def _pair(record: Any) -> tuple[str, str] | str:
    """Return the texts of an answer and of its task that a record holds, or the problem why it does not."""
    if not isinstance(record, dict):
        return "it is not JSON" if record is None else "it is not an object with keys"
    for answer, task in _KEYS:
        if isinstance(record.get(answer), str) and isinstance(record.get(task), str):
            return record[answer], record[task]
    answer, task = next((keys for keys in _KEYS if not record.keys().isdisjoint(keys)), _KEYS[0])
    missing = next(key for key in (answer, task) if not isinstance(record.get(key), str))
    return f"it has no text under `{missing}`"


def _value(text: str) -> Any:
    """Return the value of a text in JSON, None if it is none."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def _kernelbench(file: Path, references: Sequence[Path]) -> Path | None:
    """Return the task of a run of KernelBench: ``level_1_problem_2_sample_0_kernel.py`` is for ``level1/2_NAME.py``."""
    match = _KERNELBENCH.search(file.name)
    if match is None:
        return None
    level, problem, _ = match.groups()
    for folder in (*references, *(parent / "KernelBench" for parent in file.absolute().parents[:4])):
        for inner in (folder / f"level{level}", folder / "KernelBench" / f"level{level}", folder):
            for task in sorted(inner.glob(f"{problem}_*.py")) if inner.is_dir() else ():
                return task
    return None


def _named_task(file: Path, references: Sequence[Path]) -> Path | None:
    """Return the file that ``--reference`` names, or that of a folder with the end of the answer's own path."""
    for reference in references:
        if reference.is_file():
            return reference
        ends = ["/".join(file.absolute().parts[-count:]) for count in (3, 2, 1)]
        for candidate in (*(reference / end for end in ends), reference / f"{file.parent.name}.py"):
            if _is_task(candidate) and candidate.absolute() != file.absolute():
                return candidate
    return None


def _same_file(file: Path, _: Sequence[Path]) -> Path | None:
    """Return the file itself if it has both ``Model`` and ``ModelNew``."""
    return file if _is_task(file) and _NEW_MODEL.search(_text(file)) else None


def _in_the_same_folder(file: Path, _: Sequence[Path]) -> Path | None:
    """Return the task in the folder of an answer: ``reference.py`` (kernelbench.com), ``ref_code.py`` (CUDA-L1)."""
    for name in _TASK_NAMES:
        task = file.parent / name
        if task != file and _is_task(task):
            return task
    return None


def _in_a_folder_of_tasks(file: Path, _: Sequence[Path]) -> Path | None:
    """Return the task with the same path in a folder next to the answers: METR's ``tasks/level_1/task_3.py``."""
    path = file.absolute()
    for depth in (1, 2):
        folder, inner = path.parents[depth], Path(*path.parts[-depth:])
        for name in _TASK_FOLDERS:
            task = folder / name / inner
            if task != path and _is_task(task):
                return task
    return None


_LAYOUTS: tuple[Callable[[Path, Sequence[Path]], Path | None], ...] = (
    _kernelbench,
    _named_task,
    _same_file,
    _in_the_same_folder,
    _in_a_folder_of_tasks,
)


def _is_task(file: Path) -> bool:
    text = _text(file)
    return _MODEL.search(text) is not None and _INPUTS.search(text) is not None


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8") if file.is_file() else ""
    except (OSError, UnicodeDecodeError):
        return ""
