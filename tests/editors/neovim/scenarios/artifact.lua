-- PTX and SASS next to the source, with the instructions of the cursor's line highlighted.
local T = dofile(vim.env.GPUEMU_TEST_HARNESS)

local function view(form)
  return T.wait(form .. " next to the source", function()
    for _, window in ipairs(vim.api.nvim_list_wins()) do
      local bufnr = vim.api.nvim_win_get_buf(window)
      if vim.api.nvim_buf_get_name(bufnr):find("gpuemu://" .. form, 1, true) and vim.b[bufnr].gpuemu_title then
        return bufnr
      end
    end
  end)
end

local function marked(bufnr)
  local namespace = vim.api.nvim_get_namespaces()["gpuemu.artifact"]
  local lines = {}
  for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(bufnr, namespace, 0, -1, {})) do
    table.insert(lines, vim.api.nvim_buf_get_lines(bufnr, mark[2], mark[2] + 1, false)[1])
  end
  return table.concat(lines, "\n")
end

T.run(function()
  T.open("ops/row_softmax_buggy.cu")
  T.idle()
  for form, expected in pairs({ ptx = { "ex2.approx", ".entry" }, sass = { "MUFU.EX2", "EXIT" } }) do
    vim.api.nvim_win_set_cursor(0, { T.facts.bug_line + 1, 0 })
    vim.cmd("Gpuemu " .. form .. " row_softmax_buggy")
    local bufnr = view(form)
    T.contains(vim.b[bufnr].gpuemu_title, "row_softmax_buggy")
    T.contains(table.concat(vim.api.nvim_buf_get_lines(bufnr, 0, -1, false), "\n"), expected[2])
    T.contains(marked(bufnr), expected[1])
    -- The guard at the top of the kernel has no exponential.
    T.goto_text("if (r >= rows)")
    vim.cmd.doautocmd("CursorMoved")
    assert(marked(bufnr) ~= "", "no line is highlighted")
    assert(not marked(bufnr):find(expected[1], 1, true), marked(bufnr))
    T.equal(vim.bo[bufnr].modifiable, false)
    T.equal(vim.bo[bufnr].filetype, form)

    -- The instruction has a colour, and `gd` leads from it to its source line.
    local source = vim.api.nvim_get_current_win()
    vim.api.nvim_set_current_win(vim.fn.win_findbuf(bufnr)[1])
    local number = T.goto_text(expected[1])
    local column = vim.api.nvim_get_current_line():find(expected[1], 1, true)
    T.equal(vim.fn.synIDattr(vim.fn.synID(number, column, 1), "name"), form .. "Instruction")
    vim.api.nvim_feedkeys("gd", "x", false)
    T.equal(vim.api.nvim_get_current_win(), source)
    local line = vim.api.nvim_get_current_line()
    assert(line:find("expf", 1, true), line)
  end
  -- A code lens opens it by a client command: the existing view is reloaded.
  local windows = #vim.api.nvim_list_wins()
  vim.b[view("ptx")].gpuemu_title = nil
  local arguments = { vim.uri_from_bufnr(0), "row_softmax_buggy", "ptx" }
  T.client():exec_cmd({ title = "Show PTX", command = "gpuemu.showArtifact", arguments = arguments })
  view("ptx")
  T.equal(#vim.api.nvim_list_wins(), windows)
end)
