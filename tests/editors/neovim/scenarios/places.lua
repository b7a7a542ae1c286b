-- Diagnostics on the line of a reference and on an #include, and one case over ten saves.
local T = dofile(vim.env.GPUEMU_TEST_HARNESS)

local function lines(bufnr)
  local found = {}
  for _, problem in ipairs(vim.diagnostic.get(bufnr, { severity = vim.diagnostic.severity.ERROR })) do
    table.insert(found, problem.lnum)
  end
  return found
end

local function insert(bufnr, line, text)
  vim.api.nvim_buf_set_lines(bufnr, line, line, false, { text })
  vim.api.nvim_buf_call(bufnr, vim.cmd.write)
end

T.run(function()
  local bufnr = T.open("ops/row_softmax_buggy.cu")
  T.wait("a diagnostic", function() return T.problems(bufnr)[1] end)
  T.idle()
  local seen = { [T.problems(bufnr)[1].message] = true }
  for number = 1, 10 do
    insert(bufnr, vim.api.nvim_buf_line_count(bufnr), "// save " .. number)
    T.idle()
    T.equal(#T.problems(bufnr), 1)
    seen[T.problems(bufnr)[1].message] = true
  end
  T.equal(vim.tbl_count(seen), 1)

  local reference = T.open("reference/rows.py")
  local line = T.goto_text("def softmax(")
  insert(reference, line, "    raise ValueError('not written yet')")
  T.wait("the error in the reference", function() return vim.deep_equal(lines(reference), { line }) end)

  vim.fn.writefile({ "__device__ int broken() { return nothing; }" }, vim.fs.joinpath(T.project, "ops/broken.cuh"))
  local other = T.open("ops/gelu.cu")
  T.idle()
  T.equal(lines(other), {})
  insert(other, 0, '#include "broken.cuh"')
  T.wait("the error on the #include", function() return vim.deep_equal(lines(other), { 0 }) end)
end)
