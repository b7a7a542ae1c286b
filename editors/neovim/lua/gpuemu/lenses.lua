--- Code lenses, which Neovim 0.11 shows only where a plugin requests them.

local M = {}

---@param bufnr integer
local function refresh(bufnr)
  if vim.g.gpuemu_lenses ~= false and vim.api.nvim_buf_is_loaded(bufnr) then
    vim.lsp.codelens.refresh({ bufnr = bufnr })
  end
end

--- Show the lenses of a buffer from now on.
---@param bufnr integer
---@param group integer
function M.follow(bufnr, group)
  vim.api.nvim_create_autocmd({ "BufEnter", "InsertLeave", "BufWritePost" }, {
    group = group,
    buffer = bufnr,
    desc = "Request the code lenses of the gpuemu language server",
    callback = function()
      refresh(bufnr)
    end,
  })
  refresh(bufnr)
end

--- Request the lenses of all buffers of a client again: a check has other results.
---@param client_id integer
function M.on_refresh(client_id)
  local client = vim.lsp.get_client_by_id(client_id)
  for bufnr in pairs(client and client.attached_buffers or {}) do
    refresh(bufnr)
  end
  return vim.NIL
end

return M
