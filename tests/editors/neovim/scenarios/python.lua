-- CUDA in a string of a Python file: diagnostic at its line and column, hover, sign, PTX; other Python files are left alone.
local T = dofile(vim.env.GPUEMU_TEST_HARNESS)

local MODEL = {
  "import cupy as cp",
  "",
  "# ü🙂",
  'scale = cp.RawKernel(r"""',
  'extern "C" __global__ void scale(const float* x, float* y, int n) {',
  "    int i = blockIdx.x * blockDim.x + threadIdx.x;",
  "    if (i <= n)",
  "        y[i] = 2.0f * x[i];",
  "}",
  '""", "scale")',
}

local function clients()
  return #vim.lsp.get_clients({ name = "gpuemu_lsp", bufnr = 0 })
end

T.run(function()
  local elsewhere = vim.fs.joinpath(vim.fs.dirname(T.project), "model.py")
  vim.fn.writefile({ "from numba import jit", "@jit", "def rawkernel(): pass" }, elsewhere)
  vim.cmd.edit(vim.fn.fnameescape(elsewhere))
  T.equal(vim.bo.filetype, "python")
  vim.wait(100)
  T.equal(clients(), 0)
  vim.cmd.write()
  vim.wait(100)
  T.equal(clients(), 0)

  -- The first kernel: the server attaches when the file is saved.
  T.replace_buffer(table.concat(MODEL, "\n"))
  vim.cmd.write()
  local client = T.client()
  local problem = T.wait("a diagnostic", function() return T.problems()[1] end)
  T.idle()
  T.equal({ problem.code, problem.source }, { "memory/out-of-bounds", "gpuemu" })
  T.equal({ problem.lnum, problem.col }, { 7, 8 })

  T.goto_text("scale(const")
  vim.lsp.buf.hover()
  T.contains(T.float("registers"), "failed")
  local namespace = vim.api.nvim_get_namespaces()["gpuemu.verdicts"]
  local signs = vim.api.nvim_buf_get_extmarks(0, namespace, { 4, 0 }, { 4, -1 }, { details = true })
  T.equal(vim.trim(signs[1][4].sign_text), "✗")

  -- PTX: the instructions of the cursor's line in the .py.
  local source = vim.api.nvim_get_current_buf()
  T.goto_text("y[i] = 2.0f")
  vim.cmd("Gpuemu ptx")
  local view = T.wait("PTX next to the source", function()
    for _, bufnr in ipairs(vim.api.nvim_list_bufs()) do
      if vim.b[bufnr].gpuemu_title then return bufnr end
    end
  end)
  local marks = vim.api.nvim_buf_get_extmarks(view, vim.api.nvim_get_namespaces()["gpuemu.artifact"], 0, -1, {})
  local marked = table.concat(vim.tbl_map(function(mark)
    return vim.api.nvim_buf_get_lines(view, mark[2], mark[2] + 1, false)[1]
  end, marks), "\n")
  T.contains(marked, "st.global")
  vim.api.nvim_buf_delete(view, {})

  T.equal(vim.api.nvim_get_current_buf(), source)
  vim.api.nvim_buf_set_lines(0, 6, 7, false, { "    if (i < n)" })
  vim.cmd.write()
  T.wait("the diagnostic to go", function() return #T.problems(source) == 0 end)
  T.idle()
  T.equal(T.problems(source), {})

  -- Without the kernel nothing is left of it.
  T.replace_buffer("import numpy as np")
  vim.cmd.write()
  T.idle()
  T.equal(vim.diagnostic.get(source), {})
  local params = { textDocument = vim.lsp.util.make_text_document_params(source) }
  T.equal(client:request_sync("textDocument/codeLens", params, 30000, source).result, {})
end)
