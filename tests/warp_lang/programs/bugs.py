"""Correct kernels of Warp, and copies of them with one bug each, on the lines with `expect`."""

import sys

import numpy as np
import warp as wp

wp.config.quiet = True
wp.config.kernel_cache_dir = sys.argv[1]
N = 1000
DEVICE = "cuda:0"


@wp.struct
class Body:
    position: wp.vec3
    mass: float


@wp.kernel
def saxpy(a: float, x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = a * x[i] + y[i]


@wp.kernel
def saxpy_past_the_end(a: float, x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid() + 1
    y[i] = a * x[i] + y[i]  # expect: memory/out-of-bounds


@wp.kernel
def total(bodies: wp.array(dtype=Body), out: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(out, 0, bodies[i].mass * wp.length_sq(bodies[i].position))


@wp.kernel
def total_without_atomic(bodies: wp.array(dtype=Body), out: wp.array(dtype=float)):
    i = wp.tid()
    out[0] = out[0] + bodies[i].mass  # expect: memory/global-race


@wp.kernel
def transpose(a: wp.array2d(dtype=float), b: wp.array2d(dtype=float)):
    i, j = wp.tid()
    b[j, i] = a[i, j]


@wp.kernel
def transpose_swapped(a: wp.array2d(dtype=float), b: wp.array2d(dtype=float)):
    i, j = wp.tid()
    b[j, i] = a[j, i]  # expect: memory/out-of-bounds


@wp.func
def read(a: wp.array(dtype=float), i: int):
    return a[i]


@wp.func_grad(read)
def adj_read(a: wp.array(dtype=float), i: int, adj_ret: float):
    wp.atomic_add(wp.adjoint[a], i, adj_ret)


@wp.func
def read_shifted(a: wp.array(dtype=float), i: int):
    return a[i]


@wp.func_grad(read_shifted)
def adj_read_shifted(a: wp.array(dtype=float), i: int, adj_ret: float):
    wp.atomic_add(wp.adjoint[a], i + 1, adj_ret)  # expect: memory/out-of-bounds


@wp.kernel
def squares(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    v = read(x, wp.tid())
    wp.atomic_add(loss, 0, v * v)


@wp.kernel
def squares_shifted(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    v = read_shifted(x, wp.tid())
    wp.atomic_add(loss, 0, v * v)


@wp.kernel
def copy(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i]  # expect: memory/uninitialized-read


def on_device(values, **options):
    return wp.array(values, device=DEVICE, **options)


def launch(kernel, dim, *inputs):
    wp.launch(kernel, dim=dim, inputs=list(inputs), device=DEVICE)


def gradient(kernel, values):
    x = on_device(values, requires_grad=True)
    loss = wp.zeros(1, dtype=float, device=DEVICE, requires_grad=True)
    with wp.Tape() as tape:
        launch(kernel, N, x, loss)
    tape.backward(loss)
    return x.grad.numpy()


random = np.random.default_rng(1)
values = random.random(N).astype(np.float32)
bodies = np.zeros(N, dtype=Body.numpy_dtype())
bodies["position"], bodies["mass"] = random.random((N, 3)), random.random(N)
matrix = random.random((20, 30)).astype(np.float32)

x, y = on_device(values), on_device(values)
launch(saxpy, N, 2.0, x, y)
assert np.allclose(y.numpy(), 3 * values)
out = wp.zeros(1, dtype=float, device=DEVICE)
launch(total, N, on_device(bodies, dtype=Body), out)
assert np.allclose(out.numpy()[0], (bodies["mass"] * (bodies["position"] ** 2).sum(1)).sum(), rtol=1e-4)
wide = wp.zeros((30, 40), dtype=float, device=DEVICE)
launch(transpose, (20, 30), on_device(matrix), wide[:, ::2])
assert np.array_equal(wide.numpy()[:, ::2], matrix.T)
assert np.allclose(gradient(squares, values), 2 * values)
print("right")

launch(saxpy_past_the_end, N, 2.0, x, y)
launch(total_without_atomic, N, on_device(bodies, dtype=Body), out)
launch(transpose_swapped, (20, 30), on_device(matrix), wp.zeros((30, 20), dtype=float, device=DEVICE))
gradient(squares_shifted, values)
launch(copy, N, wp.empty(N, dtype=float, device=DEVICE), y)
