"""Source lines of the instructions in the text of PTX and SASS."""

from __future__ import annotations

from gpuemu_lsp.engine.ptx.instruction_lines import ptx_lines, sass_lines, source_of

INLINED = """\
.visible .entry k()
{
	.loc	1 9 0
	mov.u32 %r1, %ctaid.x;
	.loc	1 6 9, function_name $L__info_string0, inlined_at 1 13 13
	.loc	2 314 12, function_name $L__info_string0, inlined_at 1 6 9
	.loc	2 287 12, function_name $L__info_string0, inlined_at 2 314 12
	shfl.sync.bfly.b32 %r2, %r1, 16, 31, -1;
	.loc	1 0 9
	add.f32 %r3, %r2, %r1;
	.loc	2 700 1
	add.f32 %r4, %r3, %r3;
	.loc	1 14 5
	st.global.b32 [%rd1], %r4;
}
.func f()
{
	add.f32 %r4, %r3, %r3;
	.loc	2 287 12, function_name $L__info_string0, inlined_at 2 314 12
	add.f32 %r5, %r3, %r3;
}
	.file	1 "/home/me/a \\"model\\".py"
	.file	2 "/lib/triton/standard.py"
"""


def lines_of(path: str) -> dict[str, int]:
    """Return the 1-based source line of each mapped line of :data:`INLINED`."""
    rows = INLINED.split("\n")
    return {
        rows[number].strip().split()[0] + f" {number}": line + 1
        for line, first, last in ptx_lines(INLINED, path)
        for number in range(first, last + 1)
    }


def test_an_inlined_instruction_is_on_the_line_of_the_file_that_calls_it():
    assert lines_of('/home/me/a "model".py') == {
        "mov.u32 3": 9,
        "shfl.sync.bfly.b32 7": 6,
        "add.f32 9": 6,
        "st.global.b32 13": 14,
    }


def test_of_the_inlined_file_it_is_on_its_own_line():
    assert lines_of("/lib/triton/standard.py") == {
        "shfl.sync.bfly.b32 7": 287,
        "add.f32 9": 287,
        "add.f32 11": 700,
        "add.f32 19": 287,
    }


SASS = """\
.text.k:
	//## File "/home/me/model.py", line 9
        /*0000*/                   MOV R1, c[0x0][0x28] ;
.L_x_1:
	//## File "/lib/standard.py", line 314 inlined at "/home/me/model.py", line 6
	//## File "/home/me/model.py", line 6 inlined at "/home/me/model.py", line 13
	//## File "/home/me/model.py", line 13
        /*0010*/                   SHFL.BFLY PT, R7, R6, 0x10, 0x1f ;
        /*0020*/                   FADD R7, R7, R6 ;
	//## File "/lib/standard.py", line 20
        /*0030*/                   FADD R7, R7, R6 ;
"""


def test_in_sass_the_comments_of_a_chain_begin_with_the_innermost_function():
    assert sass_lines(SASS, "/home/me/model.py") == [(8, 2, 2), (5, 7, 8)]
    assert sass_lines(SASS, "/lib/standard.py") == [(313, 7, 8), (19, 10, 10)]
    assert source_of(SASS, 8) == ("/lib/standard.py", 313)
    assert source_of(SASS, 2) == ("/home/me/model.py", 8)
