-- A buggy softmax: diagnostic, hover, fix, save, clean.
local T = dofile(vim.env.GPUEMU_TEST_HARNESS)

T.run(function()
  local bufnr = T.open("ops/row_softmax_buggy.cu")
  T.equal(vim.bo.filetype, "cuda")
  T.client()
  local problem = T.wait("a diagnostic", function() return T.problems()[1] end)
  T.equal(problem.lnum, T.facts.bug_line)
  T.equal(problem.severity, vim.diagnostic.severity.ERROR)
  T.equal(problem.source, "gpuemu")
  T.contains(problem.message, "expected")
  T.equal(problem.code, "numeric/nan")
  T.idle()

  T.goto_text("row_softmax(")
  vim.lsp.buf.hover()
  local hover = T.float("registers")
  T.contains(hover, "failed")
  T.contains(hover, "sm_80")
  T.wait("the lens with the verdict", function()
    for _, lens in ipairs(vim.lsp.codelens.get(bufnr)) do
      if lens.command and lens.command.title:find("FAILED", 1, true) then return true end
    end
  end)
  T.goto_text("row_softmax(")

  T.replace_buffer(T.facts.fixed)
  vim.cmd.write()
  T.wait("the diagnostic to go", function() return #T.problems(bufnr) == 0 end)
  T.idle()
  T.equal(T.problems(bufnr), {})
  T.goto_text("row_softmax(")
  vim.cmd.doautocmd("CursorMoved")
  vim.lsp.buf.hover()
  T.contains(T.float("passed"), "registers")
end)
