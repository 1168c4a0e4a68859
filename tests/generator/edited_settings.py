"""Parts of cases: options, variables, files of options, the place of the source, and edits of them."""

from __future__ import annotations

from generator.edit_cases import OBJECT, Draft, Part, value, written

SOURCE = "the source"


def options(draft: Draft) -> None:
    """Options of the line itself."""
    number = draft.number()
    draft.argv += [f"-DV{number}=1", "-arch=sm_75", f"-Ione{number}", f"-Itwo{number}"]
    for digit, place in ((1, "one"), (2, "two")):
        draft.put(f"{place}{number}/order{number}.h", f"#define W{number} {digit}")
    draft.source.append(
        f"#include <order{number}.h>\n__global__ void f(float *x) {{ x[0] = x[1] / x[2]; }}\n"
        "#ifndef __CUDA_ARCH__\nint unused(unsigned u, int i) { return u < i; }\n#endif"
    )
    draft.values += [f"V{number}", f"W{number}", "__cplusplus % 1000"]
    define = f"-DV{number}=1"
    draft.edit("a macro has another value", line=(define, f"-DV{number}=2"))
    draft.edit("a macro is defined twice", line=(define, f"{define} -UV{number} -DV{number}=3"))
    draft.edit("a macro is not defined", line=(define, ""))
    draft.edit("a macro goes to the host compiler", line=(define, f"-Xcompiler {define}"), changes=None)
    draft.edit("a macro is spelled otherwise", line=(define, f"--define-macro V{number}=1"), changes=False)
    draft.edit(
        "two directories have another order",
        line=(f"-Ione{number} -Itwo{number}", f"-Itwo{number} -Ione{number}"),
    )
    draft.edit("a directory is left out", line=(f"-Ione{number} ", ""))
    draft.edit("a directory is for system headers", line=(f"-Ione{number}", f"-isystem one{number}"))
    draft.edit("another architecture", line=("-arch=sm_75", "-arch=sm_80"))
    draft.edit("one architecture more", line=("", "-gencode=arch=compute_80,code=sm_80"), changes=None)
    draft.edit("fast mathematics", line=("", "-use_fast_math"))
    draft.edit("another standard", line=("", "-std=c++14"), changes=None)
    draft.edit("no optimization by ptxas", line=("", "-Xptxas -O0"), changes=None)
    draft.edit("ptxas tells what it does", line=("", "-Xptxas -v"), changes=None)
    draft.edit("warnings of the host compiler", line=("", "-Xcompiler -Wextra"), changes=OBJECT)
    draft.edit("no mention of the host compiler", line=("", "-Xcompiler -fno-ident"), changes=OBJECT)
    draft.edit("position-independent code", line=("", "-Xcompiler -fPIC"), changes=None)
    draft.edit("an option that is not there", line=("", "--no-such-option"))
    draft.edit("an option twice", line=("", "-arch=sm_75"), changes=None)


def variables(draft: Draft) -> None:
    """Variables that nvcc or the host compiler asks for."""
    number = draft.number()
    name = draft.chance.choice(("CPATH", "CPLUS_INCLUDE_PATH"))
    flags = draft.chance.choice(("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"))
    for digit, place in ((1, "one"), (2, "two"), (3, "three")):
        draft.put(f"{place}{number}/var{number}.h", value(number, digit))
    draft.add_path(name, f"one{number}")
    draft.variables[flags] = f"{draft.variables.get(flags, '')} -DF{number}=1".strip()
    draft.source.append(f"#include <var{number}.h>\n#ifndef F{number}\n#define F{number} 9\n#endif")
    draft.values += [f"V{number}", f"F{number}"]
    draft.edit(f"{name} has a directory more in front", **{name: f"two{number}:{draft.variables[name]}"})
    draft.edit(
        f"{name} has a directory more behind", changes=False, **{name: f"{draft.variables[name]}:two{number}"}
    )
    draft.edit(f"{name} has another directory", **{name: draft.variables[name].replace("one", "three")})
    draft.edit(f"{name} is not set", **{name: None})
    draft.edit("CPATH comes in front", changes=None, CPATH=f"three{number}")
    draft.edit(
        f"the header appears where an empty part of {name} leads",
        written(f"var{number}.h", value(number, 4)),
        None,
        **{name: f":{draft.variables[name]}"},
    )
    old = draft.variables[flags]
    draft.edit(f"{flags} defines another value", **{flags: old.replace(f"F{number}=1", f"F{number}=2")})
    draft.edit(f"{flags} is not set", **{flags: None})
    draft.edit(f"{flags} is followed by an option", **{flags: f"{old} -DF{number}=1"}, changes=None)
    draft.edit("INCLUDES comes in front", changes=None, INCLUDES=f"-Itwo{number}")
    draft.edit(
        "CPLUS_INCLUDE_PATH names a header's directory", changes=None, CPLUS_INCLUDE_PATH=f"two{number}"
    )
    draft.edit("C_INCLUDE_PATH does not matter", changes=False, C_INCLUDE_PATH=f"two{number}")
    draft.edit("an unknown variable", changes=False, UNKNOWN=f"-DF{number}=3")
    draft.edit("a language", changes=None, LC_ALL="C.UTF-8")
    draft.edit("messages of any width", changes=None, COLUMNS="20")


def option_files(draft: Draft) -> None:
    """Files of options, one of which may name another."""
    number = draft.number()
    kind = draft.chance.choice(("--options-file {}", "-optf {}", "-optf={}", "-Xcompiler @{}"))
    name = f"opts{number}"
    is_nested = draft.chance.random() < 0.5
    text = f"-DV{number}=1"
    if is_nested and "@" in kind:
        draft.put(name, f"@{name}.inner")
        draft.put(f"{name}.inner", text)
    elif is_nested:
        draft.put(name, f"--options-file {name}.inner")
        draft.put(f"{name}.inner", text)
    else:
        draft.put(name, text)
    draft.argv.append(kind.format(name))
    draft.values.append(f"V{number}")
    place = f"{name}.inner" if is_nested else name
    draft.edits_of_file(place, text, f"-DV{number}=2")
    draft.edit("it has more options", written(place, f"{text}\n-DMORE=1\n-UV{number}\n-DV{number}=3"), None)
    draft.edit("it is removed", f"rm {place}\n")
    draft.edit("it becomes a link", written("fourth", f"-DV{number}=4") + f"ln -sf fourth {place}\n")


def placed_source(draft: Draft) -> None:
    """A source in a folder, or by a link."""
    number = draft.number()
    draft.run("mkdir src aside")
    is_linked = draft.chance.random() < 0.5
    if is_linked:
        draft.run("ln -s ../src/real.cu aside/a.cu")
    draft.source_name = "src/real.cu"
    draft.argv.append("-Xcompiler -iquote,.")  # for the headers of other parts
    draft.put("src/own.h", value(number, 1))
    draft.put("aside/own.h", value(number, 2))
    draft.source.append(f'#include "own.h"\n#ifndef V{number}\n#error none\n#endif')
    draft.values.append(f"V{number}")
    more = "int more() { return 1; }\n"
    add = f"cp -p src/real.cu new.cu\nprintf '{more[:-1]}\\n' >> new.cu\n"
    draft.edit("the source gets another content", f"printf '{more[:-1]}\\n' >> src/real.cu\n", OBJECT)
    draft.edit("another file takes the source's place", f"{add}mv new.cu src/real.cu\n", OBJECT)
    draft.edit("a link takes the source's place", f"{add}ln -sf ../new.cu src/real.cu\n")
    draft.edit("a link to the same takes the source's place", "mv src/real.cu .\nln -s ../real.cu src/\n")
    draft.edit(
        "the source's folder is renamed and another put there",
        "cp -r src new\nprintf '#define V 9\\n' > new/own.h\nexchange src new\n",
    )
    draft.edit("the folder's header changes", written("src/own.h", value(number, 3), "same_date"))
    draft.edit(
        "the folder becomes a link to a copy with another header",
        "cp -r src new\ncp aside/own.h new/own.h\nrm -r src\nln -s new src\n",
    )
    draft.edit("the source has one line more in front", "sed -i '1i // one more' src/real.cu\n", None)
    draft.edit("the source is removed", "rm src/real.cu\n")
    draft.edit("the source is a directory", "rm src/real.cu\nmkdir src/real.cu\n")
    draft.edit(
        "another file is compiled", "cp src/real.cu src/same.cu\n", None, line=("src/real.cu", "src/same.cu")
    )
    if is_linked:
        draft.edit("the source is named by a link", line=("src/real.cu", "aside/a.cu"))


def passes(draft: Draft) -> None:
    """A header that one pass alone reads, of host and two architectures."""
    number = draft.number()
    condition = draft.chance.choice(
        ("!defined(__CUDA_ARCH__)", "__CUDA_ARCH__ == 800", "__CUDA_ARCH__ == 750")
    )
    draft.argv += ["-gencode=arch=compute_75,code=sm_75", "-gencode=arch=compute_80,code=sm_80"]
    draft.argv.append(f"-Iinc{number}")
    draft.run(f"mkdir early{number}")
    draft.put(f"inc{number}/pass{number}.h", value(number, 1))
    draft.source.append(f"#if {condition}\n#include <pass{number}.h>\n#else\n{value(number, 0)}#endif")
    draft.host_values.append(f"V{number}")
    draft.values.append(f"V{number}")
    name = f"inc{number}/pass{number}.h"
    draft.edits_of_file(name, value(number, 1), value(number, 2))
    draft.edit("it is removed", f"rm {name}\n")
    draft.edit("an error takes its place", written(name, "#error here"))
    draft.edit("it warns now", written(name, f"#warning here\n{value(number, 1)}"))
    draft.edit(
        "a question is in its place", written(name, f"#if __has_include(<stdio.h>)\n{value(number, 3)}#endif")
    )


PARTS: dict[str, tuple[Part, str]] = {
    "options": (options, "architecture"),
    "more options": (options, "architecture"),
    "variables": (variables, ""),
    "more variables": (variables, ""),
    "files of options": (option_files, ""),
    "a source in a folder": (placed_source, SOURCE),
    "a header for one pass": (passes, "architecture"),
}
