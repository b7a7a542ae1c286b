-- A PyTorch model next to its CUDA version: the code action registers the kernel, which is then compared with Model.forward.
local T = dofile(vim.env.GPUEMU_TEST_HARNESS)

local function hover()
  T.goto_text("bias_relu_kernel(")
  local params = vim.lsp.util.make_position_params(0, T.client().offset_encoding)
  local reply = T.client():request_sync("textDocument/hover", params, 30000, 0)
  return reply and reply.result and reply.result.contents.value or ""
end

local function replace(old, new)
  local row = T.goto_text(old)
  local line = vim.api.nvim_get_current_line()
  local first, last = line:find(old, 1, true)
  vim.api.nvim_buf_set_lines(0, row - 1, row, false, { line:sub(1, first - 1) .. new .. line:sub(last + 1) })
  vim.cmd.write()
end

T.run(function()
  local source = T.open("model.py")
  T.idle()
  assert(not hover():find("passed", 1, true), "there is no reference yet")
  T.goto_text("bias_relu_kernel(")
  vim.lsp.buf.code_action({
    apply = true,
    filter = function(action) return vim.startswith(action.title, "Register bias_relu_kernel ") end,
  })
  T.wait("the reference", function() return vim.startswith(vim.fs.basename(vim.api.nvim_buf_get_name(0)), "ref_") end)
  T.contains(table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), "\n"), "load_model")
  vim.cmd.buffer(source)
  T.wait("the verdict", function() return hover():find("passed", 1, true) end)
  T.equal(T.problems(source), {})

  replace("fmaxf(a[idx], 0.0f)", "fabsf(a[idx])")
  local problem = T.wait("the diagnostic", function() return T.problems(source)[1] end)
  T.equal(problem.code, "numeric/tolerance-exceeded")
  T.contains(vim.api.nvim_buf_get_lines(source, problem.lnum, problem.lnum + 1, false)[1], "fabsf")
  replace("fabsf(a[idx])", "fmaxf(a[idx], 0.0f)")
  T.wait("the diagnostic to go", function() return #T.problems(source) == 0 end)
  T.idle()
  T.contains(hover(), "passed")
end)
