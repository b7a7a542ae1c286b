#include <torch/extension.h>

#include "segments.h"

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("segment_sums", &segment_sums, "Sums of segments"); }
