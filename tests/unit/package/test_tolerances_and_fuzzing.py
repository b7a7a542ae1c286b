"""Tolerances, random numbers, and what is drawn to try an operation with."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from gpuemu.rng import SeededRng, derive_seed, generate_seed
from gpuemu.tolerances import (
    ToleranceConfig,
    ToleranceProfile,
    calibrate_tolerance,
    compare_tolerances,
    get_recommended_tolerance,
)
from gpuemu.validate import (
    FuzzConfig,
    SeededFuzzer,
    fuzz_dtypes,
    fuzz_layouts,
    fuzz_layouts_seeded,
    fuzz_shapes,
    fuzz_shapes_seeded,
    generate_random_tensor,
    with_strides,
)


def test_the_package_imports_neither_numpy_nor_torch():
    code = "import sys, gpuemu; print([name for name in ('numpy', 'torch', 'gpuemu_lsp') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_the_stream_is_that_of_the_original():
    rng = SeededRng(42)
    assert [rng.gen_u64() for _ in range(2)] == [14921385303349856026, 836881716698787820]
    assert SeededRng(42).gen_f64() == 0.8088899181192595
    assert SeededRng(42).gen_f32() == 0.8088898658752441
    normal = [0.6250130823327449, 0.18314893493936396, 0.89901481314469, -1.746544514601898]
    assert np.allclose(SeededRng(42).randn_f64(2, 2).ravel(), normal, rtol=1e-14)
    items = list(range(10))
    SeededRng(12345).shuffle(items)
    assert items == [1, 4, 3, 9, 0, 7, 6, 5, 2, 8]
    assert derive_seed(42, "test") == SeededRng(42).derive("test").seed == 11905773293262258603
    assert generate_seed() != generate_seed()


def test_tolerance_tables():
    assert ToleranceConfig.for_dtype("float16") == ToleranceConfig(1e-3, 1e-2)
    assert ToleranceConfig.for_dtype("float32", "jax").atol == pytest.approx(1.5e-5)
    assert ToleranceConfig.strict("bfloat16") == ToleranceConfig(1e-3, 1e-2)
    assert ToleranceConfig.relaxed("float64").to_dict() == {"atol": 1e-8, "rtol": 1e-7}
    assert get_recommended_tolerance("float32", operation="attention").atol == pytest.approx(2.5e-5)
    assert ToleranceProfile.for_production().get("float16").atol == 5e-4
    assert ToleranceProfile.for_cross_framework("jax", "pytorch").get("float32").atol == pytest.approx(2.25e-5)
    assert compare_tolerances(ToleranceConfig(1, 1), ToleranceConfig(2, 2))["tighter"] == "first"


def test_calibration_measures_rounding():
    def softmax(x):
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    found = calibrate_tolerance(lambda x: softmax(x.astype(np.float64)), softmax, [(4, 65)], n_samples=20)
    assert 1e-9 < found.atol < 1e-6
    assert 1e-8 < found.rtol < 1e-5
    same = calibrate_tolerance(np.add, np.add, [(3,), (3,)], n_samples=5)
    assert same == ToleranceConfig(0.0, 0.0)
    several = calibrate_tolerance(np.matmul, np.matmul, [[(2, 3), (3, 4)], [(5, 1), (1, 2)]], n_samples=4)
    assert several.atol == 0


def test_calibration_refuses_what_is_not_a_tolerance():
    with pytest.raises(ValueError, match="shapes"):
        calibrate_tolerance(lambda x: x.sum(), lambda x: x, [(3,)])
    with pytest.raises(ValueError, match="NaN"):
        calibrate_tolerance(lambda x: x, lambda x: x * np.nan, [(3,)])


def test_shapes_and_dtypes():
    assert list(fuzz_shapes(a=[1, 2], b=[3, 4])) == [(1, 3), (1, 4), (2, 3), (2, 4)]
    assert list(fuzz_dtypes()) == ["float32", "float16"]
    assert list(fuzz_shapes_seeded(7, count=5)) == list(fuzz_shapes_seeded(7, count=5))


def test_layouts_are_memory():
    shape = (2, 3, 4)
    values = np.arange(24.0).reshape(shape)
    found = list(fuzz_layouts(shape))
    assert found[0] == (shape, (12, 4, 1))
    assert len({strides for _, strides in found}) == len(found) == 4
    for kept, strides in [*found, *fuzz_layouts_seeded(1, shape, count=3)]:
        assert kept == shape
        array = with_strides(values, strides)
        assert np.array_equal(array, values)
        assert array.strides == tuple(8 * step for step in strides)


@pytest.mark.parametrize(
    "dtype", ["float32", "float16", "bfloat16", "float64", "int8", "int32", "int64", "uint8", "bool"]
)
def test_every_dtype_is_drawn(dtype):
    values = generate_random_tensor(1, (4, 33), dtype)
    assert values.dtype.name == dtype
    assert len(np.unique(values.astype(np.float64))) > 1
    assert np.array_equal(values, generate_random_tensor(1, (4, 33), dtype))


def test_the_seeded_fuzzer_repeats():
    fuzzer = SeededFuzzer(FuzzConfig(seed=42))
    cases = list(fuzzer.iterator(30))
    assert cases[0].seed == 8039093521837583556
    assert cases[0].shape in ((1,), (1, 1), (1, 1, 1))
    fuzzer.reset()
    assert list(fuzzer.iterator(30)) == cases
    assert {case.layout for case in cases} == {"contiguous", "strided", "transposed"}
    for case in cases[:8]:
        array = case.generate_input("x")
        assert array.shape == case.shape
        assert array.dtype.name == case.dtype
        if case.layout == "strided" and array.ndim > 1:
            assert not array.flags.c_contiguous or array.size == 1
