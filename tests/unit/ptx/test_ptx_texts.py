"""The parser on single statements and on output of compilers other than NVRTC."""

from __future__ import annotations

import pytest
from support.ptx_text import HEADER, body, loose_ends, only

from gpuemu_lsp.engine.ptx import parse
from gpuemu_lsp.engine.ptx.model import (
    Address,
    Guard,
    Immediate,
    Label,
    Negated,
    Operand,
    Pair,
    Register,
    Symbol,
    Vector,
)
from gpuemu_lsp.engine.ptx.traversal import instructions_of


def r(name: str) -> Register:
    return Register(f"%{name}")


def n(value: int) -> Immediate:
    return Immediate(value, "int")


@pytest.mark.parametrize(
    ("text", "name", "operands"),
    [
        ("add.s32 \t%r1, %r2, -4;", "add.s32", (r("r1"), r("r2"), n(-4))),
        ("mov.u32 %r1,0x8000U;", "mov.u32", (r("r1"), n(0x8000))),
        ("add .s32\n\t.sat %r1, %r2, -4;", "add.s32.sat", (r("r1"), r("r2"), n(-4))),
        ("mov.u32 %r1, 0b101;", "mov.u32", (r("r1"), n(5))),
        ("mov.u32 %r1, 017;", "mov.u32", (r("r1"), n(15))),
        ("mov.u64 %rd1, 18446744073709551615;", "mov.u64", (r("rd1"), n(2**64 - 1))),
        ("mov.u32 %r1, WARP_SZ;", "mov.u32", (r("r1"), n(32))),
        ("mov.f32 %f1, 0f3F800000;", "mov.f32", (r("f1"), Immediate(0x3F800000, "f32"))),
        ("mov.f64 %rd1, 0dBFF0000000000000;", "mov.f64", (r("rd1"), Immediate(0xBFF0000000000000, "f64"))),
        ("mov.f32 %f1, 1.5;", "mov.f32", (r("f1"), Immediate(0x3FF8000000000000, "f64"))),
        ("mov.f32 %f1, -2e1;", "mov.f32", (r("f1"), Immediate(0xC034000000000000, "f64"))),
        ("mov.u32 %r1, %tid.x;", "mov.u32", (r("r1"), r("tid.x"))),
        ("mov.u64 %rd1, %clock64;", "mov.u64", (r("rd1"), r("clock64"))),
        ("ld.global.f32 %f1, [%rd1+-8];", "ld.global.f32", (r("f1"), Address(r("rd1"), -8))),
        ("ld.global.f32 %f1, [ %rd1 + 0 ];", "ld.global.f32", (r("f1"), Address(r("rd1"), 0))),
        ("ld.global.f32 %f1, [%rd1 - 0x10];", "ld.global.f32", (r("f1"), Address(r("rd1"), -16))),
        ("ld.param.b64 %rd1, [k_param_0+8];", "ld.param.b64", (r("rd1"), Address(Symbol("k_param_0"), 8))),
        ("ld.shared.u32 %r1, [16];", "ld.shared.u32", (r("r1"), Address(n(16)))),
        ("ld.global.L2::128B.v2.f32 {%f1,%f2},[%rd1];", "ld.global.L2::128B.v2.f32",
         (Vector((r("f1"), r("f2"))), Address(r("rd1")))),
        ("ld.global.v4.b32 { %r1, %r2, _, %r4 }, [ %rd1 + 16 ];", "ld.global.v4.b32",
         (Vector((r("r1"), r("r2"), Register("_"), r("r4"))), Address(r("rd1"), 16))),
        ("mov.b64{%r1,%r2},%rd3;", "mov.b64", (Vector((r("r1"), r("r2"))), r("rd3"))),
        ("mov.u64 %rd1, buffer+16;", "mov.u64", (r("rd1"), Symbol("buffer", 16))),
        ("mov.u64 %rd1, buffer;", "mov.u64", (r("rd1"), Symbol("buffer"))),
        ("setp.lt.and.f32 %p1|%p2, %f1, %f2, !%p3;", "setp.lt.and.f32",
         (Pair(r("p1"), r("p2")), r("f1"), r("f2"), Negated(r("p3")))),
        ("shfl.sync.bfly.b32 %r1|_, %r2, 1, 31, -1;", "shfl.sync.bfly.b32",
         (Pair(r("r1"), Register("_")), r("r2"), n(1), n(31), n(-1))),
        ("bar.sync 0;", "bar.sync", (n(0),)),
        ("ret;", "ret", ()),
        ("cp.async.cg.shared.global.L2::128B [%r1], [%rd1], 16, 0x10;", "cp.async.cg.shared.global.L2::128B",
         (Address(r("r1")), Address(r("rd1")), n(16), n(16))),
        ("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 128;", "mbarrier.arrive.expect_tx.shared::cta.b64",
         (Register("_"), Address(r("r1")), n(128))),
        ("tex.2d.v4.f32.f32 {%f1,%f2,%f3,%f4}, [%rd1, {%f5, %f6}];", "tex.2d.v4.f32.f32",
         (Vector((r("f1"), r("f2"), r("f3"), r("f4"))), Vector((r("rd1"), Vector((r("f5"), r("f6"))))))),
        ("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, %r3}], [%r4];",
         "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes",
         (Address(r("r1")), Vector((r("rd1"), Vector((r("r2"), r("r3"))))), Address(r("r4")))),
        ("call.uni (%r1), helper, (%r2, 3);", "call.uni",
         (Vector((r("r1"),)), Symbol("helper"), Vector((r("r2"), n(3))))),
        ("call helper;", "call", (Vector(()), Symbol("helper"), Vector(()))),
        ("call (%r1), %rd1, (%r2), proto;", "call",
         (Vector((r("r1"),)), r("rd1"), Vector((r("r2"),)), Symbol("proto"))),
    ],
)  # fmt: skip
def test_one_instruction(text: str, name: str, operands: tuple[Operand, ...]) -> None:
    instruction = only(text, ".global .b32 buffer[16];")
    assert (instruction.name, instruction.operands) == (name, operands)


@pytest.mark.parametrize(
    ("text", "guard"),
    [
        ("@%p1 bra L;\nL:", Guard(r("p1"), False)),
        ("@!%p1 bra L;\nL:", Guard(r("p1"), True)),
        ("@ !%p1\tbra L;\nL: ", Guard(r("p1"), True)),
        ("bra.uni L;\nL:", None),
    ],
)
def test_guards(text: str, guard: Guard | None) -> None:
    assert only(text).guard == guard


def test_several_statements_on_a_line_and_one_on_several() -> None:
    text = "{ .reg .b32 t; add.s32 t,%r1,1; mov.b32 %r2,t; } L: @%p1 bra L; add.s32\n %r3,\n %r4,\n 5;\nret;"
    lines = [(i.name, i.text_line - 7) for i in instructions_of(body(text))]
    assert lines == [("add.s32", 0), ("mov.b32", 0), ("bra", 0), ("add.s32", 0), ("ret", 4)]


def test_comments_are_skipped_and_counted_as_lines() -> None:
    text = "// bra X; {\n/* } ret;\n */ add.s32 %r1, /* , */ %r2, 3; // }\nret;"
    assert [(i.name, i.text_line - 7) for i in instructions_of(body(text))] == [("add.s32", 2), ("ret", 3)]


def test_vector_registers_are_their_elements() -> None:
    function = body(".reg .v2 .f32 pair; mov.v2.f32 pair, {%f1, %f2}; add.f32 %f3, pair.x, pair.y;")
    first, second = instructions_of(function)
    assert first.operands[0] == Vector((Register("pair.x"), Register("pair.y")))
    assert second.operands[1:] == (Register("pair.x"), Register("pair.y"))
    assert function.registers["pair.y"] == "f32"


def test_pragmas_do_not_swallow_labels() -> None:
    function = body('bra LOOP;\nLOOP:\n.pragma "nounroll"; \nret;')
    assert [item.name for item in function.body or ()] == ["bra", "LOOP", "ret"]


def test_branch_tables_and_prototypes_are_not_labels() -> None:
    function = body(
        "ts: .branchtargets A, B;\nA: brx.idx %r1, ts;\nB: ret;\nproto : .callprototype (.param .b32 _) _ (.param .b64 _, .param .align 8 .b8 _[16]);"
    )
    assert function.branch_targets == {"ts": ("A", "B")}
    returns, params = function.prototypes["proto"]
    assert ([v.size for v in returns], [v.size for v in params]) == ([4], [8, 16])
    assert [item.name for item in function.body or () if isinstance(item, Label)] == ["A", "B"]


def variable(text: str):
    (found,) = parse(HEADER + text).variables
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (".global .b32 x;", ("global", "b32", 4, 0, None)),
        (".visible .const .align 8 .b8 x[12] = {1, 2, 0xff};", ("const", "b8", 12, 8, b"\1\2\xff" + bytes(9))),
        (".global .f32 x = 1.5;", ("global", "f32", 4, 0, b"\0\0\xc0?")),
        (".global .f64 x = 0f3FC00000;", ("global", "f64", 8, 0, b"\0\0\0\0\0\0\xf8?")),
        (".global .f32 x[2] = {0f3F800000, 2};", ("global", "f32", 8, 0, b"\0\0\x80?\0\0\0@")),
        (".global .s16 x[2][2] = {{1}, {2, -1}};", ("global", "s16", 8, 0, b"\1\0\0\0\2\0\xff\xff")),
        (".global .s16 x[2][2] = {1, 2, 3, 4};", ("global", "s16", 8, 0, b"\1\0\2\0\3\0\4\0")),
        (".global .b8 x[] = {1, 2, 3};", ("global", "b8", 3, 0, b"\1\2\3")),
        (".global .v4 .b8 x[2] = {{1, 2, 3, 4}, {5}};", ("global", "b8", 8, 0, b"\1\2\3\4\5\0\0\0")),
        (".extern .shared .align 16 .b8 x[];", ("shared", "b8", 0, 16, None)),
        (".weak .global .align 4 .b8 x[8];", ("global", "b8", 8, 4, None)),
        (".global .attribute(.managed) .align 4 .u32 x;", ("global", "u32", 4, 4, None)),
        (".global .texref x;", ("global", "texref", 8, 0, None)),
        (".const[3] .b64 x;", ("const", "b64", 8, 0, None)),
        (".shared::cta .b128 x;", ("shared", "b128", 16, 0, None)),
    ],
)
def test_variables(text: str, expected: tuple[object, ...]) -> None:
    found = variable(text)
    assert (found.space, found.type, found.size, found.alignment, found.init) == expected
    assert found.managed == (".managed" in text)


@pytest.mark.parametrize(
    ("text", "relocations"),
    [
        (".global .u64 x = generic(y);", ((0, "y", 0),)),
        (".global .u64 x[3] = {0, generic(y)+4, f};", ((8, "y", 4), (16, "f", 0))),
        (".global .u64 x = y - 8;", ((0, "y", -8),)),
        (
            ".global .u8 x[9] = {7, 0xFF(y), 0xFF00(y), 0xFF0000(y), 0xFF000000(y), 0xFF00000000(y), 0xFF0000000000(y),"
            " 0xFF000000000000(y), 0xFF00000000000000(y)};",
            ((1, "y", 0),),
        ),
    ],
)
def test_addresses_in_variables(text: str, relocations: tuple[tuple[int, str, int], ...]) -> None:
    assert variable(text).relocations == relocations


def test_parameters_with_attributes() -> None:
    text = (
        ".entry k(.param .u64 .ptr .global .align 16 a, .param .u64 .ptr .align 1 b, .param .align 16 .b8 c[32],"
        " .param .v4 .f32 d)\n.reqntid 128, 1, 1\n.maxnreg 64\n{ ret; }"
    )
    function = parse(HEADER + text).functions["k"]
    assert [(p.name, p.size, p.alignment) for p in function.params] == [
        ("a", 8, 0),
        ("b", 8, 0),
        ("c", 32, 16),
        ("d", 16, 0),
    ]
    assert function.directives == {"reqntid": (128, 1, 1), "maxnreg": (64,)}


def test_register_parameters_of_device_functions() -> None:
    function = parse(HEADER + ".func (.reg .b32 out) f (.reg .b32 in, .reg .pred p) { ret; }").functions["f"]
    assert ([v.name for v in function.returns], [v.name for v in function.params]) == (["out"], ["in", "p"])


def test_declarations_aliases_and_attributes_of_functions() -> None:
    text = (
        ".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b)\n;\n.func f;\n.weak .func f() .noreturn { trap; }\n"
        ".visible .func g;\n.alias g, f;\n.func f;"
    )
    functions = parse(HEADER + text).functions
    assert functions["vprintf"].body is None
    assert functions["f"].body and "noreturn" in functions["f"].directives
    assert functions["g"] is functions["f"]


TRITON = r"""//
// Generated by LLVM NVPTX Back-End
//
.version 8.4
.target sm_90a
.address_size 64

	// .globl	add_kernel              // -- Begin function add_kernel
.extern .shared .align 16 .b8 global_smem[];
                                        // @add_kernel
.visible .entry add_kernel(
	.param .u64 .ptr .global .align 1 add_kernel_param_0,
	.param .u64 .ptr .global .align 1 add_kernel_param_1,
	.param .u32 add_kernel_param_2
)
.reqntid 128, 1, 1
{
	.reg .pred 	%p<3>;
	.reg .b32 	%r<12>;
	.reg .f32 	%f<5>;
	.reg .b64 	%rd<6>;
	.loc	1 12 0                          // add.py:12:0
$L__func_begin0:
	.loc	1 12 0                          // add.py:12:0

// %bb.0:
	ld.param.u64 	%rd3, [add_kernel_param_0];
	ld.param.u64 	%rd4, [add_kernel_param_1];
$L__tmp0:
	.loc	1 14 24                         // add.py:14:24
	// begin inline asm
	mov.u32 %r1, %ctaid.x;
	// end inline asm
	ld.param.u32 	%r6, [add_kernel_param_2];
	shl.b32 	%r7, %r1, 10;
	setp.lt.s32 	%p1, %r7, %r6;
	mul.wide.s32 	%rd5, %r7, 4;
	add.s64 	%rd1, %rd3, %rd5;
	add.s64 	%rd2, %rd4, %rd5;
	// begin inline asm
	mov.u32 %r2, 0x0;
	@%p1 ld.global.L1::evict_last.v4.b32 { %r2, %r3, %r4, %r5 }, [ %rd1 + 0 ];
	// end inline asm
$L__tmp1:
	.loc	2 243 36                        // standard.py:243:36 @[ add.py:20:5 ]
	.loc	2 267 36, function_name $L__info_string1, inlined_at 1 20 5 // standard.py:267:36 @[ add.py:20:5 ]
	mov.b32 	%f1, %r2;
	add.f32 	%f2, %f1, %f1;
	.loc	2 262 15, function_name .debug_str+7, inlined_at 2 267 36 // standard.py:262:15
	@%p1 st.global.b32 [ %rd2 + 0 ], { %r2 };
	bar.sync 	0;
$L__tmp2:
	.loc	1 30 4                          // add.py:30:4
	ret;
$L__tmp3:
$L__func_end0:
                                        // -- End function
}
	.file	1 "/tmp/add.py"
	.file	2 "/usr/lib/triton/language/standard.py"
	.section	.debug_abbrev
	{
.b8 1                                   // Abbreviation Code
.b8 17                                  // DW_TAG_compile_unit
.b8 0                                   // EOM(3)
	}
	.section	.debug_info
	{
.b32 109                                // Length of Unit
.b32 .debug_abbrev                      // Offset Into Abbrev. Section
.b64 $L__func_begin0                    // DW_AT_low_pc
	}
	.section	.debug_str
	{
$L__info_string0:
.b8 109,97,105,110,0
$L__info_string1:
.b8 114,101                             // re
.b8 100,117,99,101,0
	}
	.section	.debug_macinfo	{	}
"""


def test_triton() -> None:
    module = parse(TRITON)
    assert loose_ends(module) == set()
    kernel = module.functions["add_kernel"]
    names = [i.name for i in instructions_of(kernel)]
    assert names[-5:] == ["mov.b32", "add.f32", "st.global.b32", "bar.sync", "ret"]
    assert module.files == {1: "/tmp/add.py", 2: "/usr/lib/triton/language/standard.py"}
    store = next(i for i in instructions_of(kernel) if i.opcode == "st")
    chain = [
        (loc.file, loc.line, loc.function)
        for loc in (store.location, store.location.inlined_at, store.location.inlined_at.inlined_at)
    ]
    assert chain == [(2, 262, "duce"), (2, 267, "reduce"), (1, 20, None)]
    assert store.location.line_of_kernel_file == 20
    load = next(i for i in instructions_of(kernel) if i.opcode == "ld" and "global" in i.modifiers)
    assert load.guard == Guard(Register("%p1"), False)
    assert load.modifiers == ("global", "L1::evict_last", "v4", "b32")


def test_recursion_inlined_into_itself_has_a_finite_chain() -> None:
    mention = ".loc 1 5 9, function_name f, inlined_at 1 5 9\nadd.s32 %r1, %r1, 1;\n"
    function = body(".loc 1 8 1\n" + mention * 500)
    depths = set()
    for instruction in instructions_of(function):
        depth, location = 0, instruction.location
        while location is not None:
            depth, location = depth + 1, location.inlined_at
        depths.add(depth)
    assert max(depths) <= 3
