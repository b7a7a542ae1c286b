" Triton's intermediate representations, which are MLIR.
if exists("b:current_syntax")
  finish
endif
syn case match
syn match ttirNumber "\%([A-Za-z0-9_%]\)\@<!-\=\%(0x\x\+\|\d\+\%(\.\d*\%([eE][+-]\=\d\+\)\=\)\=\)"
syn match ttirInstruction "\<[a-z_][a-z0-9_]*\%(\.[a-z_][a-z0-9_]*\)\+"
syn match ttirControl "\<\%(scf\|cf\)\.[a-z_][a-z0-9_.]*"
syn keyword ttirControl else to step iter_args do
syn keyword ttirKeyword module attributes public private
syn keyword ttirConstant true false unit dense
syn match ttirType "![A-Za-z_][A-Za-z0-9_.]*"
syn match ttirType "\<\%(tensor\|vector\|memref\|index\|[su]\=i\d\+\|bf16\|f16\|f32\|f64\|tf32\)\>"
syn match ttirType "\%(\dx\)\@<=\%([su]\=i\d\+\|bf16\|f16\|f32\|f64\|f8E\w\+\)\>"
syn match ttirAttribute "#[A-Za-z_][A-Za-z0-9_.]*"
syn match ttirFunction "@[A-Za-z0-9_$.]\+"
syn match ttirLabel "\^[A-Za-z_]\w*"
syn match ttirValue "%[A-Za-z0-9_$.]\+\%([:#]\d\+\)\="
syn region ttirString start=+"+ skip=+\\.+ end=+"+ oneline
syn region ttirLocation start="\<loc(" end=")" contains=ttirNested oneline
syn region ttirNested start="(" end=")" contains=ttirNested,ttirPath contained oneline
syn region ttirPath start=+"+ skip=+\\.+ end=+"+ contained oneline
syn match ttirLocation "^#loc\d* = .*$"
syn match ttirComment "//.*$"
hi def link ttirInstruction Function
hi def link ttirControl Statement
hi def link ttirKeyword Keyword
hi def link ttirConstant Constant
hi def link ttirType Type
hi def link ttirAttribute PreProc
hi def link ttirFunction Function
hi def link ttirLabel Label
hi def link ttirValue Identifier
hi def link ttirNumber Number
hi def link ttirString String
hi def link ttirLocation Comment
hi def link ttirNested Comment
hi def link ttirPath Comment
hi def link ttirComment Comment
let b:current_syntax = "ttir"
