-- The sign of a kernel follows its result.
local T = dofile(vim.env.GPUEMU_TEST_HARNESS)

local function sign(line)
  local namespace = vim.api.nvim_get_namespaces()["gpuemu.verdicts"]
  local marks = namespace and vim.api.nvim_buf_get_extmarks(0, namespace, { line, 0 }, { line, -1 }, { details = true }) or {}
  return marks[1] and vim.trim(marks[1][4].sign_text)
end

T.run(function()
  T.open("ops/row_softmax_buggy.cu")
  local line = T.goto_text("row_softmax(") - 1
  T.wait("the failed sign", function() return sign(line) == "✗" end)
  T.replace_buffer(T.facts.fixed)
  vim.cmd.write()
  line = T.goto_text("row_softmax(") - 1
  T.wait("the passed sign", function() return sign(line) == "✓" end)
  T.idle()
  T.equal(sign(line), "✓")

  -- Lines inserted above: the sign stays with its kernel and becomes stale.
  vim.o.undolevels = vim.o.undolevels -- close the undo block
  vim.api.nvim_buf_set_lines(0, 0, 0, false, { "// one", "// two", "// three" })
  T.wait("the stale sign", function() return sign(line + 3) == "~" end)
  T.equal(sign(line), nil)
  -- Undone and saved: the result is of this text.
  vim.cmd.undo()
  vim.cmd.write()
  T.wait("the result to be current again", function() return sign(line) == "✓" end)
  T.idle()
  T.equal(sign(line), "✓")
  -- Redone and saved: checked again, at the new line.
  vim.cmd.redo()
  T.wait("the stale sign", function() return sign(line + 3) == "~" end)
  vim.cmd.write()
  T.wait("the sign to pass again", function() return sign(line + 3) == "✓" end)
  T.equal(sign(line), nil)
  line = line + 3

  vim.g.gpuemu_signs = false
  vim.cmd("Gpuemu check")
  T.wait("signs to go", function() return sign(line) == nil end)
end)
