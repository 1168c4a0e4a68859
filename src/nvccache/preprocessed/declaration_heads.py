"""Parses the head of a C++ declaration, the text before its block or semicolon: is it a function, its name.

Only a few simple forms are accepted. Anything else is UnknownError or no function, since an error here would
make different results count as equal (line_readers.py). Traps: several declarators, names in parentheses, and
blocks after parentheses that are initializers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_IS_CLASS = rb"\b(?:class|struct|union)\b"
_IN_PARENTHESES = rb"\b(?:__attribute__|__attribute|__declspec|alignas)\s*\("
_ATTRIBUTE = rb"(?s)\[\[.*?\]\]"
_DIRECTIVE = rb"(?m)^[ \t]*#[^\n]*"
_LITERAL = (
    rb"""(?:"(?:[^"\\\n]|\\.)*"|'(?<!\w')(?:[^'\\\n]|\\.)+'|'(?<=\b[uUL]')(?:[^'\\\n]|\\.)+'"""
    rb"""|'(?<=\bu8')(?:[^'\\\n]|\\.)+')"""
)
_TEMPLATE = rb"^\s*(?:extern\s+)?template\s*<"
_CONSTRAINT = rb"^\s*requires\s+[\w:]+<[^<>()]*>(?=\s+\w)"  # only the simplest form
_CLASS_HEAD = rb"(?s)^\s*(?:class|struct|union)\s+(\w+)\s*(?:final\s*)?(?::[^:].*)?$"
_FUNCTION_HEAD = rb"^(?:[\w\s:*&<>,]*[\s*&>:])?(\w+)\s*\("
_ARGUMENTS = rb"<[^<>]*>"
_PARENTHESIS = rb"[()]"
# For these two each group in parentheses was replaced by `(N)`.
_AFTER_PARAMETERS = (
    rb"(?s)\s*(?:(?:const|volatile|override|final|&&?|noexcept(?:\s*\(\d+\))?|throw\s*\(\d+\))\s*)*"
    rb"(?:=\s*(?:default|delete|0)\s*|:(?!:).*)?$"
)
_NAME_AND_PARAMETERS = rb"(?:\boperator\b[^\w(]*(?:\(\d+\))?|\b\w+)\s*\((\d+)\)"
_ACCESS = rb"^\s*(?:public|private|protected)\s*:(?!:)"
_SINGLE_COLON = rb"(?<!:):(?!:)"
# What may be a declarator, so that it is not certainly a parameter list.
_MAY_DECLARE = rb"(?s)\s*(?:[*&(.]|(?!void\s*$)(?:\w*\s*::\s*)*\w+\s*$|.*::\s*\*|.*\[)"
_ONE_NAME = rb"\s*(\w+)\s*$"
_BODY_HEAD = rb"^\s*[^\s,:(][^(]*\w\s*\(|^\s*\w+\s*\(|^[^(]*\boperator\b"
_QUALIFIED = rb"(\w+)\s*::\s*(?=\w+\s*\()"
_ALIAS = rb"^\s*using\s+(?:(\w+)\s*=|(?:\w+\s*::\s*)+(\w+)\s*$|::[\s\w:]*?(\w+)\s*$)"
# With these words a declaration has none of the simple forms, or its entity can be used without its name.
_ODD_WORD = (
    rb"\b(?:operator|auto|decltype|requires|typedef|friend|static_assert|concept|using|class|struct|union|enum"
    rb"|asm|__asm__|namespace|typeof|__typeof__|explicit)\b"
)
_ODD_BODY = rb"\b(?:auto|class|struct|union|enum|namespace|requires|concept|friend)\b|\["
# Loops, structured bindings and coroutines call functions of these names implicitly; the rest are no
# functions.
_CALLED_UNNAMED = frozenset(
    b"""
    begin end get await_transform initial_suspend final_suspend yield_value return_value return_void
    unhandled_exception await_ready await_suspend await_resume get_return_object
    get_return_object_on_allocation_failure noexcept sizeof alignof if for while switch return catch
    defined __extension__
    """.split()
)


class UnknownError(Exception):
    """The declaration is not understood."""


def is_balanced(head: bytes) -> bool:
    """Whether all parentheses and brackets outside literals are closed."""
    if b"(" not in head and b")" not in head and b"[" not in head and b"]" not in head:
        return True
    if b'R"' in head:
        return False  # raw strings are not parsed here
    flat = re.sub(_LITERAL, b"", re.sub(_DIRECTIVE, b"", head))
    return flat.count(b"(") == flat.count(b")") and flat.count(b"[") == flat.count(b"]")


def name_of_class(head: bytes) -> bytes:
    """Raises UnknownError."""
    found = re.match(_CLASS_HEAD, plain(head))
    if not found:
        raise UnknownError
    return found[1]


def opens_class(head: bytes) -> bool:
    """Whether a block is that of a class; if in doubt it is not, and then not taken for a body either."""
    return re.search(_IS_CLASS, head) is not None and b"(" not in plain(head) and b"=" not in head


def is_function(head: bytes) -> bool:
    """Whether the block after the head is a function's body, and the return type is not deduced from it."""
    head = re.sub(_ACCESS, b"", plain(head))
    flat, groups = _grouped(head)
    declared, arrow, _ = flat.partition(b"->")
    if arrow and b"auto" in declared and head.count(b"auto") == 1:
        head = head.replace(b"auto", b"")
    if b"=" in flat or not re.match(_BODY_HEAD, head) or re.search(_ODD_BODY, head):
        return False
    return any(
        re.match(_AFTER_PARAMETERS, declared[found.end() :])
        and not re.search(_SINGLE_COLON, declared[: found.start()])
        and not re.match(_MAY_DECLARE, groups[int(found[1])])
        for found in re.finditer(_NAME_AND_PARAMETERS, declared)
    )


def initializers(head: bytes) -> int:
    """The start of a constructor's initializers, which count as its body; the end if there are none."""
    for colon in re.finditer(_SINGLE_COLON, head):
        declared = head[: colon.start()]
        if is_balanced(declared) and is_function(declared):
            return colon.start()
    return len(head)


def _grouped(head: bytes) -> tuple[bytes, list[bytes]]:
    """The text with each outermost group in parentheses replaced by `(N)`, and the contents of the groups."""
    flat = b""
    groups: list[bytes] = []
    done = depth = opened = 0
    for found in re.finditer(_PARENTHESIS, head):
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
    """A head without attributes, directives, contents of literals and template parameters."""
    head = re.sub(_ATTRIBUTE, b" ", re.sub(_LITERAL, b'""', re.sub(_DIRECTIVE, b"", head)))
    while found := re.search(_IN_PARENTHESES, head):
        head = head[: found.start()] + b" " + head[_end_of_group(head, found.end(), b"(", b")") :]
    while found := re.match(_TEMPLATE, head):
        head = head[_end_of_group(head, found.end(), b"<", b">") :]
        head = re.sub(_CONSTRAINT, b" ", head)
    return head


def _end_of_group(text: bytes, position: int, opening: bytes, closing: bytes) -> int:
    """The end of a group opened before `position`; the end of the text if uncertain."""
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
    """The names of a function, alias or class declared in a namespace; raises UnknownError."""
    head = plain(head)
    alias = re.match(_ALIAS, head)
    if alias:
        return (alias[alias.lastindex or 1],)
    declared_class = re.match(_CLASS_HEAD, head)
    if declared_class:
        return (declared_class[1],)
    names, parameters = _function(head)
    if not re.match(_MAY_DECLARE, parameters):
        return names
    # An unnamed parameter, or an object: `type (name)`.
    object_name = re.match(_ONE_NAME, parameters)
    if not object_name:
        raise UnknownError
    return (*names, object_name[1])


def name_of_member(head: bytes) -> bytes:
    """The name of a member function or constructor; raises UnknownError."""
    names, parameters = _function(plain(head))
    if re.match(_MAY_DECLARE, parameters):
        raise UnknownError
    return names[0]


def _function(head: bytes) -> tuple[Sequence[bytes], bytes]:
    """A function's name, the names that qualify it, and its parameters; raises UnknownError."""
    flat, groups = _grouped(head)
    function = re.match(_FUNCTION_HEAD, flat)
    if not function or function[1] in _CALLED_UNNAMED or re.search(_ODD_WORD, head):
        raise UnknownError
    if not re.match(_AFTER_PARAMETERS, flat[flat.index(b")") + 1 :]) or _has_comma(flat[: function.start(1)]):
        raise UnknownError
    return (function[1], *re.findall(_QUALIFIED, flat[: function.end()])), groups[0]


def _has_comma(text: bytes) -> bool:
    """Whether there is a comma outside template argument lists."""
    while (shorter := re.sub(_ARGUMENTS, b"", text)) != text:
        text = shorter
    return b"," in text
