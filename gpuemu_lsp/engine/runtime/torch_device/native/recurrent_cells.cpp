// Cells of recurrent networks, for which devices other than the CPU are assumed to have kernels.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <tuple>

namespace gpuemu_torch {
namespace {

using at::Tensor;
using Optional = std::optional<Tensor>;

bool is_given(const Optional& tensor) { return tensor && tensor->defined(); }
Tensor plus(const Tensor& x, const Optional& other) { return is_given(other) ? x + *other : x; }

// The workspaces have the gates, which the derivatives need.

std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& of_input, const Tensor& of_hidden, const Tensor& cell,
                                             const Optional& input_bias, const Optional& hidden_bias) {
    auto gates = plus(plus(of_input + of_hidden, input_bias), hidden_bias).chunk(4, 1);
    auto input = gates[0].sigmoid(), forget = gates[1].sigmoid(), next = gates[2].tanh(), output = gates[3].sigmoid();
    auto new_cell = forget * cell + input * next;
    return {output * new_cell.tanh(), new_cell, at::cat({input, forget, next, output}, 1)};
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(const Optional& of_hidden, const Optional& of_cell,
                                                      const Tensor& cell, const Tensor& new_cell,
                                                      const Tensor& workspace, bool has_bias) {
    auto gates = workspace.chunk(4, 1);
    auto &input = gates[0], &forget = gates[1], &next = gates[2], &output = gates[3];
    auto squashed = new_cell.tanh();
    auto hidden_gradient = is_given(of_hidden) ? *of_hidden : at::zeros_like(new_cell);
    auto cell_gradient = plus(hidden_gradient * output * (1 - squashed * squashed), of_cell);
    auto gradient = at::cat({cell_gradient * next * input * (1 - input), cell_gradient * cell * forget * (1 - forget),
                             cell_gradient * input * (1 - next * next),
                             hidden_gradient * squashed * output * (1 - output)},
                            1);
    return {gradient, cell_gradient * forget, has_bias ? gradient.sum(0) : Tensor()};
}

std::tuple<Tensor, Tensor> gru_cell(const Tensor& of_input, const Tensor& of_hidden, const Tensor& hidden,
                                    const Optional& input_bias, const Optional& hidden_bias) {
    auto x = plus(of_input, input_bias).chunk(3, 1), h = plus(of_hidden, hidden_bias).chunk(3, 1);
    auto reset = (x[0] + h[0]).sigmoid(), update = (x[1] + h[1]).sigmoid(), next = (x[2] + reset * h[2]).tanh();
    return {next + update * (hidden - next), at::cat({reset, update, next, hidden, h[2]}, 1)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(const Tensor& of_hidden, const Tensor& workspace,
                                                                     bool has_bias) {
    auto parts = workspace.chunk(5, 1);
    auto &reset = parts[0], &update = parts[1], &next = parts[2], &hidden = parts[3], &h = parts[4];
    auto of_update = of_hidden * (hidden - next) * (1 - update) * update;
    auto of_next = of_hidden * (1 - update) * (1 - next * next);
    auto of_reset = of_next * h * (1 - reset) * reset;
    auto input_gradient = at::cat({of_reset, of_update, of_next}, 1);
    auto hidden_gradient = at::cat({of_reset, of_update, of_next * reset}, 1);
    return {input_gradient, hidden_gradient, of_hidden * update, has_bias ? input_gradient.sum(0) : Tensor(),
            has_bias ? hidden_gradient.sum(0) : Tensor()};
}

}  // namespace
}  // namespace gpuemu_torch

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
    using namespace gpuemu_torch;
    library.impl("_thnn_fused_lstm_cell", &lstm_cell);
    library.impl("_thnn_fused_lstm_cell_backward_impl", &lstm_cell_backward);
    library.impl("_thnn_fused_gru_cell", &gru_cell);
    library.impl("_thnn_fused_gru_cell_backward", &gru_cell_backward);
}
