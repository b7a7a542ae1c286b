"""Host code of a program, read without executing it: one representation and one interpreter for all languages.

An abstract interpretation of the host functions that lead to a launch. Its result is, for each launch, the grid, the
block, the shared memory and the arguments as integers over the program's symbols, and for each pointer the allocation
behind it: its size, whether the host has initialised it, and with integers of which range.

- :mod:`.ir` is the representation: expressions and statements with their source ranges. :mod:`.walk` yields the nodes
  in a node, :mod:`.program` has the functions, classes and variables of a program's files, and :mod:`.type_names` the
  parts of the names of types.
- :mod:`.cpp` and :mod:`.python` are the front ends.
- :mod:`.values` are the values of expressions, and memory; :mod:`.persistent` is a mapping whose copies share entries.
  :mod:`.state` is what holds on one path, which is immutable, and one interpretation, which has the current state;
  :mod:`.assumptions` is what that assumes.
- :mod:`.interpreter` evaluates and executes a node by its kind. :mod:`.expressions`, :mod:`.calls` and
  :mod:`.statements` say what the kinds mean, with :mod:`.operators`, :mod:`.arithmetic` (operators on numbers),
  :mod:`.assignments`, :mod:`.places` (lvalues),
  :mod:`.types` (names, types and members of classes), :mod:`.objects` and :mod:`.functions` (of the program),
  :mod:`.selections` (functions that a program selects among several), :mod:`.branches` (joined paths) and
  :mod:`.decisions` (what flags that are not known are assumed to be).
- :mod:`.std`, :mod:`.memory`, :mod:`.cuda`, :mod:`.tensor_functions` and :mod:`.tensor_methods` are tables of the
  functions and methods of libraries, by name. :mod:`.tensors` has the sizes and the memory of tensors,
  :mod:`.tensor_results` what is chosen or computed along an axis, :mod:`.layouts` the strides of tensors that are not
  contiguous.
- :mod:`.launch_calls` records launches, with :mod:`.stride_arguments` for strides that are passed as a list;
  :mod:`.launches` interprets a program from its entry points.

Nothing is executed: an operation that is not known has a value that is not known, and a function that is not known may
have written to all memory that it was passed. The interpreter must never ask which language a node comes from, and no
module here may know of kernels' plans or findings.
"""
