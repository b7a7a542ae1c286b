-- Signs go with a killed server and come back with a restarted one, without duplicates.
local T = dofile(vim.env.GPUEMU_TEST_HARNESS)

local function signs()
  local namespace = vim.api.nvim_get_namespaces()["gpuemu.verdicts"]
  return namespace and #vim.api.nvim_buf_get_extmarks(0, namespace, 0, -1, {}) or 0
end

local function groups()
  local found = {}
  for _, autocmd in ipairs(vim.api.nvim_get_autocmds({})) do
    local name = (autocmd.group_name or ""):match("^gpuemu%.%d+$")
    if name then found[name] = true end
  end
  return vim.tbl_count(found)
end

T.run(function()
  local bufnr = T.open("ops/row_softmax_buggy.cu")
  local first = T.client()
  T.wait("a sign", function() return signs() > 0 end)
  T.equal(groups(), 1)
  first:stop(true)
  T.wait("the signs to go", function() return signs() == 0 end)
  T.wait("its autocommands to go", function() return groups() == 0 end)
  T.equal(require("gpuemu.status").line(bufnr), "")
  vim.cmd("Gpuemu check")
  T.contains(vim.inspect(T.notes), "no server is attached here")

  vim.cmd.edit()
  local second = T.client(bufnr)
  assert(second.id ~= first.id)
  T.wait("a sign again", function() return signs() > 0 end)
  T.idle()
  T.equal(signs(), 1)
  T.equal(groups(), 1)
  T.equal(#T.problems(bufnr), 1)

  -- The first edit detaches the listener of the first server; the second must not call it.
  for _ = 1, 2 do
    vim.api.nvim_buf_set_lines(0, 0, 0, false, { "// a line" })
  end
  local namespace = vim.api.nvim_get_namespaces()["gpuemu.verdicts"]
  T.wait("the stale sign", function()
    local mark = vim.api.nvim_buf_get_extmarks(0, namespace, 0, -1, { details = true })[1]
    return vim.trim(mark[4].sign_text) == "~"
  end)
end)
