-- Pyright and ruff next to the server: each reports its own findings once, hovers are those of both, and a save that
-- removes one server's finding leaves the others'.
local T = dofile(vim.env.GPUEMU_TEST_HARNESS)

vim.lsp.config("pyright", { cmd = T.facts.pyright, filetypes = { "python" }, root_markers = { "gpuemu.toml" } })
vim.lsp.config("ruff", { cmd = T.facts.ruff, filetypes = { "python" }, root_markers = { "gpuemu.toml" } })
vim.lsp.enable({ "pyright", "ruff" })

-- Source, code and 0-based line of each finding, in order.
local function found()
  local list = vim.tbl_map(function(each)
    return ("%s %s %d"):format(each.source, each.code, each.lnum + 1)
  end, vim.diagnostic.get(0, { severity = { min = vim.diagnostic.severity.WARN } }))
  table.sort(list)
  return list
end

local function wait_for(what, expected)
  pcall(T.wait, what, function() return vim.deep_equal(found(), expected) end)
  T.idle()
  T.equal(found(), expected)
end

T.run(function()
  local source = T.open("softmax.py")
  T.wait("three servers", function() return #vim.lsp.get_clients({ bufnr = source }) == 3 end)
  T.idle()
  local store = T.facts.line + 1
  local theirs = { "Pyright reportAssignmentType " .. T.facts.typed, "Ruff F841 " .. T.facts.unused }
  local ours = { "gpuemu memory/global-race " .. store, "gpuemu memory/out-of-bounds " .. store }
  wait_for("the findings of all three", vim.list_extend(vim.deepcopy(theirs), ours))

  -- The kernel is a function of Python: Pyright has its signature, we have its registers.
  T.goto_text("softmax_kernel(")
  vim.lsp.buf.hover()
  local hover = T.float("registers")
  T.contains(hover, "(function) def softmax_kernel")
  T.contains(hover, "num_warps = 4")
  vim.cmd("fclose!")

  -- Each server has actions for its own finding.
  local function titles(line)
    vim.api.nvim_win_set_cursor(0, { line, 0 })
    local result = {}
    for _, client in ipairs(vim.lsp.get_clients({ bufnr = source })) do
      local params = vim.lsp.util.make_range_params(0, client.offset_encoding)
      local diagnostics = vim.tbl_map(function(each) return each.user_data.lsp end, vim.diagnostic.get(source, { lnum = line - 1 }))
      params.context = { diagnostics = diagnostics }
      local answer = client:request_sync("textDocument/codeAction", params, 30000, source)
      for _, action in ipairs(answer and answer.result or {}) do
        table.insert(result, client.name .. ": " .. action.title)
      end
    end
    return table.concat(result, "\n")
  end
  T.contains(titles(T.facts.unused), "ruff: Ruff (F841)")
  assert(not titles(T.facts.unused):find("gpuemu_lsp", 1, true), titles(T.facts.unused))
  T.contains(titles(store), "gpuemu_lsp: Fuzz deeper")
  assert(not titles(store):find("Pyright", 1, true), titles(store))

  T.replace_buffer(T.facts.fixed)
  vim.cmd.write()
  wait_for("ours to go", theirs)
  vim.api.nvim_buf_set_lines(source, T.facts.unused - 1, T.facts.unused, false, {})
  vim.cmd.write()
  wait_for("ruff's to go", { "Pyright reportAssignmentType " .. T.facts.typed - 1 })
end)
