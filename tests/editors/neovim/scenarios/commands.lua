-- :Gpuemu: completion, errors, and the requests of its subcommands.
local T = dofile(vim.env.GPUEMU_TEST_HARNESS)

local function complete(line)
  return vim.fn.getcompletion(line, "cmdline")
end

T.run(function()
  local bufnr = T.open("ops/row_softmax_buggy.cu")
  local client = T.idle()
  T.equal(complete("Gpuemu c"), { "cancel", "check" })
  T.wait("the kernels", function() return #require("gpuemu.tests").kernels(bufnr) > 0 end)
  T.equal(complete("Gpuemu check "), { "row_softmax_buggy" })
  T.equal(complete("Gpuemu failures "), {})

  for command, refusal in pairs({
    ["Gpuemu launch"] = "'launch' is not one of block, cancel, check",
    ["Gpuemu cancel now"] = "'cancel' takes no argument",
    ["Gpuemu check a b"] = "'check' takes one argument",
    ["Gpuemu failure 1"] = "no failing case 1",
  }) do
    T.notes = {}
    vim.cmd(command)
    T.wait(refusal, function() return vim.inspect(T.notes):find(refusal, 1, true) end)
  end

  local seen = {}
  local request = client.request
  client.request = function(self, method, params, ...)
    if method == "workspace/executeCommand" then table.insert(seen, params.command) end
    return request(self, method, params, ...)
  end
  T.notes = {}
  for _, command in ipairs({ "check", "check row_softmax_buggy", "fuzz", "cancel" }) do
    vim.cmd("Gpuemu " .. command)
  end
  vim.cmd("Gpuemu! check")
  T.idle()
  T.equal(seen, { "gpuemu.check", "gpuemu.check", "gpuemu.fuzz", "gpuemu.cancel", "gpuemu.checkAll" })
  T.equal(T.notes, {})
  T.wait("all kernels of the project to be checked", function()
    return #vim.tbl_filter(function(found) return found.code == "memory/uninitialized-read" end, vim.diagnostic.get()) > 0
  end)

  vim.cmd("Gpuemu info")
  T.wait("the server's information", function() return vim.bo.filetype == "markdown" end)
  T.contains(table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), "\n"), T.facts.version)
end)
