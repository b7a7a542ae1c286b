--- Configuration of the gpuemu language server. Enable it with `vim.lsp.enable("gpuemu_lsp")`; see `:help gpuemu`.
---
--- The server attaches to CUDA files, and to C++ and Python files with kernels, anywhere, and to other files (configuration, Python
--- references, headers) only below a folder with a gpuemu.toml.

-- The calls that compile CUDA code from a string (engine/source/python in the server), and Triton kernels.
local CUDA_STRING = [[\v\C<(RawKernel|RawModule|load_inline|SourceModule)>]]
local KERNEL = [[\v\C<__global__>]]
local TRITON = [[\v\C^\s*(import|from)\s+triton>]]
local TRITON_KERNEL = [[\v\C\@\s*(triton\s*\.\s*)?jit>]]

---@param bufnr integer
local function has_kernels(bufnr)
  local filetype = vim.bo[bufnr].filetype
  return vim.api.nvim_buf_call(bufnr, function()
    local function has(pattern)
      return vim.fn.search(pattern, "nw") ~= 0
    end
    if filetype ~= "python" then
      return has(KERNEL)
    end
    return has(CUDA_STRING) or (has(TRITON) and has(TRITON_KERNEL))
  end)
end

---@param bufnr integer
---@param on_dir fun(root: string?)
local function root_dir(bufnr, on_dir)
  local root = vim.fs.root(bufnr, "gpuemu.toml")
  local filetype = vim.bo[bufnr].filetype
  local is_config = vim.fs.basename(vim.api.nvim_buf_get_name(bufnr)) == "gpuemu.toml"
  if filetype == "cuda" or filetype == "ptx" or (root and (filetype ~= "toml" or is_config)) then
    on_dir(root)
  elseif filetype ~= "toml" and has_kernels(bufnr) then
    on_dir(nil)
  elseif filetype == "python" then
    vim.api.nvim_create_autocmd("BufWritePost", {
      buffer = bufnr,
      desc = "Attach the gpuemu language server when the file has its first kernel",
      callback = function()
        local found = has_kernels(bufnr)
        if found then
          on_dir(nil)
        end
        return found
      end,
    })
  end
end

---@type vim.lsp.Config
return {
  cmd = { "gpuemu-lsp", "--stdio" },
  filetypes = { "cuda", "ptx", "toml", "python", "c", "cpp" },
  root_dir = root_dir,
  -- Code actions and lenses offer debug sessions.
  init_options = { debugger = true },
  -- on_attach is left to the user's configuration.
  on_init = function(client)
    require("gpuemu.client").on_init(client)
  end,
  on_exit = function(_, _, client_id)
    vim.schedule(function()
      require("gpuemu.client").on_exit(client_id)
    end)
  end,
  capabilities = { workspace = { codeLens = { refreshSupport = true } } },
  handlers = {
    ["workspace/codeLens/refresh"] = function(_, _, context)
      return require("gpuemu.lenses").on_refresh(context.client_id)
    end,
    ["gpuemu/serverStatus"] = function(_, status, context)
      require("gpuemu.status").update(context.client_id, status)
    end,
    ["gpuemu/failuresChanged"] = function(_, _, context)
      require("gpuemu.failures").on_changed(context.client_id)
    end,
    ["gpuemu/testsChanged"] = function(_, change, context)
      require("gpuemu.tests").update(context.client_id, change)
    end,
    ["gpuemu/testState"] = function(_, state, context)
      require("gpuemu.tests").set_state(context.client_id, state)
    end,
    -- For test panels of other clients; here diagnostics and signs show the result.
    ["gpuemu/testOutput"] = function() end,
    ["gpuemu/testsEnded"] = function() end,
    ["gpuemu/launchesChanged"] = function() end, -- the list is filled on request
  },
  commands = {
    ["gpuemu.debug"] = function(command, context)
      require("gpuemu.debugger").start(assert(vim.lsp.get_client_by_id(context.client_id)), command.arguments)
    end,
    ["gpuemu.showArtifact"] = function(command, context)
      local uri, kernel, form = unpack(command.arguments)
      require("gpuemu.artifact").open(vim.uri_to_bufnr(uri), form, kernel, context.client_id)
    end,
  },
}
