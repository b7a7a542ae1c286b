-- Every subcommand and setting has a tag in the help.
local T = dofile(vim.env.GPUEMU_TEST_HARNESS)

T.run(function()
  local doc = vim.fs.joinpath(vim.fs.dirname(T.project), "help", "doc")
  vim.fn.mkdir(doc, "p")
  vim.fn.writefile(vim.fn.readfile(vim.fs.joinpath(vim.env.GPUEMU_TEST_PLUGIN, "doc/gpuemu.txt")), vim.fs.joinpath(doc, "gpuemu.txt"))
  vim.cmd.helptags(doc) -- fails for a duplicate tag
  vim.opt.runtimepath:prepend(vim.fs.dirname(doc))
  T.open("ops/gelu.cu")
  local tags = { "gpuemu", "gpuemu-install", "gpuemu-settings", "gpuemu-health", "g:gpuemu_signs", "gpuemu.status.line()" }
  for _, name in ipairs(require("gpuemu.commands").complete("", "Gpuemu ")) do
    table.insert(tags, ":Gpuemu-" .. name)
  end
  for _, tag in ipairs(tags) do
    vim.cmd.help(tag)
    T.contains(vim.api.nvim_get_current_line(), "*" .. tag .. "*")
  end
end)
