"""What stands before the block or the semicolon of a declaration in C++: is it a function, what is its name.

Only a few plain forms are understood, and anything else is UnknownError or no function: what is made of this
decides which results are taken to be the same (line_readers.py). A declaration may have several declarators,
their names may stand in parentheses, and a block behind parentheses may be an initializer.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_IS_CLASS = re.compile(rb"\b(?:class|struct|union)\b")
_IN_PARENTHESES = re.compile(rb"\b(?:__attribute__|__attribute|__declspec|alignas)\s*\(")
_ATTRIBUTE = re.compile(rb"\[\[.*?\]\]", re.DOTALL)
_DIRECTIVE = re.compile(rb"^[ \t]*#[^\n]*", re.MULTILINE)
_LITERAL = re.compile(
    rb"""(?:"(?:[^"\\\n]|\\.)*"|'(?<!\w')(?:[^'\\\n]|\\.)+'|'(?<=\b[uUL]')(?:[^'\\\n]|\\.)+'"""
    rb"""|'(?<=\bu8')(?:[^'\\\n]|\\.)+')"""
)
_TEMPLATE = re.compile(rb"^\s*(?:extern\s+)?template\s*<")
_CONSTRAINT = re.compile(rb"^\s*requires\s+[\w:]+<[^<>()]*>(?=\s+\w)")  # of the plainest form
_CLASS_HEAD = re.compile(rb"^\s*(?:class|struct|union)\s+(\w+)\s*(?:final\s*)?(?::[^:].*)?$", re.DOTALL)
_FUNCTION_HEAD = re.compile(rb"^(?:[\w\s:*&<>,]*[\s*&>:])?(\w+)\s*\(")
_ARGUMENTS = re.compile(rb"<[^<>]*>")
_PARENTHESIS = re.compile(rb"[()]")
# In these two each group in parentheses is `(N)`.
_BEHIND_PARAMETERS = re.compile(
    rb"\s*(?:(?:const|volatile|override|final|&&?|noexcept(?:\s*\(\d+\))?|throw\s*\(\d+\))\s*)*"
    rb"(?:=\s*(?:default|delete|0)\s*|:(?!:).*)?$",
    re.DOTALL,
)
_NAME_AND_PARAMETERS = re.compile(rb"(?:\boperator\b[^\w(]*(?:\(\d+\))?|\b\w+)\s*\((\d+)\)")
_ACCESS = re.compile(rb"^\s*(?:public|private|protected)\s*:(?!:)")
_SINGLE_COLON = re.compile(rb"(?<!:):(?!:)")
# What may be a declarator, and is no list of parameters for sure.
_MAY_DECLARE = re.compile(rb"\s*(?:[*&(.]|(?!void\s*$)(?:\w*\s*::\s*)*\w+\s*$|.*::\s*\*|.*\[)", re.DOTALL)
_ONE_NAME = re.compile(rb"\s*(\w+)\s*$")
_BODY_HEAD = re.compile(rb"^\s*[^\s,:(][^(]*\w\s*\(|^\s*\w+\s*\(|^[^(]*\boperator\b")
_QUALIFIED = re.compile(rb"(\w+)\s*::\s*(?=\w+\s*\()")
_ALIAS = re.compile(rb"^\s*using\s+(?:(\w+)\s*=|(?:\w+\s*::\s*)+(\w+)\s*$|::[\s\w:]*?(\w+)\s*$)")
# With these words a declaration is of none of the plain forms, or what it declares is used without a name.
_ODD_WORD = re.compile(
    rb"\b(?:operator|auto|decltype|requires|typedef|friend|static_assert|concept|using|class|struct|union|enum"
    rb"|asm|__asm__|namespace|typeof|__typeof__|explicit)\b"
)
_ODD_BODY = re.compile(rb"\b(?:auto|class|struct|union|enum|namespace|requires|concept|friend)\b|\[")
# A loop, a structured binding or a coroutine calls functions of these names.
_CALLED_UNNAMED = frozenset(
    (b"begin", b"end", b"get", b"await_transform", b"initial_suspend", b"final_suspend", b"yield_value",
     b"return_value", b"return_void", b"unhandled_exception", b"await_ready", b"await_suspend",
     b"await_resume", b"get_return_object", b"get_return_object_on_allocation_failure",
     b"noexcept", b"sizeof", b"alignof", b"if", b"for", b"while",
     b"switch", b"return", b"catch", b"defined", b"__extension__")
)  # fmt: skip


class UnknownError(Exception):
    """What is declared cannot be told."""


def is_balanced(head: bytes) -> bool:
    """Whether each parenthesis and bracket is closed; one in a literal is none."""
    if b"(" not in head and b")" not in head and b"[" not in head and b"]" not in head:
        return True
    if b'R"' in head:
        return False  # or what it holds is not known
    flat = _LITERAL.sub(b"", _DIRECTIVE.sub(b"", head))
    return flat.count(b"(") == flat.count(b")") and flat.count(b"[") == flat.count(b"]")


def name_of_class(head: bytes) -> bytes:
    """Raises UnknownError."""
    found = _CLASS_HEAD.match(plain(head))
    if not found:
        raise UnknownError
    return found[1]


def opens_class(head: bytes) -> bool:
    """Whether a block is that of a class; one that only looks otherwise is not taken for a body."""
    return _IS_CLASS.search(head) is not None and b"(" not in plain(head) and b"=" not in head


def is_function(head: bytes) -> bool:
    """Whether the block behind it is a function's body, and the function's type has been said before."""
    head = _ACCESS.sub(b"", plain(head))
    flat, groups = _grouped(head)
    declared, arrow, _ = flat.partition(b"->")
    if arrow and b"auto" in declared and head.count(b"auto") == 1:
        head = head.replace(b"auto", b"")
    if b"=" in flat or not _BODY_HEAD.match(head) or _ODD_BODY.search(head):
        return False
    return any(
        _BEHIND_PARAMETERS.match(declared, found.end())
        and not _SINGLE_COLON.search(declared[: found.start()])
        and not _MAY_DECLARE.match(groups[int(found[1])])
        for found in _NAME_AND_PARAMETERS.finditer(declared)
    )


def initializers(head: bytes) -> int:
    """Where the initializers of a constructor begin, which belong to its body; the end if it has none."""
    for colon in _SINGLE_COLON.finditer(head):
        declared = head[: colon.start()]
        if is_balanced(declared) and is_function(declared):
            return colon.start()
    return len(head)


def _grouped(head: bytes) -> tuple[bytes, list[bytes]]:
    """A text with `(N)` in the place of each group in parentheses, and what stands in them."""
    flat = b""
    groups: list[bytes] = []
    done = depth = opened = 0
    for found in _PARENTHESIS.finditer(head):
        depth += 1 if found[0] == b"(" else -1
        if depth < 0:
            raise UnknownError
        if depth == 1 and found[0] == b"(":
            flat += head[done : found.end()]
            opened = found.end()
        elif not depth:
            flat += b"%d)" % len(groups)
            groups.append(head[opened : found.start()])
            done = found.end()
    if depth:
        raise UnknownError
    return flat + head[done:], groups


def plain(head: bytes) -> bytes:
    """The beginning of a declaration without attributes, directives, and the parameters of templates."""
    head = _ATTRIBUTE.sub(b" ", _LITERAL.sub(b'""', _DIRECTIVE.sub(b"", head)))
    while found := _IN_PARENTHESES.search(head):
        head = head[: found.start()] + b" " + head[_end_of_group(head, found.end(), b"(", b")") :]
    while found := _TEMPLATE.match(head):
        head = head[_end_of_group(head, found.end(), b"<", b">") :]
        head = _CONSTRAINT.sub(b" ", head)
    return head


def _end_of_group(text: bytes, position: int, opening: bytes, closing: bytes) -> int:
    """Where a group ends that was opened before a position; the end where that cannot be told."""
    depth = 1
    while depth:
        start, end = text.find(opening, position), text.find(closing, position)
        if end < 0 or (opening == b"<" and text[position:end].count(b"(") != text[position:end].count(b")")):
            return len(text)
        is_opened = 0 <= start < end
        depth += 1 if is_opened else -1
        position = (start if is_opened else end) + 1
    return position


def names_declared(head: bytes) -> Sequence[bytes]:
    """The names of a function, an alias or a class that a namespace declares; raises UnknownError."""
    head = plain(head)
    alias = _ALIAS.match(head)
    if alias:
        return (alias[alias.lastindex or 1],)
    declared_class = _CLASS_HEAD.match(head)
    if declared_class:
        return (declared_class[1],)
    names, parameters = _function(head)
    if not _MAY_DECLARE.match(parameters):
        return names
    # A parameter without a name, or an object: `type (name)`.
    object_name = _ONE_NAME.match(parameters)
    if not object_name:
        raise UnknownError
    return (*names, object_name[1])


def name_of_member(head: bytes) -> bytes:
    """The name of what a class declares, if that is a function, or a constructor; raises UnknownError."""
    names, parameters = _function(plain(head))
    if _MAY_DECLARE.match(parameters):
        raise UnknownError
    return names[0]


def _function(head: bytes) -> tuple[Sequence[bytes], bytes]:
    """The names by which a function is declared, its own first, and its parameters; raises UnknownError."""
    flat, groups = _grouped(head)
    function = _FUNCTION_HEAD.match(flat)
    if not function or function[1] in _CALLED_UNNAMED or _ODD_WORD.search(head):
        raise UnknownError
    if not _BEHIND_PARAMETERS.match(flat, flat.index(b")") + 1) or _has_comma(flat[: function.start(1)]):
        raise UnknownError
    return (function[1], *_QUALIFIED.findall(flat[: function.end()])), groups[0]


def _has_comma(text: bytes) -> bool:
    """Whether there is a comma that does not stand between the arguments of a template."""
    while (shorter := _ARGUMENTS.sub(b"", text)) != text:
        text = shorter
    return b"," in text
