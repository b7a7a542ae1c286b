-- :Gpuemu debug, its code action and :Gpuemu launches!: whole sessions, by nvim-dap where $GPUEMU_NVIM_DAP is the path of
-- a checkout, as no registry has it, else by the client of tests/editors/neovim/dap_client.lua.
local T = dofile(vim.env.GPUEMU_TEST_HARNESS)

local function has_action(client, bufnr)
  local line = T.problems(bufnr)[1].lnum
  local diagnostics = vim.lsp.diagnostic.from(vim.diagnostic.get(bufnr, { lnum = line }))
  local where = { line = line, character = 0 }
  local params = {
    textDocument = { uri = vim.uri_from_bufnr(bufnr) },
    range = { start = where, ["end"] = where },
    context = { diagnostics = diagnostics },
  }
  local reply = client:request_sync("textDocument/codeAction", params, 30000, bufnr)
  for _, action in ipairs(reply.result) do
    if vim.startswith(action.title, "Debug the failing thread") then
      return action
    end
  end
end

--- Do something, and wait for the stop that follows.
local function stop(dap, what, action)
  local stopped = false
  dap.listeners.after.event_stopped.gpuemu_test = function() stopped = true end
  action()
  T.wait(what, function()
    return stopped and dap.session() and dap.session().current_frame
  end)
  vim.wait(200)
  return dap.session().current_frame
end

--- The answer to a request of the session.
local function answer(dap, command, arguments)
  local found
  dap.session():request(command, arguments, function(failure, body)
    found = failure and { failure = failure.message } or body
  end)
  return T.wait("an answer to " .. command, function() return found end)
end

local function say(dap, text)
  local frame = dap.session().current_frame.id
  local found = answer(dap, "evaluate", { expression = text, context = "repl", frameId = frame })
  return found.failure or found.result
end

local function locals(dap)
  local scopes = answer(dap, "scopes", { frameId = dap.session().current_frame.id }).scopes
  local rows = answer(dap, "variables", { variablesReference = scopes[1].variablesReference }).variables
  local values = {}
  for _, row in ipairs(rows) do
    values[row.name] = row.value
  end
  return values
end

local function session(dap)
  local bug = T.facts.bug_line + 1
  T.equal(stop(dap, "the stop at the finding", function() vim.cmd("Gpuemu debug") end).line, bug)
  T.equal(dap.session().adapter.type, "pipe")
  assert(locals(dap).cols, vim.inspect(locals(dap)))
  local moments = { tonumber(say(dap, "time")) }
  for _ = 1, 10 do
    stop(dap, "a step back", dap.step_back)
    local time = tonumber(say(dap, "time"))
    assert(time < moments[#moments], vim.inspect(moments))
    table.insert(moments, time)
  end
  stop(dap, "a step", dap.step_over)
  T.equal(tonumber(say(dap, "time")), moments[10])

  stop(dap, "the finding again", dap.continue)
  vim.api.nvim_win_set_cursor(0, { bug - 1, 0 })
  dap.set_breakpoint("j == 1")
  T.equal(stop(dap, "the breakpoint", dap.reverse_continue).line, bug - 1)
  T.equal(locals(dap).j, "1")
  dap.clear_breakpoints()

  stop(dap, "the finding again", dap.continue)
  T.contains(say(dap, "watch sum"), "continue or reverse")
  T.equal(stop(dap, "the write of the variable", dap.reverse_continue).line, bug - 1)
  T.contains(say(dap, "lanes threadIdx.x"), "0..31 step 1")
  T.contains(say(dap, "who y[0]"), "y[0")
  stop(dap, "another thread", function() vim.cmd("Gpuemu thread 1") end)
  T.equal(say(dap, "threadIdx.x"), "1")
  dap.terminate()
  T.wait("the end", function() return not dap.session() end)

  T.equal(stop(dap, "the begin of a recorded launch", function() vim.cmd("Gpuemu launches!") end).line, 6)
  T.equal(say(dap, "n"), tostring(T.facts.recorded))
  dap.terminate()
  T.wait("the end", function() return not dap.session() end)
end

T.run(function()
  local bufnr = T.open("ops/row_softmax_buggy.cu")
  local client = T.idle()
  T.wait("a finding", function() return #T.problems(bufnr) > 0 end)
  local action = assert(has_action(client, bufnr), "the code action is missing")
  vim.api.nvim_win_set_cursor(0, { T.facts.bug_line + 1, 0 })
  vim.cmd("Gpuemu debug")
  T.wait("the hint", function() return vim.inspect(T.notes):find("nvim-dap", 1, true) end)
  T.notes = {}
  if type(T.facts.nvim_dap) == "string" then
    vim.opt.runtimepath:append(T.facts.nvim_dap)
  else
    package.loaded.dap = dofile(vim.fs.joinpath(vim.fs.dirname(vim.env.GPUEMU_TEST_HARNESS), "dap_client.lua"))
  end
  local dap = require("dap")
  vim.cmd("Gpuemu thread 3")
  T.wait("no session", function() return vim.inspect(T.notes):find("no debug session", 1, true) end)
  session(dap)
  client:exec_cmd(action.command, { bufnr = bufnr })
  T.wait("the session of the code action", function() return dap.session() and dap.session().current_frame end)
  T.equal(dap.session().current_frame.line, T.facts.bug_line + 1)
  dap.terminate()
  T.wait("the end", function() return not dap.session() end)
end)
