"""The process of a task: it makes the cases, and compares the results of answers with its model in fp64.

It is a fork of :mod:`.task_server`. It reads one request a line, as JSON, and answers each with a line. No code of an
answer runs here, so that neither the model that decides nor its tolerances are within its reach.
"""

from __future__ import annotations

import json
import os
import queue
import socket
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from gpuemu.judge.comparison import Evaluation, compare, ignored_weights
from gpuemu.judge.model import USUAL, Case, Status, Values
from gpuemu.judge.sizes import LARGE, SizeSet, TaskSizes
from gpuemu.judge.task import Task, TaskError, load_task
from gpuemu.judge.task_text import FUNCTIONS, needed_text
from gpuemu.judge.values import UnsupportedValueError, copied, equal, load, mapped, results_of, save, tensors_of

_SMALL_RESULT = 0.01
"""METR's bound: a task whose results are within it, or differ by less, accepts a constant."""


@dataclass(frozen=True, slots=True)
class _Draw:
    """How a case is made: its sizes, its seed, and what its tensors hold."""

    sizes: SizeSet
    values: Values
    seed: int
    after: str = ""


class TaskProcess:
    """The task of this process, and how its cases were made, by name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path, self._text, self._model = "", "", "Model"
        self._draws: dict[str, _Draw] = {}
        self._sizes: TaskSizes | None = None

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Answer a request: ``cases`` of a task, those with own sizes, or ``compare`` the result of one."""
        try:
            if request["do"] == "cases":
                self._path, self._model = request["path"], request["model"]
                self._text = Path(self._path).read_text(encoding="utf-8")
                if request["holds_answer"]:
                    self._text = needed_text(self._text, (self._model, *FUNCTIONS))
                self._sizes = TaskSizes(self._text, self._path, self._model)
                cases = [asdict(case) for case in self._make_cases(self._sizes.size_sets())]
                sizes = self._sizes
                own = {"own_shapes": sizes.own_shapes, "own_extents": sorted(sizes.own_extents)}
                return {"cases": cases, "replaced": sizes.replaced, **own}
            if request["do"] == "own inputs":
                assert self._sizes is not None
                return self._write_own_inputs(request["name"], self._sizes)
            if request["do"] == "cases with own sizes":
                assert self._sizes is not None
                given = self._sizes.with_own(request["sizes"])
                return {"cases": [asdict(case) for case in self._make_cases(filter(None, [given]))]}
            return self._compare(request["case"], Path(request["output"]))
        except (TaskError, UnsupportedValueError, SyntaxError) as error:
            return {"problem": str(error)}
        except Exception as error:  # of the model, which may not compute in fp64
            return {"problem": f"{type(error).__name__}: {error}"}

    def _make_cases(self, size_sets: Iterable[SizeSet]) -> list[Case]:
        cases = []
        for size_set in size_sets:
            for draw in _draws_of(size_set):
                case = self._written(_case(draw), draw)
                if case is not None:
                    self._draws[case.name] = draw
                    cases.append(case)
        return cases

    def _write_own_inputs(self, name: str, sizes: TaskSizes) -> dict[str, Any]:
        task = load_task(self._text, self._path, {}, self._model)
        inputs, init = sizes.own_inputs(), task.init_inputs()
        values = {"init": init, "inputs": inputs, "state": {}, "seed": 0, "training": True}
        save(self._folder / f"{name}.npz", values)
        return {}

    def _task(self, draw: _Draw) -> Task:
        return load_task(self._text, self._path, draw.sizes.values, self._model)

    def _written(self, case: Case, draw: _Draw) -> Case | None:
        """Write the inputs of a case; return it with what the results of its model are like.

        None if it is one of ``eval()`` mode, and the results are those of the other mode.
        """
        task = self._task(draw)
        # The second call of a model has the weights of the first.
        model = task.constructed(self._draws[draw.after].seed if draw.after else draw.seed)
        torch.manual_seed(draw.seed)
        with _ZeroedMemory():
            inputs = list(task.inputs())
        if draw.values is Values.NORMAL:
            inputs = mapped(inputs, _normal)
        if draw.values is Values.WEIGHTS:
            _randomise(model)
        state = {name: one.clone() for name, one in model.state_dict().items()}
        training = draw.values is not Values.EVAL
        values = {"init": task.init_inputs(), "inputs": inputs, "state": state, "seed": draw.seed, "training": training}
        save(self._folder / f"{case.name}.npz", values)

        def results(seed: int, given: list[Any]) -> list[torch.Tensor]:
            torch.manual_seed(seed)
            model.load_state_dict(state)
            try:
                with torch.no_grad():
                    return results_of(model(*given))
            except Exception as error:
                raise TaskError(f"its model raises {type(error).__name__}: {error}") from error

        given = copied(inputs)
        first = results(1, given)
        if not training:
            model.eval()
            if _are_equal(first, results(1, copied(inputs))):
                return None
        pairs = zip(tensors_of(given), tensors_of(inputs), strict=True)
        changed = tuple(place for place, (now, before) in enumerate(pairs) if not equal(now, before))
        random = not _are_equal(results(1, copied(inputs)), results(2, copied(inputs)))
        return replace(case, random=random, weak=_weakness(first), changed_inputs=changed)

    def _compare(self, name: str, output: Path) -> dict[str, Any]:
        draw = self._draws[name]
        written = load(self._folder / f"{name}.npz")
        results = results_of(load(output))
        task = self._task(draw)
        evaluation = Evaluation(task, written["inputs"], written["state"], draw.seed, written["training"])
        comparison = compare(evaluation, results, FILL)
        if comparison.status is Status.DIFFERS and draw.after:
            earlier = results_of(load(output.with_name(f"{draw.after}.out.npz")))
            repeats = len(earlier) == len(results) and all(map(torch.equal, earlier, results))
            comparison = replace(comparison, repeats=repeats)
        if comparison.status is Status.DIFFERS and draw.values is Values.WEIGHTS:
            initial = task.constructed(draw.seed).state_dict()
            comparison = replace(comparison, ignored=ignored_weights(evaluation, initial, results))
        return asdict(comparison)


FILL = {torch.float16: torch.nan, torch.bfloat16: torch.nan, torch.float32: torch.nan, torch.float64: torch.nan}
"""What ``torch.utils.deterministic.fill_uninitialized_memory`` fills new memory with; integers have no such value."""


class _ZeroedMemory(TorchFunctionMode):  # type: ignore[misc]
    """Fills new memory with zero: inputs that are outputs of a call have no values of their own.

    What is in memory by chance may be NaN, or so large that every error of the result would be within rounding.
    """

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        return result.zero_() if getattr(function, "__name__", "") in _NEW_MEMORY else result


_NEW_MEMORY = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"})


def _draws_of(sizes: SizeSet) -> list[_Draw]:
    """Return how the cases of sizes are made: at the usual ones there is also what the task does not try."""
    first = _Draw(sizes, Values.TASK, 42)
    if sizes.label != USUAL:
        return [first]
    deciding = [first, _Draw(sizes, Values.AGAIN, 44, after=_name(first)), _Draw(sizes, Values.WEIGHTS, 45)]
    if sizes.work > LARGE:  # as of layers whose sizes are in the model's text: what only adds a note takes too long
        return deciding
    return [*deciding, _Draw(sizes, Values.NORMAL, 43), _Draw(sizes, Values.EVAL, 46)]


def _name(draw: _Draw) -> str:
    return f"{draw.sizes.label}-{draw.values.name.lower()}"


def _case(draw: _Draw) -> Case:
    sizes = draw.sizes
    return Case(
        name=_name(draw),
        label=sizes.label,
        values=draw.values,
        after=draw.after,
        own=sizes.own,
        regular=sizes.regular,
        layers=sizes.layers,
        shapes=sizes.shapes,
        random=False,
        weak="",
        work=sizes.work,
        changed_inputs=(),
    )


def _are_equal(results: Sequence[torch.Tensor], others: Sequence[torch.Tensor]) -> bool:
    return all(torch.equal(a, b) or bool(a.isnan().any()) for a, b in zip(results, others, strict=True))


def _normal(tensor: torch.Tensor) -> torch.Tensor:
    return torch.randn(tensor.shape).to(tensor.dtype) if tensor.is_floating_point() else tensor


def _randomise(model: Any) -> None:
    """Give parameters values that no initialisation has: the weights of a normalisation are 1, and its biases 0."""
    with torch.no_grad():
        for parameter in model.parameters():
            scale = float(parameter.std()) if parameter.numel() > 1 else 0.0
            parameter += torch.randn_like(parameter) * (scale or 0.5)


def _weakness(results: Sequence[torch.Tensor]) -> str:
    """Return why results hardly tell a right answer from a wrong one, empty if they do (METR's filters)."""
    values = [one.double().nan_to_num() for one in results if one.is_floating_point() and one.numel() > 1]
    if values and all(float(one.abs().max()) < _SMALL_RESULT for one in values):
        return f"all elements of its result are within {_SMALL_RESULT:g} of zero"
    if values and all(float(one.std()) < _SMALL_RESULT for one in values):
        return f"the elements of its result differ by less than {_SMALL_RESULT:g}"
    return ""


def serve(folder: Path, connection: socket.socket) -> None:
    """Answer requests until the connection is closed, which ends this process whatever it does."""
    requests: queue.SimpleQueue[str] = queue.SimpleQueue()
    with connection.makefile("r", encoding="utf-8") as lines, connection.makefile("w", encoding="utf-8") as replies:

        def read() -> None:
            for line in lines:
                requests.put(line)
            os._exit(0)

        threading.Thread(target=read, name="requests", daemon=True).start()
        process = TaskProcess(folder)
        while True:
            print(json.dumps(process.answer(json.loads(requests.get()))), file=replies, flush=True)
