"""Our substitute for dataclasses behaves like the standard library's, which runs the same tests."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from nvccache import values


@pytest.fixture(params=[values, dataclasses], ids=["ours", "standard"])
def module(request: pytest.FixtureRequest) -> Any:
    return request.param


def class_by(module: Any, frozen: bool) -> Any:
    @module.dataclass(frozen=frozen, slots=True)
    class Shape:
        name: str
        sides: list[int] = module.field(default_factory=list)
        colour: str = "red"

        @property
        def count(self) -> int:
            return len(self.sides)

    return Shape


@pytest.mark.parametrize("frozen", [False, True])
def test_our_value_classes_construct_and_compare_like_dataclasses(module, frozen):
    shape_class = class_by(module, frozen)
    shape = shape_class("a", colour="blue")
    assert (shape.name, shape.sides, shape.colour, shape.count) == ("a", [], "blue", 0)
    assert shape_class("a").sides is not shape_class("a").sides
    assert repr(shape).endswith("Shape(name='a', sides=[], colour='blue')")
    assert shape_class("a", [1]) == shape_class("a", [1]) != shape_class("a", [2])
    assert shape_class("a") != class_by(module, False)("a")
    copy = module.replace(shape_class("a", [1]), name="b")
    assert (copy.name, copy.sides) == ("b", [1])


def test_our_frozen_value_classes_are_hashable_and_the_others_mutable(module):
    frozen, shape = class_by(module, True)("a", (1,)), class_by(module, False)("a")
    with pytest.raises(AttributeError):
        frozen.name = "b"
    assert {frozen: 1}[type(frozen)("a", (1,))] == 1
    shape.name = "b"
    assert shape.name == "b"
    with pytest.raises(AttributeError):
        shape.size = 1
    with pytest.raises(TypeError):
        hash(shape)
