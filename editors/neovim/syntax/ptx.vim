" PTX, as the compiler writes it.
if exists("b:current_syntax")
  finish
endif
syn case match
syn match ptxInstruction "^\s*\zs[a-z][a-z0-9_]*\%([.:]\+[A-Za-z0-9_]\+\)*"
syn match ptxInstruction "\%(@!\=%\w\+\s\+\)\@<=[a-z][a-z0-9_]*\%([.:]\+[A-Za-z0-9_]\+\)*"
syn match ptxControl "\<\%(bra\|brx\|call\|ret\|exit\|trap\|bar\|barrier\)\>\%([.:][A-Za-z0-9_]\+\)*"
syn match ptxPredicate "@!\=%\=[A-Za-z0-9_$]\+"
syn match ptxLabel "^\s*[$%A-Za-z_][A-Za-z0-9_$]*:"
syn match ptxDirective "\%(\w\)\@<!\.[A-Za-z_][A-Za-z0-9_]*"
syn match ptxType "\.\%([usbf]\%(8\|16\|32\|64\|128\)\|f16x2\|bf16x\=2\=\|tf32\|pred\)\>"
syn match ptxRegister "%[A-Za-z_][A-Za-z0-9_$]*"
syn match ptxSpecial "%\%(n\=tid\|n\=ctaid\|laneid\|n\=warpid\|n\=smid\|clock\%(64\)\=\)\>\%(\.[xyz]\)\="
syn match ptxNumber "\<\%(0[xX]\x\+\|0[fFdD]\x\{8,16}\|\d\+\)U\=\>"
syn region ptxString start=+"+ end=+"+ oneline
syn match ptxComment "//.*$"
syn region ptxComment start="/\*" end="\*/"
hi def link ptxInstruction Function
hi def link ptxControl Statement
hi def link ptxPredicate PreCondit
hi def link ptxLabel Label
hi def link ptxDirective PreProc
hi def link ptxType Type
hi def link ptxRegister Identifier
hi def link ptxSpecial Special
hi def link ptxNumber Number
hi def link ptxString String
hi def link ptxComment Comment
let b:current_syntax = "ptx"
