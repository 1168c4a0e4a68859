"""Replacements for `dataclass`, `field` and `replace` of the standard library, so that a miss starts faster.

The module `dataclasses` imports `inspect` and compiles the methods of each class from text. This takes a
quarter of the time that a miss needs for imports (docs/development/decisions/hits.md). Type checkers see the
functions of the standard library.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dataclasses import dataclass, field, replace

    __all__ = ["dataclass", "field", "replace"]
else:

    class _Factory:
        __slots__ = ("make",)

        def __init__(self, make):
            self.make = make

    def field(*, default_factory):
        """A field whose default is created per object."""
        return _Factory(default_factory)

    def dataclass(*, slots, frozen=False):
        """Give a class `__slots__` for its annotated names, and comparison by value."""

        def with_slots(cls):
            names = tuple(cls.__annotations__)
            namespace = {name: value for name, value in vars(cls).items() if name not in names}
            for name in ("__dict__", "__weakref__"):
                namespace.pop(name, None)
            namespace["__slots__"] = names
            namespace["_defaults"] = {name: vars(cls)[name] for name in names if name in vars(cls)}
            return type(cls)(cls.__name__, (_Frozen if frozen else _Value,), namespace)

        return with_slots

    def replace(value, **changes):
        """A copy with other values in some fields."""
        return type(value)(**{**{name: getattr(value, name) for name in value.__slots__}, **changes})

    class _Value:
        __slots__ = ()
        _defaults = {}

        def __init__(self, *values, **named):
            """A missing value is a KeyError; superfluous ones are ignored, since type checkers find them."""
            given = {**self._defaults, **dict(zip(self.__slots__, values, strict=False)), **named}
            for name in self.__slots__:
                value = given[name]
                object.__setattr__(self, name, value.make() if type(value) is _Factory else value)

        def __eq__(self, other):
            if type(other) is not type(self):
                return NotImplemented
            return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

        __hash__ = None

        def __repr__(self):
            shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
            return f"{type(self).__name__}({shown})"

    class _Frozen(_Value):
        __slots__ = ()

        def __setattr__(self, name, value):
            raise AttributeError(f"{type(self).__name__} cannot be changed")

        def __hash__(self):
            return hash(tuple(getattr(self, name) for name in self.__slots__))
