--- Last status of each server, for a status line and for :checkhealth.

local M = {}

---@class gpuemu.Status
---@field health "ok"|"warning"|"error"
---@field quiescent boolean
---@field message string?
---@field failing integer? number of kernels whose last check found an error
---@field restricted boolean? nothing of the workspace is executed
---@field paused boolean? changes of files start no checks
---@field executor string?
---@field versions table<string, string>

---@type table<integer, gpuemu.Status>
local last = {}

--- Store a status and trigger `User GpuemuStatus`.
---@param client_id integer
---@param status gpuemu.Status
function M.update(client_id, status)
  last[client_id] = status
  vim.api.nvim_exec_autocmds("User", { pattern = "GpuemuStatus", modeline = false, data = { client_id = client_id } })
end

---@param client_id integer
function M.clear(client_id)
  last[client_id] = nil
end

---@param client_id integer
---@return gpuemu.Status?
function M.of(client_id)
  return last[client_id]
end

--- Text for the status line of a buffer; empty if no server is attached.
---@param bufnr integer?
---@return string
function M.line(bufnr)
  local client = vim.lsp.get_clients({ name = require("gpuemu.client").NAME, bufnr = bufnr or 0 })[1]
  local status = client and last[client.id]
  if not client then
    return ""
  elseif not status then
    return "gpuemu: starting"
  elseif status.health ~= "ok" then
    return "gpuemu: " .. status.health
  end
  local failing = (status.failing or 0) > 0
    and ("%d kernel%s"):format(status.failing, status.failing == 1 and " fails" or "s fail")
  if not status.quiescent then
    return "gpuemu: checking"
  elseif status.paused then
    return "gpuemu: paused" .. (failing and ", " .. failing or "")
  elseif failing then
    return "gpuemu: " .. failing
  end
  return status.restricted and "gpuemu: restricted" or "gpuemu"
end

return M
