"""How a file is compiled, read from the project's own build files; nothing is run.

nvcc gets include directories, macros and options from a build system. Their evident part is read here and becomes a
:class:`~gpuemu_lsp.engine.build.model.BuildContext`, in which every setting has its origin:

1. ``[build]`` of gpuemu.toml;
2. ``compile_commands.json``: the command of the file, or for a header of a source that includes it;
3. ``compile_flags.txt`` and ``.clangd``;
4. ``setup.py`` and ``pyproject.toml``: ``CUDAExtension``, evaluated as far as it is constant;
5. ``CMakeLists.txt`` and ``Makefile``: variables expanded, conditions on unknown values false;
6. folders for headers that are still missing: usual layouts of projects, the packages of the project's Python
   (PyTorch, CUTLASS, cuRAND, found by their files), and other folders of the project.

Macros and options are those of the first of 2 to 5 that says how this file is compiled. Include directories are taken
from all of them. An option that NVRTC does not know is listed as ignored.

Modules: ``context`` puts the settings together, ``model`` has their records; ``compile_commands``, ``setup_script``
(with ``constant_values``), ``cmake`` and ``makefile`` read one kind of file each, which ``files`` finds;
``command_line`` reads the options of nvcc and clang; ``missing_headers`` and ``python_packages`` search folders. None
of them runs anything of the project.
"""
