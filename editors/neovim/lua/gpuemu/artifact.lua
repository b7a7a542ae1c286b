--- PTX, SASS, TTIR or TTGIR in a window next to the source. The instructions of the cursor's line are highlighted; `gd` and <CR> on an
--- instruction go to its source line.

local client_of = require("gpuemu.client")
local M = {}

local function namespace()
  return vim.api.nvim_create_namespace("gpuemu.artifact")
end

---@class gpuemu.View
---@field source integer
---@field view integer
---@field kernel string
---@field form "ptx"|"sass"|"ttir"|"ttgir"
---@field client_id integer
---@field map table<integer, { first: integer, last: integer }[]>

---@param self gpuemu.View
local function highlight(self)
  vim.api.nvim_buf_clear_namespace(self.view, namespace(), 0, -1)
  local window = vim.fn.win_findbuf(self.source)[1]
  local line = window and vim.api.nvim_win_get_cursor(window)[1] - 1
  local spans = self.map[line] or {}
  for _, span in ipairs(spans) do
    for number = span.first, span.last do
      vim.api.nvim_buf_set_extmark(self.view, namespace(), number, 0, { line_hl_group = "Visual" })
    end
  end
  local shown = vim.fn.win_findbuf(self.view)[1]
  if shown and spans[1] then
    local first, last = spans[1].first + 1, spans[1].last + 1
    local in_view = vim.fn.line("w0", shown) <= first and last <= vim.fn.line("w$", shown)
    vim.api.nvim_win_set_cursor(shown, { first, 0 })
    if not in_view then
      vim.api.nvim_win_call(shown, function()
        vim.cmd("normal! zz")
      end)
    end
  end
end

--- Go from the instruction under the cursor to its source line.
---@param self gpuemu.View
local function go_to_source(self)
  local number = vim.api.nvim_win_get_cursor(0)[1] - 1
  for line, spans in pairs(self.map) do
    for _, span in ipairs(spans) do
      if span.first <= number and number <= span.last then
        local window = vim.fn.win_findbuf(self.source)[1]
        if window then
          vim.api.nvim_set_current_win(window)
        else
          vim.cmd("leftabove vertical sbuffer " .. self.source)
        end
        vim.cmd("normal! m'")
        vim.api.nvim_win_set_cursor(0, { math.min(line + 1, vim.api.nvim_buf_line_count(self.source)), 0 })
        return
      end
    end
  end
  client_of.notify("this line has no instruction of the source")
end

---@param self gpuemu.View
local function fill(self)
  local client = vim.lsp.get_client_by_id(self.client_id)
  if not client then
    return
  end
  local params = {
    textDocument = vim.lsp.util.make_text_document_params(self.source),
    kernel = self.kernel,
    form = self.form,
  }
  client_of.request(client, "gpuemu/artifact", params, function(result)
    if not vim.api.nvim_buf_is_valid(self.view) then
      return
    end
    local map = {}
    for _, entry in ipairs(result.map) do
      map[entry.line] = map[entry.line] or {}
      table.insert(map[entry.line], entry)
    end
    self.map = map
    vim.bo[self.view].modifiable = true
    vim.api.nvim_buf_set_lines(self.view, 0, -1, false, vim.split(result.text, "\n"))
    vim.bo[self.view].modifiable = false
    vim.b[self.view].gpuemu_title = result.title
    highlight(self)
  end)
end

---@param self gpuemu.View
local function follow(self)
  local group = vim.api.nvim_create_augroup("gpuemu.artifact." .. self.view, { clear = true })
  vim.api.nvim_create_autocmd("CursorMoved", {
    group = group,
    buffer = self.source,
    callback = function()
      highlight(self)
    end,
  })
  vim.api.nvim_create_autocmd("BufWritePost", {
    group = group,
    buffer = self.source,
    callback = function()
      fill(self)
    end,
  })
  vim.api.nvim_create_autocmd("BufWipeout", {
    group = group,
    buffer = self.view,
    callback = function()
      vim.schedule(function()
        pcall(vim.api.nvim_del_augroup_by_id, group)
      end)
    end,
  })
end

--- Open the code of a kernel in a window next to the source, or reload the one that is open.
---@param source integer the buffer with the kernel
---@param form "ptx"|"sass"|"ttir"|"ttgir"
---@param kernel string
---@param client_id integer
function M.open(source, form, kernel, client_id)
  local name = ("gpuemu://%s/%s/%d"):format(form, kernel, source)
  local view = vim.iter(vim.api.nvim_list_bufs()):find(function(bufnr)
    return vim.api.nvim_buf_get_name(bufnr) == name
  end)
  if not view then
    view = vim.api.nvim_create_buf(false, true)
    vim.api.nvim_buf_set_name(view, name)
    vim.bo[view].bufhidden = "wipe"
    vim.bo[view].filetype = form
  end
  if vim.fn.bufwinid(view) == -1 then
    local window = vim.api.nvim_open_win(view, false, { split = "right", win = math.max(vim.fn.bufwinid(source), 0) })
    vim.wo[window][0].wrap = false
  end
  local self = { source = source, view = view, kernel = kernel, form = form, client_id = client_id, map = {} }
  for _, key in ipairs({ "gd", "<CR>" }) do
    vim.keymap.set("n", key, function()
      go_to_source(self)
    end, { buffer = view, desc = "Go to the source line of this instruction" })
  end
  follow(self)
  fill(self)
end

return M
