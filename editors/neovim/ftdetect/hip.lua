-- HIP is CUDA to Neovim's highlighting and to the server's configuration.
vim.filetype.add({ extension = { hip = "cuda" } })
