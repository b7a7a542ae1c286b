"""Host code of a program, read without executing it: one representation and one interpreter for all languages.

- :mod:`.ir` is the representation: expressions and statements with their source ranges. :mod:`.walk` yields the nodes
  in a node.
- :mod:`.program` has the functions, classes and variables of a program's files.

It owns what a construct of host code means. It must never ask which language a node comes from, and never import a
package that knows of plans or findings.
"""
