#pragma once
#include <torch/types.h>

// The sum of the values of each segment; `ends` has the end of each, in order.
torch::Tensor segment_sums(torch::Tensor values, torch::Tensor ends);
