-- :Gpuemu debug and its code action. A session needs nvim-dap, which no registry has: with $GPUEMU_NVIM_DAP, the path
-- of a checkout, a whole session runs; else the hint and the configuration are compared.
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

local function session(dap)
  local stops = 0
  dap.listeners.after.event_stopped.gpuemu_test = function() stops = stops + 1 end
  local function after(what, action)
    local before = stops
    action()
    T.wait(what, function()
      return stops > before and dap.session() and dap.session().current_frame
    end)
    vim.wait(200)
  end
  local function line() return dap.session().current_frame.line end
  after("the stop at the finding", function() vim.cmd("Gpuemu debug") end)
  T.equal(line(), T.facts.bug_line + 1)
  local lines = {}
  for _ = 1, 3 do
    after("a step back", dap.step_back)
    table.insert(lines, line())
  end
  assert(lines[1] ~= T.facts.bug_line + 1, vim.inspect(lines))
  after("a step", dap.step_over)
  T.equal(line(), lines[2])
  local answer
  local frame = dap.session().current_frame.id
  dap.session():request("evaluate", { expression = "who y[0]", context = "repl", frameId = frame }, function(failure, body)
    answer = failure and failure.message or body.result
  end)
  T.wait("an answer", function() return answer end)
  T.contains(answer, "y[0")
  after("another thread", function() vim.cmd("Gpuemu thread 1") end)
  dap.set_breakpoint("threadIdx.x == 0")
  after("reverse continue", dap.reverse_continue)
  dap.terminate()
  T.wait("the end", function() return not dap.session() end)
end

T.run(function()
  local bufnr = T.open("ops/row_softmax_buggy.cu")
  local client = T.idle()
  T.wait("a finding", function() return #T.problems(bufnr) > 0 end)
  local action = assert(has_action(client, bufnr), "the code action is missing")
  vim.api.nvim_win_set_cursor(0, { T.facts.bug_line + 1, 0 })
  if vim.env.GPUEMU_NVIM_DAP then
    vim.opt.runtimepath:append(vim.env.GPUEMU_NVIM_DAP)
    session(require("dap"))
    return
  end
  vim.cmd("Gpuemu debug")
  T.wait("the hint", function() return vim.inspect(T.notes):find("nvim-dap", 1, true) end)
  local given
  package.loaded.dap = { adapters = {}, run = function(configuration) given = configuration end }
  client:exec_cmd(action.command, { bufnr = bufnr })
  T.wait("the configuration", function() return given end)
  T.equal({ given.type, given.request, given.kernel }, { "gpuemu", "launch", "row_softmax_buggy" })
  local adapter = package.loaded.dap.adapters.gpuemu
  T.equal(adapter.args[#adapter.args], "--debug-adapter")
  assert(vim.fn.executable(adapter.command) == 1, adapter.command)
  T.notes = {}
  package.loaded.dap.session = function() end
  vim.cmd("Gpuemu thread 3")
  T.wait("no session", function() return vim.inspect(T.notes):find("no debug session", 1, true) end)
end)
