--- The LSP client: its life cycle, lookup and requests.

local M = { NAME = "gpuemu_lsp" }

---@param client_id integer
local function group(client_id)
  return "gpuemu." .. client_id
end

--- Define :Gpuemu in the buffers of a client, and request the tests for its signs.
---@param client vim.lsp.Client
function M.on_init(client)
  local ours = vim.api.nvim_create_augroup(group(client.id), { clear = true })
  vim.api.nvim_create_autocmd("LspAttach", {
    group = ours,
    callback = function(event)
      if event.data.client_id == client.id then
        require("gpuemu.commands").define(event.buf)
        require("gpuemu.tests").follow(event.buf, client.id, ours)
        require("gpuemu.lenses").follow(event.buf, ours)
      end
    end,
  })
  require("gpuemu.tests").discover(client)
end

--- Remove everything of a client.
---@param client_id integer
function M.on_exit(client_id)
  pcall(vim.api.nvim_del_augroup_by_name, group(client_id))
  require("gpuemu.tests").clear(client_id)
  require("gpuemu.status").clear(client_id)
end

--- The client of a buffer, else any gpuemu client: a quickfix list or a PTX view has none of its own.
---@param bufnr integer? nil or 0 is the current one
---@return vim.lsp.Client?
function M.of(bufnr)
  return vim.lsp.get_clients({ name = M.NAME, bufnr = bufnr or 0 })[1] or vim.lsp.get_clients({ name = M.NAME })[1]
end

--- Show a message to the user.
---@param message string
---@param level integer?
function M.notify(message, level)
  vim.notify("gpuemu: " .. message, level or vim.log.levels.INFO)
end

--- The client of a buffer; without one, shows an error and returns nil.
---@param bufnr integer?
---@return vim.lsp.Client?
function M.require_client(bufnr)
  local client = M.of(bufnr)
  if not client then
    M.notify("no server is attached here; see :checkhealth gpuemu", vim.log.levels.ERROR)
  end
  return client
end

---@param reply fun(result: any)
local function handler(what, reply)
  return function(failure, result)
    if failure then
      M.notify(("%s: %s"):format(what, failure.message), vim.log.levels.ERROR)
    else
      reply(result)
    end
  end
end

--- Send a request; an error is shown, a result is passed to `reply`.
---@param client vim.lsp.Client
---@param method string
---@param params table
---@param reply fun(result: any)
function M.request(client, method, params, reply)
  client:request(method, params, handler(method, reply), 0)
end

--- Run a command of the server.
---@param client vim.lsp.Client
---@param command string
---@param arguments any[]
---@param reply fun(result: any)?
function M.execute(client, command, arguments, reply)
  local params = { command = command, arguments = arguments }
  client:request("workspace/executeCommand", params, handler(command, reply or function() end), 0)
end

return M
