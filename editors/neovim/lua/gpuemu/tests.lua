--- The server's tests: which kernels there are, where, and how they fared. A sign shows it beside the kernel's name.

local freshness = require("gpuemu.freshness")
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

-- These say that a check is under way; the others are its verdict.
local UNDER_WAY = { enqueued = true, started = true }

local function namespace()
  return vim.api.nvim_create_namespace("gpuemu.verdicts")
end

---@return integer? bufnr the loaded buffer of a file
local function loaded(uri)
  for _, bufnr in ipairs(vim.api.nvim_list_bufs()) do
    if vim.api.nvim_buf_is_loaded(bufnr) and vim.uri_from_bufnr(bufnr) == uri then
      return bufnr
    end
  end
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

---@type table<integer, table<string, integer>> the marks of each buffer's tests
local marks = {}

--- Draw the sign of one kernel. One that is there moves with the text, and may know better than the server where the kernel is.
---@param bufnr integer
---@param client_id integer
---@param kernel gpuemu.Test
local function draw(bufnr, client_id, kernel)
  local state = (states[client_id] or {})[kernel.id]
  local sign = SIGNS[state and not UNDER_WAY[state] and freshness.is_stale(bufnr) and "stale" or state]
  local drawn = marks[bufnr][kernel.id]
  if not sign or vim.g.gpuemu_signs == false then
    marks[bufnr][kernel.id] = nil
    if drawn then
      vim.api.nvim_buf_del_extmark(bufnr, namespace(), drawn)
    end
    return
  end
  local place = drawn and vim.api.nvim_buf_get_extmark_by_id(bufnr, namespace(), drawn, {})
  local line = place and place[1] or kernel.range.start.line
  if line < vim.api.nvim_buf_line_count(bufnr) then
    marks[bufnr][kernel.id] = vim.api.nvim_buf_set_extmark(bufnr, namespace(), line, 0, {
      id = drawn,
      sign_text = sign[1],
      sign_hl_group = sign[2],
      priority = 5, -- below diagnostics, which have 10
    })
  end
end

--- Draw the signs of a buffer, each where it is now.
---@param bufnr integer
local function refresh(bufnr)
  marks[bufnr] = marks[bufnr] or {}
  for _, client in ipairs(vim.lsp.get_clients({ name = require("gpuemu.client").NAME, bufnr = bufnr })) do
    for _, kernel in ipairs(M.kernels(bufnr)) do
      draw(bufnr, client.id, kernel)
    end
  end
end

--- Draw the signs of a buffer anew, each where the server says that its kernel is.
---@param bufnr integer
local function show(bufnr)
  vim.api.nvim_buf_clear_namespace(bufnr, namespace(), 0, -1)
  marks[bufnr] = nil
  refresh(bufnr)
end

--- Show the signs of a buffer that a client is attached to, from now on.
---@param bufnr integer
---@param client_id integer
---@param group integer an autocommand group of the client's
function M.follow(bufnr, client_id, group)
  freshness.follow(bufnr, client_id, group, function()
    if vim.api.nvim_buf_is_loaded(bufnr) then
      refresh(bufnr)
    end
  end)
  show(bufnr)
end

local function show_uris(uris)
  for uri in pairs(uris) do
    local bufnr = loaded(uri)
    if bufnr then
      show(bufnr)
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
  local bufnr = test and test.kind == "kernel" and loaded(test.uri)
  if bufnr then
    if not UNDER_WAY[state.state] and state.state ~= "stale" then
      freshness.judged(bufnr)
    end
    refresh(bufnr)
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
