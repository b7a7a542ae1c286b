-- One server per project, and one for files without a project.
local T = dofile(vim.env.GPUEMU_TEST_HARNESS)

T.run(function()
  T.open("ops/gelu.cu")
  local ours = T.client()
  T.equal(vim.fs.normalize(ours.root_dir), vim.fs.normalize(T.project))
  for _, name in ipairs({ "gpuemu.toml", "reference/rows.py" }) do
    T.open(name)
    T.equal(T.client().id, ours.id)
    T.equal(vim.fn.exists(":Gpuemu"), 2)
  end
  local elsewhere = vim.fs.joinpath(vim.fs.dirname(T.project), "single.cu")
  vim.fn.writefile(vim.fn.readfile(vim.fs.joinpath(T.project, "ops/gelu.cu")), elsewhere)
  vim.cmd.edit(elsewhere)
  local other = T.client()
  assert(other.id ~= ours.id, "a file outside of the project has the project's server")
  T.equal(other.root_dir, nil)
end)
