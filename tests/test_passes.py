"""Facts about a preprocessor pass: whether the assembler will read files, and what else its text tells."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from nvccache import passes
from nvccache.markers import Entered
from nvccache.passes import Pass, of_facts, of_text, reads_in_assembler

MARKERS = b'# 1 "a.cu"\n# 1 "/base/one/x.h" 1\nint x;\n# 2 "a.cu" 2\n'

READING = [
    r'asm(".incbin \"f\"");',
    r'asm volatile (".incbin \"f\"" ::: "memory");',
    r'__asm__ __volatile__(".incbin \"f\"");',
    r'__asm(".INCBIN \"f\"");',
    r'asm(".IncBin \"f\"");',
    r'asm(".inc" "bin \"f\"");',
    r'asm("." "inc" "bin" " \"f\"");',
    'asm(".inc"\n\n    "bin \\"f\\"");',
    'asm(".inc"\n# 7 "a b.cu" 3 4\n"bin \\"f\\"");',
    'asm\n(\n".incbin \\"f\\""\n)\n;',
    r'asm(".\x69ncbin \"f\"");',
    r'asm("\56incbin \"f\"");',
    r'asm("\u002eincbin \"f\"");',
    r'asm(R"(.incbin "f")");',
    r'asm(R"x(.incbin "f")x");',
    r'asm(R"(.inc)" "bin \"f\"");',
    r'asm(".inc" R"(bin "f")");',
    r'asm(R"y(.inc)y" R"(bin "f")");',
    r'asm("nop\n\t.incbin \"f\"\n");',
    r'asm("nop;.include \"f\"");',
    r'asm(".include \"f\"");',
    r'asm(".macro m x\n.in\\x \"f\"\n.endm\nm cbin");',
    r'asm(".irp x,incbin\n.\\x \"f\"\n.endr");',
    r'asm(".irpc x,i\n.\\x\\()ncbin \"f\"\n.endr");',
    r'void g() { asm goto (".inc" "bin \"f\"" : : : : l); l:; }',
    r'void g() { asm inline (".inc" "bin \"f\""); }',
    r'void g() { asm __inline__ (".inc" "bin \"f\""); }',
    r'void g() { asm volatile inline(".inc" "bin \"f\""); }',
]


@pytest.mark.parametrize("text", READING)
def test_assembly_that_may_read_a_file_is_known(text):
    assert reads_in_assembler(text.encode())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "int x;",
        'int f() __asm__("g");',
        'int f() __asm__("_Z" "g");',
        'register int x asm("r12");',
        'asm volatile("" ::: "memory");',
        'asm volatile("nop\\n\\tpause\\n");',
        'asm("cpuid" : "=a"(a), "=b"(b) : "0"(n));',
        'asm(".symver f,f@V1");',
        'asm(".section .init\\n\\tcall f\\n.text");',
        'asm("mov %%eax, %0; 1: jmp 1b" : "=r"(x));',
        'const char *s = "include";',
        'puts("the asm directive");',
        'int wasm(const char *); int y = wasm("incbin");',
        "int asm_x; int y = asm_x;",
        '# 1 "include/asm.h" 1\n',
    ],
)
def test_harmless_assembly_is_known(text):
    assert not reads_in_assembler(text.encode())


@pytest.mark.parametrize("text", ["asm(text());", 'asm((std::string_view("nop")));', 'asm(f<"x">());'])
def test_assembly_made_by_an_expression_is_feared(text):
    assert reads_in_assembler(text.encode())


@pytest.mark.parametrize("text", READING)
def test_the_real_assembler_reads_the_file(tmp_path, text):
    """So that the list above is of cases which matter, as far as this compiler takes them."""
    (tmp_path / "a.cpp").write_text(text)
    (tmp_path / "f").write_text('.ascii "zyzzyva"')
    done = subprocess.run(
        ["g++", "-fpermissive", "-w", "-S", "a.cpp"], cwd=tmp_path, capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip("the compiler does not take it")
    subprocess.run(["as", "a.s", "-o", "a.o"], cwd=tmp_path, check=True)
    assert b"zyzzyva" in (tmp_path / "a.o").read_bytes()


def test_only_the_hosts_assembler_reads_files():
    text = MARKERS + b'asm(".incbin \\"f\\"");\n'
    assert of_text(text, "", is_host=True).reads_in_assembler
    assert not of_text(text, "", is_host=False).reads_in_assembler


def test_files_that_were_entered_are_known():
    found = of_text(MARKERS, "", is_host=True).entered
    assert [(file.name, file.includers) for file in found] == [(b"a.cu", ()), (b"/base/one/x.h", (b"a.cu",))]


@pytest.mark.parametrize(
    ("text", "base", "free_of"),
    [
        (MARKERS, "/base", "/base"),
        (MARKERS + b'const char *f = "/base/one/x.h";\n', "/base", ""),
        (MARKERS + b"/base", "/base", ""),
        (MARKERS, "", ""),
        (MARKERS + b'"/bas"\n', "/base", "/base"),
    ],
)
def test_a_text_names_the_base_directory_or_is_free_of_it(text, base, free_of):
    """Line markers name it all the time, and are no part of what is compiled."""
    assert of_text(text, base, is_host=True).free_of == free_of


def test_a_base_directory_that_is_no_text_is_looked_for():
    base = os.fsdecode(b"/b\xff")
    assert of_text(MARKERS, base, is_host=True).free_of == base
    assert of_text(MARKERS + b'"/b\xff/x"', base, is_host=True).free_of == ""


def test_facts_come_back_through_json():
    entered = (Entered(b"a \xff\n.cu", False, ()), Entered(b"/usr/x.h", True, (b"a \xff\n.cu", b"y.h")))
    known = Pass(entered, True, "/base/\udcff")
    assert of_facts(json.loads(json.dumps(known.facts()))) == known
    assert of_facts(json.loads(json.dumps(Pass((), False, "").facts()))) == Pass((), False, "")


def test_names_that_a_line_directive_makes_up_come_back_too():
    known = of_text(b'# 1 "a.cu"\n# 1 "/dev/stdin"\nint x;\n# 1 "b.h" 3\n', "", is_host=True)
    assert known.listed == ((b"a.cu", False), (b"/dev/stdin", False), (b"b.h", True))
    assert of_facts(json.loads(json.dumps(known.facts()))) == known
    plain = of_text(b'# 1 "a.cu"\n# 1 "b.h" 1 3\n', "", is_host=True)
    assert plain.listed and plain.facts()["listed"] is None
    assert of_facts(json.loads(json.dumps(plain.facts()))) == plain


@pytest.mark.parametrize("name", ["entered", "listed", "reads_in_assembler", "free_of"])
def test_facts_without_a_part_are_refused(name):
    facts = Pass((), False, "").facts()
    del facts[name]
    with pytest.raises(KeyError):
        passes.of_facts(facts)


@pytest.mark.parametrize("entered", [None, "x", 1, {}, [["a"]], [[1, 2, 3]], [["\u20ac", True, []]], [None]])
def test_facts_that_are_none_are_refused(entered):
    with pytest.raises((ValueError, KeyError, TypeError)):
        passes.of_facts({"entered": entered, "reads_in_assembler": False, "free_of": ""})


def test_definitions_that_debug_information_keeps_are_no_assembly():
    """-g3 leaves them in the text, among them those of libraries that rename functions."""
    definition = b"#define RENAMED(name, alias) name __asm__ (TEXT(alias))\n"
    assert not reads_in_assembler(MARKERS + definition + b"int x;\n")
    assert reads_in_assembler(MARKERS + definition + b'asm(".incbin \\"f\\"");\n')
    assert reads_in_assembler(MARKERS + b'#define READS asm(".incbin \\"f\\"")\nint x;\n')  # one never knows
    assert reads_in_assembler(MARKERS + definition + b'const char *s = R"(\n)";\n')
