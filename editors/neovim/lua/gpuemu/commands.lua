--- :Gpuemu and its subcommands.

local client_of = require("gpuemu.client")
local failures = require("gpuemu.failures")
local tests = require("gpuemu.tests")
local M = {}

---@class gpuemu.Call
---@field client vim.lsp.Client
---@field bufnr integer
---@field argument string?
---@field bang boolean

--- Select a kernel: the one named, the one at the cursor, or the user's choice.
---@param call gpuemu.Call
---@param reply fun(kernel: string)
local function select_kernel(call, reply)
  local at = tests.kernel_at(call.bufnr, vim.api.nvim_win_get_cursor(0)[1] - 1)
  local kernels = tests.kernels(call.bufnr)
  if call.argument or at then
    reply(call.argument or at.label)
  elseif #kernels == 0 then
    client_of.notify("this file has no kernel")
  else
    local names = vim.tbl_map(function(kernel) return kernel.label end, kernels)
    vim.ui.select(names, { prompt = "Kernel" }, function(choice)
      if choice then
        reply(choice)
      end
    end)
  end
end

---@param command string
---@return fun(call: gpuemu.Call)
local function on_file(command)
  return function(call)
    client_of.execute(call.client, command, { vim.uri_from_bufnr(call.bufnr), call.argument })
  end
end

---@param command string
---@return fun(call: gpuemu.Call)
local function on_failure(command)
  return function(call)
    failures.select(call.client, call.bufnr, call.argument, function(failure)
      client_of.execute(call.client, command, { failure.uri, failure.id, failure.kernel, failure.dtype })
    end)
  end
end

---@param form "ptx"|"sass"|"ttir"|"ttgir"
---@return fun(call: gpuemu.Call)
local function show(form)
  return function(call)
    select_kernel(call, function(kernel)
      require("gpuemu.artifact").open(call.bufnr, form, kernel, call.client.id)
    end)
  end
end

---@param what "thread"|"block"
---@return fun(call: gpuemu.Call)
local function focus(what)
  return function(call)
    require("gpuemu.debugger").focus(what, call.argument or "")
  end
end

---@type table<string, { run: fun(call: gpuemu.Call), takes: "kernel"|"failure"|"index"|nil }>
local SUBCOMMANDS = {
  check = {
    takes = "kernel",
    run = function(call)
      if call.bang then
        client_of.execute(call.client, "gpuemu.checkAll", {})
      else
        on_file("gpuemu.check")(call)
      end
    end,
  },
  fuzz = { takes = "kernel", run = on_file("gpuemu.fuzz") },
  minimize = { takes = "failure", run = on_failure("gpuemu.minimize") },
  reproduce = { takes = "failure", run = on_failure("gpuemu.reproduce") },
  debug = {
    takes = "failure",
    run = function(call)
      failures.select(call.client, call.bufnr, call.argument, function(failure)
        require("gpuemu.debugger").start(call.client, { failure.uri, failure.id, failure.kernel, failure.dtype })
      end)
    end,
  },
  thread = { takes = "index", run = focus("thread") },
  block = { takes = "index", run = focus("block") },
  ptx = { takes = "kernel", run = show("ptx") },
  sass = { takes = "kernel", run = show("sass") },
  ttir = { takes = "kernel", run = show("ttir") },
  ttgir = { takes = "kernel", run = show("ttgir") },
  run = { run = on_file("gpuemu.run") },
  judge = { run = on_file("gpuemu.judge") },
  launches = {
    run = function(call)
      local launches = require("gpuemu.launches")
      if call.bang then
        launches.debug(call.client)
      else
        launches.quickfix(call.client)
      end
    end,
  },
  failures = {
    run = function(call)
      failures.quickfix(call.client)
    end,
  },
  failure = {
    takes = "failure",
    run = function(call)
      failures.select(call.client, call.bufnr, call.argument, function(failure)
        failures.show(call.client, failure)
      end)
    end,
  },
  pause = {
    run = function(call)
      client_of.execute(call.client, "gpuemu.pause", {})
    end,
  },
  resume = {
    run = function(call)
      client_of.execute(call.client, "gpuemu.resume", {})
    end,
  },
  register = {
    takes = "kernel",
    run = function(call)
      select_kernel(call, function(kernel)
        client_of.execute(call.client, "gpuemu.register", { vim.uri_from_bufnr(call.bufnr), kernel })
      end)
    end,
  },
  cancel = {
    run = function(call)
      client_of.execute(call.client, "gpuemu.cancel", {})
    end,
  },
  info = {
    run = function(call)
      client_of.execute(call.client, "gpuemu.debugInfo", {}, function(text)
        vim.cmd("botright new")
        local bufnr = vim.api.nvim_get_current_buf()
        vim.bo[bufnr].buftype, vim.bo[bufnr].bufhidden = "nofile", "wipe"
        vim.api.nvim_buf_set_lines(bufnr, 0, -1, false, vim.split(text, "\n"))
        vim.bo[bufnr].modifiable, vim.bo[bufnr].filetype = false, "markdown"
      end)
    end,
  },
}

local function starting_with(words, beginning)
  local found = vim.tbl_filter(function(word)
    return vim.startswith(word, beginning)
  end, words)
  table.sort(found)
  return found
end

--- Complete `:Gpuemu`: a subcommand, then a kernel of the file if the subcommand takes one.
---@param beginning string
---@param line string
---@return string[]
function M.complete(beginning, line)
  local words = vim.split(line:gsub("^.*Gpuemu!?%s+", ""), "%s+")
  if #words <= 1 then
    return starting_with(vim.tbl_keys(SUBCOMMANDS), beginning)
  end
  local subcommand = SUBCOMMANDS[words[1]]
  if #words == 2 and subcommand and subcommand.takes == "kernel" then
    return starting_with(
      vim.tbl_map(function(kernel) return kernel.label end, tests.kernels(vim.api.nvim_get_current_buf())),
      beginning
    )
  end
  return {}
end

local function run(options)
  local word, argument, rest = unpack(options.fargs)
  -- `:Gpuemu! launches` and `:Gpuemu launches!` are the same.
  local name = word:gsub("!$", "")
  local subcommand = SUBCOMMANDS[name]
  if not subcommand then
    local known = table.concat(starting_with(vim.tbl_keys(SUBCOMMANDS), ""), ", ")
    client_of.notify(("'%s' is not one of %s"):format(name, known), vim.log.levels.ERROR)
  elseif rest or (argument and not subcommand.takes) then
    client_of.notify(("'%s' takes %s"):format(name, subcommand.takes and "one argument" or "no argument"), vim.log.levels.ERROR)
  else
    local client = client_of.require_client(0)
    if client then
      subcommand.run({
        client = client,
        bufnr = vim.api.nvim_get_current_buf(),
        argument = argument,
        bang = options.bang or name ~= word,
      })
    end
  end
end

--- Define :Gpuemu in a buffer.
---@param bufnr integer
function M.define(bufnr)
  vim.api.nvim_buf_create_user_command(bufnr, "Gpuemu", run, {
    nargs = "+",
    bang = true,
    complete = M.complete,
    desc = "Check CUDA kernels; see :help gpuemu-commands",
  })
end

return M
