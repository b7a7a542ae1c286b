"""Test vectors of the generator, produced by the original."""

from __future__ import annotations

import numpy as np
import pytest

from gpuemu_lsp.engine.fuzz.rng import Rng, derive_seed, mix


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, 16294208416658607535), (1, 10451216379200822465), (42, 13679457532755275413), (43, 13432527470776545160)],
)
def test_mix(value, expected):
    assert mix(value) == expected


@pytest.mark.parametrize(
    ("seed", "expected"),
    [
        (
            42,
            [
                14921385303349856026,
                836881716698787820,
                2679325795615653720,
                15230690181549778750,
                17419016854217654406,
            ],
        ),
        (0, [45495894887209155, 10984596858693060191, 12302716739902161605]),
        (12345, [10428527117552918388, 3297913237695570545, 1202851141998926037]),
        (2**64 - 1, [11499075800611698706, 80680414845749409]),
    ],
)
def test_stream(seed, expected):
    rng = Rng(seed)
    assert [rng.u64() for _ in expected] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("test", 11905773293262258603),
        ("shape", 4858681774468042501),
        ("dtype", 2094939099355156304),
        ("layout", 9436181006166044595),
        ("data", 5787844691545774528),
        ("iter_0", 8039093521837583556),
        ("iter_1", 6907539527531710698),
        ("input_0", 9588905805534864424),
    ],
)
def test_derive(text, expected):
    assert derive_seed(42, text) == expected
    assert Rng(42).derive(text).seed == expected


def test_floats_normals_and_shuffle():
    assert Rng(42).f64() == 0.8088899181192595
    assert Rng(42).f32() == 0.8088898658752441
    rng = Rng(42)
    drawn = [*rng.normal(), *rng.normal()]
    assert drawn == pytest.approx(
        [0.6250130823327449, 0.18314893493936396, 0.89901481314469, -1.746544514601898], rel=1e-15
    )
    items = list(range(10))
    Rng(12345).shuffle(items)
    assert items == [1, 4, 3, 9, 0, 7, 6, 5, 2, 8]


def test_a_case_equals_that_of_the_original():
    rng = Rng(derive_seed(42, "iter_0"))
    assert rng.seed == 8039093521837583556
    assert rng.derive("dtype").choice([0, 1]) == 1
    assert rng.derive("layout").choice([0, 1, 2]) == 2
    data = rng.derive("data").derive("input_0")
    values = [(2 * data.f64() - 1) * 10 for _ in range(3)]
    assert values == [-0.45782532849991453, -7.988318406803476, -4.936799208666431]
    dims = rng.derive("shape")
    assert dims.derive("M").choice([1, 2, 7, 31, 128, 257]) == 128
    assert dims.derive("K").choice([1, 3, 16, 127, 256]) == 256
    assert dims.derive("N").choice([1, 2, 15, 64, 255]) == 2


@pytest.mark.parametrize("count", [0, 1, 2, 15, 16, 17, 511, 512, 513, 1000, 4096, 65535, 65536, 65537, 131_089])
@pytest.mark.parametrize("seed", [0, 42, 2**64 - 1])
def test_arrays_are_the_sequential_stream(seed, count):
    one, bulk = Rng(seed), Rng(seed)
    expected = np.array([one.u64() for _ in range(count)], dtype=np.uint64)
    assert np.array_equal(bulk.u64_array(count), expected)
    assert bulk.u64() == one.u64()
    assert np.array_equal(bulk.f64_array(3), [one.f64() for _ in range(3)])
