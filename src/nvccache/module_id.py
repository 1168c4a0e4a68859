"""The module id: the name that tells the internal entities of one translation unit from another's.

cudafe++ (on 11.x cicc) writes it as `_<crc32 of the source's path>_<length>_<base name>_<rest>`. The
rest names the first external definition; a unit without one gets the time and its process id instead,
so that its objects differ on every run, and two objects made from one cache entry would clash in a
link (research on CUDA 11.8 to 13.5; the formula was found by experiment). For those units the rest is
chosen here: from what tells the two objects apart for a linker, and from nothing else.

    CUDA 13 and later   `--frandom-seed`, which nvcc itself passes on for `-frandom-seed`: a unit with an
                        external definition keeps nvcc's id, any other gets crc32 of the seed
    before              run as nvcc would; if the id holds a process id, run again with ours in its place

Each stage makes it up itself. nvcc lets one stage write the id (cudafe++, on 11.x a cicc, with `-cubin` the
first cicc) and the others read it, so that cicc waits for cudafe++. Every one of these tools takes the option
that nvcc gives the first of them, and makes up the same id from the same source: from the path and the first
external definition, or from the seed where there is none (CUDA 11.8 to 13.5, found by comparing ids, PTX and
stubs). Where the passes differ in their first external definition the ids do too, and so they do in units
without external definition on toolkits that take no seed. Therefore a stage that runs before nvcc's id is
known guesses, and one that runs later reads it (execution/seeding.py).

It can be the same in each checkout below the base directory: then the checksum is one of the way to the
source from the working directory, as the base directory has it (base_dir.py), and two objects with one id may
come from different sources: the way is the same, and so is the name of their first external definition, which
is the rest of the id. Where that name is a symbol that each of the two defines, no link takes both, with
nvcc's ids as little as with these; what else holds the id is not visible outside of the program or library
that an object is linked into. Each object is looked at for that, and those for which it does not hold keep
nvcc's id: such as units that begin with a variable of device code, or with a name given by `__asm__`. So does
what is compiled for device links, whose symbols are visible everywhere.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Sequence

from nvccache.files import elf, keys
from nvccache.plan.model import OPAQUE, Output, Plan, Stage
from nvccache.plan.stages import grammar_of
from nvccache.values import dataclass, replace

GENERATE_OPTION = "--gen_module_id_file"
_SEED_OPTION = "--frandom-seed"
PATH_OPTION, NAME_OPTION = "--orig_src_path_name", "--orig_src_file_name"
_FIRST_VERSION_WITH_SEED = 13
_VERSION_MACRO = "-D__CUDACC_VER_MAJOR__="
_SOURCE = b"_nvccache-source-51d0c2f3a86e4b79_"  # what the checksum of a path is replaced by
# How a stub for separate compilation tells the host compiler the id.
_DEFINITION = b"#define __NV_MODULE_ID "
_PREFIX = re.compile(rb"_[0-9a-f]{8}_(\d+)_")
_SEED_DIGITS = 32  # of the key that a seed is; its crc32 alone gets into an id
_LONGEST_REST = 8  # characters of a definition's name; of a longer one the id holds the crc32
_TIME_AND_PROCESS = re.compile(rb"[0-9a-f]{8}_\d+")
ROLE = "module_id"
_NAME_OPTION = "--module_id_file_name"
_FOR_DEVICE_LINKS = "--device-c"
_COMPILED_LATER = b".gnu.lto_"  # sections with code whose symbols no table lists


@dataclass(frozen=True, slots=True)
class Seed:
    """What the id of a unit without external definition is made of; `text` is 32 hex digits."""

    text: str

    @property
    def rest(self) -> bytes:
        return b"%08x" % zlib.crc32(self.text.encode())


def generates(stage: Stage) -> bool:
    return GENERATE_OPTION in stage.argv


def user_chose_seed(stage: Stage) -> bool:
    return any(word.partition("=")[0] == _SEED_OPTION for word in stage.argv)


def seed_of(
    source_path: str, product_paths: Sequence[str], options: Sequence[str], texts: Sequence[str]
) -> Seed:
    """The seed of a unit: its source, the absolute paths of what it is compiled to, options, and its text.

    Two objects that plain nvcc would have been able to link differ in one of these: they are two
    files, or one file compiled twice under one name, with an edit or another option between. `texts` are the
    digests of what the passes say. Two identical compiles get one seed.
    """
    components = [
        ("source", (source_path,)),
        ("products", tuple(product_paths)),
        ("options", tuple(options)),
        ("texts", tuple(texts)),
    ]
    return Seed(keys.key_of("module id", components)[:_SEED_DIGITS])


def toolkit_version(preprocessor_argv: Sequence[str]) -> int:
    """The toolkit's major version as nvcc tells it to the preprocessor, 0 if it does not."""
    for word in preprocessor_argv:
        number = word.removeprefix(_VERSION_MACRO)
        if number != word and number.isdecimal():
            return int(number)
    return 0


def takes_seed(version: int) -> bool:
    return version >= _FIRST_VERSION_WITH_SEED


def with_seed(argv: Sequence[str], seed: Seed) -> list[str]:
    return [argv[0], _SEED_OPTION, seed.text, *argv[1:]]


def without_generating(argv: Sequence[str]) -> list[str]:
    """The same command, reading the id from the file instead of writing it there."""
    return [word for word in argv if word != GENERATE_OPTION]


def depends_on_seed(identifier: bytes, seed: Seed) -> bool:
    return identifier.endswith(b"_" + seed.rest)


def replace_process(identifier: bytes, seed: Seed) -> bytes | None:
    """The id with the seed in the place of time and process, or None if it names a definition."""
    head, rest = _split(identifier)
    return head + seed.rest if _TIME_AND_PROCESS.fullmatch(rest) else None


def is_made_of_process(identifier: bytes) -> bool:
    return bool(_TIME_AND_PROCESS.fullmatch(_split(identifier)[1]))


def is_named_in(identifier: bytes, contents: Sequence[bytes]) -> bool:
    """Whether the id is in one of the contents, or may be: what is no text may hold it in another form.

    The head of the id, which tells path and name, is looked for: names may be made of any part of the rest.
    """
    head = head_of(identifier)
    return any(not head or head in content or b"\0" in content for content in contents)


def source_path(argv: Sequence[str]) -> str:
    """The path that the id is made of, as a command gives it; empty on CUDA 11.2, which does not."""
    return argv[argv.index(PATH_OPTION) + 1] if PATH_OPTION in argv else ""


def start_of(path: str) -> bytes:
    """What the id of a unit with this source path begins with."""
    return b"_%08x_" % zlib.crc32(os.fsencode(path))


def without_source(role: str, content: bytes, start: bytes) -> bytes:
    """An id, or a stub, with a mark in the place of the checksum that tells where the source is.

    In a stub the id is replaced where it is merely defined. In names it may decide on the order of things, as
    it does in what cudafe++ makes for separate compilation.
    """
    before = {"module_id": b"", "stub": _DEFINITION}.get(role)
    if before is None or not start:
        return content
    at = content.find(before + start)
    is_there = at == 0 if role == "module_id" else at >= 0
    return content.replace(before + start, before + _SOURCE, 1) if is_there else content


def with_source(content: bytes, start: bytes) -> bytes:
    """The inverse of `without_source`."""
    return content.replace(_SOURCE, start, 1) if start else content


def may_be_any_in(content: bytes) -> bool:
    """Whether a text, or the names in machine code, may hold some id."""
    return _PREFIX.search(content) is not None


def names_process(text: bytes) -> bool:
    """Whether the names in a text hold an id with a process id."""
    return any(_TIME_AND_PROCESS.match(text, _end_of_head(match)) for match in _PREFIX.finditer(text))


def head_of(identifier: bytes) -> bytes:
    """What an id begins with, which tells path and name, as it stands in names; may be empty."""
    return _split(identifier)[0].strip(b"_")


def is_made_of(identifier: bytes, name: bytes) -> bool:
    """Whether this mangled name is that of the external definition that an id names."""
    rest = _split(identifier)[1]
    return rest == (name if len(name) <= _LONGEST_REST else b"%08x" % zlib.crc32(name))


def is_understood(identifier: bytes) -> bool:
    return bool(_split(identifier)[1])


def _split(identifier: bytes) -> tuple[bytes, bytes]:
    """Everything up to and with the base name's underscore, and the rest; the rest may be empty."""
    match = _PREFIX.match(identifier)
    if not match:
        return identifier, b""
    end = _end_of_head(match)
    return identifier[:end], identifier[end:]


def _end_of_head(match: re.Match[bytes]) -> int:
    """Where the rest of an id begins that `_PREFIX` has found: behind the base name and its underscore."""
    return match.end() + int(match[1]) + 1


def independent(plan: Plan) -> Plan:
    """The plan with an id of its own for each stage that reads one.

    `Plan.own_ids` tells which file would have been read in the place of which. Ids that a command that is
    not understood may have written are read as nvcc has it.
    """
    if any(stage.kind == OPAQUE for stage in plan.stages):
        return plan
    own_ids: dict[str, str] = {}

    def making_own(stage: Stage) -> Stage:
        original = _id_read_by(stage)
        if not original:
            return stage
        own = f"{original}.{len(own_ids) + 1}"
        own_ids[own] = original
        return _making_own(stage, original, own)

    return replace(plan.changed(making_own), own_ids=own_ids)


def _id_read_by(stage: Stage) -> str:
    """The file that a stage reads the id from, or empty."""
    argv = stage.argv
    if _NAME_OPTION not in argv or generates(stage):
        return ""
    path = argv[argv.index(_NAME_OPTION) + 1]
    return path if path in stage.inputs else ""


def _making_own(stage: Stage, original: str, own: str) -> Stage:
    argv = _generating(stage.argv, own)
    # Its words for the key do not tell where the source is: seeding.py adds that where the id is in a result.
    grammar = replace(grammar_of(argv) or stage.grammar, ignored=stage.grammar.ignored)
    return replace(
        stage,
        grammar=grammar,
        argv=argv,
        key_argv=_generating(stage.key_argv, f"<{ROLE}>"),
        inputs=tuple(path for path in stage.inputs if path != original),
        outputs=(*stage.outputs, Output(ROLE, own)),
    )


def _generating(argv: tuple[str, ...], name: str) -> tuple[str, ...]:
    """The words of a command that writes the id to `name` instead of reading it."""
    at = argv.index(_NAME_OPTION)
    return (*argv[:at], GENERATE_OPTION, _NAME_OPTION, name, *argv[at + 2 :])


def source_paths(stages: Sequence[Stage]) -> dict[str, str]:
    """For each file with a module id that is not made by the name of it alone, where the source is."""
    return {
        output.path: source_path(stage.argv)
        for stage in stages
        for output in stage.outputs
        if output.role in (ROLE, "stub")
    }


def objects_of(plan: Plan) -> list[Output]:
    """The objects that the host compiler makes of a source with device code, as products."""
    return [
        output
        for stage in plan.stages
        for output in stage.outputs
        if stage.tool.is_host_compiler and output.role == "object" and output.destination
    ]


def generating_stage(plan: Plan) -> Stage | None:
    """The stage that makes up the id, where the plan makes one object of one source."""
    generating = [stage for stage in plan.stages if generates(stage)]
    return generating[0] if len(generating) == 1 and len(objects_of(plan)) == 1 else None


def may_be_relative(plan: Plan, base: str, cwd: str, pwd: str) -> bool:
    """Whether such ids can be tried: they are given to one object that does not name its directory."""
    generating = generating_stage(plan)
    if not base or generating is None or any(stage.kind == OPAQUE for stage in plan.stages):
        return False
    if any(stage.tool.names_directory(stage.argv, cwd, pwd) for stage in plan.stages):
        return False
    naming = [stage for stage in plan.stages if PATH_OPTION in stage.argv]
    return generating in naming and all(
        source_path(stage.argv).startswith(base + "/")
        and _FOR_DEVICE_LINKS not in stage.argv
        and not user_chose_seed(stage)
        for stage in naming
    )


def relative(plan: Plan, cwd: str) -> Plan:
    """The plan with the relative path of the source in the place of its path.

    The name of the source is a part of messages alone, which say it as it was typed.
    """

    def with_relative(stage: Stage) -> Stage:
        if PATH_OPTION not in stage.argv:
            return stage
        key_argv = _with_value(_with_value(stage.key_argv, PATH_OPTION, cwd), NAME_OPTION, cwd)
        return replace(stage, argv=_with_value(stage.argv, PATH_OPTION, cwd), key_argv=key_argv)

    return plan.changed(with_relative)


def _with_value(words: tuple[str, ...], option: str, cwd: str) -> tuple[str, ...]:
    if option not in words:
        return words
    at = words.index(option) + 1
    if not os.path.isabs(words[at]):
        return words
    return (*words[:at], os.path.relpath(words[at], cwd), *words[at + 1 :])


def may_share_id(image: bytes, identifier: bytes) -> bool:
    """Whether two such objects may have one id: a link rejects the pair, or no global name holds the id."""
    head = head_of(identifier)
    if not head or not elf.is_understood(image):
        return False
    try:
        symbols, sections = elf.symbols(image), elf.sections(image)
    except ValueError:
        return False
    if not symbols or any(section[0].startswith(_COMPILED_LATER) for section in sections):
        return False
    holding = [flags for name, flags in symbols if head in name and flags & elf.GLOBAL]
    if not all(flags & elf.HIDDEN for flags in holding):
        return False
    return not holding or any(flags & elf.STRONG and is_made_of(identifier, name) for name, flags in symbols)
