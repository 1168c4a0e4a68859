"""Our substitute for dataclasses behaves like the standard library's."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from nvccache import values


def made_by(module: Any, frozen: bool) -> Any:
    """The same class, made by one module or the other."""

    @module.dataclass(frozen=frozen, slots=True)
    class Shape:
        name: str
        sides: list[int] = module.field(default_factory=list)
        colour: str = "red"

        @property
        def count(self) -> int:
            return len(self.sides)

    return Shape


@pytest.fixture(params=[values, dataclasses], ids=["ours", "standard"])
def module(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.mark.parametrize("frozen", [False, True])
def test_fields_are_taken_by_place_and_by_name_and_from_defaults(module, frozen):
    kind = made_by(module, frozen)
    shape = kind("a", colour="blue")
    assert (shape.name, shape.sides, shape.colour, shape.count) == ("a", [], "blue", 0)
    assert kind("a").sides is not kind("a").sides
    assert repr(shape).endswith("Shape(name='a', sides=[], colour='blue')")


@pytest.mark.parametrize("frozen", [False, True])
def test_wrong_arguments_are_refused(module, frozen):
    kind = made_by(module, frozen)
    for values_, named in (
        ((), {}),
        (("a", [], "b", "c"), {}),
        (("a",), {"name": "b"}),
        (("a",), {"size": 1}),
    ):
        with pytest.raises(TypeError):
            kind(*values_, **named)


@pytest.mark.parametrize("frozen", [False, True])
def test_it_compares_by_values_and_within_a_class(module, frozen):
    kind, other = made_by(module, frozen), made_by(module, frozen)
    assert kind("a", [1]) == kind("a", [1]) != kind("a", [2])
    assert kind("a") != other("a")


@pytest.mark.parametrize("frozen", [False, True])
def test_a_copy_has_other_values(module, frozen):
    shape = made_by(module, frozen)("a", [1])
    assert (module.replace(shape, name="b").name, module.replace(shape, name="b").sides) == ("b", [1])
    with pytest.raises(TypeError):
        module.replace(shape, size=1)


def test_what_is_frozen_stays_and_can_be_a_key(module):
    shape = made_by(module, True)("a", (1,))
    with pytest.raises(AttributeError):
        shape.name = "b"
    assert {shape: 1}[type(shape)("a", (1,))] == 1


def test_what_is_not_frozen_can_be_changed_but_not_added_to(module):
    shape = made_by(module, False)("a")
    shape.name = "b"
    assert shape.name == "b"
    with pytest.raises(AttributeError):
        shape.size = 1
    with pytest.raises(TypeError):
        hash(shape)
