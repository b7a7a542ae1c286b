"""The process of an answer: its module is loaded once, and its model is called with the inputs of each case.

:mod:`.answer_start` runs it under ``gpuemu run``. ``FOLDER/request.json`` has the path of the answer, the name of
its class and its cases; each result is written when its case has ended, so that an answer that does not come to its end
leaves those before.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from gpuemu.judge.answer_text import uses_block_pointers
from gpuemu.judge.executed_lines import ExecutedLines
from gpuemu.judge.raised import Raised
from gpuemu.judge.task import constructor_arguments
from gpuemu.judge.values import copied, equal, load, mapped, results_of, save, tensors_of

DEVICE = "cuda"


def main(folder: Path) -> int:
    """Run the cases of a request; return 0, or 1 if the answer cannot be loaded or ends its process."""
    request = json.loads((folder / "request.json").read_text(encoding="utf-8"))
    events = (folder / "events.jsonl").open("a", encoding="utf-8", buffering=1)
    path = Path(request["answer"])
    if not _has_torch_device():
        # New memory is filled with NaN, so that a result that nothing has written is not right by chance. A device of
        # PyTorch knows what was written.
        torch.use_deterministic_algorithms(True, warn_only=True)

    def note(event: str, **fields: Any) -> None:
        print(json.dumps({"event": event, **fields}), file=events)

    if uses_block_pointers(path.read_text(encoding="utf-8", errors="replace")):
        from gpuemu.judge import block_pointers

        block_pointers.install()
    with ExecutedLines(str(path)) as lines:
        try:
            model_class = _model_class(path, request["model"], request["imports"])
        except BaseException as error:  # code of the answer, which may also exit
            note("not loaded", raised=asdict(Raised.of(error, str(path))))
            return 1
        note("loaded")
        calls = Calls(model_class, folder)
        if not calls.made(request["cases"], str(path), note):
            return 1
    handled = {line: asdict(raised) for line, raised in lines.handled.items()}
    note("lines", lines=sorted(lines.executed), handled=handled)
    if request["follow"]:
        note("followed", problem=calls.followed(request["follow"], str(path)))
    if request["skip"]:
        note("without launches", **calls.without_launches(request["skip"]))
    return 0


def _has_torch_device() -> bool:
    from gpuemu_lsp.engine.runtime.python_process import TOOLKIT_VARIABLE
    from gpuemu_lsp.engine.runtime.torch_device import native_calls

    return TOOLKIT_VARIABLE in os.environ and native_calls.is_built()


def _launches_skipped() -> contextlib.AbstractContextManager[object]:
    if _has_torch_device():
        from gpuemu_lsp.engine.runtime.torch_device import native_calls

        return native_calls.launches_skipped()
    from gpuemu.triton.session import launches_skipped

    return launches_skipped()


def _model_class(path: Path, name: str, imports: str) -> Any:
    # Triton and load_inline read the source of a function from the file of its module.
    module = types.ModuleType("gpuemu_answer")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    sys.path.insert(0, imports)
    exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)  # noqa: S102 - the answer, in its own child
    return getattr(module, name)


class Calls:
    """The calls of an answer's model: a new one for each case, but for those that call another's once more."""

    def __init__(self, model_class: Any, folder: Path) -> None:
        self._model_class = model_class
        self._folder = folder
        self._called: dict[str, tuple[Any, list[Any]]] = {}

    def made(self, cases: Sequence[Mapping[str, str]], path: str, note: Callable[..., None]) -> bool:
        """Call the model with the inputs of cases and note each; return False if one ends the process."""
        raised: dict[str, dict[str, Any]] = {}
        for case in cases:
            name, after = case["name"], case["after"]
            if after in raised:  # a model that raises an error is not called once more
                raised[name] = {**raised[after], "case": name}
                note("call", call=raised[name])
                continue
            try:
                note("call", call=self.call(name, after))
            except BaseException as error:
                raised[name] = {"case": name, "raised": asdict(Raised.of(error, path))}
                note("call", call=raised[name])
                if isinstance(error, KeyboardInterrupt | SystemExit):
                    return False
        return True

    def call(self, name: str, after: str) -> dict[str, Any]:
        """Call the model with the inputs of a case, and write its result; return what else was seen."""
        case = load(self._folder / f"{name}.npz")
        if after:
            # The same objects at the same addresses with other contents: what a cache may take for the same inputs.
            model, inputs = self._called[after]
            for old, new in zip(tensors_of(inputs), tensors_of(case["inputs"]), strict=True):
                old.copy_(new)
            weights = "same model"
        else:
            model, inputs, weights = self._made(case)
            self._called[name] = model, inputs
        before = copied(inputs)
        torch.manual_seed(case["seed"])
        with torch.no_grad():
            result = model(*inputs)
        if _has_torch_device():
            # As a copy to the host does: work on another stream that the answer does not wait for may go on.
            torch.cuda.current_stream().synchronize()
        save(self._folder / f"{name}.out.npz", result)
        torch.cuda.synchronize()
        pairs = zip(tensors_of(inputs), tensors_of(before), strict=True)
        changed = [place for place, (now, old) in enumerate(pairs) if not equal(now.cpu(), old.cpu())]
        return {"case": name, "weights": weights, "changed_inputs": changed}

    def without_launches(self, name: str) -> dict[str, Any]:
        """Call the model without launches; return whether the result is the same, and what operators compute."""
        # It would hide the calls above from torch.compile, and imports Dynamo unless nothing else has.
        from gpuemu.judge.work import WorkCounter

        case = load(self._folder / f"{name}.npz")
        work = WorkCounter()
        try:
            model, inputs, _ = self._made(case)
            torch.manual_seed(case["seed"])
            with torch.no_grad(), _launches_skipped(), work:
                result = [tensor.cpu() for tensor in results_of(model(*inputs))]
        except Exception:
            return {"same": False}  # it needs what its kernels compute
        expected = results_of(load(self._folder / f"{name}.out.npz"))
        same = len(result) == len(expected) and all(torch.equal(a, b) for a, b in zip(result, expected, strict=True))
        operators = [operator for operator, _ in work.by_operator.most_common(5)]
        return {"same": same, "torch_work": work.count, "operators": operators}

    def followed(self, name: str, path: str) -> str:
        """Call the model where launches are followed and not made; return the error that it raises, empty for none."""
        if not _has_torch_device():
            return "PyTorch has no CUDA device here"
        from gpuemu_lsp.engine.runtime.torch_device import native_calls

        try:
            with native_calls.launches_followed(), torch.no_grad():
                model, inputs, _ = self._made(load(self._folder / f"{name}.npz"))
                model(*inputs)
        except Exception as error:
            return Raised.of(error, path).sentence
        return ""

    def _made(self, case: dict[str, Any]) -> tuple[Any, list[Any], str]:
        """Return a model with the weights of a case, its inputs, both on the device, and where the weights are from."""
        positional, named = constructor_arguments(_moved(case["init"]))
        torch.manual_seed(case["seed"])
        model = self._model_class(*positional, **named)
        weights = _with_weights(model, case["state"])
        if not case["training"]:
            model.eval()
        return model.to(DEVICE), list(_moved(case["inputs"])), weights


def _with_weights(model: Any, state: dict[str, torch.Tensor]) -> str:
    """Give a model the weights of the task; return how: by ``names``, or by the ``seed`` of its constructor."""
    own = model.state_dict()
    if {name: one.shape for name, one in own.items()} == {name: one.shape for name, one in state.items()}:
        model.load_state_dict(state)
        return "names"
    return "seed"


def _moved(value: Any) -> Any:
    return mapped(value, lambda tensor: tensor.to(DEVICE))
