"""Parts of cases: files that a compile includes, asks for or looks for, and edits of them."""

from __future__ import annotations

from generator.edit_cases import DEPFILE, Draft, Part, value, written

# How directories of headers are named: options for each of them, `{}`; a list of them by a variable.
_OPTIONS = (
    "-I{}",
    "-isystem {}",
    "-I{{work}}/{}",
    "-isystem {{work}}/{}",
    "-Xcompiler -idirafter,{}",
    "-Xcompiler -iprefix,{{work}}/,-iwithprefix,{}",
)
_FLAGS = ("INCLUDES", "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")


def _name_directories(draft: Draft, directories: list[str], is_quoted: bool) -> None:
    """Have the directories searched, in this order."""
    kind = draft.chance.choice(("option",) * 4 + ("list", "flags", "file", "host file"))
    number = draft.number()
    if kind == "list":
        for directory in directories:
            draft.add_path("CPATH", directory)
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
    else:
        form = draft.chance.choice([*_OPTIONS, "-Xcompiler -iquote,{}"] if is_quoted else _OPTIONS)
        draft.argv += [form.format(directory).replace("{{", "{") for directory in directories]


def include(draft: Draft, name: str, is_quoted: bool) -> None:
    spelled = f'"{name}"' if is_quoted else f"<{name}>"
    form = draft.chance.choice(("#include {}", "#if __has_include({0})\n#include {0}\n#endif"))
    draft.source.append(form.format(spelled))


def searched(draft: Draft) -> None:
    """A header in the second of three directories, and another in the third."""
    number = draft.number()
    early, middle, late = (f"{name}{number}" for name in ("early", "middle", "late"))
    is_quoted = draft.chance.random() < 0.5
    name = draft.chance.choice(("{}.h", "sub/{}.h", "{}")).format(f"h{number}")
    draft.run(f"mkdir {early} {middle} {late}" if draft.chance.random() < 0.7 else f"mkdir {middle} {late}")
    _name_directories(draft, [early, middle, late], is_quoted)
    include(draft, name, is_quoted)
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
    include(draft, f"outer{number}.h", is_quoted=False)
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
    text = f"#if __has_include({spelled})\n#define V{number} 2\n#else\n#define V{number} 1\n#endif"
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


PARTS: dict[str, tuple[Part, str]] = {
    "a header of three directories": (searched, ""),
    "a header, once more": (searched, ""),
    "a header of three directories, again": (searched, ""),
    "a header of a header": (nested, ""),
    "a header that is asked for": (asked, ""),
    "a forced header": (forced, ""),
}
