--- A failing case in a floating window: input sizes, wrong elements, and their map.

local M = {}

--- Format a number of the protocol. JSON has neither NaN nor infinities: they are strings.
local function number(value)
  if value == nil or value == vim.NIL then
    return "-"
  end
  return type(value) == "number" and ("%.7g"):format(value) or tostring(value)
end

local function present(value)
  return value ~= nil and value ~= vim.NIL and value or nil
end

---@return string[]
local function table_of(elements)
  local rows = { { "element", "expected", "actual", "difference", "allowed" } }
  for _, element in ipairs(elements) do
    local index = table.concat(vim.tbl_map(tostring, element.index), ", ")
    table.insert(rows, {
      ("%s[%s]"):format(element.buffer, index),
      number(element.expected),
      number(element.actual),
      number(element.difference),
      number(element.allowed),
    })
  end
  local widths = {}
  for _, row in ipairs(rows) do
    for column, cell in ipairs(row) do
      widths[column] = math.max(widths[column] or 0, vim.fn.strdisplaywidth(cell))
    end
  end
  return vim.tbl_map(function(row)
    local cells = {}
    for column, cell in ipairs(row) do
      local padding = (" "):rep(widths[column] - vim.fn.strdisplaywidth(cell))
      cells[column] = column == 1 and cell .. padding or padding .. cell
    end
    return (table.concat(cells, "  "):gsub("%s+$", ""))
  end, rows)
end

--- Render the result of `gpuemu/failure`.
---@param failure table
---@return string[] lines
---@return table<integer, string> highlights 0-based line to highlight group
function M.render(failure)
  local lines, highlights = {}, {}
  local function add(text, highlight)
    for _, line in ipairs(type(text) == "table" and text or vim.split(text, "\n")) do
      table.insert(lines, line)
      highlights[#lines - 1] = highlight
    end
  end
  -- The message has the sizes, in the order of gpuemu.toml, which a table of Lua does not keep.
  local title = { failure.kernel, present(failure.dtype) or "", "case " .. failure.id }
  add(table.concat(vim.tbl_filter(function(part) return part ~= "" end, title), "  "), "Title")
  add(("%s: %s"):format(failure.rule, failure.message), "DiagnosticError")
  if present(failure.elements) and #failure.elements > 0 then
    add("")
    add(table_of(failure.elements))
  end
  if present(failure.picture) then
    add("")
    add(require("gpuemu.heatmap").render(failure.picture))
  end
  if present(failure.facts) and #failure.facts > 0 then
    add("")
    for _, fact in ipairs(failure.facts) do
      add(("%s: %s"):format(fact[1], fact[2]), "Comment")
    end
  end
  if present(failure.minimized) then
    add("")
    add("minimized to case " .. failure.minimized.id)
  end
  if present(failure.commands) then
    add("")
    for _, name in ipairs({ "reproduce", "minimize" }) do
      if present(failure.commands[name]) then
        add(failure.commands[name], "Comment")
      end
    end
  end
  return lines, highlights
end

--- Show a failure in a float at the cursor; a second call enters it, as with hover.
---@param failure table
function M.open(failure)
  local lines, highlights = M.render(failure)
  local bufnr = vim.lsp.util.open_floating_preview(lines, "", {
    border = "rounded",
    focus_id = "gpuemu.failure",
    wrap = false,
    max_width = math.floor(vim.o.columns * 0.9),
  })
  local namespace = vim.api.nvim_create_namespace("gpuemu.failure")
  for line, highlight in pairs(highlights) do
    if line < vim.api.nvim_buf_line_count(bufnr) then
      vim.api.nvim_buf_set_extmark(bufnr, namespace, line, 0, { line_hl_group = highlight })
    end
  end
end

return M
