"""CUDA code in strings of a `.py`: its text as Python evaluates it, and the place of each character."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuemu_lsp.engine.findings import Position
from gpuemu_lsp.engine.source.python import may_have_kernels, read_python
from gpuemu_lsp.engine.source.python.mapped_text import FileLines

KERNEL = 'extern "C" __global__ void k(float* x, int n) {\n    int i = threadIdx.x;\n    if (i < n) x[i] = 2;\n}\n'


def embedded(text):
    source = read_python("/p/model.py", text)
    assert not source.unread, source.unread
    (cuda,) = source.cuda
    return cuda


def executed(text):
    """Return the code that a stub of the compiling function gets when Python runs the text."""
    got = []

    def compiles(*args, **kwargs):
        code = kwargs.get("code", kwargs.get("cuda_sources", kwargs.get("source", args[0] if args else None)))
        got.append("".join(one + "\n" for one in code) if isinstance(code, list | tuple) else code)

    class Module:
        RawKernel = RawModule = SourceModule = load_inline = staticmethod(compiles)

    names = dict.fromkeys(("RawKernel", "RawModule", "SourceModule", "load_inline"), compiles)
    # Python itself is the truth; the texts are those of this file.
    exec(compile(text, "model.py", "exec"), {"cp": Module, "__name__": "model", **names})  # noqa: S102
    return got[0]


FORMS = {
    "literal": "k = cp.RawKernel(r'''%s''', 'k')",
    "plain literal": "k = cp.RawKernel('''%s''', 'k')",
    "constant": "CODE = r'''%s'''\nk = cp.RawKernel(CODE, 'k')",
    "keywords": "k = cp.RawModule(options=('-O3',), code=r'''%s''', name_expressions=['k'])",
    "list": "m = load_inline(name='m', cpp_sources='', cuda_sources=[r'''int a;''', r'''%s'''], functions=['f'])",
    "one source": "m = load_inline(name='m', cpp_sources='', cuda_sources=r'''%s''', functions=['f'])",
    "pycuda": "mod = SourceModule(r'''%s''')\nf = 1",
    "concatenated": "k = cp.RawKernel('#define A 1\\n' r'''%s''', 'k')",
    "added": "HEAD = '#define A 1\\n'\nk = cp.RawKernel(HEAD + r'''%s''' + '\\n', 'k')",
    "dedent": "import textwrap\nk = cp.RawKernel(textwrap.dedent('''\\\n%s'''), 'k')",
    "f-string": "N = 4\nk = cp.RawKernel(f'#define N {N}\\n' r'''%s''', 'k')",
    "replaced": "k = cp.RawKernel(r'''%s'''.replace('float', 'double').strip(), 'k')",
    "joined": "k = cp.RawKernel('\\n'.join(['#define A 1', r'''%s''']), 'k')",
    "unicode": "# ü🙂\nk = cp.RawKernel('// ü🙂 \\u00fc\\n' r'''%s''', 'k')",
}


@pytest.mark.parametrize("form", FORMS)
def test_the_text_is_the_one_that_python_passes(form):
    body = "".join(f"    {line}" for line in KERNEL.splitlines(True)) if form == "dedent" else KERNEL
    text = FORMS[form].replace("%s", body)
    assert embedded(text).text.text == executed(text)


@pytest.mark.parametrize("form", FORMS)
def test_every_character_of_the_kernel_is_at_its_place(form):
    body = "".join(f"    {line}" for line in KERNEL.splitlines(True)) if form == "dedent" else KERNEL
    text = FORMS[form].replace("%s", body)
    mapped = embedded(text).text
    data = text.encode()
    lines = FileLines(data)
    for number, line in enumerate(mapped.text.split("\n")):
        if "x[i]" not in line:
            continue
        place = mapped.origin(Position(number, line.index("x[i]")), lines)
        assert data.split(b"\n")[place.line][place.column :].startswith(b"x[i] = 2;")
        return
    raise AssertionError(mapped.text)


def test_escape_sequences_do_not_shift_what_follows():
    text = 'k = cp.RawKernel("__global__ void k() {\\n  printf(\\"a\\\\n\\"); x;\\n}", "k")'
    mapped = embedded(text).text
    assert mapped.text == '__global__ void k() {\n  printf("a\\n"); x;\n}'
    place = mapped.origin(Position(1, mapped.text.split("\n")[1].index("x;")), FileLines(text.encode()))
    assert text[place.column :].startswith("x;\\n}")


PIECES = st.sampled_from(
    ["a", " ", "\n", "    ", "\\n", "\\t", "\\\\", "{", "}", "ü", "🙂", "\\x41", "x;", "\t", "\\\n"]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=30), st.sampled_from(["", "r", "f", "rf"]), st.booleans())
def test_random_literals_are_evaluated_as_python_does(pieces, prefix, dedent):
    body = "".join(pieces)
    if "f" in prefix:
        body = body.replace("{", "{{").replace("}", "}}")
    literal = f"{prefix}'''{body}'''"
    code = f"k = RawKernel({f'dedent({literal})' if dedent else literal}, 'k')\n"
    text = ("from textwrap import dedent\n" if dedent else "") + code
    try:
        expected = executed(text)
    except SyntaxError:
        return
    mapped = embedded(text).text
    assert mapped.text == expected and len(mapped.origins) == len(expected)
    data = text.encode()
    for character, origin in zip(mapped.text, mapped.origins, strict=True):
        if character not in "\n\t\\{}A" and data[origin : origin + 1] != b"\\":
            assert data[origin:].startswith(character.encode())


def test_entries_and_options_are_read():
    module = (
        "mod = cp.RawModule(code='''template<typename T> __global__ void k(T* x) {}''', options=('-std=c++17', '-DA'),\n"
        "                   name_expressions=['k<float>', 'k<double>'])\n"
        "f = mod.get_function('k<float>')\n"
    )
    cuda = embedded(module)
    assert cuda.api == "RawModule" and cuda.entries == ("k<float>", "k<double>")
    assert cuda.options == ("-std=c++17", "-DA")
    assert embedded("k = cp.RawKernel('''x''', 'name')").entries == ("name",)
    pycuda = embedded("mod = SourceModule('''x''', options=['-O2'])\nf = mod.get_function('axpy')")
    assert pycuda.entries == ("axpy",) and pycuda.options == ("-O2",)
    inline = embedded("m = load_inline('n', '', '''x''', ['f'], extra_cuda_cflags=['--use_fast_math'])")
    assert inline.options == ("--use_fast_math",)


@pytest.mark.parametrize(
    "expression, reason",
    [
        ("make()", "make()"),
        ("f'{size}'", "size"),
        ("CODE", "CODE"),
        ("open('k.cu').read()", "open('k.cu').read()"),
        ("CODE % 4", "CODE % 4"),
    ],
)
def test_code_that_only_a_run_knows_is_reported(expression, reason):
    text = f"CODE = 'a'\nCODE = 'b'\nk = cp.RawKernel({expression}, 'k')"
    source = read_python("/p/model.py", text)
    assert not source.cuda
    (unread,) = source.unread
    assert unread.api == "RawKernel" and reason in unread.reason and unread.range.start.line == 2


def test_local_names_hide_those_of_the_module():
    text = "CODE = 'module'\ndef f():\n    CODE = 'local'\n    return cp.RawKernel(CODE, 'k')\n"
    assert embedded(text).text.text == "local"


def test_files_without_kernels_are_not_parsed():
    assert not may_have_kernels("import numpy\ndef f(): return 1\n")
    assert may_have_kernels("k = cp.RawKernel('', 'k')") and may_have_kernels("@triton.jit\ndef k(): pass")
