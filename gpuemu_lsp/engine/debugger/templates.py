"""Messages of log points: text with expressions in braces."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from gpuemu_lsp.engine.debugger.evaluate import Value, evaluate
from gpuemu_lsp.engine.debugger.objects import Moment, Object, shown, text_of
from gpuemu_lsp.engine.debugger.syntax import CExpressionError, Node, parse
from gpuemu_lsp.engine.debugger.views import View

_BRACES: Final = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True, slots=True)
class Template:
    """A message: texts and expressions by turns."""

    parts: tuple[str | Node, ...]

    def text(self, view: View) -> str:
        """Return the message with the values at a moment, headed by the thread."""
        texts = [one if isinstance(one, str) else _value(one, view) for one in self.parts]
        return f"thread {view.moment.block.thread_index(view.moment.thread)}: {''.join(texts)}"


def template(text: str) -> Template:
    """Return the message with a text.

    Raises
    ------
    CExpressionError
        If what is in braces is not an expression.
    """
    parts: list[str | Node] = []
    for number, part in enumerate(_BRACES.split(text)):
        parts.append(parse(part) if number % 2 else part)
    return Template(tuple(parts))


def value_text(value: Value, moment: Moment) -> str:
    """Return a value as text."""
    return shown(moment, value) if isinstance(value, Object) else text_of(value)


def _value(node: Node, view: View) -> str:
    try:
        return value_text(evaluate(node, view.lookup, view.moment), view.moment)
    except CExpressionError as error:
        return f"<{error}>"
