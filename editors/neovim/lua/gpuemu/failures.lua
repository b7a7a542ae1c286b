--- Failing cases: the quickfix list, and selection of the case a command applies to.

local client_of = require("gpuemu.client")
local M = {}

---@class gpuemu.Failure
---@field id string
---@field kernel string
---@field dtype string?
---@field dims table<string, integer>
---@field rule string
---@field message string
---@field uri string
---@field range lsp.Range
---@field minimized boolean

M.TITLE = "gpuemu failures"

--- Request the failures of a buffer, or all.
---@param client vim.lsp.Client
---@param bufnr integer?
---@param reply fun(failures: gpuemu.Failure[])
function M.fetch(client, bufnr, reply)
  local params = vim.empty_dict()
  if bufnr then
    params.textDocument = vim.lsp.util.make_text_document_params(bufnr)
  end
  client_of.request(client, "gpuemu/failures", params, function(result)
    reply(result.failures)
  end)
end

--- Kernel and dtype of a failure.
---@param failure gpuemu.Failure
local function name_of(failure)
  local has_dtype = failure.dtype and failure.dtype ~= vim.NIL
  return has_dtype and failure.kernel .. ", " .. failure.dtype or failure.kernel
end

---@param client vim.lsp.Client
---@param failures gpuemu.Failure[]
local function items(client, failures)
  local locations = vim.tbl_map(function(failure)
    return { uri = failure.uri, range = failure.range, user_data = failure }
  end, failures)
  local found = vim.lsp.util.locations_to_items(locations, client.offset_encoding)
  for _, item in ipairs(found) do
    -- locations_to_items stores the location of an item in its user_data.
    local failure = item.user_data.user_data
    item.text = ("%s: %s [%s, case %s]"):format(failure.rule, vim.split(failure.message, "\n")[1], name_of(failure), failure.id)
    item.type = "E"
    item.user_data = failure
  end
  return found
end

--- The quickfix list of this plugin, if it still exists.
---@return integer? id
local function list()
  for number = vim.fn.getqflist({ nr = "$" }).nr, 1, -1 do
    local found = vim.fn.getqflist({ nr = number, id = 0, title = 0 })
    if found.title == M.TITLE then
      return found.id
    end
  end
end

---@param client vim.lsp.Client
---@param failures gpuemu.Failure[]
local function fill(client, failures)
  local what = { title = M.TITLE, items = items(client, failures), id = list() }
  vim.fn.setqflist({}, what.id and "r" or " ", what)
end

--- Put all failing cases into the quickfix list and open it; show a message if there are none.
---@param client vim.lsp.Client
function M.quickfix(client)
  M.fetch(client, nil, function(failures)
    fill(client, failures)
    if #failures == 0 then
      client_of.notify("no failing cases")
    else
      vim.cmd("botright copen | wincmd p")
    end
  end)
end

--- Update an existing quickfix list after a change of the failures.
---@param client_id integer
function M.on_changed(client_id)
  local client = vim.lsp.get_client_by_id(client_id)
  if client and list() then
    M.fetch(client, nil, function(failures)
      fill(client, failures)
    end)
  end
end

--- Whether a failure is on a line. A range that ends at column 0 does not include that line.
---@param failure gpuemu.Failure
---@param line integer 0-based
local function is_on(failure, line)
  local first, last = failure.range.start, failure.range["end"]
  local lowest = last.character == 0 and math.max(last.line - 1, first.line) or last.line
  return first.line <= line and line <= lowest
end

---@param failure gpuemu.Failure
local function describe(failure)
  local text = ("%s: %s (case %s)"):format(name_of(failure), failure.message, failure.id)
  return failure.minimized and text .. ", minimized" or text
end

--- Key of a case. Its id is a seed, which cases of several kernels and dtypes may share.
---@param id string
---@param kernel string?
---@param dtype string?
local function key_of(id, kernel, dtype)
  return table.concat(vim.tbl_map(function(part) return type(part) == "string" and part or "" end, { id, kernel or "", dtype or "" }), "\n")
end

--- Keys of the cases of the diagnostics on a line.
---@param client vim.lsp.Client
---@param bufnr integer
---@param line integer 0-based
---@return table<string, true>
local function shown(client, bufnr, line)
  local namespace = vim.lsp.diagnostic.get_namespace(client.id)
  local cases = {}
  for _, diagnostic in ipairs(vim.diagnostic.get(bufnr, { lnum = line, namespace = namespace })) do
    local data = vim.tbl_get(diagnostic, "user_data", "lsp", "data")
    if type(data) == "table" and type(data.case) == "string" then
      cases[key_of(data.case, data.kernel, data.dtype)] = true
    end
  end
  return cases
end

--- Select a failure: the one with this id, that of a diagnostic on the cursor's line, one that failed on that line, the
--- only one of the file, or the user's choice.
---@param client vim.lsp.Client
---@param bufnr integer
---@param id string?
---@param reply fun(failure: gpuemu.Failure)
function M.select(client, bufnr, id, reply)
  local line = vim.api.nvim_win_get_cursor(0)[1] - 1
  M.fetch(client, not id and bufnr or nil, function(failures)
    local function matching(condition)
      local found = vim.tbl_filter(condition, failures)
      return #found > 0 and found or nil
    end
    local candidates
    if id then
      candidates = matching(function(failure) return failure.id == id end) or {}
    else
      local cases = shown(client, bufnr, line)
      candidates = matching(function(failure) return cases[key_of(failure.id, failure.kernel, failure.dtype)] end)
        or matching(function(failure) return is_on(failure, line) end)
        or failures
    end
    if #candidates == 0 then
      client_of.notify(id and "no failing case " .. id or "no failing case in this file")
    elseif #candidates == 1 then
      reply(candidates[1])
    else
      vim.ui.select(candidates, { prompt = "Failing case", format_item = describe }, function(choice)
        if choice then
          reply(choice)
        end
      end)
    end
  end)
end

--- Show the details of a failing case.
---@param client vim.lsp.Client
---@param failure gpuemu.Failure
function M.show(client, failure)
  client_of.request(client, "gpuemu/failure", {
    uri = failure.uri,
    id = failure.id,
    kernel = failure.kernel,
    dtype = failure.dtype,
  }, function(result)
    require("gpuemu.failure_view").open(result)
  end)
end

return M
