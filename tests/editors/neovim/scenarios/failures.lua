-- A failing case: in the quickfix list, as a float, as a script, minimized, and gone with the bug.
local T = dofile(vim.env.GPUEMU_TEST_HARNESS)

local function listed()
  local list = vim.fn.getqflist({ title = 0, items = 0 })
  return list.title == "gpuemu failures" and list.items or {}
end

local function act(title)
  vim.lsp.buf.code_action({
    apply = true,
    filter = function(action) return vim.startswith(action.title, title) end,
  })
end

local function size(failure)
  local product = 1
  for _, value in pairs(failure.dims) do product = product * value end
  return product
end

T.run(function()
  local bufnr = T.open("ops/row_softmax_buggy.cu")
  T.wait("a diagnostic", function() return T.problems(bufnr)[1] end)
  T.idle()

  T.wait("the number of failing kernels", function()
    return require("gpuemu.status").line(bufnr) == "gpuemu: 1 kernel fails"
  end)

  vim.cmd("Gpuemu failures")
  local item = T.wait("the quickfix list", function() return listed()[1] end)
  T.equal(vim.fs.normalize(vim.api.nvim_buf_get_name(item.bufnr)), vim.fs.normalize(vim.api.nvim_buf_get_name(bufnr)))
  T.equal(item.lnum, T.facts.bug_line + 1)
  T.equal(item.type, "E")
  T.contains(item.text, "numeric/nan")
  T.equal(item.user_data.kernel, "row_softmax_buggy")

  vim.api.nvim_win_set_cursor(0, { T.facts.bug_line + 1, 8 })
  vim.cmd("Gpuemu failure")
  local float = T.float("wrong elements (")
  T.contains(float, "expected")
  T.contains(float, "NaN")
  assert(float:find("rows = %d+, cols") and not float:find("cols = %d+, rows"), float)
  local first  -- of several failing cases that of the diagnostic
  for _, other in ipairs(listed()) do
    if float:find("gpuemu reproduce " .. other.user_data.id, 1, true) then first = other.user_data end
  end
  assert(first, float)
  assert(float:find("[░▒▓█]"), float)
  vim.api.nvim_win_set_cursor(0, { T.facts.bug_line + 1, 9 })
  vim.cmd.doautocmd("CursorMoved")

  act("Reproduce failure (" .. first.dtype)
  T.wait("the script", function() return vim.api.nvim_buf_get_name(0):find("%.py$") end)
  T.contains(vim.api.nvim_buf_get_name(0), first.id)
  vim.cmd.buffer(bufnr)

  vim.api.nvim_win_set_cursor(0, { T.facts.bug_line + 1, 8 })
  act("Minimize (" .. first.dtype)
  local smaller = T.wait("a smaller case", function()
    for _, other in ipairs(listed()) do
      if other.user_data.minimized then return other.user_data end
    end
  end)
  assert(size(smaller) < size(first), vim.inspect({ first, smaller }))
  T.equal(smaller.rule, first.rule)
  T.equal(smaller.range.start.line, T.facts.bug_line)
  T.idle()

  T.replace_buffer(T.facts.fixed)
  vim.cmd.write()
  T.wait("the diagnostic to go", function() return #T.problems(bufnr) == 0 end)
  T.wait("the list to follow", function() return #listed() == 0 end)
end)
