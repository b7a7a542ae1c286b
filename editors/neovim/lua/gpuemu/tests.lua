--- The server's tests: which kernels there are, where, and how they fared. A sign shows it beside the kernel's name.

local M = {}

---@class gpuemu.Test
---@field id string
---@field label string
---@field kind "file"|"kernel"|"dtype"|"case"
---@field uri string
---@field range lsp.Range?

---@type table<integer, table<string, gpuemu.Test>>
local tests = {}
---@type table<integer, table<string, string>>
local states = {}

local SIGNS = {
  enqueued = { "·", "DiagnosticSignHint" },
  started = { "…", "DiagnosticSignHint" },
  passed = { "✓", "DiagnosticSignOk" },
  failed = { "✗", "DiagnosticSignError" },
  errored = { "!", "DiagnosticSignError" },
  skipped = { "-", "DiagnosticSignWarn" },
  stale = { "~", "DiagnosticSignHint" },
}

local function namespace()
  return vim.api.nvim_create_namespace("gpuemu.verdicts")
end

---@return integer? bufnr the loaded buffer of a file
local function loaded(uri)
  local bufnr = vim.fn.bufnr("^" .. vim.fn.fnameescape(vim.uri_to_fname(uri)) .. "$")
  return bufnr ~= -1 and vim.api.nvim_buf_is_loaded(bufnr) and bufnr or nil
end

--- The kernels of a buffer, in the order of their lines.
---@param bufnr integer
---@return gpuemu.Test[]
function M.kernels(bufnr)
  local uri = vim.uri_from_bufnr(bufnr)
  local found = {}
  for _, client in ipairs(vim.lsp.get_clients({ name = require("gpuemu.client").NAME, bufnr = bufnr })) do
    for _, test in pairs(tests[client.id] or {}) do
      if test.kind == "kernel" and test.uri == uri and test.range and test.range ~= vim.NIL then
        table.insert(found, test)
      end
    end
  end
  table.sort(found, function(a, b)
    return a.range.start.line < b.range.start.line
  end)
  return found
end

--- The kernel that a line belongs to: the last one that begins at or above it.
---@param bufnr integer
---@param line integer 0-based
---@return gpuemu.Test?
function M.kernel_at(bufnr, line)
  local found
  for _, kernel in ipairs(M.kernels(bufnr)) do
    if kernel.range.start.line <= line then
      found = kernel
    end
  end
  return found
end

--- Draw the signs of a buffer anew.
---@param bufnr integer
function M.show(bufnr)
  vim.api.nvim_buf_clear_namespace(bufnr, namespace(), 0, -1)
  if vim.g.gpuemu_signs == false then
    return
  end
  for _, client in ipairs(vim.lsp.get_clients({ name = require("gpuemu.client").NAME, bufnr = bufnr })) do
    for _, kernel in ipairs(M.kernels(bufnr)) do
      local sign = SIGNS[(states[client.id] or {})[kernel.id]]
      if sign and kernel.range.start.line < vim.api.nvim_buf_line_count(bufnr) then
        vim.api.nvim_buf_set_extmark(bufnr, namespace(), kernel.range.start.line, 0, {
          sign_text = sign[1],
          sign_hl_group = sign[2],
          priority = 5, -- below diagnostics, which have 10
        })
      end
    end
  end
end

local function show_uris(uris)
  for uri in pairs(uris) do
    local bufnr = loaded(uri)
    if bufnr then
      M.show(bufnr)
    end
  end
end

--- Ask for all tests.
---@param client vim.lsp.Client
function M.discover(client)
  client:request("gpuemu/discoverTests", vim.empty_dict(), function(failure, result)
    if not failure then
      M.changed(client.id, { tests = result.tests, scope = {} })
    end
  end)
end

--- Take in all the tests of some files, in place of those known before.
---@param client_id integer
---@param change { scope: string[], tests: gpuemu.Test[] }
function M.changed(client_id, change)
  local known, touched = tests[client_id] or {}, {}
  for _, uri in ipairs(change.scope) do
    touched[uri] = true
  end
  for id, test in pairs(known) do
    if touched[test.uri] then
      known[id] = nil
    end
  end
  for _, test in ipairs(change.tests) do
    known[test.id] = test
    touched[test.uri] = true
  end
  tests[client_id] = known
  show_uris(touched)
end

--- Take in how a test fares.
---@param client_id integer
---@param state { id: string, state: string }
function M.state(client_id, state)
  states[client_id] = states[client_id] or {}
  states[client_id][state.id] = state.state
  local test = (tests[client_id] or {})[state.id]
  if test then
    show_uris({ [test.uri] = true })
  end
end

---@param client_id integer
function M.forget(client_id)
  local touched = {}
  for _, test in pairs(tests[client_id] or {}) do
    touched[test.uri] = true
  end
  tests[client_id], states[client_id] = nil, nil
  show_uris(touched)
end

return M
