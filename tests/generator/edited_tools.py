"""Parts of cases: the programs that a compile starts, what they read themselves, and edits of that."""

from __future__ import annotations

import shutil

from generator.edit_cases import ALONE, OBJECT, Draft, Part, written
from scenarios.support.toolkits import HOST_COMPILER

REAL = shutil.which(HOST_COMPILER) or HOST_COMPILER
ASSEMBLER, GCC = (shutil.which(name) or name for name in ("as", "gcc"))
BESIDE = '"${0%/*}"'
COMPILER, PATH, TOOLKIT = "the host compiler", "PATH", "the toolkit"
# A compiled wrapper, as OpenMPI's are: options from a file next to it, or the file that a variable names.
_COMPILED = f"""\
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int count, char **argv) {{
  char path[4096], *all[4096], *given = getenv("SITE_FLAGS_FILE");
  static char line[200];
  snprintf(path, sizeof path, "%s.txt", given ? given : argv[0]);
  FILE *file = fopen(path, "r");
  if (!file || !fgets(line, sizeof line, file)) return 3;
  line[strcspn(line, "\\n")] = 0;
  memcpy(all, argv, (count + 1) * sizeof *argv);
  all[0] = "{REAL}";
  all[count] = line;
  all[count + 1] = 0;
  execv(all[0], all);
  return 4;
}}
"""


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


def looked_at(draft: Draft) -> None:
    """A script that asks for a date, a size, a mode or a link, and never reads a file."""
    first, second, _ = _defines(draft)
    draft.run("mkdir state", "touch -d 2020-02-02 state/a state/b state/c", "ln -s 1 state/link")
    tests = {
        "[ state/a -nt state/b ]": ("`a` is newer than `b` now", "touch state/a\n"),
        "[ -s state/c ]": ("`c` has a content now", "echo text > state/c\n"),
        "[ -x state/b ]": ("`b` can be executed now", "chmod +x state/b\n"),
        '[ "$(readlink state/link)" = 2 ]': ("the link leads elsewhere", "ln -sfn 2 state/link\n"),
        "[ state/a -ef state/b ]": ("`a` and `b` are one file now", "ln -f state/a state/b\n"),
        "[ -L state/a ]": ("`a` is a link now", "ln -sf c state/a\n"),
        '[ "$(ls state | wc -l)" -gt 4 ]': ("there is one file more", "touch state/more\n"),
        "[ -d state/more ]": ("there is one directory more", "mkdir state/more\n"),
        '[ "$(stat -c %Y state/c)" -lt 99999999 ]': ("`c` gets an old date", "touch -d 1970-02-02 state/c\n"),
        '[ -n "$(find state -name "more*")" ]': ("a file is found now", "touch state/more.txt\n"),
    }
    test, (description, script) = list(tests.items())[draft.chance.randrange(len(tests))]
    _wrapper(draft, f'if {test}; then F={second}; else F={first}; fi\nexec {REAL} $F "$@"\n')
    draft.edit(f"{description} (asked by `{test}`)", script)


def listed(draft: Draft) -> None:
    """A script that takes all the files of a directory."""
    first, second, third = _defines(draft)
    loop = f'for f in {BESIDE}/flags.d/*; do F="$F $(cat "$f")"; done'
    place = _wrapper(draft, f'F=\n{loop}\nexec {REAL} $F "$@"\n')
    draft.put(f"{place}/flags.d/5", first)
    draft.edit("one more file appears", written(f"{place}/flags.d/6", second))
    draft.edit("a file appears in front", written(f"{place}/flags.d/4", second), None)
    draft.edit("the file is renamed", f"mv {place}/flags.d/5 {place}/flags.d/6\n", None)
    draft.edit("a link to a file appears", written("more", third) + f"ln -s ../../more {place}/flags.d/7\n")
    draft.edit(
        "the directory becomes a link",
        written("more/1", third) + f"rm -r {place}/flags.d\nln -s ../more {place}/flags.d\n",
    )
    draft.edits_of_file(f"{place}/flags.d/5", first, second)


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


def in_two_steps(draft: Draft) -> None:
    """A script that starts another script, or itself by a link."""
    first, second, third = _defines(draft)
    place = _wrapper(draft, f'exec {BESIDE}/../inner/g++ "$@"\n')
    for number, argv in ((1, first), (2, second)):
        _put_program(draft, f"inner{number}/g++", f'exec {REAL} {argv} "$@"')
    draft.run("ln -s inner1 inner")
    draft.edit("the link to the second one's directory leads elsewhere", "ln -sfn inner2 inner\n")
    draft.edit("the second one is exchanged", "exchange inner1/g++ inner2/g++\n")
    draft.edit("the second one becomes a link", "ln -sf ../inner2/g++ inner1/g++\n")
    draft.edit("the first one becomes a link to another", f"ln -sf ../inner2/g++ {place}/g++\n")
    draft.edits_of_file(
        "inner1/g++",
        f'#!/bin/sh\nexec {REAL} {first} "$@"\n',
        f'#!/bin/sh\nexec {REAL} {third} "$@"\n',
        "the second one",
    )


def linked_compiler(draft: Draft) -> None:
    """A host compiler that is a link, or in a directory that is one."""
    first, second, _ = _defines(draft)
    for number, argv in ((1, first), (2, second)):
        _put_program(draft, f"gcc{number}/g++", f'exec {REAL} {argv} "$@"')
        draft.run(f"ln -s g++ gcc{number}/gcc")
    draft.run("ln -s gcc1 gcc", "mkdir tools", "ln -s ../gcc1/g++ tools/g++", "ln -s g++ tools/gcc")
    is_directory = draft.chance.random() < 0.5
    _choose_compiler(draft, "gcc" if is_directory else "tools")
    if is_directory:
        draft.edit("the directory's link leads elsewhere", "ln -sfn gcc2 gcc\n")
        draft.edit("a directory takes the link's place", "rm gcc\nmv gcc2 gcc\n")
    else:
        draft.edit("the link leads elsewhere", "ln -sf ../gcc2/g++ tools/g++\n")
        draft.edit("another link is moved over it", "ln -s ../gcc2/g++ new\nmv -T new tools/g++\n")
    draft.edit("the two directories are exchanged", "exchange gcc1 gcc2\n")
    draft.edit("the two compilers are exchanged", "exchange gcc1/g++ gcc2/g++\n")


def prepared_shell(draft: Draft) -> None:
    """A script of bash, which reads the file that BASH_ENV names first."""
    first, second, third = _defines(draft)
    for name, argv in (("rc", first), ("other_rc", second)):
        draft.put(name, f"FLAGS={argv}")
    draft.variables["BASH_ENV"] = "{work}/rc"
    _wrapper(draft, f'exec {REAL} ${{FLAGS:-{third}}} "$@"\n', "/bin/bash")
    draft.edits_of_file("rc", f"FLAGS={first}\n", f"FLAGS={third}\n")
    draft.edit("BASH_ENV names another file", BASH_ENV="{work}/other_rc")
    draft.edit("BASH_ENV is not set", BASH_ENV=None)
    draft.edit("the file is removed", "rm rc\n")
    draft.edit("a variable that the shell takes over is set", changes=None, FLAGS=second)


def compiled_wrapper(draft: Draft) -> None:
    """A compiled program with a file of options, and a variable that names another."""
    first, second, third = _defines(draft)
    draft.put("wrapper.c", _COMPILED)
    draft.run("mkdir tools", "gcc -w -o tools/g++ wrapper.c")
    for name, argv in (("tools/g++.txt", first), ("other.txt", second)):
        draft.put(name, argv)
    draft.argv.append("-ccbin {work}/tools/g++")
    draft.edits_of_file("tools/g++.txt", first, third)
    draft.edit("the variable names another file", SITE_FLAGS_FILE="{work}/other")
    draft.edit("the file is removed", "rm tools/g++.txt\n")
    draft.edit("the file becomes a link", "ln -sf ../other.txt tools/g++.txt\n")
    draft.edit("the file is longer now", written("tools/g++.txt", f"{third} -DLONGER"), None)


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


def parts_of_compiler(draft: Draft) -> None:
    """Where the host compiler looks for its own parts, by an option or a variable."""
    first, second, third = _defines(draft)
    kind = draft.chance.choice(("COMPILER_PATH", "COMPILER_PATH", "-B"))
    if kind == "-B":
        draft.argv.append(f"-Xcompiler -B{{work}}/parts{draft.chance.choice(('/', ''))}")
    else:
        draft.variables["COMPILER_PATH"] = "{work}/none:{work}/parts"
    draft.argv.append(f"-Xcompiler {first}")
    draft.run("mkdir parts")
    real = {name: f'"$({REAL} -print-prog-name={name})"' for name in ("cc1plus", "as")}
    unset = "unset COMPILER_PATH"
    texts = {argv: f'{unset}\nexec {real["cc1plus"]} "$@" {argv}' for argv in (second, third)}
    says = _program("parts/as", f'echo said >&2\n{unset}\nexec {real["as"]} "$@"')
    draft.edit("an assembler appears", says, OBJECT)
    draft.edit("a compiler proper appears", _program("parts/cc1plus", texts[second]))
    draft.edit(
        "a link to one appears",
        _program("real/cc1plus", texts[third]) + "ln -s ../real/cc1plus parts/cc1plus\n",
    )
    draft.edit(
        "its directory is replaced by a link",
        _program("real/cc1plus", texts[third]) + "rmdir parts\nln -s real parts\n",
    )
    if kind == "-B":
        draft.edit("a file of specs appears", written("parts/specs", f"*cc1plus:\n+ {second}\n"), None)
        draft.edit(
            "specs appear where the target has its own",
            "d=parts/$(gcc -dumpmachine)/$(gcc -dumpversion)\n"
            f"mkdir -p $d\nprintf '*cc1plus:\\n+ {second}\\n\\n' > $d/specs\n",
            None,
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
    "a script that looks at files": (looked_at, COMPILER),
    "a script that looks at other files": (looked_at, COMPILER),
    "a script that lists a directory": (listed, COMPILER),
    "a script with a variable": (asked_variables, COMPILER),
    "a script that starts a program": (helped, COMPILER),
    "a script that starts a script": (in_two_steps, COMPILER),
    "a host compiler that is a link": (linked_compiler, COMPILER),
    "a script with BASH_ENV": (prepared_shell, COMPILER),
    "a compiled wrapper": (compiled_wrapper, COMPILER),
    "programs on PATH": (on_path, COMPILER),
    "parts of the host compiler": (parts_of_compiler, ALONE),
    "specs of the host compiler": (specs, ALONE),
    "a toolkit of its own": (toolkit, TOOLKIT),
}
