"""The module id, which makes the names of a TU's internal device symbols unique.

cudafe++ (on 11.x cicc) composes it as `_<crc32 of the source's path>_<length>_<base name>_<rest>`. The rest
names the first external definition. In a TU without one it holds the time and process id, so that its objects
differ on every run; with a cached id instead, two objects could clash in a link. (Found by experiment on CUDA
11.8 to 13.5.) For those TUs the rest is chosen here, from exactly what distinguishes two objects for a
linker:

    CUDA 13 and later   `--frandom-seed`, which nvcc itself passes on for `-frandom-seed`: a TU with an
                        external definition keeps nvcc's id, any other gets the crc32 of the seed
    before              run as nvcc would; if the id has a process id, run again with an id of ours

Each stage generates the id itself. nvcc lets one stage write it (cudafe++, on 11.x a cicc, with `-cubin` the
first cicc) and the others read it, so that cicc waits for cudafe++. All of these tools accept the option that
nvcc gives to the first, and generate the same id from the same source: from the path and the first external
definition, or from the seed if there is none (CUDA 11.8 to 13.5, found by comparing ids, PTX and stubs). The
ids differ if the passes differ in their first external definition, and in TUs without one on toolkits that
take no seed. Hence a stage that runs before nvcc's id is known guesses, and one that runs later reads it
(execution/seeding.py).

Relative ids: below the base directory (base_dir.py) the checksum can be that of the source's path relative to
the working directory, so that all checkouts share the id. Then two objects with one id may come from
different sources, with the same relative path and the same name of the first external definition. If each
object defines that name as a symbol, no link accepts both, with nvcc's ids or these; and other names with the
id must not be visible outside the program or library that the object is linked into. The seed becomes
relative as well, and contains no output names: two objects with one seed come from the same text, so no link
accepts both if they define any symbol. Each object is checked for that. Those that fail keep nvcc's id: for
example TUs whose first definition is a device variable, or has a name given by `__asm__`, and TUs that define
nothing. So do objects for device links, whose symbols are visible everywhere.
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
_SOURCE = b"_nvccache-source-51d0c2f3a86e4b79_"  # replaces the checksum of a path
# Defines the id in a stub for separate compilation.
_DEFINITION = b"#define __NV_MODULE_ID "
_PREFIX = re.compile(rb"_[0-9a-f]{8}_(\d+)_")
_SEED_DIGITS = 32  # of a key; an id contains only the crc32 of the seed
_LONGEST_REST = 8  # characters of a definition's name; a longer one is replaced by its crc32
_TIME_AND_PROCESS = re.compile(rb"[0-9a-f]{8}_\d+")
ROLE = "module_id"
_NAME_OPTION = "--module_id_file_name"
_FOR_DEVICE_LINKS = "--device-c"
_COMPILED_LATER = b".gnu.lto_"  # sections with code whose symbols are in no table


@dataclass(frozen=True, slots=True)
class Seed:
    """The seed for the id of a TU without external definition; `text` is 32 hex digits."""

    text: str

    @property
    def rest(self) -> bytes:
        return b"%08x" % zlib.crc32(self.text.encode())


def generates(stage: Stage) -> bool:
    return GENERATE_OPTION in stage.argv


def user_chose_seed(stage: Stage) -> bool:
    return any(token.partition("=")[0] == _SEED_OPTION for token in stage.argv)


def seed_of(
    source_path: str, product_paths: Sequence[str], options: Sequence[str], texts: Sequence[str]
) -> Seed:
    """The seed of a TU, made from its source, the absolute paths of its products, options and text.

    Two objects that can be linked with plain nvcc differ in one of these: they are two files, or one file
    compiled twice under one name, with an edit or another option in between. `texts` are digests of the
    preprocessed text of each pass. Two identical compiles get the same seed.
    """
    components = [
        ("source", (source_path,)),
        ("products", tuple(product_paths)),
        ("options", tuple(options)),
        ("texts", tuple(texts)),
    ]
    return Seed(keys.key_of("module id", components)[:_SEED_DIGITS])


def toolkit_version(preprocessor_argv: Sequence[str]) -> int:
    """The toolkit's major version, from the macro that nvcc defines; 0 if there is none."""
    for token in preprocessor_argv:
        number = token.removeprefix(_VERSION_MACRO)
        if number != token and number.isdecimal():
            return int(number)
    return 0


def takes_seed(version: int) -> bool:
    return version >= _FIRST_VERSION_WITH_SEED


def with_seed(argv: Sequence[str], seed: Seed) -> list[str]:
    return [argv[0], _SEED_OPTION, seed.text, *argv[1:]]


def without_generating(argv: Sequence[str]) -> list[str]:
    """The same command, which reads the id from the file instead of writing it."""
    return [token for token in argv if token != GENERATE_OPTION]


def depends_on_seed(identifier: bytes, seed: Seed) -> bool:
    return identifier.endswith(b"_" + seed.rest)


def replace_process_id(identifier: bytes, seed: Seed) -> bytes | None:
    """The id with the seed instead of time and process id; None if it names a definition."""
    head, rest = _split(identifier)
    return head + seed.rest if _TIME_AND_PROCESS.fullmatch(rest) else None


def has_process_id(identifier: bytes) -> bool:
    return bool(_TIME_AND_PROCESS.fullmatch(_split(identifier)[1]))


def may_occur_in(identifier: bytes, contents: Sequence[bytes]) -> bool:
    """Whether one of the contents may contain the id: binary ones may, in another form.

    Only the head of the id is searched for: names may contain any part of the rest.
    """
    head = head_of(identifier)
    return any(not head or head in content or b"\0" in content for content in contents)


def source_path(argv: Sequence[str]) -> str:
    """The path that the id is made from, in argv; empty on CUDA 11.2, which has no such option."""
    return argv[argv.index(PATH_OPTION) + 1] if PATH_OPTION in argv else ""


def prefix_of(path: str) -> bytes:
    """The prefix of ids for this source path."""
    return b"_%08x_" % zlib.crc32(os.fsencode(path))


def without_checksum(role: str, content: bytes, prefix: bytes) -> bytes:
    """An id or a stub with a mark instead of the checksum of the source's path.

    In a stub only the definition of the id is replaced: inside names it may decide the order of definitions,
    as in the output of cudafe++ for separate compilation.
    """
    before = {"module_id": b"", "stub": _DEFINITION}.get(role)
    if before is None or not prefix:
        return content
    at = content.find(before + prefix)
    is_there = at == 0 if role == "module_id" else at >= 0
    return content.replace(before + prefix, before + _SOURCE, 1) if is_there else content


def with_checksum(content: bytes, prefix: bytes) -> bytes:
    """The inverse of `without_checksum`."""
    return content.replace(_SOURCE, prefix, 1) if prefix else content


def may_contain_id(content: bytes) -> bool:
    """Whether a text, or the names in machine code, may contain an id."""
    return _PREFIX.search(content) is not None


def contains_process_id(text: bytes) -> bool:
    """Whether a text contains an id with a process id."""
    return any(_TIME_AND_PROCESS.match(text, _end_of_head(match)) for match in _PREFIX.finditer(text))


def head_of(identifier: bytes) -> bytes:
    """The part of an id for path and name, as it occurs in symbol names; may be empty."""
    return _split(identifier)[0].strip(b"_")


def is_named_after(identifier: bytes, name: bytes) -> bool:
    """Whether an id names the external definition with this mangled name."""
    rest = _split(identifier)[1]
    return rest == (name if len(name) <= _LONGEST_REST else b"%08x" % zlib.crc32(name))


def is_understood(identifier: bytes) -> bool:
    return bool(_split(identifier)[1])


def _split(identifier: bytes) -> tuple[bytes, bytes]:
    """The head, which includes the underscore after the base name, and the rest, which may be empty."""
    match = _PREFIX.match(identifier)
    if not match:
        return identifier, b""
    end = _end_of_head(match)
    return identifier[:end], identifier[end:]


def _end_of_head(match: re.Match[bytes]) -> int:
    """The start of the rest of an id found by `_PREFIX`: after the base name and its underscore."""
    return match.end() + int(match[1]) + 1


def independent(plan: Plan) -> Plan:
    """The plan in which each stage that reads an id generates its own.

    `Plan.own_ids` maps each new file to the one read in nvcc's plan. A plan with an unknown command, which
    may write an id, is unchanged.
    """
    if any(stage.kind == OPAQUE for stage in plan.stages):
        return plan
    own_ids: dict[str, str] = {}

    def with_own_id(stage: Stage) -> Stage:
        original = _id_read_by(stage)
        if not original:
            return stage
        own = f"{original}.{len(own_ids) + 1}"
        own_ids[own] = original
        return _generating(stage, original, own)

    return replace(plan.changed(with_own_id), own_ids=own_ids)


def _id_read_by(stage: Stage) -> str:
    """The file from which a stage reads the id, or empty."""
    argv = stage.argv
    if _NAME_OPTION not in argv or generates(stage):
        return ""
    path = argv[argv.index(_NAME_OPTION) + 1]
    return path if path in stage.inputs else ""


def _generating(stage: Stage, original: str, own: str) -> Stage:
    argv = _generating_argv(stage.argv, own)
    # The path of the source is not in `key_argv`: seeding.py adds it if the id is in a result.
    grammar = replace(grammar_of(argv) or stage.grammar, ignored=stage.grammar.ignored)
    return replace(
        stage,
        grammar=grammar,
        argv=argv,
        key_argv=_generating_argv(stage.key_argv, f"<{ROLE}>"),
        inputs=tuple(path for path in stage.inputs if path != original),
        outputs=(*stage.outputs, Output(ROLE, own)),
    )


def _generating_argv(argv: tuple[str, ...], name: str) -> tuple[str, ...]:
    """The argv that writes the id to `name` instead of reading it."""
    at = argv.index(_NAME_OPTION)
    return (*argv[:at], GENERATE_OPTION, _NAME_OPTION, name, *argv[at + 2 :])


def source_paths(stages: Sequence[Stage]) -> dict[str, str]:
    """The source's path for each output that contains an id other than in symbol names."""
    return {
        output.path: source_path(stage.argv)
        for stage in stages
        for output in stage.outputs
        if output.role in (ROLE, "stub")
    }


def objects_of(plan: Plan) -> list[Output]:
    """The objects that the host compiler makes from sources with device code, as products."""
    return [
        output
        for stage in plan.stages
        for output in stage.outputs
        if stage.tool.is_host_compiler and output.role == "object" and output.destination
    ]


def generating_stage(plan: Plan) -> Stage | None:
    """The stage that generates the id, if the plan makes one object from one source."""
    generating = [stage for stage in plan.stages if generates(stage)]
    return generating[0] if len(generating) == 1 and len(objects_of(plan)) == 1 else None


def may_be_relative(plan: Plan, base: str, cwd: str, pwd: str) -> bool:
    """Whether relative ids can be tried: for a single object that does not name its directory."""
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
    """The plan with the source's path made relative.

    The option for the source's name is left alone: it is only used in messages, which quote it as typed.
    """

    def with_relative(stage: Stage) -> Stage:
        if PATH_OPTION not in stage.argv:
            return stage
        key_argv = _relative_in(_relative_in(stage.key_argv, PATH_OPTION, cwd), NAME_OPTION, cwd)
        return replace(stage, argv=_relative_in(stage.argv, PATH_OPTION, cwd), key_argv=key_argv)

    return plan.changed(with_relative)


def _relative_in(argv: tuple[str, ...], option: str, cwd: str) -> tuple[str, ...]:
    if option not in argv:
        return argv
    at = argv.index(option) + 1
    if not os.path.isabs(argv[at]):
        return argv
    return (*argv[:at], os.path.relpath(argv[at], cwd), *argv[at + 1 :])


def may_share_id(image: bytes, identifier: bytes, *, is_seeded: bool = False) -> bool:
    """Whether two such objects may share an id: no link accepts both, or no visible name contains it.

    Objects with the same seed come from the same text, so each definition in one of them is in both.
    """
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
    return not holding or any(
        flags & elf.STRONG and (head not in name if is_seeded else is_named_after(identifier, name))
        for name, flags in symbols
    )
