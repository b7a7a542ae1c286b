"""An answer to problem.py that reads a transposed matrix as if it was contiguous, and changes its input."""

import torch
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>

__global__ void center(float* x, int rows, int columns, float scale) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= columns) return;
    float sum = 0;
    for (int row = 0; row < rows; row++) sum += x[row * columns + column];
    for (int row = 0; row < rows; row++) {
        float* at = x + row * columns + column;
        *at = (*at - sum / rows) * scale;
    }
}

torch::Tensor center_columns(torch::Tensor x, double scale) {
    int rows = x.size(0), columns = x.size(1);
    center<<<(columns + 127) / 128, 128>>>(x.data_ptr<float>(), rows, columns, scale);
    return x;
}
"""

extension = load_inline(
    name="center_in_place",
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
