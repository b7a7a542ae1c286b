--- Whether a verdict is about the text that is shown. Checks are of saved text: an edit makes verdicts stale, and saving what was checked makes
--- them true again, though the server has nothing new to say then.

local M = {}

---@class gpuemu.Text
---@field saved string? hash of what is on disk
---@field checked string? hash of what the last verdict was about
---@field stale boolean

---@type table<integer, gpuemu.Text>
local texts = {}

local function hash(bufnr)
  return vim.fn.sha256(table.concat(vim.api.nvim_buf_get_lines(bufnr, 0, -1, false), "\n"))
end

--- Follow a buffer's text as long as a client is attached to it.
---@param bufnr integer
---@param client_id integer
---@param group integer an autocommand group of the client's
---@param changed fun() called when the answer of `is_stale` is another
function M.follow(bufnr, client_id, group, changed)
  local text = { saved = not vim.bo[bufnr].modified and hash(bufnr) or nil, stale = false }
  texts[bufnr] = text
  vim.api.nvim_buf_attach(bufnr, false, {
    on_lines = function()
      if not vim.lsp.buf_is_attached(bufnr, client_id) then
        texts[bufnr] = texts[bufnr] ~= text and texts[bufnr] or nil -- another client may follow it by now
        return true -- no more of this
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

--- A verdict has come: it is about what was saved.
---@param bufnr integer
function M.judged(bufnr)
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
