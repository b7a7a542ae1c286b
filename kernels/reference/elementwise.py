"""fp64 references of the elementwise kernels."""

import numpy as np


def gelu(inputs, **kwargs):
    x = inputs["x"]
    return 0.5 * x * (1.0 + np.tanh(np.sqrt(2.0 / np.pi) * (x + 0.044715 * x**3)))


def relu(inputs, **kwargs):
    return np.maximum(inputs["x"], 0.0)


def leaky_relu(inputs, **kwargs):
    x = inputs["x"]
    return np.where(x > 0, x, 0.01 * x)


def _sigmoid(x):
    return np.where(x >= 0, 1.0 / (1.0 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1.0 + np.exp(-np.abs(x))))


def silu(inputs, **kwargs):
    return inputs["x"] * _sigmoid(inputs["x"])


def sigmoid(inputs, **kwargs):
    x = inputs["x"]
    return np.where(np.isnan(x), np.nan, _sigmoid(x))


def tanh(inputs, **kwargs):
    return np.tanh(inputs["x"])


def elu(inputs, **kwargs):
    x = inputs["x"]
    return np.where(x > 0, x, np.expm1(x))
