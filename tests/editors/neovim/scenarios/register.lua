-- An unregistered kernel: its lens registers it, opens the template of its reference, and it is compared.
local T = dofile(vim.env.GPUEMU_TEST_HARNESS)

local KERNEL = {
  'extern "C" __global__ void twice(const float* x, float* y, int n) {',
  "    int i = blockIdx.x * blockDim.x + threadIdx.x;",
  "    if (i < n) y[i] = 2.0f * x[i];",
  "}",
}

T.run(function()
  vim.fn.writefile(KERNEL, vim.fs.joinpath(T.project, "twice.cu"))
  local bufnr = T.open("twice.cu")
  local client = T.client(bufnr)
  T.idle()
  local params = { textDocument = vim.lsp.util.make_text_document_params(bufnr) }
  local function lens()
    for _, one in ipairs(client:request_sync("textDocument/codeLens", params, 30000, bufnr).result or {}) do
      if one.command.title == "Register kernel" then return one end
    end
  end
  local found = T.wait("the lens", lens)
  client:exec_cmd(found.command, { bufnr = bufnr })
  T.wait("the reference", function() return vim.fs.basename(vim.api.nvim_buf_get_name(0)) == "ref_twice.py" end)
  T.contains(table.concat(vim.fn.readfile(vim.fs.joinpath(T.project, "gpuemu.toml")), "\n"), 'name = "twice"')
  T.wait("the comparison with zeros", function()
    local problem = T.problems(bufnr)[1]
    return problem and problem.code == "numeric/tolerance-exceeded"
  end)
  T.equal(lens(), nil)
end)
