"""Failing calls are stored with their inputs, and `gpuemu reproduce` runs them again."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from gpuemu.verifier.recorded_calls import NotReplayableError, decoded, encoded
from gpuemu.verifier.values import laid_out, snapshot
from gpuemu_lsp.engine.store import Store

_MODULE = """
    import numpy as np
    from gpuemu.verifier import EquivalenceChecker, equivalent

    def truth(x, scale, options=None):
        return x * scale

    @equivalent(truth)
    def scaled(x, scale, options=None):
        result = x * scale
        if result.shape[0] % 8:
            result[-1] = 0  # the ragged tail
        return result

    @equivalent(truth)
    def by_layout(x, scale, options=None):
        return x * scale if x.flags.c_contiguous else x * scale + 1

    def main():
        EquivalenceChecker.start(execution_sample_probability=1.0)
        random = np.random.default_rng(0)
        for step in range(30):
            rows = 5 if step == 20 else 8
            scaled(random.standard_normal((rows, 3)).astype(np.float32), 2.5, options={"mode": ("a", 1)})
        by_layout(random.standard_normal((4, 6))[:, ::2], scale=1.5)
        print(EquivalenceChecker.stop().failures)

    if __name__ == "__main__":
        main()
"""


def _run(folder, *arguments):
    done = subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


def _gpuemu(folder, *arguments):
    return _run(folder, "-c", "import sys; from gpuemu_lsp.cli.start import gpuemu; sys.exit(gpuemu())", *arguments)


@pytest.mark.parametrize("project", [True, False], ids=["in-project", "without-project"])
def test_a_stored_call_is_replayed_until_it_is_fixed(tmp_path, project):
    (tmp_path / "model.py").write_text(textwrap.dedent(_MODULE))
    if project:
        (tmp_path / "gpuemu.toml").write_text('[project]\nname = "x"\n')
    code, out, err = _run(tmp_path, "-c", "import model; model.main()")
    assert code == 0, err
    with Store(tmp_path) as store:
        stored = {item.failure.kernel: item for item in store.failures()}
    assert set(stored) == {"model:scaled", "model:by_layout"}
    case = stored["model:scaled"].case
    assert stored["model:scaled"].failure.tensors["x"].shape == (5, 3)
    assert f"case_id='{case}'" in out
    code, out, err = _gpuemu(tmp_path, "reproduce", case, "--format", "json")
    (replay,) = json.loads(out)["replays"]
    assert (code, replay["verdict"], replay["kernel"]) == (1, "still fails", "model:scaled"), out + err
    assert "result[4," in replay["findings"][0]["message"]
    code, out, err = _gpuemu(tmp_path, "reproduce", stored["model:by_layout"].case)
    assert code == 1, out + err
    text = (tmp_path / "model.py").read_text()
    (tmp_path / "model.py").write_text(text.replace("        result[-1] = 0  # the ragged tail\n", "        pass\n"))
    code, out, err = _gpuemu(tmp_path, "reproduce", case)
    assert code == 0, out + err
    assert "fixed" in out
    (tmp_path / "model.py").write_text("def scaled(x): return x\n")
    code, out, err = _gpuemu(tmp_path, "reproduce", case)
    assert code == 2
    assert "no longer a function under @equivalent" in out
    assert _gpuemu(tmp_path, "minimize", case)[0] == 2


def test_arguments_survive_the_store():
    given = {
        "x": np.arange(12, dtype=np.int16).reshape(3, 4).T,
        "pair": (1, [float("-inf"), None]),
        "options": {"a": np.float32(3), "b": "text"},
    }
    json_form, arrays = encoded(given)
    back = {name: decoded(value, arrays) for name, value in json.loads(json.dumps(json_form)).items()}
    assert back["x"].strides == given["x"].strides
    assert np.array_equal(back["x"], given["x"])
    assert back["pair"] == given["pair"]
    assert back["options"]["a"] == 3
    json_form, arrays = encoded({"model": object()})
    with pytest.raises(NotReplayableError, match=r"'model' is a builtins\.object"):
        decoded(json_form["model"], arrays, "model")


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x,
        lambda x: x.T,
        lambda x: x[:, ::2],
        lambda x: x[::-1, ::-2],
        lambda x: np.broadcast_to(x[0], (5, 6)),
        lambda x: x[:0],
    ],
    ids=["contiguous", "transposed", "strided", "reversed", "broadcast", "empty"],
)
def test_copies_have_the_layout(view):
    array = view(np.random.default_rng(0).standard_normal((4, 6)))
    for copied in (snapshot(array), laid_out(array, array.strides)):
        assert np.array_equal(copied, array)
        assert copied.strides == array.strides or not array.size
        assert not np.shares_memory(copied, array)


def test_few_cases_of_one_operation_are_stored(tmp_path):
    from gpuemu.verifier import EquivalenceChecker, equivalent

    @equivalent(lambda x: x)
    def wrong(x):
        return x + 1

    EquivalenceChecker.start(execution_sample_probability=1.0, store=tmp_path)
    for step in range(50):
        wrong(np.full(3, float(step)))
    report = EquivalenceChecker.stop()
    assert report.failed == 50
    with Store(tmp_path) as store:
        assert len(store.failures(100)) == 8
    EquivalenceChecker.start(execution_sample_probability=1.0, store=False)
    wrong(np.ones(3))
    assert EquivalenceChecker.stop().failures[0].case_id is None
