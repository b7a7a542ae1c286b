-- What a user's init.lua says, and no more.
vim.opt.runtimepath:prepend(vim.env.GPUEMU_TEST_PLUGIN)
vim.lsp.enable("gpuemu_lsp")
