"""What the text of sources says about reading: never less than what a compiler would do."""

from __future__ import annotations

import pytest

from nvccache import keys, sources
from nvccache.sources import Findings, Survey

HAS = b"#define HAS(x) __has_include(x)\n"


def look(survey: Survey, texts: dict[str, bytes]) -> dict[str, Findings]:
    return survey.of(texts, texts.__getitem__)


def findings(text: bytes) -> Findings:
    return look(Survey(), {"a.h": text})["a.h"]


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        (b'#if __has_include("x.h")\n', ["x.h"]),
        (b"#if __has_include(<sub/x.h>)\n", ["sub/x.h"]),
        (b"#  elif defined(X) && __has_include ( <x.h> )\n", ["x.h"]),
        (b"#if __has_include_next(<x.h>)\n", ["x.h"]),
        (b'#if __has_include "x.h"\n', ["x.h"]),
        (b"#if __has_include <x.h>\n", ["x.h"]),
        (b"#if !__has_include(<x.h>) || __has_include(<y.h>)\n", ["x.h", "y.h"]),
        (b"#if __has_include(<with blank.h>)\n", ["with blank.h"]),
        (b'#if __has_include("../x.h")\n', ["../x.h"]),
        (b'#if __has_include("\xff.h")\n', ["\udcff.h"]),
        (b'#if 0\n#if __has_include("x.h")\n#endif\n#endif\n', ["x.h"]),
        (b'// __has_include("x.h")\n', []),
        (b'/* for __has_include(<x.h>) */\n#if __has_include("y.h")\n', ["y.h"]),
        (b'#if __has_include \\\n   ("x.h")\n', ["x.h"]),
        (b"#if defined(X) && \\\n  __has_include( \\\n  <x.h>)\n", ["x.h"]),
    ],
)
def test_names_that_are_asked_for_are_found(text, asked):
    found = findings(text)
    assert found.asked == asked
    assert found.objections == []


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"#ifdef __has_include\n#endif\n",
        b"#if defined(__has_include)\n",
        b"#if defined __has_include && X\n",
        b"#ifndef __has_include\n",
        b"int has_include(int);\n",
    ],
)
def test_asking_whether_one_can_ask_is_no_question(text):
    found = findings(text)
    assert (found.asked, found.objections) == ([], [])


@pytest.mark.parametrize(
    "text",
    [
        HAS + b'#if HAS("x.h")\n',
        HAS + b"#if HAS( <x.h> )\n",
        b"# define HAS( name ) ( __has_include( name ) )\n#if HAS(<x.h>)\n",
        HAS + b"#define HAS_TOO(y) HAS(y)\n#if HAS_TOO(<x.h>)\n",
        HAS + b"#define A(y) HAS(y)\n#define B(z) A(z)\n#define C(w) B(w)\n#if C(<x.h>)\n",
        b"#define B(z) HAS(z)\n" + HAS + b"#if B(<x.h>)\n",
        b"#define HAS(x) \\\n  __has_include(x)\n#if HAS(<x.h>)\n",
        b"#define HAS(x) __has_include_next(x)\n#if HAS(<x.h>)\n",
    ],
)
def test_names_that_are_asked_for_through_macros_are_found(text):
    found = findings(text)
    assert set(found.asked) == {"x.h"}
    assert found.objections == []


def test_a_macro_of_another_file_is_a_question_too():
    found = look(Survey(), {"has.h": HAS, "a.h": b"#if HAS(<x.h>)\n", "b.h": b"#if OTHER(<y.h>)\n"})
    assert {path: file.asked for path, file in found.items()} == {"has.h": [], "a.h": ["x.h"], "b.h": []}


def test_a_macro_that_a_later_pass_brings_in_is_a_question_too():
    survey = Survey()
    assert look(survey, {"a.h": b"#if HAS(<x.h>)\n"})["a.h"].asked == []
    assert look(survey, {"has.h": HAS, "a.h": b"#if HAS(<x.h>)\n"})["a.h"].asked == ["x.h"]


def test_a_file_is_looked_through_once_for_all_passes():
    survey = Survey()
    first = look(survey, {"a.h": b"#if __has_include(<x.h>)\n"})["a.h"]
    assert look(survey, {"a.h": b"#if __has_include(<x.h>)\n", "b.h": b""})["a.h"] is first
    assert first.asked == ["x.h"]


@pytest.mark.parametrize(
    "text",
    [
        b"#if __has_include(NAME)\n",
        b"#if __has_include(STRING(x.h))\n",
        b'#if __has_include(/**/"x.h")\n',
        b"#define HAS(a, b) __has_include(a)\n",
        b"#define HAS(...) __has_include(__VA_ARGS__)\n",
        b"#define HAS(x) __has_include(PREFIX(x))\n",
        HAS + b"#if HAS(NAME)\n",
        HAS + b"#define A(y) HAS(y)\n#if A(NAME)\n",
        b"#define HAS(x) __has_include(<x>)\n#if HAS(x.h)\n",
        b"#define HAS __has_include\n#if HAS(<x.h>)\n",
        HAS + b"#define A HAS\n#if A(<x.h>)\n",
        b'#define HAS(x) __has_include x\n#if HAS(("x.h"))\n',
        b'#if __has_include/**/("x.h")\n',
        b'#if __has_include \\\r\n("x.h")\n',
        b'#if __has_include(\\ \n"x.h")\n',
    ],
)
def test_a_name_that_cannot_be_told_is_an_objection_or_a_question(text):
    found = findings(text)
    assert found.objections or "x.h" in found.asked
    assert all(clause.startswith("`a.h` ") for clause in found.objections)


def test_an_old_compilers_fallback_is_no_question():
    found = findings(b"#ifndef __has_include\n#  define __has_include(x) 0\n#endif\n")
    assert (found.asked, found.objections) == ([], [])


@pytest.mark.parametrize(
    ("text", "uses"),
    [
        (b'#embed "x.bin"\n', "#embed"),
        (b"  # \t embed <x.bin>\n", "#embed"),
        (b"int x;\n#embed <x.bin> limit(4)\n", "#embed"),
        (b"#if __has_embed(<x.bin>)\n", "__has_embed"),
        (b'#import "x.h"\n', "#import"),
        (b'#pragma GCC dependency "x.h"\n', "#pragma GCC dependency"),
        (b'# pragma  GCC\tdependency "x.h" rebuild\n', "#pragma GCC dependency"),
    ],
)
def test_reading_that_is_not_followed_is_an_objection(text, uses):
    assert findings(text).objections == [f"`a.h` uses `{uses}`"]


@pytest.mark.parametrize(
    "text",
    [b"// embed import dependency\n", b"#include <embed.h>\n", b"#pragma once\nimport x;\n", b"#embedded\n"],
)
def test_words_that_only_look_like_it_are_none(text):
    assert findings(text).objections == []


@pytest.mark.parametrize(
    ("text", "included"),
    [
        (b'#include "x.h"\n# include <sub/y.h>\n#include_next<z.h>\n', ["x.h", "sub/y.h", "z.h"]),
        (b'#if 0\n\t#\tinclude\t"x.h"\n#endif\n', ["x.h"]),
        (b'#include "with blank.h"\n', ["with blank.h"]),
        (b"#include NAME\n#included <x>\n", []),
    ],
)
def test_names_that_are_included_are_found(text, included):
    assert findings(text).included == included


@pytest.mark.parametrize(
    "text", [b"#pragma once\n", b"/* x */\n \t# pragma\tonce // y\n", b"int x;\n#pragma once"]
)
def test_a_file_that_wants_to_be_read_once_is_known(text):
    assert findings(text).is_once


@pytest.mark.parametrize("text", [b"", b"// #pragma once\n", b"#pragma onces\n", b"int once;\n"])
def test_other_files_are_read_as_often_as_included(text):
    assert not findings(text).is_once


@pytest.mark.parametrize("word", [b"__TIME__", b"__DATE__", b"__TIMESTAMP__"])
def test_words_for_the_time_are_found(word):
    assert findings(b"const char *when = " + word + b";\n").time_words == [word]
    assert sources.time_words_in(["-O2", f"-DWHEN={word.decode()}"]) == [word]


def test_other_words_are_not_about_time():
    assert findings(b"int __TIME, TIME__, __LINE__;\n").time_words == []
    assert sources.time_words_in(["-DTIME", "a.cu"]) == []


EXPANDED = {
    b"__TIME__": [b'"12:34:56"', b'"??:??:??"'],
    b"__DATE__": [b'"Nov 21 2026"', b'"Nov  1 2026"', b'"??? ?? ????"'],
    b"__TIMESTAMP__": [
        b'"Sat Nov 21 12:34:56 2026"',
        b'"Sun Nov  1 12:34:56 2026"',
        b'"??? ??? ?? ??:??:?? ????"',
    ],
}


@pytest.mark.parametrize(
    ("word", "text"), [(word, text) for word, texts in EXPANDED.items() for text in texts]
)
def test_a_text_with_the_time_in_it_is_objected_to(word, text):
    used = [("x.h", b"__DATE__"), ("a.h", word)] if word != b"__DATE__" else [("a.h", word)]
    line = b"const char *when = " + text + b";\n"
    assert sources.expands_time(used, line, False) == f"`a.h` uses `{word.decode()}`"
    assert sources.expands_time([], line, False) == ""
    assert sources.expands_time(used, b"const char *when = 0;\n", False) == ""


def test_a_fixed_date_is_no_time_but_a_files_date_is():
    for word, is_objection in ((b"__TIME__", False), (b"__DATE__", False), (b"__TIMESTAMP__", True)):
        text = EXPANDED[word][0]
        assert bool(sources.expands_time([("a.h", word)], text, True)) == is_objection


def test_the_rules_have_another_number_when_they_change():
    """What is remembered of headers was found by the rules of its time (surveys.py).

    Where this fails, change RULES if anything else will be found in some text, then the digest here.
    """
    with open(sources.__file__, "rb") as stream:
        rules = (sources.RULES, keys.digest_bytes(stream.read()))
    assert rules == ("1", "1d47879e3a1c3ac1e88a8638c56a6d7b")
