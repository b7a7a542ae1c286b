"""PyTorch models next to their CUDA versions, in the form of KernelBench."""

from __future__ import annotations

HEAD = """\
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

"""

BIAS = (
    HEAD
    + """\
source = '''
#include <torch/extension.h>

__global__ void bias_relu_kernel(const float* a, const float* b, float* out, int rows, int cols) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < rows * cols) {
        out[idx] = fmaxf(a[idx], 0.0f) + b[idx % cols];
    }
}

torch::Tensor bias_relu_cuda(torch::Tensor a, torch::Tensor b) {
    auto input = a.contiguous();
    auto out = torch::empty_like(input);
    int rows = input.size(0);
    int cols = input.size(1);
    const int threads = 256;
    const int blocks = (rows * cols + threads - 1) / threads;
    bias_relu_kernel<<<blocks, threads>>>(
        input.data_ptr<float>(), b.data_ptr<float>(), out.data_ptr<float>(), rows, cols);
    return out;
}
'''
ext = load_inline(
    name="bias_relu",
    cpp_sources="torch::Tensor bias_relu_cuda(torch::Tensor a, torch::Tensor b);",
    cuda_sources=source,
    functions=["bias_relu_cuda"],
)


class Model(nn.Module):
    def forward(self, x, bias):
        return torch.relu(x) + bias


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.ext = ext

    def forward(self, x, bias):
        return self.ext.bias_relu_cuda(x.cuda(), bias)


batch_size = 16
dim = 16384


def get_inputs():
    x = torch.rand(batch_size, dim)
    bias = torch.rand(dim)
    return [x, bias]


def get_init_inputs():
    return []
"""
)

MATMUL = (
    HEAD
    + """\
source = '''
__global__ void matmul_kernel(const float* A, const float* B, float* C, int M, int K, int N) {
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < M && col < N) {
        float sum = 0.0f;
        for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
        C[row * N + col] = sum;
    }
}

torch::Tensor matmul_cuda(const torch::Tensor& A, const torch::Tensor& B) {
    int M = A.size(0);
    int K = A.size(1);
    int N = B.size(1);
    auto C = torch::zeros({M, N}, A.options());
    dim3 threads(16, 16);
    dim3 blocks((N + 15) / 16, (M + 15) / 16);
    matmul_kernel<<<blocks, threads>>>(A.data_ptr<float>(), B.data_ptr<float>(), C.data_ptr<float>(), M, K, N);
    return C;
}
'''
matmul = load_inline(name="m", cpp_sources="", cuda_sources=source, functions=["matmul_cuda"])


class Model(nn.Module):
    def __init__(self):
        super(Model, self).__init__()

    def forward(self, A, B):
        return torch.matmul(A, B)


class ModelNew(nn.Module):
    def __init__(self):
        super(ModelNew, self).__init__()

    def forward(self, A, B):
        A = A.contiguous()
        return matmul.matmul_cuda(A, B)


M, K, N = 1024, 4096, 2048


def get_inputs():
    return [torch.rand(M, K).cuda(), torch.rand(K, N).cuda()]


def get_init_inputs():
    return []
"""
)
