"""Parts of cases: files that a compile includes, asks for or looks for, and edits of them."""

from __future__ import annotations

from generator.edit_cases import DEPFILE, Draft, Part, value, written

# How directories of headers are named: options for each of them, `{}`; a list of them by a variable.
_OPTIONS = (
    "-I{}",
    "-I {}",
    "--include-path={}",
    "-isystem {}",
    "-I{{work}}/{}",
    "-isystem {{work}}/{}",
    "-Xcompiler -I{}",
    "-Xcompiler -idirafter,{}",
    "-Xcompiler --include-directory={}",
    "-Xcompiler -Xpreprocessor,-I{}",
    "-Xcompiler '-Wp\\,-I{}'",
    "-Xcompiler -iprefix,{{work}}/,-iwithprefixbefore,{}",
    "-Xcompiler -iprefix,{{work}}/,-iwithprefix,{}",
)
_QUOTED_OPTION = "-Xcompiler -iquote,{}"
_LISTS = ("CPATH", "CPLUS_INCLUDE_PATH")
_FLAGS = ("INCLUDES", "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")
# `#include` in all its spellings: of a name in quotes or brackets, `{}`.
_INCLUDES = (
    "#include {}",
    "#include {}",
    "  #  include {} // a comment",
    "#/* a comment */include {}",
    "%:include {}",
    "#in\\\nclude {}",
    "#define NAME{n} {}\n#include NAME{n}",
    "#define NAME{n}_ {}\n#define NAME{n}(x) x\n#include NAME{n}(NAME{n}_)",
    "#if __has_include({})\n#include {}\n#endif",
    "#import {}",
    'extern const char r{n}[];\nconst char r{n}[] = R"("/*)";\n#include {}\n// */',
    "#define QUOTE{n} '\"'\n#include {}\n#define END{n} '\"'",
    "#include {}\n#include {}",
)
_BARE_INCLUDES = (  # of a name that macros put in quotes or brackets
    "#define TEXT{n}(x) #x\n#include TEXT{n}({})",
    "#define ANGLED{n}(x) <x>\n#include ANGLED{n}({})",
)
# Ways to ask for a header.
_ASKS = (
    "#if __has_include({})",
    "#if defined __has_include && __has_include ( {} )",
    "#define ASKED{n} {}\n#if __has_include(ASKED{n})",
    "#define HAS{n}(x) __has_include(x)\n#if HAS{n}({})",
    "#define HAS{n} __has_include\n#if HAS{n}({})",
    "#if __has_\\\ninclude({})",
    "#if 1 && (0 || __has_include/* a comment */({}))",
)


def _name_directories(draft: Draft, directories: list[str], is_quoted: bool) -> None:
    """Have the directories searched, in this order."""
    kinds = ("option",) * 6 + ("list", "list", "flags", "flags", "file", "file", "host file", "root")
    kind = draft.chance.choice(kinds)
    form = draft.chance.choice([*_OPTIONS, _QUOTED_OPTION] if is_quoted else _OPTIONS)
    number = draft.number()
    if kind == "list":
        for directory in directories:
            draft.add_path(name := draft.chance.choice(_LISTS[:1]), directory)
        if draft.chance.random() < 0.5 and "CPLUS_INCLUDE_PATH" not in draft.variables:
            draft.variables["CPLUS_INCLUDE_PATH"] = draft.variables.pop(name)
    elif kind == "flags":
        name = draft.chance.choice(_FLAGS)
        argv = [draft.variables.get(name, ""), *(f"-I{directory}" for directory in directories)]
        draft.variables[name] = " ".join(argv).strip()
    elif kind == "file":
        draft.put(f"options{number}", "\n".join(f"-I {directory}" for directory in directories))
        draft.argv.append(f"--options-file options{number}")
    elif kind == "host file":
        draft.put(f"options{number}", "\n".join(f"-Wp,-I{directory}" for directory in directories))
        draft.argv.append(f"-Xcompiler @options{number}")
    elif kind == "root" and not any("--sysroot" in word for word in draft.argv):
        draft.run("mkdir root", "ln -s /usr root/usr", "ln -s /lib root/lib")
        draft.run(*(f"ln -s ../{directory} root/{directory}" for directory in directories))
        draft.argv.append("-Xcompiler --sysroot={work}/root")
        draft.argv += [f"-Xcompiler -I=/{directory}" for directory in directories]
    else:
        draft.argv += [form.format(directory).replace("{{", "{") for directory in directories]


def include(draft: Draft, name: str, number: int, is_quoted: bool) -> None:
    spelled = f'"{name}"' if is_quoted else f"<{name}>"
    form = draft.chance.choice([*_INCLUDES, _BARE_INCLUDES[0 if is_quoted else 1]])
    form = form.replace("{n}", str(number))
    text = form.replace("{}", name if form.startswith(("#define TEXT", "#define ANGLED")) else spelled)
    draft.source.append(text)


def searched(draft: Draft) -> None:
    """A header in the second of three directories, and another in the third."""
    number = draft.number()
    early, middle, late = (f"{name}{number}" for name in ("early", "middle", "late"))
    is_quoted = draft.chance.random() < 0.5
    name = draft.chance.choice(("{}.h", "sub/{}.h", "{}")).format(f"h{number}")
    draft.run(f"mkdir {early} {middle} {late}" if draft.chance.random() < 0.7 else f"mkdir {middle} {late}")
    _name_directories(draft, [early, middle, late], is_quoted)
    include(draft, name, number, is_quoted)
    draft.values.append(f"V{number}")
    found, next_one, first = f"{middle}/{name}", f"{late}/{name}", f"{early}/{name}"
    draft.put(found, value(number, 1))
    draft.put(next_one, value(number, 2))
    draft.edits_of_file(found, value(number, 1), value(number, 3))
    _edits_of_search(draft, first, found, next_one, value(number, 1), value(number, 4))
    draft.edit(
        "the directory is renamed and another put in its place",
        f"cp -r {middle} {middle}.new\n{written(f'{middle}.new/{name}', value(number, 5))}"
        f"mv {middle} {middle}.old\nmv {middle}.new {middle}\n",
    )
    draft.edit("the directory becomes a link to the next one", f"mv {middle} old\nln -s {late} {middle}\n")
    draft.edit(
        "the first directory becomes a link to another, which has the header",
        written(f"elsewhere/{name}", value(number, 6)) + f"rm -rf {early}\nln -s elsewhere {early}\n",
    )
    draft.edit("two directories are exchanged", f"exchange {middle} {late}\n")
    if is_quoted:
        draft.edit("the header appears beside the source", written(name, value(number, 7)))


def _edits_of_search(draft: Draft, first: str, found: str, next_one: str, text: str, other: str) -> None:
    directory = "mkdir -p $(dirname {0})\n".format
    draft.edit("the header appears earlier on the search path", written(first, other))
    draft.edit("a copy of the header appears earlier on the search path", written(first, text), DEPFILE)
    draft.edit(
        "a link to the next one appears earlier on the search path",
        directory(first) + f"ln -s $PWD/{next_one} {first}\n",
    )
    draft.edit("a dangling link appears earlier", directory(first) + f"ln -s nowhere {first}\n", False)
    draft.edit("a directory of the name appears earlier", f"mkdir -p {first}\n", False)
    draft.edit("the header is removed", f"rm {found}\n")
    draft.edit("the header is removed, and the next one too", f"rm {found} {next_one}\n")
    draft.edit("a directory takes the header's place", f"rm {found}\nmkdir {found}\n")
    draft.edit("a link to the next one takes the header's place", f"ln -sf $PWD/{next_one} {found}\n")
    draft.edit("a dangling link takes the header's place", f"ln -sf nowhere {found}\n")
    draft.edit("two headers are exchanged", f"exchange {found} {next_one}\n")
    draft.edit("the header is touched", f"touch {found}\n", False)
    draft.edit("the header gets an old date", f"touch -d 2001-02-03 {found}\n", False)
    draft.edit("the header is written again", written(found, text), False)
    draft.edit("the header moves into a link", f"mv {found} moved.h\nln -s $PWD/moved.h {found}\n", False)


def nested(draft: Draft) -> None:
    """A header that includes another, by its own directory, the search path or `#include_next`."""
    number = draft.number()
    one, two = f"one{number}", f"two{number}"
    form = draft.chance.choice(('#include "{}"', "#include <{}>", "#include_next <{}>"))
    inner = f"outer{number}.h" if "next" in form else f"inner{number}.h"
    draft.put(f"{one}/outer{number}.h", form.format(inner))
    draft.put(f"{two}/{inner}", value(number, 1))
    draft.argv += [f"-I{one}", f"-I{two}"]
    include(draft, f"outer{number}.h", number, is_quoted=False)
    draft.values.append(f"V{number}")
    draft.edits_of_file(f"{two}/{inner}", value(number, 1), value(number, 2))
    if "next" not in form:
        draft.edit("it appears beside the header", written(f"{one}/{inner}", value(number, 3)))
    draft.edit("the inner header is removed", f"rm {two}/{inner}\n")
    draft.edit("the outer header becomes the inner one", f"cp {two}/{inner} {one}/outer{number}.h\n", DEPFILE)
    draft.edit(
        "the inner header asks for one more, which appears",
        written("more.h", value(number, 4)) + written(f"{two}/{inner}", '#include "../more.h"\n'),
    )


def asked(draft: Draft) -> None:
    """A header that is only asked for, and not there."""
    number = draft.number()
    is_quoted = draft.chance.random() < 0.5
    name = f"maybe{number}.h"
    spelled = f'"{name}"' if is_quoted else f"<{name}>"
    form = draft.chance.choice(_ASKS).replace("{n}", str(number)).replace("{}", spelled)
    text = f"{form}\n#define V{number} 2\n#else\n#define V{number} 1\n#endif"
    if draft.chance.random() < 0.5:
        draft.put(f"asks{number}/h{number}.h", text)
        text = f'#include "asks{number}/h{number}.h"'
    draft.source.append(text)
    draft.values.append(f"V{number}")
    draft.run(f"mkdir inc{number}")
    draft.argv.append(f"-Iinc{number}")
    place = f"inc{number}/{name}"
    draft.edit("the header appears", written(place, ""))
    draft.edit("a link to it appears", written("aside.h", "") + f"ln -s ../aside.h {place}\n")
    draft.edit("a dangling link appears", f"ln -s nowhere {place}\n", False)
    draft.edit("a directory of that name appears", f"mkdir {place}\n", None)
    draft.edit(
        "a directory with it takes the directory's place",
        written(f"new/{name}", "") + f"rmdir inc{number}\nmv new inc{number}\n",
    )
    draft.edit(
        "a link to a directory with it takes the directory's place",
        written(f"new/{name}", "") + f"rmdir inc{number}\nln -s new inc{number}\n",
    )
    if is_quoted:
        draft.edit("the header appears beside the source", written(name, ""), None)


def found(draft: Draft) -> None:
    """A header that is asked for, and there, perhaps by a link or twice."""
    number = draft.number()
    name = f"there{number}.h"
    form = draft.chance.choice(_ASKS).replace("{n}", str(number)).replace("{}", f"<{name}>")
    draft.source.append(f"{form}\n#define V{number} 2\n#else\n#define V{number} 1\n#endif")
    draft.values.append(f"V{number}")
    draft.argv.append(f"-Iinc{number}")
    draft.put(f"inc{number}/target", "")
    draft.run(f"ln -s target inc{number}/{name}")
    draft.edit("it is removed", f"rm inc{number}/{name}\n")
    draft.edit("what its link leads to is removed", f"rm inc{number}/target\n")
    draft.edit("its link leads nowhere", f"ln -sf nowhere inc{number}/{name}\n")
    draft.edit("its directory is renamed", f"mv inc{number} old\n")
    draft.edit("a file takes its directory's place", f"mv inc{number} old\ntouch inc{number}\n")
    draft.edit("it gets another content", f"echo '// other' > inc{number}/target\n", False)


def forced(draft: Draft) -> None:
    """A header that an option includes, for all passes or for the host compiler."""
    number = draft.number()
    name = f"forced{number}.h"
    form = draft.chance.choice(
        ("-include {}", "-include={}", "-Xcompiler -include,{}", "-Xcompiler -imacros,{}")
    )
    directory = draft.chance.choice(("", f"inc{number}/"))
    draft.argv += [form.replace("{}", name), f"-Iearly{number}", f"-Iinc{number}"]
    draft.put(f"{directory}{name}", value(number, 1))
    draft.values.append(f"V{number}")
    draft.edits_of_file(f"{directory}{name}", value(number, 1), value(number, 2))
    if directory:
        draft.edit("it appears in the working directory", written(name, value(number, 3)))
        draft.edit("it appears earlier", written(f"early{number}/{name}", value(number, 4)))
    draft.edit("it is removed", f"rm {directory}{name}\n")
    draft.edit(
        "it asks for a header now",
        written(
            f"{directory}{name}", f"#if __has_include(<nothing.h>)\n#error found\n#endif\n{value(number, 5)}"
        ),
    )


def forced_question(draft: Draft) -> None:
    """A header that an option includes for the host compiler, and that asks for another."""
    number = draft.number()
    draft.put(
        f"forced{number}.h",
        f"#if __has_include(<maybe{number}.h>)\n{value(number, 2)}#else\n{value(number, 1)}#endif",
    )
    draft.argv += [f"-Xcompiler -include,forced{number}.h", f"-Iinc{number}"]
    draft.run(f"mkdir inc{number}")
    draft.values.append(f"V{number}")
    draft.edit("it appears", written(f"inc{number}/maybe{number}.h", ""))
    draft.edit(
        "its directory appears again", f"rmdir inc{number}\n{written(f'inc{number}/maybe{number}.h', '')}"
    )


def implicit(draft: Draft) -> None:
    """The headers that nvcc includes implicitly, which are searched for like any other."""
    number = draft.number()
    draft.argv += [f"-Iearly{number}", "-Xcompiler -Winvalid-pch"]
    draft.source.append(f"#ifndef V{number}\n{value(number, 1)}#endif")
    draft.values.append(f"V{number}")
    text = f"#include_next <{{}}>\n#undef V{number}\n{value(number, 2)}"
    for place in (".", f"early{number}"):
        draft.edit(
            f"`cuda_runtime.h` appears in `{place}`",
            written(f"{place}/cuda_runtime.h", text.format("cuda_runtime.h")),
        )
    for name in ("stddef.h", "crt/host_config.h", "stdlib.h", "features.h", "crt/host_defines.h"):
        draft.edit(f"`{name}` appears", written(f"early{number}/{name}", text.format(name)), None)
    draft.edit("`cuda_runtime.h.gch` appears", written("cuda_runtime.h.gch", "nothing"), None)
    draft.edit("a directory `cuda_runtime.h.gch` appears", written("cuda_runtime.h.gch/a", "nothing"), None)


PARTS: dict[str, tuple[Part, str]] = {
    "a header of three directories": (searched, ""),
    "a header, once more": (searched, ""),
    "a header of three directories, again": (searched, ""),
    "a header of a header": (nested, ""),
    "a header that is asked for": (asked, ""),
    "a header that is asked for and there": (found, ""),
    "a forced header": (forced, ""),
    "a forced header that asks": (forced_question, ""),
    "the headers of nvcc itself": (implicit, ""),
}
