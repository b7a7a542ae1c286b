-- A Triton kernel on the screen: the hover on its name, then TTGIR next to the line of its bug.
local T = dofile(vim.env.GPUEMU_TEST_HARNESS)

local count = 0
local function shown()
  count = count + 1
  vim.cmd.redraw()
  local stem = vim.fs.joinpath(vim.env.GPUEMU_TEST_SIGNALS, tostring(count))
  vim.fn.writefile({}, stem .. ".shown")
  T.wait("the recording of screen " .. count, function() return vim.uv.fs_stat(stem .. ".recorded") end)
end

T.run(function()
  vim.o.number = true
  vim.o.statusline = " %t%=%l,%c " -- without the folder of the test
  vim.diagnostic.config({ virtual_text = true })
  T.open("softmax.py")
  T.idle()
  vim.lsp.codelens.refresh({ bufnr = 0 })
  vim.wait(500)
  T.goto_text("softmax_kernel(")
  vim.lsp.buf.hover({ offset_y = 6, max_width = 100 }) -- below the line of the bug
  T.float("registers")
  shown()
  vim.cmd("fclose!")
  vim.diagnostic.config({ virtual_text = false })
  T.goto_text("tl.store")
  vim.cmd("Gpuemu ttgir")
  T.wait("TTGIR next to the source", function()
    for _, bufnr in ipairs(vim.api.nvim_list_bufs()) do
      if vim.b[bufnr].gpuemu_title then return true end
    end
  end)
  shown()
end)
