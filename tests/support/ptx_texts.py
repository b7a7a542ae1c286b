"""A kernel in PTX, ``y[i] = 2 * x[i]`` for ``i < n``, and the same with a bound that is one too large."""

from __future__ import annotations

SCALE = """\
.version 8.0
.target sm_80
.address_size 64

.visible .entry scale(
	.param .u64 scale_param_0,
	.param .u64 scale_param_1,
	.param .u32 scale_param_2
)
{
	.reg .pred %p<2>;
	.reg .f32 %f<3>;
	.reg .b32 %r<6>;
	.reg .b64 %rd<8>;

	ld.param.u64 %rd1, [scale_param_0];
	ld.param.u64 %rd2, [scale_param_1];
	ld.param.u32 %r1, [scale_param_2];
	mov.u32 %r2, %ctaid.x;
	mov.u32 %r3, %ntid.x;
	mov.u32 %r4, %tid.x;
	mad.lo.s32 %r5, %r2, %r3, %r4;
	setp.ge.s32 %p1, %r5, %r1;
	@%p1 bra DONE;
	cvta.to.global.u64 %rd3, %rd1;
	mul.wide.s32 %rd4, %r5, 4;
	add.s64 %rd5, %rd3, %rd4;
	ld.global.f32 %f1, [%rd5];
	add.f32 %f2, %f1, %f1;
	cvta.to.global.u64 %rd6, %rd2;
	add.s64 %rd7, %rd6, %rd4;
	st.global.f32 [%rd7], %f2;
DONE:
	ret;
}
"""
ONE_TOO_MANY = SCALE.replace("setp.ge.s32", "setp.gt.s32")
LINES = SCALE.split("\n")


def line_of(text: str) -> int:
    """Return the 0-based line of ``SCALE`` that has a text."""
    return next(number for number, line in enumerate(LINES) if text in line)
