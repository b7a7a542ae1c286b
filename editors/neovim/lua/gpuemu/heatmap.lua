--- Where in an output the wrong elements lie, in characters.

local M = {}

M.COLUMNS, M.ROWS = 64, 16
local SHADES = { "·", "░", "▒", "▓", "█" }

---@param share number of a cell's elements that are wrong
local function shade(share)
  if share <= 0 then
    return SHADES[1]
  end
  -- One wrong element among many is still seen; only all wrong is solid.
  return share >= 1 and SHADES[5] or SHADES[2 + math.min(2, math.floor(share * 3))]
end

--- Draw a picture of the protocol, `{buffer, shape, rows, cols, wrong}`: each character is the worst of the cells it stands for.
---@param picture table
---@return string[] lines the first is a caption
function M.render(picture)
  local tall, wide = math.ceil(picture.rows / M.ROWS), math.ceil(picture.cols / M.COLUMNS)
  local lines = {}
  for top = 1, picture.rows, tall do
    local line = {}
    for left = 1, picture.cols, wide do
      local worst = 0
      for row = top, math.min(top + tall - 1, picture.rows) do
        for column = left, math.min(left + wide - 1, picture.cols) do
          worst = math.max(worst, picture.wrong[row][column])
        end
      end
      table.insert(line, shade(worst))
    end
    table.insert(lines, table.concat(line))
  end
  local sizes = table.concat(vim.tbl_map(tostring, picture.shape), ", ")
  table.insert(lines, 1, ("%s[%s], wrong elements:"):format(picture.buffer, sizes))
  return lines
end

return M
