--- The server's tests: kernels, their positions and states, shown as signs on the lines of the kernels' names.

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

-- States of a running check; the others are results.
local RUNNING = { enqueued = true, started = true }

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

---@type table<integer, table<string, integer>> extmarks of each buffer, by test id
local marks = {}

--- Draw the sign of one kernel. An existing extmark has moved with edits and is more precise than the server's position.
---@param bufnr integer
---@param client_id integer
---@param kernel gpuemu.Test
local function draw(bufnr, client_id, kernel)
  local state = (states[client_id] or {})[kernel.id]
  local sign = SIGNS[state and not RUNNING[state] and freshness.is_stale(bufnr) and "stale" or state]
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

--- Draw the signs of a buffer at the positions of their extmarks.
---@param bufnr integer
local function refresh(bufnr)
  marks[bufnr] = marks[bufnr] or {}
  for _, client in ipairs(vim.lsp.get_clients({ name = require("gpuemu.client").NAME, bufnr = bufnr })) do
    for _, kernel in ipairs(M.kernels(bufnr)) do
      draw(bufnr, client.id, kernel)
    end
  end
end

--- Draw the signs of a buffer at the positions that the server has sent.
---@param bufnr integer
local function show(bufnr)
  vim.api.nvim_buf_clear_namespace(bufnr, namespace(), 0, -1)
  marks[bufnr] = nil
  refresh(bufnr)
end

--- Show the signs of a buffer while a client is attached to it.
---@param bufnr integer
---@param client_id integer
---@param group integer autocommand group of the client
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

--- Request all tests.
---@param client vim.lsp.Client
function M.discover(client)
  client:request("gpuemu/discoverTests", vim.empty_dict(), function(failure, result)
    if not failure then
      M.update(client.id, { tests = result.tests, scope = {} })
    end
  end)
end

--- Replace the tests of some files.
---@param client_id integer
---@param change { scope: string[], tests: gpuemu.Test[] }
function M.update(client_id, change)
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

--- Set the state of a test.
---@param client_id integer
---@param state { id: string, state: string }
function M.set_state(client_id, state)
  states[client_id] = states[client_id] or {}
  states[client_id][state.id] = state.state
  local test = (tests[client_id] or {})[state.id]
  local bufnr = test and test.kind == "kernel" and loaded(test.uri)
  if bufnr then
    if not RUNNING[state.state] and state.state ~= "stale" then
      freshness.set_checked(bufnr)
    end
    refresh(bufnr)
  end
end

---@param client_id integer
function M.clear(client_id)
  local touched = {}
  for _, test in pairs(tests[client_id] or {}) do
    touched[test.uri] = true
  end
  tests[client_id], states[client_id] = nil, nil
  show_uris(touched)
end

return M
