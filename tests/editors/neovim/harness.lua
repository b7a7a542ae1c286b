-- Helpers of the scenarios: wait for a condition, compare, and exit with the result.

local T = {}

local PATIENCE = 90000

-- The project and its facts, from the test that started this Neovim.
T.project = vim.env.GPUEMU_TEST_PROJECT
T.facts = vim.json.decode(vim.env.GPUEMU_TEST_FACTS)
T.notes = {}

function T.wait(what, condition)
  local value
  local came = vim.wait(PATIENCE, function()
    value = condition()
    return value and true or false
  end, 20)
  if not came then
    error(("timeout waiting for %s\nnotifications: %s\nmessages: %s"):format(what, vim.inspect(T.notes), vim.fn.execute("messages")), 2)
  end
  return value
end

function T.equal(actual, expected)
  if not vim.deep_equal(actual, expected) then
    error(("expected %s\n     got %s"):format(vim.inspect(expected), vim.inspect(actual)), 2)
  end
end

-- Case-insensitive.
function T.contains(text, part)
  if not text:lower():find(part:lower(), 1, true) then
    error(("%s\nis not in\n%s"):format(part, text), 2)
  end
end

function T.client(bufnr)
  return T.wait("the server to attach", function()
    local client = vim.lsp.get_clients({ name = "gpuemu_lsp", bufnr = bufnr or 0 })[1]
    return client and client.initialized and client
  end)
end

function T.idle()
  local client = T.client()
  local reply = client:request_sync("gpuemu/waitForIdle", vim.empty_dict(), PATIENCE, 0)
  assert(reply and not reply.err, vim.inspect(reply))
  return client
end

function T.open(name)
  vim.cmd.edit(vim.fn.fnameescape(vim.fs.joinpath(T.project, name)))
  return vim.api.nvim_get_current_buf()
end

-- Errors and warnings; hints report inferred launches.
function T.problems(bufnr)
  return vim.diagnostic.get(bufnr or 0, { severity = { min = vim.diagnostic.severity.WARN } })
end

function T.floats()
  local found = {}
  for _, window in ipairs(vim.api.nvim_list_wins()) do
    if vim.api.nvim_win_get_config(window).relative ~= "" then
      local lines = vim.api.nvim_buf_get_lines(vim.api.nvim_win_get_buf(window), 0, -1, false)
      table.insert(found, table.concat(lines, "\n"))
    end
  end
  return found
end

function T.float(part)
  return T.wait("a float with " .. part, function()
    for _, text in ipairs(T.floats()) do
      if text:lower():find(part:lower(), 1, true) then
        return text
      end
    end
  end)
end

-- 1-based line and 0-based column of the first match of a plain text.
function T.goto_text(text)
  for number, line in ipairs(vim.api.nvim_buf_get_lines(0, 0, -1, false)) do
    local column = line:find(text, 1, true)
    if column then
      vim.api.nvim_win_set_cursor(0, { number, column - 1 })
      return number
    end
  end
  error(text .. " not found", 2)
end

function T.replace_buffer(text)
  local lines = vim.split(text, "\n")
  if lines[#lines] == "" then
    table.remove(lines)
  end
  vim.api.nvim_buf_set_lines(0, 0, -1, false, lines)
end

vim.notify = function(message, level)
  table.insert(T.notes, { message, level })
end

-- Run a scenario; any error exits with code 1.
function T.run(scenario)
  vim.schedule(function()
    local passed, problem = xpcall(scenario, debug.traceback)
    if not passed then
      io.stderr:write(problem .. "\n")
      vim.cmd("cquit 1")
    end
    io.stdout:write("scenario passed\n")
    vim.cmd("qall!")
  end)
end

return T
