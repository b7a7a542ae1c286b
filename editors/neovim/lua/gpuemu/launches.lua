--- Launches of recorded runs in the quickfix list.

local client_of = require("gpuemu.client")
local M = {}

M.TITLE = "gpuemu launches"

---@param size integer[]
local function size_text(size)
  return size[2] == 1 and size[3] == 1 and tostring(size[1]) or ("(%s)"):format(table.concat(size, ", "))
end

---@param launch table
local function describe(launch)
  return ("%s<<<%s, %s>>>: %d launches, %d checked, %d repeated, %d findings, %.2f s"):format(
    launch.kernel,
    size_text(launch.grid),
    size_text(launch.block),
    launch.count,
    launch.checked,
    launch.repeated,
    launch.findings,
    launch.seconds
  )
end

--- Let the user choose a recorded launch, and debug it; show a message if there are none.
---@param client vim.lsp.Client
function M.debug(client)
  client_of.request(client, "gpuemu/launches", vim.empty_dict(), function(result)
    local rows = {}
    for _, recording in ipairs(result.recordings) do
      for _, launch in ipairs(recording.launches) do
        for _, name in ipairs(launch.recorded) do
          table.insert(rows, { text = describe(launch), arguments = { launch.source, launch.kernel, name } })
        end
      end
    end
    if #rows == 0 then
      client_of.notify("no recorded launches; run a program with :Gpuemu run")
      return
    end
    local function start(row)
      if row then
        require("gpuemu.debugger").start(client, row.arguments, "gpuemu.debugLaunch")
      end
    end
    if #rows == 1 then
      start(rows[1])
    else
      vim.ui.select(rows, { prompt = "Launch", format_item = function(row) return row.text end }, start)
    end
  end)
end

--- Put the launches of all recorded runs into the quickfix list and open it; show a message if there are none.
---@param client vim.lsp.Client
function M.quickfix(client)
  client_of.request(client, "gpuemu/launches", vim.empty_dict(), function(result)
    local items = {}
    for _, recording in ipairs(result.recordings) do
      for _, launch in ipairs(recording.launches) do
        local known = launch.uri ~= vim.NIL and launch.range ~= vim.NIL
        table.insert(items, {
          filename = known and vim.uri_to_fname(launch.uri) or nil,
          lnum = known and launch.range.start.line + 1 or 0,
          text = describe(launch),
          type = launch.findings > 0 and "E" or "I",
        })
      end
    end
    vim.fn.setqflist({}, " ", { title = M.TITLE, items = items })
    if #items == 0 then
      client_of.notify("no recorded launches; run a program with :Gpuemu run")
    else
      vim.cmd("botright copen | wincmd p")
    end
  end)
end

return M
