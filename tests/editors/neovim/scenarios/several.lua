-- Several failing cases: that of the cursor's line is selected without a prompt; elsewhere the user is prompted.
local T = dofile(vim.env.GPUEMU_TEST_HARNESS)

T.run(function()
  local asked = 0
  vim.ui.select = function(items, options, choose)
    asked = asked + 1
    for _, item in ipairs(items) do
      T.contains(options.format_item(item), item.id)
    end
    choose(items[#items])
  end
  local bufnr = T.open("memory/halo_buggy.cu")
  local problem = T.wait("a diagnostic", function() return T.problems(bufnr)[1] end)
  T.idle()
  local shown = problem.user_data.lsp.data.case
  vim.api.nvim_win_set_cursor(0, { problem.lnum + 1, problem.col })
  vim.cmd("Gpuemu failure")
  T.contains(T.float("case " .. shown), problem.code)
  T.equal(asked, 0)

  vim.api.nvim_win_set_cursor(0, { 1, 0 })
  vim.cmd.doautocmd("CursorMoved")
  T.wait("the float to close", function() return #T.floats() == 0 end)
  vim.cmd("Gpuemu failure")
  T.float("memory/")
  T.equal(asked, 1)
end)
