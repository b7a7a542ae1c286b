"""A CUDA source in two parts: one for the host's compiler, without the bodies of kernels, and one for the device's.

What nvcc does three times over with all of PyTorch's headers is done once here: kernels become declarations for the
host, a launch the call of the kernel's stub after its configuration, and host functions are left out for the device.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from tree_sitter import Node

from gpuemu_lsp.engine.hostcode.cpp.syntax import tree_of

_SCOPES = frozenset(("namespace_definition", "linkage_specification"))
_CONDITIONS = frozenset(("preproc_if", "preproc_ifdef", "preproc_else", "preproc_elif"))
_FOR_BOTH = frozenset(("preproc_def", "preproc_function_def", "preproc_call", "comment", "using_declaration"))
_ONLY_HOST_INCLUDES = re.compile(
    r'#\s*include\s*[<"](?:torch/|pybind11|Python\.h|c10/core|c10/cuda/(?!CUDAMathCompat)'
    r"|ATen/(?!cuda/(?:Atomic|detail/|NumericLimits|DeviceUtils|AsmUtils)|AccumulateType|OpMathType|ceil_div))"
)
_ONLY_DEVICE_INCLUDES = re.compile(r'#\s*include\s*[<"](?:cooperative_groups|cuda_pipeline|cuda_awbarrier)')
_HOST_NAMES = re.compile(r"\b(?:at|torch|py|pybind11|c10::cuda)::(?!Half|BFloat16|PackedTensorAccessor)|\bTensor\b")
_COMPILER = re.compile(r"\b__(?:CUDACC|NVCC)__\b")
"""Macros that a source asks for. PyTorch's headers are not to see them: the host's prelude has others."""

_LAUNCH_BOUNDS = re.compile(r"__launch_bounds__\s*\([^()]*(?:\([^()]*\)[^()]*)*\)")
_VARIABLE = re.compile(
    r"(?P<type>(?:(?:static|const|volatile|alignas\s*\([^()]*\)|__(?:device|constant|managed)__)\s+)*[\w:]+"
    r"(?:\s*<[^;={}]*>)?)(?P<name>\s+\w+\s*(?:\[[^\]]*\]\s*)*)(?P<value>(?:=\s*)?\{.*\}|=.*)?\s*;",
    re.DOTALL,
)
_OF_DEVICE = re.compile(r"\b(?:static|__device__|__constant__|__managed__)\s")
_NAME = re.compile(r"([A-Za-z_]\w*)\s*\(")


class SplitError(Exception):
    """A source that cannot be split; nvcc gets it as it is."""


@dataclass(frozen=True, slots=True)
class SplitSource:
    """The two sources, and the names of kernels; ``internal`` are those with internal linkage."""

    host: str
    device: str
    kernels: frozenset[str]
    internal: frozenset[str]


def split_source(text: str, unique: str) -> SplitSource:
    """Return the parts of a source whose local headers are in it; ``unique`` is a name that no other file has.

    Raises
    ------
    SplitError
        If the source has something that is needed on both sides, or is not understood.
    """
    encoded = text.encode("latin-1", "replace")
    splitter = _Splitter(encoded.decode("latin-1"), unique)
    splitter.add(tree_of(splitter.text))
    host, device = "".join(splitter.host), "".join(splitter.device)
    host = _COMPILER.sub(r"GPUEMU\g<0>", with_launches(host))
    return SplitSource(host, device, frozenset(splitter.kernels), frozenset(splitter.internal))


@dataclass(slots=True)
class _Splitter:
    """Appends the parts of the text to both sources, in order."""

    text: str
    unique: str
    at: int = 0
    host: list[str] = field(default_factory=list)
    device: list[str] = field(default_factory=list)
    kernels: set[str] = field(default_factory=set)
    internal: set[str] = field(default_factory=set)

    def add(self, root: Node) -> None:
        for node in _declarations(root):
            self._both(self.text[self.at : node.start_byte])
            self._declaration(node, self.text[node.start_byte : node.end_byte])
            self.at = node.end_byte
        self._both(self.text[self.at :])

    def _both(self, text: str) -> None:
        # A namespace without a name is another one in each of the two objects.
        named = re.sub(r"\bnamespace(\s*)\{", rf"inline namespace {self.unique}\1{{", text)
        self.host.append(named)
        self.device.append(named)

    def _put(self, host: str, device: str) -> None:
        self.host.append(host)
        self.device.append(device)

    def _declaration(self, node: Node, text: str) -> None:
        if node.type == "ERROR":
            raise SplitError("a declaration is not understood")
        if node.type == "preproc_include":
            self._put(
                "\n" if _ONLY_DEVICE_INCLUDES.match(text) else text, "\n" if _ONLY_HOST_INCLUDES.match(text) else text
            )
            return
        if node.type in _FOR_BOTH:
            self._both(text)
            return
        function = _function(node)
        body = function.child_by_field_name("body") if function is not None else None
        head = text if body is None else self.text[node.start_byte : body.start_byte]
        if "__global__" in head:
            self._kernel(node, head, text)
        elif re.search(r"__device__|__constant__|__managed__", head) and "__host__" not in head and _is_plain(node):
            self._put(_blank(text) if function is not None else _declared_variable(text), text)
        elif function is not None and "__host__" not in head and not re.search(r"\bconstexpr\b", head):
            self._put(text, _blank(text))
        elif _is_plain(node) and function is None and "__host__" not in head and re.search(r"\)\s*;\s*$", text):
            self._put(text, _blank(text))  # the declaration of a function of the host
        else:
            self._put(self._without_device_bodies(node), _blank(text) if _HOST_NAMES.search(text) else text)

    def _kernel(self, node: Node, head: str, text: str) -> None:
        signature = _LAUNCH_BOUNDS.sub(_blanked, head)
        name = _NAME.search(signature[signature.index("__global__") :])
        if name is None:
            raise SplitError("a kernel without a name")
        self.kernels.add(name[1])
        if re.search(r"\bstatic\b", signature):
            self.internal.add(name[1])
        device = re.sub(r"\bstatic\b", "      ", text)
        if node.type == "template_instantiation":
            self._put(_blank(text), device)
            return
        declared = re.sub(r"\b(?:static|__global__)\b", _blanked, signature).rstrip().rstrip(";")
        self._put(declared + ";" + _blank(text[len(declared) :]), device)

    def _without_device_bodies(self, node: Node) -> str:
        """Return a type for the host: functions of the device alone are declared only."""
        parts, at = list[str](), node.start_byte
        for function in _members(node):
            body = function.child_by_field_name("body")
            if body is None:
                continue
            initializers = next((child for child in function.children if child.type == "field_initializer_list"), body)
            head = self.text[function.start_byte : body.start_byte]
            if "__device__" in head and "__host__" not in head:
                declared = self.text[at : initializers.start_byte].rstrip()
                parts += [declared, ";", _blank(self.text[at + len(declared) : body.end_byte])]
                at = body.end_byte
        return "".join((*parts, self.text[at : node.end_byte]))


def _declared_variable(text: str) -> str:
    """Return the declaration, for the host, of a variable of the device: functions of the runtime take its name.

    A constant has a value for the host as well: it is not declared, nor is what is not a variable.
    """
    variable = _VARIABLE.fullmatch(text)
    if variable is None or (variable["value"] and re.search(r"\bconst\b", variable["type"])):
        return _blank(text)
    declared = f"extern {_OF_DEVICE.sub('', variable['type'])}{variable['name'].rstrip()};"
    return declared + "\n" * (variable[0].count("\n") - declared.count("\n"))


def with_launches(text: str) -> str:
    """Replace each launch, also in macros, by what nvcc makes of it.

    Raises
    ------
    SplitError
        If what is launched is not a name.
    """
    parts, at = list[str](), 0
    for launch in _LAUNCH.finditer(text):
        opened = launch.start()
        if launch[0] != "<<<" or opened < at:
            continue
        closed = _end_of(text, opened + 3, ">>>")
        arguments = re.compile(r"(?:\s|\\\n)*\(").match(text, closed + 3)
        begin = _begin_of_name(text, opened)
        if arguments is None or begin < at:
            raise SplitError("a launch is not understood")
        end = _end_of(text, arguments.end(), ")") + 1
        name, configuration = text[begin:opened].strip(), text[opened + 3 : closed]
        call = with_launches(text[arguments.end() - 1 : end])
        parts += [text[at:begin], f"(__cudaPushCallConfiguration({configuration}) ? (void)0 : {name}{call})"]
        at = end
    return "".join((*parts, text[at:]))


def _begin_of_name(text: str, end: int) -> int:
    """Return where the name with its template arguments begins that ends at an offset."""
    at = len(text[:end].rstrip(" \t\n\\"))
    if text[at - 1] == ">":
        depth = 0
        while at > 0:
            at -= 1
            depth += {">": 1, "<": -1, ")": 1, "(": -1}.get(text[at], 0)
            if depth == 0:
                break
    name = re.search(r"(?:\w+\s*::\s*)*\w+\s*$", text[:at])
    if name is None:
        raise SplitError("what is launched is not a name")
    return name.start()


_TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)\'|>>>|[()\[\]{}]', re.DOTALL)
_LAUNCH = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|<<<', re.DOTALL)
_CLOSES = {"(": ")", "[": "]", "{": "}"}


def _end_of(text: str, at: int, closing: str) -> int:
    """Return the offset of the token that closes what is open at an offset."""
    waiting = [closing]
    for token in _TOKEN.finditer(text, at):
        word = token[0]
        if word == waiting[-1]:
            waiting.pop()
            if not waiting:
                return token.start()
        elif word in _CLOSES:
            waiting.append(_CLOSES[word])
        elif word in ")]}":
            break
    raise SplitError("brackets do not match")


def _declarations(node: Node) -> Iterator[Node]:
    """Yield the declarations at namespace scope."""
    for child in node.named_children:
        if child.type in _SCOPES:
            body = child.child_by_field_name("body")
            if body is not None and body.type == "declaration_list":
                yield from _declarations(body)
            elif body is not None:
                yield child
        elif child.type in _CONDITIONS:
            yield from _declarations(child)
        elif node.type not in _CONDITIONS or child.type not in ("identifier", "preproc_defined", "binary_expression"):
            yield child


def _function(node: Node) -> Node | None:
    """Return the definition of a function that a declaration is, None if it is another one."""
    while node.type == "template_declaration":
        node = node.named_children[-1]
    return node if node.type == "function_definition" else None


def _is_plain(node: Node) -> bool:
    """Return whether a declaration is a function or a variable, not a type."""
    while node.type == "template_declaration":
        node = node.named_children[-1]
    if node.type not in ("declaration", "function_definition"):
        return False
    kind = node.child_by_field_name("type")
    return kind is None or kind.child_by_field_name("body") is None


def _members(node: Node) -> Iterator[Node]:
    """Yield the functions in the bodies of types."""
    for child in node.named_children:
        if child.type == "function_definition":
            yield child
        elif child.type not in ("compound_statement", "parameter_list"):
            yield from _members(child)


def _blank(text: str) -> str:
    """Return a text of the same lines without their content."""
    return re.sub(r"[^\n]", " ", text)


def _blanked(match: re.Match[str]) -> str:
    return _blank(match[0])
