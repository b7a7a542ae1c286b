-- A sign beside a kernel's name follows its verdict.
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
  T.replace_buffer(T.facts.mended)
  vim.cmd.write()
  line = T.goto_text("row_softmax(") - 1
  T.wait("the passed sign", function() return sign(line) == "✓" end)
  T.idle()
  T.equal(sign(line), "✓")

  -- Typing above it: the sign stays with its kernel, and says that the text is another.
  vim.o.undolevels = vim.o.undolevels -- what was done so far is not undone with what follows
  vim.api.nvim_buf_set_lines(0, 0, 0, false, { "// one", "// two", "// three" })
  T.wait("the stale sign", function() return sign(line + 3) == "~" end)
  T.equal(sign(line), nil)
  -- Taken back and saved: the verdict was about this very text.
  vim.cmd.undo()
  vim.cmd.write()
  T.wait("the verdict to be true again", function() return sign(line) == "✓" end)
  T.idle()
  T.equal(sign(line), "✓")
  -- Saved with the lines: checked again, in its new place.
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
