"""The key of a call, made from its parsed arguments, by which direct hits find its record.

A direct hit is possible even if files were touched or outputs have other names. The key of a call
consists of its parsed arguments, without those that only name outputs. A record is valid in one of these
scopes, each with its own key. They are tried in this order:

    below_base      any checkout: nvcc gets relative paths (base_dir.py)
    any_directory   any working directory, because no file was found by a relative name
    same_directory  the working directory of the recorded call

Each scope has a second key, which also contains the names of the outputs, for calls whose results depend on
these names (see module_id.py). record_call.py chooses the key of a new record. In a result, the role of a
product is its index among the outputs of the call (output_names.py). Direct hits load this module, so it is
part of the hot path.
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
    from nvccache.records.direct_hit import Request
    from nvccache.records.facts import CurrentState
    from nvccache.records.record import Entry
    from nvccache.store.store import Store

BELOW_BASE, ANY_DIRECTORY, SAME_DIRECTORY = "below_base", "any_directory", "same_directory"
SAME_OUTPUTS = " with outputs"  # added to a scope if its key contains the names of outputs
# These options are not part of a key: they name outputs or say how nvcc runs, and do not affect any content.
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
_PREFIX_MAP = "-prefix-map="  # the end of -ffile-prefix-map=, -fmacro-prefix-map= and -fdebug-prefix-map=
_HOST_OPTIONS = frozenset(["-", "compiler-options"])  # `-` stands for options that nvcc does not know


def components_of(request: Request, scope: str) -> list[KeyComponent]:
    """The components of a call's key, which `nvccache explain` compares with those of an earlier call."""
    invocation = request.invocation
    components: list[KeyComponent] = [("nvcc", (request.nvcc,))]
    if request.checkout:
        components.append(("base directory", ("set",)))  # because module ids then contain relative paths
    cwd, pwd = os.getcwd(), request.environ.get("PWD", "")
    checkout = request.checkout if scope.startswith(BELOW_BASE) else ""
    naming: list[Argument] = []
    for argument in invocation.arguments:
        if invocation.is_query or argument.name not in _OUTPUT_OPTIONS:
            components.append(("argument", _parts_of(argument, scope, cwd, checkout)))
        else:
            naming.append(argument)
    if len({each.name for each in naming}) < len({(each.name, each.value) for each in naming}):
        # nvcc warns if an option is given twice with different values, so these affect the recorded messages.
        components += [("argument", _parts_of(each, scope, cwd, checkout)) for each in naming]
    wanted = invocation.dependencies
    given = (invocation.output, invocation.output_directory, wanted.output if wanted else "")
    components.append(("output names", tuple("given" if name else "" for name in given)))
    if scope.startswith(SAME_DIRECTORY):
        components.append(("directory", (cwd, pwd)))
    else:
        # Compilers write the working directory's name as in PWD, which prefix maps may not match.
        components.append(("directory by another name", ("yes" if pwd not in ("", cwd) else "no",)))
    if scope.endswith(SAME_OUTPUTS):
        start = cwd if not checkout or invocation.has_absolute_inputs else checkout  # as in a module id
        places = tuple(os.path.relpath(name, start) if name else "" for name in given)
        # A result that contains the checkout's path has another scope, so this path need not be in the key.
        inside = tuple("below" if checkout and name.startswith(f"{checkout}/") else name for name in given)
        components.append(("outputs", inside))
        components.append(("places of outputs", places))
        if checkout:  # module ids contain these paths of sources
            sources = [os.path.relpath(name, checkout) for name in invocation.inputs]
            components.append(("places of sources", tuple(sources)))
    return components


def _parts_of(argument: Argument, scope: str, cwd: str, checkout: str) -> tuple[str, ...]:
    """An option's name and value, or the tokens of an option without a value."""
    name, value = argument.name, argument.value
    if value is None:
        return argument.tokens
    if name in _HOST_OPTIONS and not scope.startswith(SAME_DIRECTORY):
        value = _with_effect_of_maps(value, cwd, checkout)
    return name, value


def _with_effect_of_maps(options: str, cwd: str, checkout: str) -> str:
    """The options; each prefix map is followed by what remains of the working directory after the prefix.

    A map such as `-ffile-prefix-map=/base/one=.` keeps the checkout's path out of the outputs. In the key,
    the path `/base/one` becomes relative, so that the key is the same in all checkouts.
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
    """A valid entry for this call, and the answer made from it; None if there is no such entry."""
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
    """The keys under which a call may be recorded, in the order in which they are tried."""
    below_base = [BELOW_BASE] if request.checkout else []
    for scope in (*below_base, ANY_DIRECTORY, SAME_DIRECTORY):
        for suffix in ("", SAME_OUTPUTS):
            yield make_lookup_key(request, scope + suffix)


def make_lookup_key(request: Request, scope: str) -> LookupKey:
    return LookupKey(keys.key_of("call " + scope, components_of(request, scope)), scope)


def result_of(answer: Answer, listed: Sequence[tuple[str, bool]], invocation: Invocation) -> Result | None:
    """A call's result without the names of its outputs; None if a name does not follow from the command line.

    `listed` has the names in the depfile, and for each whether it is a system header.
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
    """The answer with this call's output names; None if the entry lacks an output that the call requests."""
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
