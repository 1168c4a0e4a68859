"""Parts of cases: the programs that a compile starts, what they read themselves, and edits of that."""

from __future__ import annotations

import shutil

from generator.edit_cases import ALONE, OBJECT, Draft, Part, written
from scenarios.support.toolkits import HOST_COMPILER

REAL = shutil.which(HOST_COMPILER) or HOST_COMPILER
ASSEMBLER, GCC = (shutil.which(name) or name for name in ("as", "gcc"))
BESIDE = '"${0%/*}"'
COMPILER, PATH, TOOLKIT = "the host compiler", "PATH", "the toolkit"


def _wrapper(draft: Draft, text: str, interpreter: str = "/bin/sh") -> str:
    """Have a script be the host compiler; its place."""
    place = f"tools{draft.number()}"
    _put_program(draft, f"{place}/g++", text, interpreter)
    draft.run(f"ln -s g++ {place}/gcc")
    _choose_compiler(draft, place)
    return place


def _put_program(draft: Draft, name: str, text: str, interpreter: str = "/bin/sh") -> None:
    draft.put(name, f"#!{interpreter}\n{text}", "program")


def _program(name: str, text: str) -> str:
    return written(name, f"#!/bin/sh\n{text}", "program")


def _choose_compiler(draft: Draft, place: str) -> None:
    form = draft.chance.choice(("-ccbin {}/g++", "-ccbin {}/g++", "-ccbin {{work}}/{}/g++", "-ccbin {}", ""))
    if form:
        draft.argv.append(form.format(place).replace("{{", "{").replace("}}", "}"))
    else:
        draft.variables["NVCC_CCBIN"] = f"{{work}}/{place}/g++"


def _defines(draft: Draft) -> tuple[str, str, str]:
    """A value that only an option of the host compiler gives: options of equal length."""
    number = draft.number()
    draft.values.append(f"V{number}")
    first, second, third = (f"-DV{number}={digit}" for digit in (1, 2, 3))
    return first, second, third


def sourced(draft: Draft) -> None:
    """A script that sources a file next to itself."""
    first, second, third = _defines(draft)
    place = _wrapper(draft, f'FLAGS={first}\n. {BESIDE}/env.sh\nexec {REAL} $FLAGS "$@"\n')
    draft.put(f"{place}/env.sh", f"FLAGS={second}")
    draft.edits_of_file(f"{place}/env.sh", f"FLAGS={second}\n", f"FLAGS={third}\n")
    draft.edit("it is empty now", written(f"{place}/env.sh", ""))
    draft.edit("it is removed", f"rm {place}/env.sh\n", None)
    draft.edit("the script itself changes", _program(f"{place}/g++", f'exec {REAL} {third} "$@"\n'))
    draft.edit("the script cannot be executed", f"chmod -x {place}/g++\n")


def looked_for(draft: Draft) -> None:
    """A script that looks whether something is there, and of what kind it is."""
    first, second, _ = _defines(draft)
    test = draft.chance.choice(("-e", "-f", "-r"))
    place = _wrapper(
        draft, f'if [ {test} {BESIDE}/debug ]; then F={second}; else F={first}; fi\nexec {REAL} $F "$@"\n'
    )
    draft.edit("it appears", f"touch {place}/debug\n")
    draft.edit("a link to a file appears", f"touch file\nln -s ../file {place}/debug\n")
    draft.edit("a dangling link appears", f"ln -s nowhere {place}/debug\n", False)
    draft.edit("a directory appears", f"mkdir {place}/debug\n", None)
    draft.edit(
        "its directory is exchanged for one that has it",
        f"cp -rp {place} new\ntouch new/debug\nexchange new {place}\n",
    )


def asked_variables(draft: Draft) -> None:
    """A script that takes options from a variable."""
    first, second, third = _defines(draft)
    _wrapper(draft, f'exec {REAL} ${{SITE_FLAGS:-{first}}} "$@"\n')
    is_set = draft.chance.random() < 0.5
    if is_set:
        draft.variables["SITE_FLAGS"] = third
    draft.edit("the variable gets a value", SITE_FLAGS=second)
    draft.edit("the variable is empty", changes=is_set, SITE_FLAGS="")
    draft.edit("the variable is not set", changes=is_set, SITE_FLAGS=None)
    draft.edit("another variable gets a value", changes=False, SITE_FLAG=second)


def helped(draft: Draft) -> None:
    """A script that asks another program, which is found on PATH."""
    first, second, third = _defines(draft)
    draft.variables["PATH"] = "{work}/early:{work}/bin:{work}/late:{path}"
    _put_program(draft, "bin/site-flags", f"echo {first}")
    _put_program(draft, "late/site-flags", f"echo {second}")
    draft.run("mkdir early")
    _wrapper(draft, f'exec {REAL} $(site-flags) "$@"\n')
    draft.edit("the program appears earlier", _program("early/site-flags", f"echo {third}"))
    draft.edit("a link to another appears earlier", "ln -s ../late/site-flags early/site-flags\n")
    draft.edit("what cannot be executed appears earlier", written("early/site-flags", "echo"), False)
    draft.edit("the program cannot be executed", "chmod -x bin/site-flags\n")
    draft.edit("the program is removed", "rm bin/site-flags\n")
    draft.edit("its directory is renamed", "mv bin old\n")
    draft.edit("the two directories are exchanged", "exchange bin late\n")
    draft.edit("PATH has another order", PATH="{work}/late:{work}/bin:{path}")
    draft.edit("PATH has one directory less", changes=False, PATH="{work}/bin:{work}/late:{path}")
    draft.edits_of_file("bin/site-flags", f"#!/bin/sh\necho {first}\n", f"#!/bin/sh\necho {third}\n")


def on_path(draft: Draft) -> None:
    """The programs that nvcc and the host compiler look for on PATH."""
    draft.variables["PATH"] = "{work}/early:{work}/bin:{path}"
    draft.run("mkdir early" if draft.chance.random() < 0.5 else ":")
    first, second, _ = _defines(draft)
    programs = {"gcc": GCC, "g++": REAL}
    for name, real in programs.items():
        _put_program(draft, f"bin/{name}", f'exec {real} {first} "$@"')
    both = "".join(_program(f"early/{name}", f'exec {real} {second} "$@"') for name, real in programs.items())
    draft.edit("another host compiler appears earlier", both)
    draft.edit("its directory appears as a link", both + "mv early real\nln -s real early\n")
    draft.edit("the host compilers change", both + "mv early/gcc early/g++ bin/\n")
    says = _program("early/as", f'echo said >&2\nexec {ASSEMBLER} "$@"')
    draft.edit("another assembler appears earlier", says, OBJECT)
    draft.edit("an assembler that cannot be executed appears", says + "chmod -x early/as\n", None)
    draft.edit("the host compilers cannot be executed", "chmod -x bin/gcc bin/g++\n")
    draft.edit("PATH has another order", PATH="{work}/bin:{work}/early:{path}", changes=False)
    draft.edit("PATH has a directory more", PATH="{work}/more:{work}/early:{work}/bin:{path}", changes=False)
    for tool in ("ptxas", "cicc", "cudafe++", "fatbinary", "sh", "cc1plus", "collect2", "ld"):
        draft.edit(
            f"a program `{tool}` appears earlier", _program(f"early/{tool}", "echo said >&2\nexit 1"), None
        )


def specs(draft: Draft) -> None:
    """A file of specs that an option names."""
    first, second, third = _defines(draft)
    text = "*cc1plus:\n+ {}\n\n".format
    draft.put("my.specs", text(first))
    draft.argv.append("-Xcompiler -specs={work}/my.specs")
    draft.edits_of_file("my.specs", text(first).rstrip("\n") + "\n", text(second).rstrip("\n") + "\n")
    draft.edit(
        "they include others",
        written("more.specs", text(third)) + written("my.specs", "%include <more.specs>\n"),
        None,
    )


def toolkit(draft: Draft) -> None:
    """A toolkit of its own, whose profile has a variable of the site."""
    number = draft.number()
    draft.nvcc = "{work}/toolkit/bin/nvcc"
    draft.run(
        "cp -a {toolkit} toolkit",
        "cp --remove-destination $(readlink -f toolkit/bin/nvcc.profile) toolkit/bin/nvcc.profile",
        "chmod u+w toolkit/bin/nvcc.profile",
        "echo 'INCLUDES += \"-I$(SITE)/inc\" $(_SPACE_)' >> toolkit/bin/nvcc.profile",
    )
    draft.variables["SITE"] = "{work}/one"
    for digit, place in ((1, "one"), (2, "two")):
        draft.put(f"{place}/inc/site{number}.h", f"#define V{number} {digit}")
    draft.source.append(f"#include <site{number}.h>\n#ifdef ADDED\nint added() {{ return 1; }}\n#endif")
    draft.values.append(f"V{number}")
    draft.edit("the variable of the profile gets another value", SITE="{work}/two")
    draft.edit("the variable of the profile is not set", SITE=None)
    draft.edit("the profile changes", "sed -i 's/[$](SITE)/two/' toolkit/bin/nvcc.profile\n")
    draft.edit("the site's header changes", written(f"one/inc/site{number}.h", f"#define V{number} 3"))
    header = "toolkit/include/crt/host_defines.h"
    draft.edit(
        "a header of the toolkit changes",
        f"cp --remove-destination $(readlink -f {header}) {header}\n"
        f"chmod u+w {header}\necho '#define ADDED 1' >> {header}\n",
        OBJECT,
    )
    draft.edit("the toolkit is renamed, and a link left", "mv toolkit real\nln -s real toolkit\n", None)
    _edits_of_tools(draft)


def _edits_of_tools(draft: Draft) -> None:
    for tool, name in (
        ("ptxas", "bin/ptxas"),
        ("cudafe++", "bin/cudafe++"),
        ("cicc", "nvvm/bin/cicc"),
        ("fatbinary", "bin/fatbinary"),
    ):
        place = f"toolkit/{name}"
        changes = {"cicc": True, "ptxas": None}.get(tool, OBJECT)
        draft.edit(
            f"{tool} says something now",
            f"real=$(readlink -f {place})\nrm {place}\n"
            f"printf '#!/bin/sh\\necho said >&2\\nexec %s \"$@\"\\n' $real > {place}\n"
            f"chmod +x {place}\n",
            changes,
        )
        draft.edit(f"{tool} is removed", f"rm {place}\n", None)  # there may be one on PATH


PARTS: dict[str, tuple[Part, str]] = {
    "a script that sources a file": (sourced, COMPILER),
    "a script that looks for a file": (looked_for, COMPILER),
    "a script with a variable": (asked_variables, COMPILER),
    "a script that starts a program": (helped, COMPILER),
    "programs on PATH": (on_path, COMPILER),
    "specs of the host compiler": (specs, ALONE),
    "a toolkit of its own": (toolkit, TOOLKIT),
}
