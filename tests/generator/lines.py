"""Random command lines of nvcc's, the same for the same seed.

A line is made of options from nvccache's own table, with values from values.py, in every spelling that nvcc
takes and in any order. Three in five are meant to be valid; the others have odd values, or words that were
damaged afterwards. What a line without damage says is known: `RandomLine.options`.
"""

from __future__ import annotations

import dataclasses
import os
import random
import re
from collections.abc import Mapping, Sequence

from generator import values
from nvccache.commandline.options import (
    ARITIES,
    GLUED_NUMBER,
    GLUED_TEXT,
    OPTIONAL,
    SPELLINGS,
    SPELLINGS_OF,
    SWITCH,
    UNSUPPORTED,
)
from nvccache.commandline.tokens import FORWARDED, INPUT

Option = tuple[str, str | None]  # long name, INPUT or FORWARDED, and value

VALID, ODD, DAMAGED = "valid", "odd", "damaged"
_ODDITY = {VALID: 0.0, ODD: 0.2, DAMAGED: 0.08}
_IN_VARIABLE = re.compile(r"[^\s\"\\\0]+")
_IN_FILE = re.compile(r"[^\"\\\0]+")
# What is left of a relative path must not name a file elsewhere, to which nvcc may write.
_BEGINS_AT_ROOT = re.compile("(^|=)/")
# No slash, so that no word comes to name a file elsewhere, and no NUL, which no argument can hold.
_BYTES = bytes(sorted(set(range(1, 256)) - {ord("/")}))


@dataclasses.dataclass(frozen=True)
class RandomLine:
    """A command line without the compiler, its environment, and the files it reads its options from."""

    seed: str
    arguments: tuple[str, ...]
    environ: Mapping[str, str]
    files: Mapping[str, str]
    options: tuple[Option, ...] | None  # in nvcc's order; None where it is not certain

    def __str__(self) -> str:
        seed, _, variant = self.seed.partition(" ")
        texts = [f"NVCCACHE_TEST_SEED={seed} {variant}", list(self.arguments), self.environ, self.files]
        return "\n".join(map(str, texts))


def seeds(count: int) -> list[str]:
    """The seeds of a run: NVCCACHE_TEST_SEED, and the number of the line; one line where it names that."""
    base = os.environ.get("NVCCACHE_TEST_SEED", "") or "1"
    return [base] if ":" in base else [f"{base}:{number}" for number in range(count)]


def make(seed: str, is_compiled: bool = False) -> RandomLine:
    """The line of a seed; one that `is_compiled` names few architectures."""
    return _Maker(seed, is_compiled).line()


def spell(option: Option, chance: random.Random) -> list[str]:
    """The words of an option, in one of its spellings."""
    name, value = option
    if name in (INPUT, FORWARDED):
        return [value or ""]
    word = chance.choice(SPELLINGS_OF[name])
    if value is None:
        return [word]
    spellings = [[word, value]]
    if value:
        spellings.append([f"{word}={value}"])
    glued = [letter for letter, of in {**GLUED_TEXT, **GLUED_NUMBER}.items() if of == name]
    if glued and _may_be_glued(glued[0], value):
        spellings += [[f"-{glued[0]}{value}"]] * 2
    if ARITIES[name] == OPTIONAL and value.startswith("-"):
        spellings.remove([word, value])
    return chance.choice(spellings)


def _may_be_glued(letter: str, value: str) -> bool:
    if letter in GLUED_NUMBER:
        return value.isascii() and value.isdecimal()
    start = f"-{letter}{value}".partition("=")[0]
    return bool(value) and value[0] != "=" and start not in SPELLINGS and start.lstrip("-") not in UNSUPPORTED


def _apart(options: list[Option]) -> list[Option]:
    """The options in another order where a value that was left out would be found in an input behind it."""
    ends = [option for option in options if ARITIES.get(option[0]) == OPTIONAL and option[1] is None]
    return [*(option for option in options if option not in ends), *ends]


class _Maker:
    """Draws the parts of a line, one after the other."""

    def __init__(self, seed: str, is_compiled: bool) -> None:
        self._seed = seed
        self._chance = random.Random(f"{seed} compiled" if is_compiled else seed)
        self._is_compiled = is_compiled
        self._kind = self._chance.choices((VALID, ODD, DAMAGED), (60, 25, 15))[0]

    def line(self) -> RandomLine:
        """Some options are in NVCC_PREPEND_FLAGS, NVCC_APPEND_FLAGS or a file."""
        options = self._options()
        if self._happens(0.8):
            self._chance.shuffle(options)
        before, after = self._taken(options, _IN_VARIABLE), self._taken(options, _IN_VARIABLE)
        moved = self._taken(options, _IN_FILE)
        options = _apart(options)
        argv, files, environ = self._words(options), {}, {}
        if moved:
            files["flags.txt"] = self._text_of_file(moved)
            argv += spell(("options-file", "flags.txt"), self._chance)
            options += [("options-file", "flags.txt"), *moved]
        for variable, part in (("NVCC_PREPEND_FLAGS", before), ("NVCC_APPEND_FLAGS", after)):
            if part:
                environ[variable] = " ".join(self._words(part))
        if self._kind == DAMAGED:
            environ, files = self._spoiled(environ), self._spoiled(files)
            argv = _damaged(argv, self._chance, self._chance.choice((1, 1, 2, 3)))
        certain = None if self._kind == DAMAGED else (*before, *options, *after)
        return RandomLine(self._seed, tuple(argv), environ, files, certain)

    def _happens(self, probability: float) -> bool:
        return self._chance.random() < probability

    def _pick(self, good: Sequence[str], odd: Sequence[str]) -> str:
        return self._chance.choice(odd if odd and self._happens(_ODDITY[self._kind]) else good)

    def _value(self, name: str) -> str:
        return self._pick(*values.VALUES.get(name, values.ANY))

    def _words(self, options: list[Option]) -> list[str]:
        return [word for option in options for word in spell(option, self._chance)]

    def _options(self) -> list[Option]:
        (mode,) = self._chance.choices(list(values.MODES), list(values.MODES.values()))
        options = [(mode, None)] if mode else []
        options += self._architectures(mode)
        for _ in range(self._chance.choice((0, 1, 1, 2, 2, 3, 4, 6))):
            options += self._extra()
        if self._happens(0.06):
            asking = self._chance.choice(("forward-unknown-to-host-compiler", "forward-unknown-opts"))
            options += [(asking, None), (FORWARDED, self._pick(*values.FORWARDED_WORDS))]
        options += [(INPUT, name) for name in self._inputs(mode)]
        options += self._outputs(mode, sum(name == INPUT for name, _ in options))
        if self._kind != VALID and self._happens(0.15):
            options.append((self._chance.choice(list(values.MODES)) or "link", None))
        if self._happens(0.08):
            options.append(self._chance.choice(options))
        return options

    def _architectures(self, mode: str) -> list[Option]:
        draw = self._chance.random()
        if self._is_compiled and draw < 0.75:
            return [("gpu-architecture", "sm_80")]
        if draw < 0.15:
            return []
        if draw < 0.75 or mode in ("cubin", "ptx", "optix-ir"):
            return [("gpu-architecture", self._value("gpu-architecture"))]
        if draw < 0.8 and not self._is_compiled:
            return [("gpu-architecture", self._chance.choice(("native", "all-major", "all")))]
        if draw < 0.87:
            return [("gpu-architecture", "compute_80"), ("gpu-code", self._value("gpu-code"))]
        return [
            ("generate-code", self._value("generate-code")) for _ in range(self._chance.choice((1, 1, 3)))
        ]

    def _extra(self) -> list[Option]:
        """A dependency file, a frequent option, or any of the table."""
        draw = self._chance.random()
        if draw < 0.2:
            asking = ("generate-dependencies-with-compile", "generate-nonsystem-dependencies-with-compile")
            found: list[Option] = [(self._chance.choice(asking), None)]
            names = [*("dependency-output", "dependency-target-name") * 2, "generate-dependency-targets"]
            return found + [self._option(name) for name in names if self._happens(0.25)]
        if draw < 0.8:
            return [self._option(self._chance.choice(values.COMMON))]
        name = self._chance.choice(sorted(ARITIES))
        is_rare = name in values.RARE and not self._happens(0.3)
        return [self._option("disable-warnings" if is_rare else name)]

    def _option(self, name: str) -> Option:
        is_left_out = ARITIES[name] == OPTIONAL and self._happens(0.6)
        return name, None if ARITIES[name] == SWITCH or is_left_out else self._value(name)

    def _inputs(self, mode: str) -> list[str]:
        is_link = mode in ("device-link", "relocatable-link")
        found = []
        for _ in range(self._chance.choices((1, 2, 3, 0), (80, 14, 4, 2))[0] + is_link):
            good = values.SOURCES
            if is_link or self._happens(0.12):
                good = ("one.o", "two.o", "libtwo.a") if is_link else values.OTHER_INPUTS
            found.append(self._pick(good, values.ODD_INPUTS))
        return found

    def _outputs(self, mode: str, inputs: int) -> list[Option]:
        found: list[Option] = []
        if self._happens(0.1):
            found.append(("output-directory", self._value("output-directory")))
        if self._happens(0.65 if inputs < 2 or mode in ("", "shared", "device-link") else 0.05):
            usual = "x" + values.OUTPUT_EXTENSIONS.get(mode, ".o")
            found.append(("output-file", usual if self._happens(0.4) else self._value("output-file")))
        return found

    def _taken(self, options: list[Option], form: re.Pattern[str]) -> list[Option]:
        """Some of the options, which are removed; mostly none."""
        if not self._happens(0.2 if self._kind == DAMAGED else 0.05):
            return []
        fitting = [option for option in options if option[1] is None or form.fullmatch(option[1])]
        taken = self._chance.sample(fitting, min(len(fitting), self._chance.choice((1, 2, 3))))
        for option in taken:
            options.remove(option)
        return _apart(taken)

    def _spoiled(self, texts: dict[str, str]) -> dict[str, str]:
        """The texts of variables or option files, with a character or two too many."""
        found = {}
        for name, text in texts.items():
            index = self._chance.randrange(len(text) + 1)
            found[name] = text[:index] + self._chance.choice(values.SPOILING) + text[index:]
        return found

    def _text_of_file(self, options: list[Option]) -> str:
        shown = [
            f'"{word}"' if re.search(r"\s", word) or self._happens(0.2) else word
            for word in self._words(options)
        ]
        return "".join(word + self._chance.choice((" ", "\n", "\t", "  ", "\r\n")) for word in shown)


def _damaged(argv: Sequence[str], chance: random.Random, times: int) -> list[str]:
    """The words with so many things done to them: one lost, repeated, moved, cut, or with a byte changed."""
    found = list(argv)
    for _ in range(times):
        index = chance.randrange(len(found) + 1)
        before, rest = found[:index], found[index:]
        word, after = rest[:1], rest[1:]
        raw = os.fsencode(word[0]) if word else b""
        cut = chance.randrange(len(raw) + 1)
        kind = chance.choice(("lost", "again", "stray", "stray", "joined", "cut", "byte", "byte"))
        if kind == "lost":
            word = []
        elif kind in ("again", "stray"):
            word = [
                chance.choice(found or ["-c"]) if kind == "again" else chance.choice(values.STRAY_WORDS),
                *word,
            ]
        elif kind == "joined":
            word, after = ["".join(rest[:2])], rest[2:]
        elif kind == "cut":
            word = [os.fsdecode(part) for part in (raw[:cut], raw[cut:])]
        else:
            added = bytes(chance.choice(_BYTES) for _ in range(chance.choice((1, 1, 2, 8))))
            word = [os.fsdecode(raw[:cut] + added + raw[cut + chance.choice((0, 1)) :])]
        found = [*before, *word, *after]
    return [_BEGINS_AT_ROOT.sub(r"\1x/", word) for word in found]


def variants(line: RandomLine) -> list[RandomLine]:
    """Lines near this one: with other names for its outputs, and with one thing done to its words."""
    chance = random.Random(f"{line.seed} variants")
    words = tuple(_damaged(line.arguments, chance, 1))
    found = [dataclasses.replace(line, seed=f"{line.seed} (words)", arguments=words, options=None)]
    if line.options and not line.environ and not line.files:
        renamed = tuple(_renamed(option, chance) for option in line.options)
        words = tuple(word for option in renamed for word in _spelled_alike(option, line, chance))
        seed = f"{line.seed} (names)"
        found.append(dataclasses.replace(line, seed=seed, arguments=words, options=renamed))
    return found


def _spelled_alike(option: Option, line: RandomLine, chance: random.Random) -> list[str]:
    """The words of an option; of a switch as the line spells it, since that is in the key of its record."""
    if option[1] is None:
        return [word for word in SPELLINGS_OF[option[0]] if word in line.arguments][:1]
    return spell(option, chance)


def _renamed(option: Option, chance: random.Random) -> Option:
    name, value = option
    if name == "output-file" and value:
        return name, chance.choice([*values.OUTPUTS, "z" + os.path.splitext(value)[1]])
    if name in ("output-directory", "dependency-output", "dependency-target-name", "threads"):
        return name, chance.choice(values.VALUES[name][0])
    return option
