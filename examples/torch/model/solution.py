"""A correct answer to problem.py."""

import torch
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>

__global__ void center(const float* __restrict__ x, float* __restrict__ y, int rows, int columns, float scale) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= columns) return;
    float sum = 0;
    for (int row = 0; row < rows; row++) sum += x[row * columns + column];
    float mean = sum / rows;
    for (int row = 0; row < rows; row++) y[row * columns + column] = (x[row * columns + column] - mean) * scale;
}

torch::Tensor center_columns(torch::Tensor x, double scale) {
    x = x.contiguous();
    auto y = torch::empty_like(x);
    int rows = x.size(0), columns = x.size(1);
    center<<<(columns + 127) / 128, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), rows, columns, scale);
    return y;
}
"""

extension = load_inline(
    name="center_columns",
    cpp_sources="torch::Tensor center_columns(torch::Tensor x, double scale);",
    cuda_sources=CUDA,
    functions=["center_columns"],
)


class ModelNew(torch.nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x):
        return extension.center_columns(x, self.scale)
