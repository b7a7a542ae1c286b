-- :checkhealth gpuemu, with a server attached.
local T = dofile(vim.env.GPUEMU_TEST_HARNESS)

T.run(function()
  local bufnr = T.open("ops/gelu.cu")
  T.idle()
  local status = require("gpuemu.status")
  T.wait("the server's status", function()
    local known = status.of(T.client(bufnr).id)
    return known and known.quiescent and next(known.versions)
  end)
  T.equal(vim.api.nvim_eval_statusline("%{v:lua.require'gpuemu.status'.line()}", {}).str, "gpuemu")
  vim.cmd("checkhealth gpuemu")
  local report = table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), "\n")
  for _, part in ipairs({ "The server is enabled", "gpuemu-lsp " .. T.facts.version, "Attached to 1 buffer(s), root " .. T.project, "Server status: ok", "NVRTC: 12" }) do
    T.contains(report, part)
  end
  assert(not report:find("ERROR"), report)
end)
