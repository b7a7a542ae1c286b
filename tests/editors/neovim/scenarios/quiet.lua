-- Lazy loading: no module, autocommand, command or client exists before a CUDA file is opened.
local T = dofile(vim.env.GPUEMU_TEST_HARNESS)

local function traces()
  local found = {}
  for name in pairs(package.loaded) do
    if vim.startswith(name, "gpuemu") then table.insert(found, "module " .. name) end
  end
  for _, autocmd in ipairs(vim.api.nvim_get_autocmds({})) do
    if (autocmd.group_name or ""):find("gpuemu") then table.insert(found, "autocmd " .. autocmd.group_name) end
  end
  for name in pairs(vim.api.nvim_get_namespaces()) do
    if name:find("gpuemu") then table.insert(found, "namespace " .. name) end
  end
  for name in pairs(_G) do
    if tostring(name):lower():find("gpuemu") then table.insert(found, "global " .. name) end
  end
  if vim.fn.exists(":Gpuemu") ~= 0 then table.insert(found, "command") end
  if #vim.lsp.get_clients() ~= 0 then table.insert(found, "client") end
  return found
end

T.run(function()
  T.equal(traces(), {})
  local elsewhere = vim.fs.dirname(T.project)
  for _, name in ipairs({ "notes.txt", "script.py", "pyproject.toml", "tool.cpp" }) do
    vim.fn.writefile({ "" }, vim.fs.joinpath(elsewhere, name))
    vim.cmd.edit(vim.fn.fnameescape(vim.fs.joinpath(elsewhere, name)))
    vim.wait(50)
    T.equal(traces(), {})
  end
  T.open("ops/gelu.cu")
  T.equal(vim.fn.exists(":Gpuemu"), 2)
  T.client()
  vim.cmd.edit(vim.fs.joinpath(elsewhere, "notes.txt"))
  T.equal(vim.fn.exists(":Gpuemu"), 0)
end)
