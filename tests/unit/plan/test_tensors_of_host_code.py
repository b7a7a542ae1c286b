"""Extents of PyTorch tensors in plans: sizes as the host code gives, checks and reads them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.plan_facts import assumed_lengths, has_open_lengths, is_read, unused

from gpuemu_lsp.engine.plan.model import Plan, PlanResult, TensorArg

KERNEL = """
#include <torch/extension.h>
__global__ void rows(const float* x, const float* w, float* y, int n, int d) {
  for (int c = threadIdx.x; c < d; c += blockDim.x) y[blockIdx.x * d + c] = x[blockIdx.x * d + c] * w[c];
}
"""


def shapes(result: PlanResult) -> tuple[Plan, dict[str, str]]:
    (plan,) = result.plans
    return plan, {arg.param: str(arg.shape[0]) for arg in plan.args if isinstance(arg, TensorArg) and arg.shape}


@pytest.mark.parametrize(
    "created",
    [
        "torch::empty({x.size(0), x.size(1)}, x.options())",
        "at::full({x.size(0), x.size(1)}, 0, x.options())",
        "torch::zeros(at::IntArrayRef({x.size(0), x.size(1)}), x.options())",
        "torch::zeros(at::IntArrayRef{x.size(0), x.size(1)}, x.options())",
        "torch::empty(std::vector<int64_t>{x.size(0), x.size(1)}, x.options())",
        "torch::empty(sizes, x.options())",
        "x.new_empty({x.size(0), x.size(1)})",
        "torch::empty(like.sizes(), x.options())",
        "torch::empty_like(like)",
        "like.clone()",
    ],
)
def test_new_tensors_have_their_sizes(bare: Callable[[str], PlanResult], created: str) -> None:
    """Sizes are lists, arrays, vectors, or those of another tensor."""
    plan, found = shapes(
        bare(f"""{KERNEL}
torch::Tensor scaled(torch::Tensor x, torch::Tensor w) {{
  TORCH_CHECK(x.dim() == 2 && w.dim() == 1);
  TORCH_CHECK(w.size(0) == x.size(1));
  std::vector<int64_t> sizes = {{x.size(0), x.size(1)}};
  auto like = torch::empty({{x.size(0), x.size(1)}}, x.options());
  auto y = {created};
  rows<<<x.size(0), 128>>>(x.data_ptr<float>(), w.data_ptr<float>(), y.data_ptr<float>(), x.size(0), x.size(1));
  return y;
}}
""")
    )
    assert found == {"x": "x_size_0 * x_size_1", "w": "x_size_1", "y": "x_size_0 * x_size_1"}
    assert is_read(plan)
    assert not has_open_lengths(plan)
    assert not assumed_lengths(plan)


@pytest.mark.parametrize(
    ("checks", "known", "assumed"),
    [
        ("TORCH_CHECK(w.size(0) == x.size(1));", None, "x_size_1"),
        ("TORCH_CHECK(w.dim() == 1); int64_t d = w.size(0);", "w_size_0", None),
        ("int64_t d = w.size(0);", None, None),
        ("", None, None),
    ],
)
def test_the_rank_of_a_tensor_is_stated_or_assumed(
    bare: Callable[[str], PlanResult], checks: str, known: str | None, assumed: str | None
) -> None:
    """A check of the last size says how large a tensor may be; a size that is only read says nothing."""
    (plan,) = bare(f"""{KERNEL}
void scale(torch::Tensor x, torch::Tensor w) {{
  TORCH_CHECK(x.dim() == 2);
  {checks}
  rows<<<x.size(0), 128>>>(x.data_ptr<float>(), w.data_ptr<float>(), x.data_ptr<float>(), x.size(0), x.size(1));
}}
""").plans
    launched = plan if is_read(plan) else plan.alternative
    assert launched is not None
    shapes = {arg.param: [str(extent) for extent in arg.shape] for arg in launched.args if isinstance(arg, TensorArg)}
    assert shapes["w"] == ([known] if known is not None else [])
    assert assumed_lengths(launched) == ({"w": assumed} if assumed is not None else {})


def test_the_launch_of_the_first_activation_counts(bare: Callable[[str], PlanResult]) -> None:
    """Launches of deeper activations of a recursive function have extents of extents."""
    plan, found = shapes(
        bare("""
__global__ void add(float* x, const float* sums, int n) {
  int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) x[i] += sums[blockIdx.x];
}
void scan(float* x, int n) {
  int blocks = (n + 255) / 256;
  if (blocks == 1) return;
  float* sums;
  cudaMalloc(&sums, blocks * sizeof(float));
  scan(sums, blocks);
  add<<<blocks, 256>>>(x, sums, n);
}
int main(int argc, char** argv) {
  int n = atoi(argv[1]);
  float* x;
  cudaMalloc(&x, n * sizeof(float));
  cudaMemset(x, 0, n * sizeof(float));
  scan(x, n);
}
""")
    )
    assert found == {"x": "n", "sums": "ceil_div(n, 256)"}
    assert [str(one) for one in plan.grid] == ["ceil_div(n, 256)"]


ELEMENTS = """
#include <torch/extension.h>
__global__ void twice(const float* x, float* y, int n) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}}
__global__ void negative(const float* x, float* y, int n) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = -x[i];
}}
torch::Tensor f(torch::Tensor x) {{
  auto y = torch::empty_like(x);
  int n = x.numel();
  {before}
  negative<<<{blocks}, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
  {after}
}}
{more}
"""


@pytest.mark.parametrize(
    ("after", "more", "judged"),
    [
        ("return y;", "", True),
        ("if (n > 8) { auto z = torch::empty_like(x); return z; } return y;", "", True),
        ("return y.slice(0, 0, 8);", "", False),
        ("return torch::stack({y, x});", "", False),
        ("y.fill_(0); return y;", "", False),
        ("finish(y); return y;", "", False),
        ("twice<<<1, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n); return y;", "", False),
        ("return y;", "torch::Tensor g(torch::Tensor x) { auto y = f(x); y.fill_(0); return y; }", False),
        ("return y;", 'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("f", &f); }', True),
    ],
)
def test_a_returned_tensor_is_read_by_the_caller(
    bare: Callable[[str], PlanResult], after: str, more: str, judged: bool
) -> None:
    """The kernel that alone writes to it has to write all of it."""
    plan, _ = shapes(bare(ELEMENTS.format(before="", blocks="(n + 255) / 256", after=after, more=more)))
    assert is_read(plan)
    assert ("y" not in unused(plan)) == judged


@pytest.mark.parametrize(
    ("before", "blocks", "multiple"),
    [
        ("", "n / 256", 1),
        ("", "(n + 255) / 256", 1),
        ("TORCH_CHECK(n % 256 == 0);", "n / 256", 256),
        ("", "dim3(n / 256, n / 256)", 256),
    ],
)
def test_a_bound_in_the_kernel_allows_sizes_that_a_grid_rounded_down_does_not_cover(
    compiled: Callable[[str], PlanResult], before: str, blocks: str, multiple: int
) -> None:
    """A statement of the program that the size is a multiple of the block comes first."""
    text = ELEMENTS.format(before=before, blocks=blocks, after="return y;", more="").replace("twice", "unused")
    plan, _ = shapes(compiled(text))
    (dim,) = plan.dims
    assert dim.multiple_of == multiple


@pytest.mark.parametrize(
    ("check", "multiple"),
    [
        ("void check(torch::Tensor x) { TORCH_CHECK(x.numel() % 256 == 0); }", 256),
        ("void check(torch::Tensor x) { if (x.numel() % 256 != 0) throw 1; }", 256),
        (
            "int check(torch::Tensor x) { if (x.numel() < 256) return 1; TORCH_CHECK(x.numel() % 256 == 0); return 2; }",
            1,
        ),
    ],
)
def test_what_a_function_asserts_holds_after_its_call(
    compiled: Callable[[str], PlanResult], check: str, multiple: int
) -> None:
    """If it returns at its end only: before that, it may have asserted nothing."""
    text = ELEMENTS.format(before="check(x);", blocks="n / 256", after="return y;", more="")
    plan, _ = shapes(compiled(text.replace("torch::Tensor f(", f"{check}\ntorch::Tensor f(")))
    (dim,) = plan.dims
    assert dim.multiple_of == multiple


OPTIONAL = """
template <bool SCALED>
__global__ void rows(const float* x, const float* scale, float* y, int d) {
  int c = blockIdx.x * d + threadIdx.x;
  if (threadIdx.x < d) y[c] = SCALED ? x[c] * scale[threadIdx.x] : x[c];
}
#define OPTPTR(x) (x.has_value() ? x.value().data_ptr() : nullptr)
void scaled(const at::Tensor& x, at::Tensor& y, const c10::optional<at::Tensor>& scale) {
  TORCH_CHECK(x.dim() == 2);
  TORCH_CHECK(y.dim() == 2 && y.size(0) == x.size(0) && y.size(1) == x.size(1));
  if (scale.has_value()) {
    TORCH_CHECK(scale.value().dim() == 1 && scale.value().size(0) == x.size(1));
    rows<true><<<x.size(0), 128>>>((float*) x.data_ptr(), (float*) OPTPTR(scale), (float*) y.data_ptr(), x.size(1));
  } else
    rows<false><<<x.size(0), 128>>>((float*) x.data_ptr(), nullptr, (float*) y.data_ptr(), x.size(1));
}
"""


@pytest.mark.parametrize(
    ("caller", "wanted"),
    [
        ("", {"rows<true>": "x_size_1", "rows<false>": ""}),
        ("void plain(at::Tensor x, at::Tensor y) { scaled(x, y, c10::nullopt); }", {"rows<false>": ""}),
        ("void plain(at::Tensor x, at::Tensor y) { scaled(x, y, {}); }", {"rows<false>": ""}),
        ("void all(at::Tensor x, at::Tensor y, at::Tensor s) { scaled(x, y, s); }", {"rows<true>": "x_size_1"}),
        ("struct Layer { at::Tensor x; void run() { scaled(x, x, member()); } };",
         {"rows<true>": "x_size_1", "rows<false>": ""}),
    ],
    ids=["no caller", "nullopt", "braces", "tensor", "not shown"],
)  # fmt: skip
def test_optional_tensors(bare: Callable[[str], PlanResult], caller: str, wanted: dict[str, str]) -> None:
    """A tensor that a caller omits is the null pointer in the launch for that case only."""
    found = {
        plan.entry: "".join(
            str(arg.shape[0]) for arg in plan.args if isinstance(arg, TensorArg) and arg.param == "scale" and arg.shape
        )
        for plan in bare(OPTIONAL + caller).plans
    }
    assert wanted.items() <= found.items()
