"""Source lines of MLIR's operations: aliases, names, inlined calls, regions."""

from __future__ import annotations

from gpuemu_lsp.engine.subjects.triton.mlir_lines import mlir_lines, mlir_source_of

PATH = '/home/me/a model/\\u\u00fc".py'
WRITTEN = "/home/me/a model/\\\\u\\C3\\BC\\22.py"
TEXT = f"""\
#blocked = #ttg.blocked<{{sizePerThread = [1]}}>
#loc = loc("{WRITTEN}":9:1)
#loc1 = loc(unknown)
#loc8 = loc("{WRITTEN}":13:13)
module attributes {{"ttg.num-warps" = 4 : i32}} {{
  tt.func public @k(%x: !tt.ptr<f32> loc("x"(#loc)), %n: i32 loc("n"(#loc))) attributes {{noinline = false}} {{
    %c1 = arith.constant 1 : i32 loc(#loc1)
    %i = tt.get_program_id x : i32 loc(#loc18)
    %a:2 = scf.if %p -> (tensor<64xf32>, i32) {{
      %s = "tt.reduce"(%i) <{{axis = 0 : i32}}> ({{
      ^bb0(%l: f32 loc(callsite(#loc1 at #loc8)), %r: f32 loc(callsite(#loc1 at #loc8))):
        tt.reduce.return %l : f32 loc(callsite(#loc9 at #loc24))
      }}) : (tensor<64xf32>) -> f32 loc(callsite(#loc9 at #loc24))
      scf.yield %s, %i : f32, i32 loc("{WRITTEN}":20:3 to 21:4)
    }} else {{
      scf.yield %z, %i : f32, i32 loc(fused[#loc1, "{WRITTEN}":22:3])
    }} loc(#loc23)
    tt.return loc(#loc)
  }} loc(#loc)
}} loc(#loc)
#loc9 = loc("/lib/triton/language/standard.py":314:12)
#loc18 = loc("i"("{WRITTEN}":10:9))
#loc23 = loc("a"("{WRITTEN}":19:9))
#loc24 = loc("a"(#loc8))
"""


def shown() -> dict[str, int]:
    """Return the source line of each mapped line, 1-based, by its beginning."""
    lines = TEXT.split("\n")
    return {
        f"{number} {lines[number].split()[0]}": line + 1
        for line, first, last in mlir_lines(TEXT, PATH)
        for number in range(first, last + 1)
    }


def test_an_operation_is_on_the_line_of_its_location():
    assert shown() == {
        "4 module": 9,
        "5 tt.func": 9,
        "7 %i": 10,
        "8 %a:2": 19,
        "9 %s": 13,
        "10 ^bb0(%l:": 13,
        "11 tt.reduce.return": 13,
        "12 })": 13,
        "13 scf.yield": 20,
        "14 }": 19,
        "15 scf.yield": 22,
        "16 }": 19,
        "17 tt.return": 9,
        "18 }": 9,
        "19 }": 9,
    }


def test_an_operation_leads_to_the_innermost_function():
    assert mlir_source_of(TEXT, 7) == (PATH, 9)
    assert mlir_source_of(TEXT, 12) == ("/lib/triton/language/standard.py", 313)
    assert mlir_source_of(TEXT, 6) is None and mlir_source_of(TEXT, 0) is None


def test_text_without_locations_and_circular_ones_have_no_lines():
    assert mlir_lines("module {\n}\n}}\n", PATH) == []
    assert mlir_lines("#loc1 = loc(#loc1)\nx loc(#loc1)\n", PATH) == []
