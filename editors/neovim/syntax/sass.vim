" SASS, as nvdisasm writes it.
if exists("b:current_syntax")
  finish
endif
syn case match
syn match sassInstruction "\<[A-Z][A-Z0-9]\+\%(\.[A-Z0-9_]\+\)*\>"
syn match sassControl "\<\%(BRA\|BRX\|CALL\|RET\|EXIT\|BAR\|BSSY\|BSYNC\|WARPSYNC\|BREAK\)\>\%(\.[A-Z0-9_]\+\)*"
syn match sassPredicate "@!\=U\=P[T0-9]"
syn match sassRegister "\<U\=[RPB]\d\+\>\%(\.\w\+\)*"
syn match sassSpecial "\<\%(SR_[A-Za-z0-9_.]\+\|U\=RZ\|U\=PT\)\>"
syn match sassNumber "\<\%(0x\x\+\|\d\+\)\>"
syn match sassLabel "^\s*\.\=[A-Za-z_$.][A-Za-z0-9_$.]*:"
syn match sassDirective "\%(\w\)\@<!\.[A-Za-z_][A-Za-z0-9_.]*"
syn region sassString start=+"+ end=+"+ oneline
syn match sassComment "//.*$"
syn region sassComment start="/\*" end="\*/"
hi def link sassInstruction Function
hi def link sassControl Statement
hi def link sassPredicate PreCondit
hi def link sassRegister Identifier
hi def link sassSpecial Special
hi def link sassNumber Number
hi def link sassLabel Label
hi def link sassDirective PreProc
hi def link sassString String
hi def link sassComment Comment
let b:current_syntax = "sass"
