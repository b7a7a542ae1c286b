-- A failing case as text: NaN, aligned columns, and a map on which a single wrong element remains visible.
local T = dofile(vim.env.GPUEMU_TEST_HARNESS)

local function picture(rows, cols, wrong)
  local shares = {}
  for row = 1, rows do
    shares[row] = {}
    for column = 1, cols do shares[row][column] = 0 end
  end
  for _, cell in ipairs(wrong) do shares[cell[1]][cell[2]] = cell[3] end
  return { buffer = "y", shape = { rows, cols }, rows = rows, cols = cols, wrong = shares }
end

T.run(function()
  local heatmap = require("gpuemu.heatmap")
  T.equal(heatmap.render(picture(2, 3, { { 1, 2, 1 }, { 2, 3, 0.1 } })), { "y[2, 3], wrong elements (· none, █ all):", "·█·", "··░" })
  local large = heatmap.render(picture(128, 128, { { 128, 128, 0.5 } }))
  T.equal(#large, 1 + heatmap.ROWS)
  T.equal(vim.fn.strchars(large[2]), heatmap.COLUMNS)
  T.equal(vim.fn.strcharpart(large[#large], heatmap.COLUMNS - 1), "░")
  T.equal(vim.fn.strcharpart(large[#large], 0, 1), "·")

  local lines = require("gpuemu.failure_view").render({
    id = "12345678901234567890",
    kernel = "k",
    dtype = vim.NIL,
    dims = { n = 3 },
    rule = "numeric/nan",
    message = "y[1] = NaN",
    facts = { { "strategy", "ties" } },
    elements = { { buffer = "y", index = { 1 }, expected = 0.25, actual = "NaN", difference = "NaN", allowed = vim.NIL } },
    picture = vim.NIL,
    minimized = vim.NIL,
    commands = { reproduce = "gpuemu reproduce 12345678901234567890" },
  })
  T.equal(lines, {
    "k  n = 3  case 12345678901234567890",
    "numeric/nan: y[1] = NaN",
    "",
    "element  expected  actual  difference  allowed",
    "y[1]         0.25     NaN         NaN        -",
    "",
    "strategy: ties",
    "",
    "gpuemu reproduce 12345678901234567890",
  })
end)
