--- :checkhealth gpuemu

local M = {}

local function server(health, command)
  local executable = type(command) == "table" and command[1] or nil
  if not executable then
    health.info("`cmd` is a function: the executable cannot be checked.")
  elseif vim.fn.executable(executable) == 0 then
    health.error(("`%s` is not executable"):format(executable), {
      "Install it (`pip install gpuemu-lsp`, best in the project's virtual environment) and start Neovim where it is on PATH,",
      'or name it: vim.lsp.config("gpuemu_lsp", { cmd = { "/path/to/gpuemu-lsp", "--stdio" } })',
    })
  else
    -- The command without --stdio, which may be an interpreter with -m.
    local query = vim.tbl_filter(function(word) return word ~= "--stdio" end, command)
    local started, done = pcall(function()
      return vim.system(vim.list_extend(query, { "--version" }), { text = true, timeout = 20000 }):wait()
    end)
    if started and done.code == 0 then
      health.ok(("%s: `%s`"):format(vim.trim(done.stdout), vim.fn.exepath(executable)))
    else
      local output = started and vim.trim(done.stderr or "") or tostring(done)
      health.error(("`%s --version` failed"):format(table.concat(command, " ")), vim.split(output, "\n"))
    end
  end
end

local function attached(health)
  local clients = vim.lsp.get_clients({ name = require("gpuemu.client").NAME })
  if #clients == 0 then
    health.info("No server is running. It starts when a .cu file, or a file of a project with a gpuemu.toml, is opened.")
  end
  for _, client in ipairs(clients) do
    local buffers = #vim.tbl_keys(client.attached_buffers)
    health.ok(("Attached to %d buffer(s), root %s"):format(buffers, client.root_dir or "none (single files)"))
    local status = require("gpuemu.status").of(client.id)
    if not status then
      health.warn("The server has not sent its status yet.")
    else
      local message = status.message ~= vim.NIL and status.message or nil
      local report = status.health == "ok" and health.ok or status.health == "warning" and health.warn or health.error
      report(("Server status: %s%s"):format(status.health, message and ", " .. message or ""))
      for name, version in vim.spairs(status.versions or {}) do
        health.info(("%s: %s"):format(name, version))
      end
    end
    if client.root_dir and not vim.uv.fs_stat(vim.fs.joinpath(client.root_dir, "gpuemu.toml")) then
      health.warn("There is no gpuemu.toml in the root: kernels are not compared with a reference.")
    end
  end
end

function M.check()
  local health = vim.health
  health.start("gpuemu")
  if vim.fn.has("nvim-0.11") == 0 then
    health.error("Neovim 0.11 or later is needed, for vim.lsp.config and vim.lsp.enable")
    return
  end
  local version = vim.version()
  health.ok(("Neovim %d.%d.%d"):format(version.major, version.minor, version.patch))
  local name = require("gpuemu.client").NAME
  if vim.lsp.is_enabled(name) then
    health.ok("The server is enabled")
  else
    health.error("The server is not enabled", { ('Add vim.lsp.enable("%s") to init.lua'):format(name) })
  end
  local config = vim.lsp.config[name]
  if not config then
    health.error("lsp/gpuemu_lsp.lua is not on the runtimepath")
    return
  end
  server(health, config.cmd)
  if pcall(require, "dap") then
    health.ok("nvim-dap is installed: `:Gpuemu debug` starts debug sessions")
  else
    health.info("nvim-dap is not installed: it is needed for debug sessions only")
  end
  attached(health)
end

return M
