-- No server on PATH: the file opens, the command reports it, and :checkhealth explains how to install it.
local T = dofile(vim.env.GPUEMU_TEST_HARNESS)

T.run(function()
  vim.lsp.config("gpuemu_lsp", { cmd = { "gpuemu-lsp-is-not-installed", "--stdio" } })
  T.open("ops/gelu.cu")
  vim.wait(100)
  vim.cmd("Gpuemu check")
  T.contains(vim.inspect(T.notes), "no server is attached here")
  vim.cmd("checkhealth gpuemu")
  local report = table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), "\n")
  T.contains(report, "`gpuemu-lsp-is-not-installed` is not executable")
  T.contains(report, "pip install gpuemu-lsp")
end)
