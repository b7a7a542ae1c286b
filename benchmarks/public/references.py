"""fp64 references for kernels of public repositories, written for this benchmark from their specification."""

import numpy as np


def gelu(inputs, **kwargs):
    x = inputs["inp"]
    return 0.5 * x * (1.0 + np.tanh(np.sqrt(2.0 / np.pi) * (x + 0.044715 * x**3)))


def residual(inputs, **kwargs):
    return inputs["inp1"] + inputs["inp2"]


def softmax(inputs, **kwargs):
    x = inputs["inp"]
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layernorm(inputs, **kwargs):
    x = inputs["inp"]
    mean = x.mean(axis=-1)
    rstd = 1.0 / np.sqrt(((x - mean[:, None]) ** 2).mean(axis=-1) + 1e-5)
    out = (x - mean[:, None]) * rstd[:, None] * inputs["weight"] + inputs["bias"]
    return {"out": out, "mean": mean, "rstd": rstd}


def fused_residual(inputs, **kwargs):
    x = inputs["inp1"] + inputs["inp2"]
    parts = layernorm({"inp": x, "weight": inputs["weight"], "bias": inputs["bias"]})
    return {"residual": x, "normed": parts["out"], "mean": parts["mean"], "rstd": parts["rstd"]}


def crossentropy(inputs, **kwargs):
    probs, targets = inputs["probs"], inputs["targets"]
    rows, columns = np.indices(targets.shape)
    return -np.log(probs[rows, columns, targets])


def crossentropy_softmax_backward(inputs, **kwargs):
    probs, targets = inputs["probs"], inputs["targets"]
    indicator = np.zeros_like(probs)
    rows, columns = np.indices(targets.shape)
    indicator[rows, columns, targets] = 1.0
    return inputs["dlogits"] + (probs - indicator) * inputs["dlosses"][..., None]


def encoder(inputs, **kwargs):
    return inputs["wte"][inputs["inp"]] + inputs["wpe"][None]


def matmul_bias(inputs, **kwargs):
    return inputs["inp"] @ inputs["weight"].T + inputs["bias"]


def sgemm(inputs, **kwargs):
    return 0.5 * (inputs["A"] @ inputs["B"]) + 2.0 * inputs["C"]
