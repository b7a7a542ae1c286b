" The representation after TTIR, with the same syntax.
runtime! syntax/ttir.vim
