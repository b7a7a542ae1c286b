--- Staleness of results. Checks run on saved text: an edit makes their results stale, and saving the checked text makes
--- them current again, for which the server sends no notification.

local M = {}

---@class gpuemu.Text
---@field saved string? hash of the text on disk
---@field checked string? hash of the text of the last result
---@field stale boolean

---@type table<integer, gpuemu.Text>
local texts = {}

local function hash(bufnr)
  return vim.fn.sha256(table.concat(vim.api.nvim_buf_get_lines(bufnr, 0, -1, false), "\n"))
end

--- Track a buffer's text while a client is attached to it.
---@param bufnr integer
---@param client_id integer
---@param group integer autocommand group of the client
---@param changed fun() called when `is_stale` changes
function M.follow(bufnr, client_id, group, changed)
  local text = { saved = not vim.bo[bufnr].modified and hash(bufnr) or nil, stale = false }
  texts[bufnr] = text
  vim.api.nvim_buf_attach(bufnr, false, {
    on_lines = function()
      if not vim.lsp.buf_is_attached(bufnr, client_id) then
        texts[bufnr] = texts[bufnr] ~= text and texts[bufnr] or nil -- another client may track it by now
        return true -- detach
      elseif not text.stale then
        text.stale = true
        vim.schedule(changed)
      end
    end,
    on_reload = function()
      text.saved = hash(bufnr)
      text.stale = text.saved ~= text.checked
      vim.schedule(changed)
    end,
  })
  vim.api.nvim_create_autocmd("BufWritePost", {
    group = group,
    buffer = bufnr,
    callback = function()
      text.saved = hash(bufnr)
      text.stale = text.saved ~= text.checked
      changed()
    end,
  })
end

--- Record that a result of the saved text has arrived.
---@param bufnr integer
function M.set_checked(bufnr)
  local text = texts[bufnr]
  if text then
    text.checked = text.saved
    text.stale = text.checked ~= hash(bufnr)
  end
end

---@param bufnr integer
---@return boolean
function M.is_stale(bufnr)
  return texts[bufnr] ~= nil and texts[bufnr].stale
end

return M
