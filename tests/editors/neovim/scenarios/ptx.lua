-- A .ptx: errors on its lines, hover and definition of a register.
local T = dofile(vim.env.GPUEMU_TEST_HARNESS)

T.run(function()
  local path = vim.fs.joinpath(T.project, "scale.ptx")
  vim.fn.writefile(vim.split(T.facts.ptx, "\n"), path)
  T.open("scale.ptx")
  T.equal(vim.bo.filetype, "ptx")
  local client = T.idle()
  local lines = {}
  for _, problem in ipairs(T.problems()) do
    T.equal(problem.code, "memory/out-of-bounds")
    table.insert(lines, (vim.api.nvim_buf_get_lines(0, problem.lnum, problem.lnum + 1, false)[1]:gsub("^%s+", "")))
  end
  -- The store at the same index is a consequence of the load.
  T.equal(lines, { "ld.global.f32 %f1, [%rd5];" })

  local row = T.goto_text("st.global.f32") - 1
  local column = vim.api.nvim_get_current_line():find("%f2", 1, true)
  local where = { textDocument = { uri = vim.uri_from_bufnr(0) }, position = { line = row, character = column } }
  local hover = client:request_sync("textDocument/hover", where, 30000, 0)
  T.contains(hover.result.contents.value, "add.f32 %f2, %f1, %f1;")
  local definition = client:request_sync("textDocument/definition", where, 30000, 0)
  T.equal(definition.result[1].range.start.line, T.goto_text("add.f32") - 1)
end)
