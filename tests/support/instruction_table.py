"""One line of PTX for each typed opcode that occurs in compiled kernels, and for other members of their families.

``{a,b}`` in a line stands for one line with each alternative. Registers: %p predicates, %h 16 bits, %r 32, %d 64, %f
f32, %e f64. ``!a`` is an address in the state space of the access, ``!v`` a register of its type (``u64!d`` names the
class), ``!3r`` a third source for ``mad`` only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from support.emulator_launch import ptx_kernel

# The base opcodes and types of 284 public kernels' PTX (fma .. membar), family by family.
MEASURED = """
fma.{rn,rz,rm,rp}{,.ftz}{,.sat}.f32 %f0, %f1, %f2, %f3
fma.{rn,rz,rm,rp}.f64 %e0, %e1, %e2, %e3
fma.rn{,.ftz}{,.sat}.f16 %h0, %h1, %h2, %h3
fma.rn{,.ftz}.relu.f16 %h0, %h1, %h2, %h3
fma.rn{,.ftz}{,.sat}.f16x2 %r0, %r1, %r2, %r3
fma.rn{,.ftz}.relu.f16x2 %r0, %r1, %r2, %r3
fma.rn{,.relu}.bf16 %h0, %h1, %h2, %h3
fma.rn{,.relu}.bf16x2 %r0, %r1, %r2, %r3
mov.{b16,u16,s16} %h0, %h1
mov.{b32,u32,s32} %r0, %r1
mov.{b64,u64,s64} %d0, %d1
mov.f32 %f0, 0f3F800000
mov.v2.{b32,u32,s32} {%r0, %r1}, {%r2, %r3}
mov.v4.{b16,u16,s16} {%h0, %h1, %h2, %h3}, {%h1, %h0, %h3, %h2}
mov.v4.f32 {%f0, %f1, %f2, %f3}, {%f1, %f0, %f3, %f2}
mov.v2.u64 {%d0, %d1}, {%d1, %d0}
mov.f64 %e0, 0d3FF0000000000000
mov.pred %p0, %p1
mov.b32 %r0, {%h0, %h1}
mov.b32 {%h0, %h1}, %r0
mov.b64 %d0, {%r0, %r1}
mov.b64 {%r0, %r1}, %d0
mov.b64 {%h0, %h1, %h2, %h3}, %d0
add{,.rn,.rz,.rm,.rp}{,.ftz}{,.sat}.f32 %f0, %f1, %f2
sub{,.rn,.rz,.rm,.rp}{,.ftz}{,.sat}.f32 %f0, %f1, %f2
mul{,.rn,.rz,.rm,.rp}{,.ftz}{,.sat}.f32 %f0, %f1, %f2
{add,sub,mul}{,.rn,.rz,.rm,.rp}.f64 %e0, %e1, %e2
{add,sub,mul}{,.rn}{,.ftz}{,.sat}.f16 %h0, %h1, %h2
{add,sub,mul}{,.rn}{,.ftz}{,.sat}.f16x2 %r0, %r1, %r2
{add,sub,mul}{,.rn}.bf16 %h0, %h1, %h2
{add,sub,mul}{,.rn}.bf16x2 %r0, %r1, %r2
{add,sub}.{s16,u16} %h0, %h1, %h2
{add,sub}.{s32,u32} %r0, %r1, %r2
{add,sub}.sat.s32 %r0, %r1, %r2
{add,sub}.{s64,u64} %d0, %d1, %d2
{add,sub}.cc.{s32,u32} %r0, %r1, %r2
{addc,subc}{,.cc}.{s32,u32} %r0, %r1, %r2
{add,sub}.cc.{s64,u64} %d0, %d1, %d2
{addc,subc}{,.cc}.{s64,u64} %d0, %d1, %d2
add.{u16x2,s16x2} %r0, %r1, %r2
{mul,mad}.lo.{s16,u16} %h0, %h1, %h2!3h
{mul,mad}.hi.{s16,u16} %h0, %h1, %h2!3h
{mul,mad}.lo.{s32,u32} %r0, %r1, %r2!3r
{mul,mad}.hi.{s32,u32} %r0, %r1, %r2!3r
{mul,mad}.lo.{s64,u64} %d0, %d1, %d2!3d
{mul,mad}.hi.{s64,u64} %d0, %d1, %d2!3d
{mul,mad}.wide.{s16,u16} %r0, %h1, %h2!3r
{mul,mad}.wide.{s32,u32} %d0, %r1, %r2!3d
mad.hi.sat.s32 %r0, %r1, %r2, %r3
mad.lo.cc.{s32,u32} %r0, %r1, %r2, %r3
madc.{lo,hi}{,.cc}.{s32,u32} %r0, %r1, %r2, %r3
mul24.{lo,hi}.{s32,u32} %r0, %r1, %r2
mad24.{lo,hi}.{s32,u32} %r0, %r1, %r2, %r3
{shl,and,or,xor}.b16 %h0, %h1, !16
{shl,and,or,xor}.b32 %r0, %r1, %r2
{shl,and,or,xor}.b64 %d0, %d1, !64
{and,or,xor}.pred %p0, %p1, %p2
not.pred %p0, %p1
{not,cnot}.b16 %h0, %h1
{not,cnot}.b32 %r0, %r1
{not,cnot}.b64 %d0, %d1
shr.{b16,u16,s16} %h0, %h1, %r2
shr.{b32,u32,s32} %r0, %r1, %r2
shr.{b64,u64,s64} %d0, %d1, %r2
setp.{eq,ne,lt,le,gt,ge}.{s16,u16} %p0, %h1, %h2
setp.{eq,ne}.b16 %p0, %h1, %h2
setp.{eq,ne,lt,le,gt,ge}.{s32,u32} %p0, %r1, %r2
setp.{lo,ls,hi,hs}.u32 %p0, %r1, %r2
setp.{eq,ne}.b32 %p0, %r1, %r2
setp.{eq,ne,lt,le,gt,ge}.{s64,u64} %p0, %d1, %d2
setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}{,.ftz}.f32 %p0, %f1, %f2
setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}.f64 %p0, %e1, %e2
setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}{,.ftz}.f16 %p0, %h1, %h2
setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}{,.ftz}.f16x2 %p0|%p1, %r1, %r2
setp.{eq,ne,lt,le,gt,ge,neu,nan}.bf16 %p0, %h1, %h2
setp.{eq,ne,lt,le,gt,ge,neu,nan}.bf16x2 %p0|%p1, %r1, %r2
setp.{lt,eq}.{and,or,xor}.s32 %p0|%p1, %r1, %r2, !%p2
setp.lt.and.f32 %p0, %f1, %f2, %p2
set.{eq,ne,lt,le,gt,ge,equ,neu,nan}{,.ftz}.f16.f16 %h0, %h1, %h2
set.{eq,ne,lt,le,gt,ge}{,.ftz}.f16x2.f16x2 %r0, %r1, %r2
set.{eq,lt}.bf16.bf16 %h0, %h1, %h2
set.{eq,lt}.bf16x2.bf16x2 %r0, %r1, %r2
set.{eq,ne,lt}.u32.{s32,u32} %r0, %r1, %r2
set.{eq,ne,lt}{,.ftz}.{u32,s32}.f32 %r0, %f1, %f2
set.lt.f32.f32 %f0, %f1, %f2
set.lt.and.u32.s32 %r0, %r1, %r2, %p1
selp.{b16,u16,s16} %h0, %h1, %h2, %p0
selp.{b32,u32,s32} %r0, %r1, %r2, %p0
selp.{b64,u64,s64} %d0, %d1, %d2, %p0
selp.f32 %f0, %f1, %f2, %p0
selp.f64 %e0, %e1, %e2, %p0
slct.{s32,u32,b32}.s32 %r0, %r1, %r2, %r3
slct{,.ftz}.f32.f32 %f0, %f1, %f2, %f3
cvt.{u32,s32}.{u16,s16} %r0, %h0
cvt.{u16,s16}.{u32,s32} %h0, %r0
cvt.{u64,s64}.{u32,s32} %d0, %r0
cvt.{u32,s32}.{u64,s64} %r0, %d0
cvt.{u8,s8}.{u32,s32} %r0, %r1
cvt.{u32,s32}.{u8,s8} %r0, %r1
cvt.sat.{u8,s8,u16,s16}.s32 %r0, %r1
cvt.{rn,rz,rm,rp}.f32.{s32,u32} %f0, %r0
cvt.{rn,rz,rm,rp}.f32.{s64,u64} %f0, %d0
cvt.{rn,rz,rm,rp}.f64.{s64,u64} %e0, %d0
cvt.rn.f64.{s32,u32} %e0, %r0
cvt.rn.f16.{s16,u16} %h0, %h1
cvt.rn.f16.{s32,u32} %h0, %r1
cvt.{rni,rzi,rmi,rpi}{,.ftz}{,.sat}.{s32,u32}.f32 %r0, %f0
cvt.{rni,rzi,rmi,rpi}.{s64,u64}.f32 %d0, %f0
cvt.{rni,rzi,rmi,rpi}.{s32,u32}.f64 %r0, %e0
cvt.{rni,rzi,rmi,rpi}.{s64,u64}.f64 %d0, %e0
cvt.{rni,rzi,rmi,rpi}.{s32,u32}.f16 %r0, %h0
cvt.{rni,rzi,rmi,rpi}.{s16,u16}.f16 %h1, %h0
cvt.{rni,rzi,rmi,rpi}{,.ftz}{,.sat}.f32.f32 %f0, %f1
cvt.{rni,rzi,rmi,rpi}.f64.f64 %e0, %e1
cvt.{rni,rzi,rmi,rpi}.f16.f16 %h0, %h1
cvt{,.ftz}.sat.f32.f32 %f0, %f1
cvt{,.ftz}.f32.f16 %f0, %h0
cvt.f32.bf16 %f0, %h0
cvt{,.ftz}.f64.f32 %e0, %f0
cvt.{rn,rz,rm,rp}{,.ftz}.f32.f64 %f0, %e0
cvt.{rn,rz}{,.relu}.f16.f32 %h0, %f0
cvt.rn.f16.f64 %h0, %e0
cvt.f64.f16 %e0, %h0
cvt.{rn,rz}{,.relu}.bf16.f32 %h0, %f0
cvt.{rn,rz}{,.relu}.{f16x2,bf16x2}.f32 %r0, %f0, %f1
cvt.rna.tf32.f32 %r0, %f0
cvt.{rn,rz}{,.relu}.tf32.f32 %r0, %f0
cvt.rn.satfinite{,.relu}.{e4m3x2,e5m2x2}.f32 %h0, %f0, %f1
cvt.rn.satfinite{,.relu}.{e4m3x2,e5m2x2}.f16x2 %h0, %r0
cvt.rn{,.relu}.f16x2.{e4m3x2,e5m2x2} %r0, %h0
cvt.pack.sat.{s16,u16}.s32 %r0, %r1, %r2
cvt.pack.sat.{s8,u8}.s32.b32 %r0, %r1, %r2, %r3
neg.{s16} %h0, %h1
{neg,abs}.s32 %r0, %r1
{neg,abs}.s64 %d0, %d1
{neg,abs}{,.ftz}.f32 %f0, %f1
{neg,abs}.f64 %e0, %e1
{neg,abs}{,.ftz}.f16 %h0, %h1
{neg,abs}{,.ftz}.f16x2 %r0, %r1
{neg,abs}.bf16 %h0, %h1
{neg,abs}.bf16x2 %r0, %r1
{min,max}.{s16,u16} %h0, %h1, %h2
{min,max}.{s32,u32} %r0, %r1, %r2
{min,max}.relu.s32 %r0, %r1, %r2
{min,max}.{s64,u64} %d0, %d1, %d2
{min,max}.{s16x2,u16x2} %r0, %r1, %r2
{min,max}{,.ftz}{,.NaN}{,.xorsign.abs}.f32 %f0, %f1, %f2
{min,max}.f64 %e0, %e1, %e2
{min,max}{,.ftz}{,.NaN}{,.xorsign.abs}.f16 %h0, %h1, %h2
{min,max}{,.ftz}{,.NaN}{,.xorsign.abs}.f16x2 %r0, %r1, %r2
{min,max}{,.NaN}{,.xorsign.abs}.bf16 %h0, %h1, %h2
{min,max}{,.NaN}{,.xorsign.abs}.bf16x2 %r0, %r1, %r2
ex2.approx{,.ftz}.f32 %f0, %f1
ex2.approx.f16 %h0, %h1
ex2.approx.f16x2 %r0, %r1
ex2.approx.ftz.bf16 %h0, %h1
ex2.approx.ftz.bf16x2 %r0, %r1
lg2.approx{,.ftz}.f32 %f0, %f1
{sin,cos}.approx{,.ftz}.f32 %f0, %f1
tanh.approx.f32 %f0, %f1
tanh.approx.{f16,bf16} %h0, %h1
tanh.approx.{f16x2,bf16x2} %r0, %r1
{rcp,sqrt}.approx{,.ftz}.f32 %f0, %f1
{rcp,sqrt}.{rn,rz,rm,rp}{,.ftz}.f32 %f0, %f1
{rcp,sqrt}.{rn,rz,rm,rp}.f64 %e0, %e1
rcp.approx.ftz.f64 %e0, %e1
rsqrt.approx{,.ftz}.f32 %f0, %f1
rsqrt.approx{,.ftz}.f64 %e0, %e1
div.{rn,rz,rm,rp}{,.ftz}.f32 %f0, %f1, %f2
div.{approx,full}{,.ftz}.f32 %f0, %f1, %f2
div.{rn,rz,rm,rp}.f64 %e0, %e1, %e2
{div,rem}.{s16,u16} %h0, %h1, %h2
{div,rem}.{s32,u32} %r0, %r1, %r2
{div,rem}.{s64,u64} %d0, %d1, %d2
copysign.f32 %f0, %f1, %f2
copysign.f64 %e0, %e1, %e2
testp.{finite,infinite,number,notanumber,normal,subnormal}.f32 %p0, %f1
testp.{finite,infinite,number,notanumber,normal,subnormal}.f64 %p0, %e1
{popc,clz,bfind.u32,bfind.s32,bfind.shiftamt.u32}.b!32
brev.b32 %r0, %r1
brev.b64 %d0, %d1
fns.b32 %r0, %r1, %r2, %r3
bfe.{u32,s32} %r0, %r1, %r2, %r3
bfe.{u64,s64} %d0, %d1, %r2, %r3
bfi.b32 %r0, %r1, %r2, %r3, %r4
bfi.b64 %d0, %d1, %d2, %r3, %r4
bmsk.{clamp,wrap}.b32 %r0, %r1, %r2
szext.{clamp,wrap}.{u32,s32} %r0, %r1, %r2
lop3.b32 %r0, %r1, %r2, %r3, 0xE8
lop3.{and,or}.b32 %r0|%p0, %r1, %r2, %r3, 0xE8, %p1
prmt.b32{,.f4e,.b4e,.rc8,.ecl,.ecr,.rc16} %r0, %r1, %r2, %r3
shf.{l,r}.{wrap,clamp}.b32 %r0, %r1, %r2, %r3
sad.{u16,s16} %h0, %h1, %h2, %h3
sad.{u32,s32} %r0, %r1, %r2, %r3
sad.{u64,s64} %d0, %d1, %d2, %d3
dp4a.{u32,s32}.{u32,s32} %r0, %r1, %r2, %r3
dp2a.{lo,hi}.{u32,s32}.{u32,s32} %r0, %r1, %r2, %r3
{vadd2,vsub2,vabsdiff2,vmin2,vmax2}.{s32,u32}.s32.u32{,.sat} %r0, %r1, %r2, %r3
{vadd,vsub,vabsdiff,vmin,vmax}.{s32,u32}.{s32,u32}.u32{,.sat} %r0, %r1, %r2
{vadd,vsub,vabsdiff,vmin,vmax}.{s32,u32}.u32.s32{,.sat}.add %r0, %r1, %r2, %r3
{vshl,vshr}.{s32,u32}.{s32,u32}.u32{,.sat}.{clamp,wrap} %r0, %r1, %r2
{vshl,vshr}.s32.u32.u32.clamp.add %r0, %r1, %r2, %r3
{vadd4,vsub4,vabsdiff4,vmin4,vmax4}.{s32,u32}.u32.u32{,.sat,.add} %r0, %r1, %r2, %r3
"""

MEMORY = """
ld.{global,shared,local,const,volatile.global,volatile.shared,volatile}.{b8,u8,s8,b16,u16,s16} %h0, [!a]
ld{,.global,.shared,.local,.const}.{b32,u32,s32} %r0, [!a]
ld{,.global,.shared,.local}.{b64,u64,s64} %d0, [!a]
ld{,.global,.shared}.f32 %f0, [!a]
ld{,.global,.shared}.f64 %e0, [!a]
ld.{global,shared}.v2.{b16,u16} {%h0, %h1}, [!a]
ld.global.v4.{b16,u16} {%h0, %h1, %h2, %h3}, [!a]
ld{,.global,.shared}.v2.{f32} {%f0, %f1}, [!a]
ld{,.global,.shared}.v4.{f32} {%f0, %f1, %f2, %f3}, [!a]
ld.global.v4.{b32,u32,s32} {%r0, %r1, %r2, %r3}, [!a]
ld.global.v4.u8 {%h0, %h1, %h2, %h3}, [!a]
ld.global.v2.{b64,u64,s64} {%d0, %d1}, [!a]
ld.global.v2.f64 {%e0, %e1}, [!a]
ld.global.nc{,.L1::no_allocate,.L1::evict_last}{,.L2::128B,.L2::256B}.f32 %f0, [!a]
ld.global.nc.v4.{f32} {%f0, %f1, %f2, %f3}, [!a]
ld.global.{ca,cg,cs,cv,lu}.f32 %f0, [!a]
ld.global.L2::64B.f32 %f0, [!a]
ld.global.cs.v4.s32 {%r0, %r1, %r2, %r3}, [!a]
ld.{relaxed,acquire}.{cta,gpu,sys}.global.{b32,u32,u64!d,f32!f} !v, [!a]
ld.{weak,volatile,mmio.relaxed.sys}.global.u32 %r0, [!a]
ld.global.L2::cache_hint.f32 %f0, [!a], %d5
ldu.global.f32 %f0, [!a]
st.{global,shared,local,volatile.global,volatile.shared}.{b8,u8,b16,u16} [!a], %h0
st{,.global,.shared,.local}.{b32,u32,s32} [!a], %r0
st{,.global,.shared}.{b64,u64} [!a], %d0
st{,.global,.shared}.f32 [!a], %f0
st{,.global,.shared}.f64 [!a], %e0
st.global.v2.{b16,u16} [!a], {%h0, %h1}
st{,.global,.shared}.v2.f32 [!a], {%f0, %f1}
st{,.global,.shared}.v4.f32 [!a], {%f0, %f1, %f2, %f3}
st.global.{wb,cg,cs,wt}.f32 [!a], %f0
st.{relaxed,release}.{cta,gpu,sys}.global.u32 [!a], %r0
st.global.L1::no_allocate.f32 [!a], %f0
st.global.L2::cache_hint.f32 [!a], %f0, %d5
prefetch.global.{L1,L2,L2::evict_last,L2::evict_normal} [!a]
prefetch.{L1,L2} [!a]
prefetchu.L1 [!a]
applypriority.global.L2::evict_normal [!a], 128
discard.global.L2 [!a], 128
createpolicy.fractional.L2::evict_last.b64 %d0, 1.0
createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 %d0, 0.5
isspacep.{global,shared,local,const} %p0, %d0
cvta.{global,shared,local,const}.u64 %d0, %d1
cvta.to.{global,shared,local,const}.u64 %d0, %d1
atom.{global,shared}.add.{u32,s32} %r0, [!a], %r1
atom.{global,shared}.{and,or,xor,exch}.b32 %r0, [!a], %r1
atom.{global,shared}.{min,max}.{u32,s32} %r0, [!a], %r1
atom.{global,shared}.{inc,dec}.u32 %r0, [!a], %r1
atom.{global,shared}.cas.b32 %r0, [!a], %r1, %r2
atom.{global,shared}.{and,or,xor,exch}.b64 %d0, [!a], %d1
atom.{global,shared}.{min,max}.{u64,s64} %d0, [!a], %d1
atom.{global,shared}.add.u64 %d0, [!a], %d1
atom.{global,shared}.cas.b64 %d0, [!a], %d1, %d2
atom.{global,shared}.cas.b16 %h0, [!a], %h1, %h2
atom.{global,shared}.add.f32 %f0, [!a], %f1
atom.{global,shared}.add.f64 %e0, [!a], %e1
atom.{global,shared}.add.noftz.f16 %h0, [!a], %h1
atom.{global,shared}.add.noftz.f16x2 %r0, [!a], %r1
atom.{global,shared}.add.noftz.bf16 %h0, [!a], %h1
atom.{global,shared}.add.noftz.bf16x2 %r0, [!a], %r1
atom.{relaxed,acquire,release,acq_rel}.{cta,gpu,sys}.global.add.u32 %r0, [!a], %r1
atom.{relaxed,acquire,release,acq_rel}.gpu.global.cas.b32 %r0, [!a], %r1, %r2
atom.add.u32 %r0, [!a], %r1
atom.global.add.v2.f32 {%f0, %f1}, [!a], {%f2, %f3}
atom.global.add.v4.f32 {%f0, %f1, %f2, %f3}, [!a], {%f0, %f1, %f2, %f3}
atom.global.{add,min,max}.noftz.v2.{f16,bf16} {%h0, %h1}, [!a], {%h2, %h3}
atom.relaxed.gpu.global.{add,min,max}.noftz.v4.{f16x2,bf16x2} {%r0, %r1, %r2, %r3}, [!a], {%r0, %r1, %r2, %r3}
red.{global,shared}.add.{u32,s32,u64!d,f32!f} [!a], !v
red.{global,shared}.{min,max}.{u32,s32,u64!d,s64!d} [!a], !v
red.{global,shared}.{and,or,xor}.{b32,b64!d} [!a], !v
red.{global,shared}.{inc,dec}.u32 [!a], %r1
red.global.add.f64 [!a], %e1
red.global.add.noftz.{f16x2,bf16x2} [!a], %r1
red.{relaxed,release}.gpu.global.add.u32 [!a], %r1
red.global.add.v2.f32 [!a], {%f0, %f1}
red.global.add.v4.f32 [!a], {%f0, %f1, %f2, %f3}
red.async.relaxed.cluster.global.add.u32 [!a], %r1
membar.{cta,gl,sys}
fence{,.sc,.acq_rel}.{cta,gpu,sys,cluster}
fence.proxy.{alias,async,async.global,async.shared::cta}
fence.mbarrier_init.release.cluster
cp.async.ca.shared.global [%r9], [%d6], {4,8,16}
cp.async.ca.shared.global [%r9], [%d6], 4, %r2
cp.async.cg.shared.global{,.L2::64B,.L2::128B,.L2::256B} [%r9], [%d6], 16
cp.async.cg.shared.global.L2::cache_hint [%r9], [%d6], 16, %d5
cp.async.cg.shared.global [%r9], [%d6], 16, %p1
cp.async.commit_group
cp.async.wait_group 1
cp.async.wait_all
cp.async.mbarrier.arrive{,.noinc}.shared{,::cta}.b64 [%r9]
mbarrier.init.shared{,::cta}.b64 [%r9], 32
mbarrier.inval.shared.b64 [%r9]
mbarrier.arrive{,.release.cta}.shared{,::cta}.b64 %d0, [%r9]
mbarrier.arrive.shared.b64 %d0, [%r9], 2
mbarrier.arrive.noComplete.shared.b64 %d0, [%r9], 1
mbarrier.arrive.expect_tx.shared.b64 %d0, [%r9], 16
mbarrier.arrive_drop{,.noComplete}.shared.b64 %d0, [%r9], 1
mbarrier.expect_tx.relaxed.cta.shared.b64 [%r9], 16
mbarrier.complete_tx.relaxed.cta.shared.b64 [%r9], 16
mbarrier.{test_wait,try_wait}{,.acquire.cta}.shared{,::cta}.b64 %p0, [%r9], %d1
mbarrier.{test_wait,try_wait}.parity.shared{,::cta}.b64 %p0, [%r9], %r1
mbarrier.try_wait.shared.b64 %p0, [%r9], %d1, %r2
mbarrier.pending_count.b64 %r0, %d0
tex.{1d,2d,3d,cube}.v4.{f32,s32,u32}.f32 {%f0,%f1,%f2,%f3}, [%d6, {%f0,%f1,%f2,%f2}]
tex.{a1d,a2d,acube}.v4.f32.f32 {%f0,%f1,%f2,%f3}, [%d6, {%r1,%f1,%f2,%f2}]
tex.{1d,2d,3d}.v4.f32.s32 {%f0,%f1,%f2,%f3}, [%d6, {%r0,%r1,%r2,%r2}]
tex.level.{1d,2d,3d}.v4.f32.f32 {%f0,%f1,%f2,%f3}, [%d6, {%f0,%f1,%f2,%f2}], %f3
tex.grad.2d.v4.f32.f32 {%f0,%f1,%f2,%f3}, [%d6, {%f0,%f1}], {%f0,%f1}, {%f2,%f3}
tld4.{r,g,b,a}.2d.v4.f32.f32 {%f0,%f1,%f2,%f3}, [%d6, {%f0,%f1}]
suld.b.{1d,2d,3d,a1d,a2d}.b32.{trap,clamp,zero} {%r0}, [%d6, {%r1,%r2,%r3,%r3}]
suld.b.2d.v2.b64.trap {%d0,%d1}, [%d6, {%r1,%r2}]
suld.b.2d.v4.{b8,b16}.trap {%h0,%h1,%h2,%h3}, [%d6, {%r1,%r2}]
sust.b.{1d,2d,3d,a1d,a2d}.b32.{trap,clamp,zero} [%d6, {%r1,%r2,%r3,%r3}], {%r0}
{txq,suq}.{width,height,depth}.b32 %r0, [%d6]
"""

WARPS = """
shfl.sync.{up,down,bfly,idx}.b32 %r0, %r1, %r2, 31, -1
shfl.sync.{up,down,bfly,idx}.b32 %r0|%p0, %r1, 1, 31, -1
vote.sync.{all,any,uni}.pred %p0, %p1, -1
vote.sync.ballot.b32 %r0, %p1, -1
match.any.sync.{b32,b64!d} %r0, !v, -1
match.all.sync.{b32,b64!d} %r0|%p0, !v, -1
redux.sync.{add,min,max}.{u32,s32} %r0, %r1, -1
redux.sync.{and,or,xor}.b32 %r0, %r1, -1
redux.sync.{min,max}{,.abs}{,.NaN}.f32 %f0, %f1, -1
elect.sync %r0|%p0, -1
activemask.b32 %r0
bar.warp.sync -1
bar.sync 0
bar.sync 1, 32
bar.arrive 1, 64
bar.red.popc.u32 %r0, 0, %p1
bar.red.{and,or}.pred %p0, 0, %p1
barrier.sync{,.aligned} 0
barrier.cta.sync{,.aligned} 0
barrier.cta.red{,.aligned}.popc.u32 %r0, 0, %p1
mov.u32 %r0, %{tid,ntid,ctaid,nctaid}.{x,y,z}
mov.u32 %r0, %{laneid,warpid,nwarpid,smid,nsmid,clock,clock_hi,dynamic_smem_size,total_smem_size}
mov.u32 %r0, %{lanemask_eq,lanemask_lt,lanemask_le,lanemask_gt,lanemask_ge,globaltimer_lo,globaltimer_hi}
mov.u64 %d0, %{clock64,globaltimer,gridid}
mov.u32 %r0, %{cluster_ctaid,cluster_nctaid,clusterid,nclusterid}.x
mov.u32 %r0, %{cluster_ctarank,cluster_nctarank}
mov.pred %p0, %is_explicit_cluster
mov.u32 %r0, %envreg0
mov.u64 %d0, %{current_graph_exec}
nanosleep.u32 20
pmevent 3
griddepcontrol.{launch_dependents,wait}
setmaxnreg.{inc,dec}.sync.aligned.u32 64
barrier.cluster.{arrive,wait}{,.aligned}
mapa.u64 %d0, %d1, %r1
mapa.shared::cluster.u32 %r0, %r1, %r2
getctarank.u64 %r0, %d1
stacksave.u32 %r0
stackrestore.u32 %r0
alloca.u64 %d0, 64
trap
brkpt
exit
ret
"""


MATRICES = """
mma.sync.aligned.m16n8k16.row.col.f32.{f16.f16,bf16.bf16}.f32 {%f0,%f1,%f2,%f3}, {%r0,%r1,%r2,%r3}, {%r4,%r5}, {%f0,%f1,%f2,%f3}
mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f0,%f1,%f2,%f3}, {%r0,%r1,%r2,%r3}, {%r4,%r5}, {%f0,%f1,%f2,%f3}
mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%e0,%e1}, {%e2}, {%e3}, {%e0,%e1}
mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%r0,%r1,%r2,%r3}, {%r0,%r1,%r2,%r3}, {%r4,%r5}, {%r0,%r1,%r2,%r3}
mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3,%f0,%f1,%f2,%f3}, {%r0,%r1}, {%r2,%r3}, {%f0,%f1,%f2,%f3,%f0,%f1,%f2,%f3}
mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%r0,%r1}, {%r2,%r3}, {%f0,%f1,%f2,%f3}, %r4, 0
wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r0,%r1,%r2,%r3,%r4,%r5,%r6,%r7}, [%d6], 16
wmma.load.c.sync.aligned.row.m8n8k4.shared.f64 {%e0,%e1}, [%r9], 8
wmma.store.d.sync.aligned.col.m8n8k32.global.s32 [%d6], {%r0,%r1}, 8
wmma.mma.sync.aligned.row.col.m8n8k4.rn.f64.f64.f64.f64 {%e0,%e1}, {%e2}, {%e3}, {%e0,%e1}
ldmatrix.sync.aligned.m8n8.{x1,x1.trans}.shared{,::cta}.b16 {%r0}, [%r9]
ldmatrix.sync.aligned.m8n8.{x2,x2.trans}.shared.b16 {%r0,%r1}, [%r9]
ldmatrix.sync.aligned.m8n8.{x4,x4.trans}.shared.b16 {%r0,%r1,%r2,%r3}, [%r9]
stmatrix.sync.aligned.m8n8.{x4,x4.trans}.shared.b16 [%r9], {%r0,%r1,%r2,%r3}
movmatrix.sync.aligned.m8n8.trans.b16 %r0, %r1
ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r0,%r1}, [%r9]
wgmma.fence.sync.aligned
wgmma.commit_group.sync.aligned
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0,%f1,%f2,%f3}, %d6, %d6, 1, 1, 1, 0, 0
wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 {%r0,%r1}, {%r2,%r3,%r4,%r5}, %d6, 0, 1, -1, 1
wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {%f0,%f1,%f2,%f3}, %d6, %d6, %r0, 0, 1, 1, 1, 0, 0
wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.and.popc {%r0,%r1,%r2,%r3}, %d6, %d6, 1
tcgen05.wait::{ld,st}.sync.aligned
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r9], 32
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r0, 32
tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned
tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r0,%r1}, [%r2]
tcgen05.st.sync.aligned.32x32b.x2.b32 [%r2], {%r0,%r1}
tcgen05.ld.sync.aligned.16x32bx2.x2.pack::16b.b32 {%r0,%r1}, [%r2], 2
tcgen05.ld.sync.aligned.{16x128b.x1,16x64b.x2}.b32 {%r0,%r1}, [%r2]
tcgen05.st.sync.aligned.16x256b.x1.unpack::16b.b32 [%r2], {%r0,%r1,%r3,%r4}
tcgen05.ld.red.sync.aligned.32x32b.x2.min.f32 {%f0,%f1}, %f2, [%r2]
tcgen05.cp.cta_group::{1,2}.{128x256b,128x128b,32x128b.warpx4,64x128b.warpx2::02_13,64x128b.warpx2::01_23} [%r0], %d6
tcgen05.cp.cta_group::1.4x256b [%r0], %d6
tcgen05.cp.cta_group::1.128x256b.b8x16.b4x16_p64 [%r0], %d6
tcgen05.shift.cta_group::1.down [%r0]
tcgen05.mma.cta_group::{1,2}.kind::{f16,tf32,f8f6f4,i8} [%r0], %d6, %d6, %r1, %p0
tcgen05.mma.cta_group::1.kind::f16.collector::a::fill [%r0], [%r1], %d6, %r1, {%r2,%r2,%r2,%r2}, %p0, 2
tcgen05.mma.ws.cta_group::1.kind::{f16,i8} [%r0], %d6, %d6, %r1, %p0
tcgen05.mma.cta_group::1.kind::{mxf8f6f4.block_scale.scale_vec::1X,mxf4.block_scale.block32,mxf4nvf4.block_scale.block16} [%r0], %d6, %d6, %r1, [%r2], [%r3], %p0
tcgen05.mma.sp.cta_group::1.kind::f16 [%r0], %d6, %d6, [%r2], %r1, %p0
tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r9]
tcgen05.fence::{before,after}_thread_sync
"""

ELSEWHERE = """
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r9], [%d6], 16, [%r9]
cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r9], [%d6, {%r0}], [%r9]
cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%r9], [%d6, {%r0,%r1}], [%r9], %h0
cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%r9], [%d6, {%r0,%r1,%r2}], [%r9], {%h0}
cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r9], [%r9], 16, [%r9]
cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%d6, {%r0,%r1}], [%r9]
cp.async.bulk.commit_group
cp.async.bulk.wait_group.read 0
tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r9], %d6
tensormap.replace.tile.{rank,elemtype,interleave_layout,swizzle_mode,fill_mode}.{global.,}b1024.b32 [%d6], 1
tensormap.replace.tile.{box_dim,global_dim,element_stride}.shared::cta.b1024.b32 [%r9], 1, %r1
tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%r9], 1, %d6
tensormap.replace.tile.swizzle_atomicity.shared::cta.b1024.b32 [%r9], 0
tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%d6], [%r9], 128
fence.proxy.tensormap::generic.acquire.gpu [%d6], 128
fence.proxy.tensormap::generic.release.gpu
cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%d6], [%r9], 16
sured.b.add.1d.u32.trap [%d6, {%r1}], %r0
sust.p.1d.b32.trap [%d6, {%r1}], {%r0}
txq.channel_order.b32 %r0, [%d6]
tex.2dms.v4.f32.s32 {%f0,%f1,%f2,%f3}, [%d6, {%r0,%r1,%r2,%r2}]
"""


def _choices(text: str) -> Iterator[str]:
    """Yield a line with every combination of its alternatives; ``{%r0, %r1}`` is a vector and stays."""
    found = re.search(r"\{(?!%)([^{}\s]*)\}", text)
    if found is None:
        yield text
        return
    for choice in found[1].split(","):
        yield from _choices(text[: found.start()] + choice + text[found.end() :])


def _written_out(line: str) -> Iterator[str]:
    for one in _choices(line):
        if one.startswith(("popc", "clz", "bfind")):
            opcode = one.split(".b!")[0]
            yield f"{opcode}.b32 %r0, %r1" if opcode in ("popc", "clz") else f"{opcode} %r0, %r1"
            yield f"{opcode}.b64 %r0, %d1" if opcode in ("popc", "clz") else f"{opcode[:-2]}64 %r0, %d1"
            continue
        third = re.search(r"!3(\w)$", one)
        if third:
            one = one[: third.start()] + (f", %{third[1]}3" if one.startswith("mad") else "")
        amount = "%r2" if one.startswith("shl") else None
        one = one.replace("!16", amount or "%h2").replace("!64", amount or "%d2")
        kind = re.search(r"\d!([df])\b", one)
        register = kind[1] if kind else "r"
        one = re.sub(r"(\d)!([df])\b", r"\1", one).replace("!v", f"%{register}1")
        space = "%r9" if re.match(r"\S*\.shared", one) else "%d6"
        space = "%r8" if re.match(r"\S*\.local", one) else space
        yield one.replace("!a", space).strip()


def lines(table: str) -> list[str]:
    """Return all instructions of a table, alternatives expanded."""
    return [one for line in table.strip().splitlines() for one in _written_out(line)]


def kernel(instruction: str) -> str:
    """Return a kernel that contains an instruction, with registers and variables declared."""
    return ptx_kernel(
        "p",
        f"""\
.reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<10>; .reg .b64 %d<8>; .reg .f32 %f<4>; .reg .f64 %e<4>;
.shared .align 16 .b8 s[256];
.local .align 16 .b8 l[64];
ld.param.u64 %d6, [p];
mov.u32 %r9, s; mov.u32 %r8, l;
{instruction};
ret;""",
    )
