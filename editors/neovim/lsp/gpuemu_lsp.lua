--- The language server of gpuemu. Switch it on with `vim.lsp.enable("gpuemu_lsp")`; see `:help gpuemu`.
---
--- CUDA files are checked anywhere. Other files belong to a kernel only in a folder with a gpuemu.toml: the configuration itself,
--- references in Python, and headers.

---@param bufnr integer
---@param on_dir fun(root: string?)
local function root_dir(bufnr, on_dir)
  local root = vim.fs.root(bufnr, "gpuemu.toml")
  local filetype = vim.bo[bufnr].filetype
  local is_config = vim.fs.basename(vim.api.nvim_buf_get_name(bufnr)) == "gpuemu.toml"
  if filetype == "cuda" or (root and (filetype ~= "toml" or is_config)) then
    on_dir(root)
  end
end

---@type vim.lsp.Config
return {
  cmd = { "gpuemu-lsp", "--stdio" },
  filetypes = { "cuda", "toml", "python", "c", "cpp" },
  root_dir = root_dir,
  -- The rest of the plugin hangs on the client. on_attach is left to the user's own configuration.
  on_init = function(client)
    require("gpuemu.client").begun(client)
  end,
  on_exit = function(_, _, client_id)
    vim.schedule(function()
      require("gpuemu.client").ended(client_id)
    end)
  end,
  handlers = {
    ["gpuemu/serverStatus"] = function(_, status, context)
      require("gpuemu.status").received(context.client_id, status)
    end,
    ["gpuemu/failuresChanged"] = function(_, _, context)
      require("gpuemu.failures").changed(context.client_id)
    end,
    ["gpuemu/testsChanged"] = function(_, change, context)
      require("gpuemu.tests").changed(context.client_id, change)
    end,
    ["gpuemu/testState"] = function(_, state, context)
      require("gpuemu.tests").state(context.client_id, state)
    end,
    -- What a panel of tests would show; the verdict itself comes as diagnostics and signs.
    ["gpuemu/testOutput"] = function() end,
    ["gpuemu/testsEnded"] = function() end,
  },
  commands = {
    ["gpuemu.showArtifact"] = function(command, context)
      local uri, kernel, form = unpack(command.arguments)
      require("gpuemu.artifact").open(vim.uri_to_bufnr(uri), form, kernel, context.client_id)
    end,
  },
}
