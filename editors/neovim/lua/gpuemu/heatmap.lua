--- Text map of the wrong elements of an output.

local M = {}

M.COLUMNS, M.ROWS = 64, 16
local NONE, SHADES = "·", { "░", "▒", "▓", "█" }

---@param share number fraction of wrong elements among those a character represents
local function shade(share)
  -- A single wrong element remains visible; solid means that all are wrong.
  return share <= 0 and NONE or SHADES[share >= 1 and 4 or 1 + math.floor(share * 3)]
end

--- Render a `picture` of docs/protocol.md in at most ROWS by COLUMNS characters.
---@param picture table
---@return string[] lines the first is a caption
function M.render(picture)
  local tall, wide = math.ceil(picture.rows / M.ROWS), math.ceil(picture.cols / M.COLUMNS)
  local lines = {}
  for top = 1, picture.rows, tall do
    local line = {}
    for left = 1, picture.cols, wide do
      local wrong, cells = 0, 0
      for row = top, math.min(top + tall - 1, picture.rows) do
        for column = left, math.min(left + wide - 1, picture.cols) do
          wrong, cells = wrong + picture.wrong[row][column], cells + 1
        end
      end
      table.insert(line, shade(wrong / cells))
    end
    table.insert(lines, table.concat(line))
  end
  local sizes = table.concat(vim.tbl_map(tostring, picture.shape), ", ")
  table.insert(lines, 1, ("%s[%s], wrong elements (%s none, %s all):"):format(picture.buffer, sizes, NONE, SHADES[4]))
  return lines
end

return M
