"""The files of a program: their text before it is parsed, and those that call functions of another one."""
