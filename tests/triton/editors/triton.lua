-- A registered Triton kernel: diagnostic at its line and columns, hover, lens, sign, PTX, TTIR and TTGIR; nothing after the correction.
local T = dofile(vim.env.GPUEMU_TEST_HARNESS)

T.run(function()
  local source = T.open("softmax.py")
  local client = T.idle()
  local rules = vim.tbl_map(function(each) return each.code end, T.problems())
  table.sort(rules) -- without a mask a program also writes into the next program's row
  T.equal(rules, { "memory/global-race", "memory/out-of-bounds" })
  for _, problem in ipairs(T.problems()) do
    T.equal({ problem.source, problem.lnum, problem.col, problem.end_col }, { "gpuemu", T.facts.line, T.facts.start, T.facts["end"] })
  end

  T.goto_text("softmax_kernel(")
  vim.lsp.buf.hover()
  local hover = T.float("registers")
  T.contains(hover, "FAILED")
  T.contains(hover, "num_warps = 4, num_stages = 3")
  T.contains(hover, "specialisation: BLOCK = ")
  vim.cmd("fclose!")

  local params = { textDocument = vim.lsp.util.make_text_document_params(source) }
  local lens = client:request_sync("textDocument/codeLens", params, 30000, source).result[1]
  T.contains(lens.command.title, "FAILED")
  local row = T.goto_text("softmax_kernel(") - 1
  local namespace = vim.api.nvim_get_namespaces()["gpuemu.verdicts"]
  local signs = vim.api.nvim_buf_get_extmarks(0, namespace, { row, 0 }, { row, -1 }, { details = true })
  T.equal(vim.trim(signs[1][4].sign_text), "✗")

  T.goto_text("tl.store")
  for form, store in pairs({ ptx = "st.global", ttir = "tt.store", ttgir = "tt.store" }) do
    vim.cmd("Gpuemu " .. form)
    local view = T.wait(form .. " next to the source", function()
      for _, bufnr in ipairs(vim.api.nvim_list_bufs()) do
        if vim.b[bufnr].gpuemu_title then return bufnr end
      end
    end)
    local marks = vim.api.nvim_buf_get_extmarks(view, vim.api.nvim_get_namespaces()["gpuemu.artifact"], 0, -1, {})
    local marked = table.concat(vim.tbl_map(function(mark)
      return vim.api.nvim_buf_get_lines(view, mark[2], mark[2] + 1, false)[1]
    end, marks), "\n")
    T.contains(marked, store)
    assert(not marked:find("tt.load", 1, true), marked)

    -- The operation has a colour, and `gd` leads from it to its line.
    local window = vim.api.nvim_get_current_win()
    vim.api.nvim_set_current_win(vim.fn.win_findbuf(view)[1])
    local number = T.goto_text(store)
    local column = vim.api.nvim_get_current_line():find(store, 1, true)
    T.contains(vim.fn.synIDattr(vim.fn.synID(number, column, 1), "name"), "Instruction")
    vim.api.nvim_feedkeys("gd", "x", false)
    T.equal({ vim.api.nvim_get_current_win(), vim.api.nvim_win_get_cursor(0)[1] }, { window, T.facts.line + 1 })
    vim.api.nvim_buf_delete(view, {})
    T.goto_text("tl.store")
  end

  T.equal(vim.api.nvim_get_current_buf(), source)
  T.replace_buffer(T.facts.fixed)
  vim.cmd.write()
  T.wait("the diagnostic to go", function() return #T.problems(source) == 0 end)
  T.idle()
  T.equal(vim.diagnostic.get(source), {})
end)
