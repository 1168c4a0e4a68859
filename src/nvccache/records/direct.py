"""Direct hits: a call is looked up by its parsed arguments, even if files were touched or outputs renamed.

Part of the hot path, tried after replay.py. The key of a call consists of its parsed arguments, without those
that only name outputs. These scopes are tried, from the most widely shared:

    below_base      nvcc gets relative paths (base_dir.py), and the working directory does not count
    any_directory   exact arguments in any working directory: no name that was found is relative to it
    same_directory  exact arguments in this working directory

In each of them, if a call's results depend on the names of its outputs (see module_id.py), its key contains
these. record_call.py decides which key a call is recorded under. In a result, the role of a product is its
index in output_names.py.
"""

from __future__ import annotations

import os

from nvccache.files import keys
from nvccache.records import output_names, products, record
from nvccache.records.products import Answer
from nvccache.records.record import LookupKey, Result
from nvccache.store import store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from nvccache.commandline.invocation import Invocation
    from nvccache.commandline.tokens import Argument
    from nvccache.files.keys import KeyComponent
    from nvccache.records.facts import CurrentState
    from nvccache.records.levels import Request
    from nvccache.records.record import Entry
    from nvccache.store.store import Store

BELOW_BASE, ANY_DIRECTORY, SAME_DIRECTORY = "below_base", "any_directory", "same_directory"
SAME_OUTPUTS = " with outputs"  # suffix of a scope
# Not part of a key: they name outputs or say how nvcc runs, and do not affect any content.
_OUTPUT_OPTIONS = frozenset(
    [
        "output-file",
        "output-directory",
        "dependency-output",
        "dependency-target-name",
        "generate-dependency-targets",
        "threads",
        "jobserver",
    ]
)
_PREFIX_MAP = "-prefix-map="  # of files, macros, debug information
_HOST_OPTIONS = frozenset(["-", "compiler-options"])  # `-` stands for options unknown to nvcc


def components_of(request: Request, scope: str) -> list[KeyComponent]:
    """The components of the key of a call.

    `nvccache explain` compares these components with those of an earlier call.
    """
    invocation = request.invocation
    components: list[KeyComponent] = [("nvcc", (request.nvcc,))]
    if request.checkout:
        components.append(("base directory", ("set",)))  # module ids use relative paths
    cwd, pwd = os.getcwd(), request.environ.get("PWD", "")
    checkout = request.checkout if scope.startswith(BELOW_BASE) else ""
    naming: list[Argument] = []
    for argument in invocation.arguments:
        if invocation.is_query or argument.name not in _OUTPUT_OPTIONS:
            components.append(("argument", _parts_of(argument, scope, cwd, checkout)))
        else:
            naming.append(argument)
    if len({each.name for each in naming}) < len({(each.name, each.value) for each in naming}):
        # nvcc warns of an option given again with another value.
        components += [("argument", _parts_of(each, scope, cwd, checkout)) for each in naming]
    wanted = invocation.dependencies
    given = (invocation.output, invocation.output_directory, wanted.output if wanted else "")
    components.append(("output names", tuple("given" if name else "" for name in given)))
    if scope.startswith(SAME_DIRECTORY):
        components.append(("directory", (cwd, pwd)))
    else:
        # Compilers take the directory's name from PWD, which prefix maps may not cover.
        components.append(("directory by another name", ("yes" if pwd not in ("", cwd) else "no",)))
    if scope.endswith(SAME_OUTPUTS):
        components.append(("outputs", given))
        places = tuple(os.path.relpath(name, cwd) if name else "" for name in given)
        components.append(("places of outputs", places))
        if checkout:  # as in module ids
            sources = [os.path.relpath(name, checkout) for name in invocation.inputs]
            components.append(("places of sources", tuple(sources)))
    return components


def _parts_of(argument: Argument, scope: str, cwd: str, checkout: str) -> tuple[str, ...]:
    """The token of a switch, or an option's name and value."""
    name, value = argument.name, argument.value
    if value is None:
        return argument.tokens
    if name in _HOST_OPTIONS and not scope.startswith(SAME_DIRECTORY):
        value = _with_effect_of_maps(value, cwd, checkout)
    return name, value


def _with_effect_of_maps(options: str, cwd: str, checkout: str) -> str:
    """The options, and what prefix maps make of the working directory, which a shared key does not name.

    `-ffile-prefix-map=/base/one=.` names the checkout only to hide it, so that it is the same in all of them.
    """
    shown, *maps = options.split(_PREFIX_MAP)
    for old, equals, new in (text.partition("=") for text in maps):
        is_in_checkout = checkout and f"{old}/".startswith(f"{checkout}/")
        hidden = "\0" + os.path.relpath(old, cwd) if is_in_checkout else old
        rest = cwd[len(old) :] if cwd.startswith(old) else ""
        shown += f"{_PREFIX_MAP}{hidden}{equals}{new}\0{rest}"
    return shown


def find(
    request: Request,
    cache: Store,
    now: CurrentState,
    remote_records: Callable[[str], Iterable[bytes]] | None = None,
) -> tuple[Entry, Answer] | None:
    """A valid entry for this call, and the answer made from it."""
    for lookup_key in make_lookup_keys(request):
        entry = record.find(lookup_key, cache, now, remote_records)
        answer = answer_of(entry, request.invocation) if entry else None
        if entry and answer:
            if entry.is_received:
                entry.result.basis = [cache.name(store.BLOB, digest) for _, digest in entry.result.outputs]
                record.adopt(entry, cache, now)
            return entry, answer
    return None


def make_lookup_keys(request: Request) -> Iterator[LookupKey]:
    """The keys under which a call may be recorded, in the order of trying them."""
    below_base = [BELOW_BASE] if request.checkout else []
    for scope in (*below_base, ANY_DIRECTORY, SAME_DIRECTORY):
        for suffix in ("", SAME_OUTPUTS):
            yield make_lookup_key(request, scope + suffix)


def make_lookup_key(request: Request, scope: str) -> LookupKey:
    """The key of a call in this scope."""
    return LookupKey(keys.key_of("call " + scope, components_of(request, scope)), scope)


def result_of(answer: Answer, listed: Sequence[tuple[str, bool]], invocation: Invocation) -> Result | None:
    """The result of a call without its output names; None if one does not follow from the command line.

    `listed` holds the dependency file's entries, each with whether it is a system header.
    """
    names = output_names.outputs_of(invocation)
    destinations = [destination for destination, _, _ in answer.products]
    if names is None or not destinations or not names.match(destinations, answer.dependency_file):
        return None
    if any(unlink_first != names.are_objects for _, _, unlink_first in answer.products):
        return None
    products = [(str(names.products.index(product)), digest) for product, digest, _ in answer.products]
    result = answer.result
    result.outputs = products
    result.listed = [(name, "1" if is_system else "0") for name, is_system in listed]
    return result


def answer_of(entry: Entry, invocation: Invocation) -> Answer | None:
    """The result under this call's output names; None if the entry lacks something that the call needs."""
    result, answer = entry.result, Answer(entry.result)
    names = output_names.outputs_of(invocation)
    if names is None or bool(result.listed) != bool(invocation.dependencies):
        return None
    for role, digest in result.outputs:
        if not role.isdecimal() or int(role) >= len(names.products):
            return None
        answer.products.append((names.products[int(role)], digest, names.are_objects))
    if result.listed:
        listed = [(os.fsencode(name), flag == "1") for name, flag in result.listed]
        answer.dependency_file, answer.rule = names.dependency_file, products.rule(listed, invocation)
    answer.sources = list(invocation.inputs)
    destinations = [destination for destination, _, _ in answer.products]
    return answer if destinations and names.match(destinations, answer.dependency_file) else None
