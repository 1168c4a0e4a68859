"""Parts of cases: files behind links, files whose dates or text are visible in outputs, and their edits."""

from __future__ import annotations

from generator.edit_cases import Draft, Part, value, written
from generator.edited_headers import include


def linked_files(draft: Draft) -> None:
    """A header by a chain of links."""
    number = draft.number()
    draft.put(f"versions{number}/1.h", value(number, 1))
    draft.put(f"versions{number}/2.h", value(number, 2))
    draft.run(
        f"mkdir inc{number}",
        f"ln -s 1.h versions{number}/current.h",
        f"ln -s ../versions{number}/current.h inc{number}/linked{number}.h",
    )
    draft.argv.append(draft.chance.choice((f"-Iinc{number}", f"-isystem {{work}}/inc{number}")))
    include(draft, f"linked{number}.h", is_quoted=False)
    draft.values.append(f"V{number}")
    draft.edit("the last link leads elsewhere", f"ln -sf 2.h versions{number}/current.h\n")
    draft.edit(
        "the first link leads elsewhere", f"ln -sf ../versions{number}/2.h inc{number}/linked{number}.h\n"
    )
    draft.edit(
        "another link is moved over the first",
        f"ln -s ../versions{number}/2.h new\nmv -T new inc{number}/linked{number}.h\n",
    )
    draft.edit("what they lead to changes", written(f"versions{number}/1.h", value(number, 3), "same_date"))
    draft.edit(
        "a file takes the place of the first",
        f"rm inc{number}/linked{number}.h\n{written(f'inc{number}/linked{number}.h', value(number, 4))}",
    )
    draft.edit("the two versions are exchanged", f"exchange versions{number}/1.h versions{number}/2.h\n")
    draft.edit("the last link leads to itself", f"ln -sf current.h versions{number}/current.h\n")
    draft.edit("the last link is made again", f"ln -sf ./1.h versions{number}/current.h\n", None)


def linked_directories(draft: Draft) -> None:
    """A header in a directory that is a link, under a name longer or shorter than the real one."""
    number = draft.number()
    link = draft.chance.choice((f"l{number}", f"a_long_name_for_a_link_to_a_version{number}"))
    for digit in (1, 2):
        draft.put(
            f"v{number}.{digit}/sub/h{number}.h",
            "#pragma once\n" * draft.chance.choice((0, 1)) + value(number, digit),
        )
    draft.run(f"ln -s v{number}.1 {link}")
    draft.argv.append(draft.chance.choice(("-I{}", "-isystem {{work}}/{}", "-isystem {}")).format(link))
    draft.argv[-1] = draft.argv[-1].replace("{{", "{").replace("}}", "}")
    include(draft, f"sub/h{number}.h", is_quoted=False)
    draft.values.append(f"V{number}")
    draft.edit("the link leads elsewhere", f"ln -sfn v{number}.2 {link}\n")
    draft.edit("another link is moved over it", f"ln -s v{number}.2 new\nmv -T new {link}\n")
    draft.edit("a directory takes its place", f"rm {link}\nmv v{number}.2 {link}\n")
    draft.edit("the two directories are exchanged", f"exchange v{number}.1 v{number}.2\n")
    draft.edit(
        "a part of the directory becomes a link",
        f"mv v{number}.1/sub old\nln -s ../v{number}.2/sub v{number}.1/sub\n",
    )
    draft.edit("the link leads nowhere", f"ln -sfn nowhere {link}\n")
    draft.edit("a copy of the directory takes its place", f"rm {link}\ncp -r v{number}.1 {link}\n", None)


def assembled(draft: Draft) -> None:
    """A file that only the assembler reads."""
    number = draft.number()
    directive = draft.chance.choice((".incbin", '.inc" "bin', ".INCBIN", ".inc\\142in"))
    draft.put(f"late{number}/data{number}", "abc")
    draft.source.append(
        "#ifndef __CUDA_ARCH__\n"
        f'asm(".section .rodata\\n{directive} \\"data{number}\\"\\n.previous\\n");\n#endif'
    )
    draft.argv += [f"-Xcompiler '-Wa\\,-I{place}{number}'" for place in ("early", "late")]
    draft.host_values.append("1")
    draft.edits_of_file(f"late{number}/data{number}", "abc", "xyz")
    draft.edit("it appears earlier", written(f"early{number}/data{number}", "first"))
    draft.edit("it appears in the working directory", written(f"data{number}", "here"))
    draft.edit("it is removed", f"rm late{number}/data{number}\n")
    draft.edit(
        "its directory is exchanged for another",
        written(f"new/data{number}", "new") + f"exchange new late{number}\n",
    )


PARTS: dict[str, tuple[Part, str]] = {
    "a header by links": (linked_files, ""),
    "a directory by a link": (linked_directories, ""),
    "a file for the assembler": (assembled, ""),
}
