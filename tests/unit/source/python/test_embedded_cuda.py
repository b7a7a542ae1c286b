"""CUDA code in strings of a `.py`: its text as Python evaluates it, and the place of each character."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuemu_lsp.engine.findings import Position, Range
from gpuemu_lsp.engine.source.python import may_have_kernels, read_python

KERNEL = 'extern "C" __global__ void k(float* x, int n) {\n    int i = threadIdx.x;\n    if (i < n) x[i] = 2;\n}\n'


def embedded(text):
    source = read_python("/p/model.py", text)
    assert not source.unread, source.unread
    (cuda,) = source.cuda
    return cuda


def start_of(text, mapped, line, column):
    """Return where a position of the code stands in the module."""
    span = Range(Position(line, column), Position(line, column + 1))
    return mapped.place(span, read_python("/p/model.py", text).files).range.start


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
    "added in steps": "code = '#define A 1\\n'\ncode += r'''%s'''\nk = cp.RawKernel(code, 'k')",
    "assigned by itself": "code = r'''%s'''\ncode = '#define A 1\\n' + code\nk = cp.RawKernel(code, 'k')",
    "of a function": "def made(code, name):\n    return cp.RawKernel(code, name)\nk = made(r'''%s''', 'k')",
    "by keyword, with a head": """
HEAD = '#define A 1\\n'
CODE = r'''%s'''
def compiled(cuda_src, head=HEAD):
    cuda_src = head + cuda_src
    return load_inline(name='m', cpp_sources='', cuda_sources=[cuda_src], functions=['f'])
m = compiled(cuda_src=CODE)""",
    "of a function of a function": """
def inner(text, name):
    return cp.RawModule(code=text)
def outer(text):
    return inner('#define A 1\\n' + text, 'k')
k = outer(r'''%s''')""",
    "of a method": """
class Build:
    def compiled(self, code):
        return SourceModule(code)
    def run(self):
        self.module = self.compiled(r'''%s''')
Build().run()""",
    "assigned again": "code = 'int a;'\ncode = r'''%s'''\nk = cp.RawKernel(code, 'k')\ncode = 'int b;'",
    "class attribute": "class A:\n    code = r'''%s'''\n    def f(self):\n        return cp.RawKernel(self.code, 'k')\nA().f()",
    "attribute": "class A:\n    def __init__(self):\n        self.code = r'''%s'''\n        self.k = cp.RawKernel(self.code, 'k')\nA()",
    "parameter hides": "N = 1\ndef f():\n    N = 2\n    return cp.RawKernel(f'#define N {N}\\n' r'''%s''', 'k')\nf()",
    "function": "def source():\n    return r'''%s'''\nk = cp.RawKernel(source(), 'k')",
    "function of values": "def source(n, body, a='A'):\n    return f'#define {a} {n}\\n' + body\nk = cp.RawKernel(source(2 * 8, r'''%s'''), 'k')",
    "format": "k = cp.RawKernel('#define N {}\\n#define M {0:>4}{{}}\\n'.replace('{0:>4}{{}}', '3').format(2 * 8) + r'''%s''', 'k')",
    "format names": "k = cp.RawKernel('{head}\\n{{}}{n:03d}{n!r}\\n{body}'.format(n=7, head='int a;', body=r'''%s'''), 'k')",
    "percent": "HEAD = 'int a;'\nk = cp.RawKernel('%%s\\n#define N %%d // 100%%%%\\n' %% (HEAD, 4) + r'''%s''', 'k')",
    "percent names": "k = cp.RawKernel('int %%(n)s[%%(m)d];\\n' %% {'n': 'abc', 'm': 2 ** 3} + r'''%s''', 'k')",
    "template": "from string import Template\nT = Template('int $n[${m}]; // $$\\n')\nk = cp.RawKernel(T.substitute(n='a', m=1 << 4) + r'''%s''', 'k')",
    "safe template": "from string import Template\nk = cp.RawKernel(Template('int $n[$x];\\n').safe_substitute({'n': 'a'}) + r'''%s''', 'k')",
    "conversions": "X = 1.5\nS = 'int'\nk = cp.RawKernel(f'// {X:.3f} {S!r} {S:>8} {-X} {S}\\n' r'''%s''', 'k')",
    "arithmetic": "B = 256\nSIZES = {'t': 16, 'l': [1, 2]}\nk = cp.RawKernel(f\"// {B * 4 // 3 - 1} {SIZES['t']} {SIZES['l'][1]}\\n\".replace('256', str(B)) + r'''%s''', 'k')",
    "cleandoc": "import inspect\nk = cp.RawKernel(inspect.cleandoc(r'''%s'''), 'k')",
    "list of names": "A = 'int a;'\nB = r'''%s'''\nALL = [A] + [B]\nm = load_inline(name='m', cpp_sources='', cuda_sources=ALL)",
    "tuple": "A, B = 'int a;', r'''%s'''\nk = cp.RawKernel(A + B, 'k')",
    "continued": "k = cp.RawKernel('int a;\\\n' + \\\n    r'''%s''', 'k')",
    "unicode": "# ü🙂\nk = cp.RawKernel('// ü🙂 \\u00fc\\n' r'''%s''', 'k')",
}


@pytest.mark.parametrize("form", FORMS)
def test_the_text_is_the_one_that_python_passes(form):
    body = "".join(f"    {line}" for line in KERNEL.splitlines(True)) if form == "dedent" else KERNEL
    text = FORMS[form].replace("%%", "\0").replace("%s", body).replace("\0", "%")
    assert embedded(text).text.text == executed(text)


@pytest.mark.parametrize("form", FORMS)
def test_every_character_of_the_kernel_is_at_its_place(form):
    body = "".join(f"    {line}" for line in KERNEL.splitlines(True)) if form == "dedent" else KERNEL
    text = FORMS[form].replace("%%", "\0").replace("%s", body).replace("\0", "%")
    mapped = embedded(text).text
    data = text.encode()
    for number, line in enumerate(mapped.text.split("\n")):
        if "x[i]" not in line:
            continue
        place = start_of(text, mapped, number, line.index("x[i]"))
        assert data.split(b"\n")[place.line][place.column :].startswith(b"x[i] = 2;")
        return
    raise AssertionError(mapped.text)


def test_escape_sequences_do_not_shift_what_follows():
    text = 'k = cp.RawKernel("__global__ void k() {\\n  printf(\\"a\\\\n\\"); x;\\n}", "k")'
    mapped = embedded(text).text
    assert mapped.text == '__global__ void k() {\n  printf("a\\n"); x;\n}'
    place = start_of(text, mapped, 1, mapped.text.split("\n")[1].index("x;"))
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
        ("CODE % 4", "CODE"),
        ("'%d' % n", "n"),
        ("'{}'.format(n)", "n"),
        ("'a' if n else 'b'", "'a' if n else 'b'"),
    ],
)
def test_code_that_only_a_run_knows_is_reported(expression, reason):
    text = f"CODE = 'a'\nif x: CODE = 'b'\nk = cp.RawKernel({expression}, 'k')"
    source = read_python("/p/model.py", text)
    assert not source.cuda
    (unread,) = source.unread
    assert unread.api == "RawKernel" and reason in unread.reason and unread.range.start.line == 2


def test_a_function_that_compiles_its_argument_is_read_for_each_call():
    text = (
        "def build(code, name='k'):\n    return cp.RawModule(code=code).get_function(name)\n"
        "a = build('A', 'first')\nb = build(render())\nc = build('C', name='third')\n"
    )
    source = read_python("/p/model.py", text)
    found = [(cuda.text.text, cuda.entries, cuda.api, cuda.range.start.line) for cuda in source.cuda]
    assert found == [("A", ("first",), "RawKernel", 2), ("C", ("third",), "RawKernel", 4)]
    (unread,) = source.unread
    assert "render()" in unread.reason and unread.range.start.line == 3


def test_a_function_that_is_called_with_itself_ends():
    text = "def f(code):\n    f(code)\n    return cp.RawKernel(code, 'k')\nf('x')\n"
    assert [cuda.text.text for cuda in read_python("/p/model.py", text).cuda]


def test_a_function_that_returns_its_own_text_is_not_known():
    text = "def f(x, n=4):\n    return f(x) + f(x) + f(x) + f(x)\nk = cp.RawKernel(f('a'), 'k')\n"
    source = read_python("/p/model.py", text)
    assert not source.cuda and "f(x)" in source.unread[0].reason


def test_a_function_of_another_module_compiles_the_code_of_this_one(tmp_path):
    (tmp_path / "build.py").write_text("def build(code):\n    return cp.RawKernel('int a;\\n' + code, 'k')\n")
    text = "from build import build\nk = build('__global__ void k() {}')\n"
    (cuda,) = read_python((tmp_path / "model.py").as_posix(), text).cuda
    assert cuda.text.text == "int a;\n__global__ void k() {}" and cuda.range.start.line == 1
    assert may_have_kernels(text)


def test_local_names_hide_those_of_the_module():
    text = "CODE = 'module'\ndef f():\n    CODE = 'local'\n    return cp.RawKernel(CODE, 'k')\n"
    assert embedded(text).text.text == "local"


def test_files_without_kernels_are_not_parsed():
    assert not may_have_kernels("import numpy\ndef f(): return 1\n")
    assert may_have_kernels("k = cp.RawKernel('', 'k')") and may_have_kernels("@triton.jit\ndef k(): pass")


def test_line_ends_of_windows():
    text = "# a\r\nk = cp.RawKernel(r'''\r\n__global__ void k() {\r\n  x;\r\n}''', 'k')\r\n"
    mapped = embedded(text).text
    assert mapped.text == executed(text) == "\n__global__ void k() {\n  x;\n}"
    assert start_of(text, mapped, 2, 2) == Position(3, 2)


def test_a_placeholder_is_the_place_of_its_value():
    text = "N = 256\nk = cp.RawKernel(f'int a[{N}]; b;', 'k')\n"
    mapped = embedded(text).text
    assert mapped.text == "int a[256]; b;"
    place = mapped.place(Range.of(0, 6, 0, 9), read_python("/p/model.py", text).files)
    assert text.split("\n")[1][place.range.start.column : place.range.end.column] == "{N}"


def test_code_in_a_placeholder_is_at_its_own_place():
    text = "BODY = '''\n  x;\n'''\nk = cp.RawKernel('{a}'.format(a=BODY), 'k')\n"
    assert start_of(text, embedded(text).text, 1, 2) == Position(1, 2)


def test_each_line_has_its_number_in_the_file():
    text = "\n\nk = cp.RawModule(code='int a;\\n' r'''\n#define M \\\n 1\n''' + \\\n\n'''int b;''')\n"
    source = read_python("/p/model.py", text)
    lines = source.cuda[0].text.aligned(source.files).text.split("\n")
    assert lines[2] == "int a;" and lines[-1].endswith("int b;")
    assert lines[3:6] == ["", "#define M \\", " 1"] or lines[4:6] == ["#define M \\", " 1"]


@pytest.mark.parametrize(
    "line", ["from kernels import BODY as B", "from .kernels import BODY as B", "from pkg.kernels import BODY as B"]
)
def test_constants_of_a_sibling_module_are_read_and_not_imported(line, tmp_path):
    folder = tmp_path / "pkg"
    folder.mkdir()
    (folder / "kernels.py").write_text("raise SystemExit\nBODY = '''\n  x;\n'''\n")
    text = f"{line}\nk = cp.RawKernel(B, 'k')\n"
    source = read_python((folder / "model.py").as_posix(), text)
    (cuda,) = source.cuda
    place = cuda.text.place(Range.of(1, 2, 1, 3), source.files)
    assert cuda.text.text == "\n  x;\n" and place.path == (folder / "kernels.py").as_posix()
    assert place.range == Range.of(2, 2, 2, 3)


def test_code_in_a_file_is_read_from_it(tmp_path):
    (tmp_path / "k.cu").write_text("x;\n")
    for expression in (
        "open('k.cu').read()",
        "open(os.path.join(os.path.dirname(__file__), 'k.cu'), encoding='utf-8').read()",
        "(Path(__file__).parent / 'k.cu').read_text()",
    ):
        source = read_python((tmp_path / "model.py").as_posix(), f"k = cp.RawKernel({expression}, 'k')\n")
        (cuda,) = source.cuda
        assert cuda.text.text == "x;\n"
        assert cuda.text.place(Range.of(0, 0, 0, 1), source.files).path == (tmp_path / "k.cu").as_posix()


def test_paths_and_keys_that_are_not_plain_strings_are_read_or_unknown(tmp_path):
    (tmp_path / "k.cu").write_text("x;\n")
    for path in ('f"k.cu"', "'''k.cu'''"):
        text = f"from torch.utils.cpp_extension import load\nm = load(name='m', sources=[{path}])\n"
        assert len(read_python((tmp_path / "model.py").as_posix(), text).cuda_files) == 1
    source = read_python(
        "/p/model.py", "k = cp.RawKernel(CODE.replace(**{f'{a}': 'b'}), 'k')\nCODE = T.format(**{f'{a}': 1})\n"
    )
    assert not source.cuda and source.unread


def test_the_sources_of_load_are_files(tmp_path):
    (tmp_path / "csrc").mkdir()
    (tmp_path / "csrc" / "k.cu").write_text("x;\n")
    text = (
        "from torch.utils.cpp_extension import load\nHERE = os.path.dirname(__file__)\n"
        "m = load(name='m', sources=['ext.cpp', os.path.join(HERE, 'csrc', 'k.cu'), missing()], extra_cuda_cflags=['-DA'])\n"
        "x = np.load('file.npy')\n"
    )
    source = read_python((tmp_path / "model.py").as_posix(), text)
    (file,) = source.cuda_files
    assert file.path == (tmp_path / "csrc" / "k.cu").as_posix() and file.options == ("-DA",)
    (unread,) = source.unread
    assert "missing()" in unread.reason


@pytest.mark.parametrize(
    "text",
    [
        "CODE = 'a'\ndef f(CODE):\n    return cp.RawKernel(CODE, 'k')\n",
        "for CODE in codes:\n    k = cp.RawKernel(CODE, 'k')\n",
        "with open(name) as f:\n    k = cp.RawKernel(f.read(), 'k')\n",
        "SOURCES = ['a']\nSOURCES.append(more)\nm = load_inline('m', '', SOURCES)\n",
        "CODE = 'a'\ndef g():\n    global CODE\n    CODE = 'b'\ng()\nk = cp.RawKernel(CODE, 'k')\n",
        "k = cp.RawKernel(f'{N=}', 'k')\n",
        "k = cp.RawKernel('%(a)s' % values, 'k')\n",
        "k = cp.RawKernel(Template('$a $b').substitute(a=1), 'k')\n",
        "k = cp.RawKernel('{0.a}'.format(b), 'k')\n",
        "k = cp.RawKernel('a' * n, 'k')\n",
    ],
)
def test_what_is_not_constant_is_reported(text):
    source = read_python("/p/model.py", text)
    assert not source.cuda and len(source.unread) == 1
