--- Debug sessions about failing cases, by nvim-dap.

local client_of = require("gpuemu.client")
local M = { TYPE = "gpuemu" }

local HINT = "a debug session needs the plugin nvim-dap (https://github.com/mfussenegger/nvim-dap)"

--- The plugin nvim-dap; without it, shows a hint and returns nil.
local function require_dap()
  local found, dap = pcall(require, "dap")
  if not found then
    client_of.notify(HINT, vim.log.levels.WARN)
    return nil
  end
  return dap
end

--- The program of a language server as a debug adapter.
---@param client vim.lsp.Client
local function program(client)
  local command = client.config.cmd
  if type(command) ~= "table" then
    command = { "gpuemu-lsp" }
  end
  local words = vim.tbl_filter(function(word) return word ~= "--stdio" end, command)
  local arguments = vim.list_extend(vim.list_slice(words, 2), { "--debug-adapter" })
  return { type = "executable", command = words[1], args = arguments }
end

local ours

--- What nvim-dap calls for an adapter: one of the running server, which stops sooner, else its program.
---@param client vim.lsp.Client
local function adapter(client)
  return function(callback)
    if client:is_stopped() then
      callback(program(client))
      return
    end
    client:request("gpuemu/debugAdapter", vim.empty_dict(), function(failure, answer)
      callback(failure and program(client) or { type = "pipe", pipe = answer.socket })
    end)
  end
end

--- Start a session about a case, by the arguments of the command gpuemu.debug, or of another one that answers a launch.
---@param client vim.lsp.Client
---@param arguments any[]
---@param command string?
function M.start(client, arguments, command)
  local dap = require_dap()
  if dap then
    client_of.execute(client, command or "gpuemu.debug", arguments, function(configuration)
      -- An adapter of the user's own is kept.
      if dap.adapters[M.TYPE] == ours then
        ours = adapter(client)
        dap.adapters[M.TYPE] = ours
      end
      dap.run(configuration)
    end)
  end
end

--- Look at another thread or block of the session: a number, or an index such as "3,0,0".
---@param what "thread"|"block"
---@param text string
function M.focus(what, text)
  local dap = require_dap()
  local session = dap and dap.session()
  if not session then
    client_of.notify("no debug session is running", vim.log.levels.WARN)
    return
  end
  local numbers = vim.tbl_map(tonumber, vim.split(text, "[%s,()]+", { trimempty = true }))
  local place = #numbers == 1 and numbers[1] or numbers
  session:request("gpuemu/focus", { [what] = place }, function(failure)
    if failure then
      client_of.notify(failure.message, vim.log.levels.ERROR)
    end
  end)
end

return M
