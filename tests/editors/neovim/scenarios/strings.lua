-- CUDA in strings of every form: each diagnostic is at its line and columns of the file that has the text. Of several
-- kernels of one name, PTX is that of the one at the cursor.
local T = dofile(vim.env.GPUEMU_TEST_HARNESS)

T.run(function()
  local folder = vim.fs.joinpath(vim.fs.dirname(T.project), "strings")
  for _, expected in ipairs(T.facts.strings) do
    vim.cmd.edit(vim.fn.fnameescape(vim.fs.joinpath(folder, expected.open)))
    T.idle()
    local bufnr = vim.fn.bufadd(vim.fs.joinpath(folder, expected.file))
    vim.fn.bufload(bufnr)
    local found = vim.diagnostic.get(bufnr, { severity = vim.diagnostic.severity.ERROR })
    assert(#found > 0, expected.open .. " has no error")
    local line = vim.api.nvim_buf_get_lines(bufnr, expected.line, expected.line + 1, false)[1]
    T.equal(line, expected.text)
    local announced = vim.tbl_filter(function(problem) return line:find(problem.code, 1, true) end, found)
    T.equal({ expected.open, #announced }, { expected.open, 1 })
    for _, problem in ipairs(found) do
      T.equal({ expected.open, problem.lnum, problem.source }, { expected.open, expected.line, "gpuemu" })
      -- A range may include the semicolon of its statement.
      local text = line:sub(problem.col + 1, problem.end_col):gsub(";$", "")
      T.equal({ problem.col, text }, { expected.start_byte, line:sub(expected.start_byte + 1, expected.end_byte) })
    end
  end

  vim.cmd.edit(vim.fn.fnameescape(vim.fs.joinpath(folder, "one_name.py")))
  T.idle()
  for _, names in ipairs({ { "sqrtf", "scale:TWO PTX", "sqrt.rn.f32" }, { "cosf", "scale:three PTX", "fma.rn.f32" } }) do
    T.goto_text(names[1])
    vim.cmd("Gpuemu ptx")
    local view = T.wait(names[2], function()
      for _, bufnr in ipairs(vim.api.nvim_list_bufs()) do
        if vim.startswith(vim.b[bufnr].gpuemu_title or "", names[2]) then return bufnr end
      end
    end)
    T.contains(table.concat(vim.api.nvim_buf_get_lines(view, 0, -1, false), "\n"), names[3])
  end
  assert(vim.tbl_contains(require("gpuemu.commands").complete("scale", "Gpuemu ptx scale"), "scale:TWO"))
end)
