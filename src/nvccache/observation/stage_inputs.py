"""The input record of one stage, from what its tools were observed to do.

Decides which paths are the call's own, which queries are irrelevant, and when there can be no input record.
Digests are of the files as they are now, provided that these have not changed since the tools opened them.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain

from nvccache import environment
from nvccache.files import presence
from nvccache.files.presence import ABSENT, EXECUTABLE, PRESENT
from nvccache.observation import dependencies, uncacheable
from nvccache.observation.looked_up import CHANGED_MEANWHILE, CallNames, UnchangedFiles
from nvccache.observation.observed_process import COMPILERS, GENERATED_FILES, HOST, OTHER, Process, for_all
from nvccache.observation.observer_log import Observation
from nvccache.records import facts
from nvccache.records.facts import FACTS, CurrentState
from nvccache.records.input_records import LIBRARY, PROGRAM, SOURCE, InputRecord, UnreadableError
from nvccache.store.store import Store
from nvccache.toolkit import toolchain
from nvccache.values import dataclass

_STANDARD_INPUT = "/proc/self/fd/0"  # a link


@dataclass(frozen=True, slots=True)
class Subject:
    """What is known about the stage that was observed."""

    environ: Mapping[str, str]  # the environment of its tool
    argv0: str  # argv[0] of its tool
    known: frozenset[str] = frozenset()  # files whose content is already in its key
    is_known_by_content: bool = False  # whether its key contains the tool's content but not its path
    folds_mathematics: bool = False  # whether its tool evaluates functions of libm
    # The call's own files whose content is in the key; if None, the stage may read any of the call's files.
    intermediates: frozenset[str] | None = None

    @property
    def search_path(self) -> str:
        return self.environ.get("PATH", "")

    @property
    def variables_of_loader(self) -> set[str]:
        """The variables that affect which libraries are loaded, and which variants of functions they use.

        If the key contains the tool's content, it also contains what LD_LIBRARY_PATH means for the tool.
        """
        names = {*environment.OF_LOADER}
        if self.is_known_by_content:
            names -= {environment.LIBRARY_PATH, *(() if self.folds_mathematics else {environment.TUNABLES})}
        return names

    @property
    def program(self) -> str:
        """The path of the tool; empty if there is none."""
        return toolchain.resolve(self.argv0, self.search_path)


class ObservedInputs:
    """Creates the input records of one call, which began at `since_ns` and has its files below `scratch`."""

    def __init__(self, cache: Store, cwd: str, scratch: str, since_ns: int, now: CurrentState) -> None:
        self.cwd = cwd
        self.scratch = scratch
        self._own = (scratch + "/", os.path.realpath(scratch) + "/")
        # Prefixes of all paths that may be irrelevant; is_relevant looks closer.
        self.special = (scratch, self._own[1][:-1], *uncacheable.KERNEL_PATHS)
        self.files = UnchangedFiles(cache, since_ns, now.recorded)
        self.names = CallNames(since_ns)

    def input_record(self, observation: Observation, subject: Subject) -> InputRecord:
        """Everything that a stage depends on besides its key; raises UnreadableError or OSError."""
        if observation.incomplete:
            raise UnreadableError(f"the tools could not be observed: {observation.incomplete}")
        return _StageInputs(self, observation, subject).input_record()

    def remote_run_record(self, subject: Subject, names: Iterable[str]) -> InputRecord:
        """The input record of a tool that ran on another machine, where it had only the files that were sent.

        Besides the contents of the key, the stage depends on the tool's libraries and on variables. Variables
        that the C library reads were sent. Those in `names`, which the tool itself reads, were not set.
        Raises UnreadableError or OSError.
        """
        libraries = toolchain.libraries_of(subject.program, subject.environ)
        if not libraries:
            raise UnreadableError(f"it is unknown which libraries `{subject.program}` loads")
        record = InputRecord()
        self.files.put_into(
            record, dict.fromkeys([*libraries, *self.present([toolchain.PRELOAD_LIST])], LIBRARY)
        )
        self.add_facts(record, _facts_of_libraries(libraries, subject), subject)
        looked = self.names.begin(record.files)
        looked.add_absent(self.absent([toolchain.PRELOAD_LIST]))
        looked.put_into(record, "")
        variables = {*environment.OF_LIBC, *subject.variables_of_loader, *names}
        self.add_variables(record, variables, subject.environ)
        return record

    def tool_record(self, subject: Subject) -> InputRecord:
        """The input record of a stage's tool itself, for the record of a call; raises UnreadableError."""
        record = InputRecord()
        called = subject.program
        if called:  # also if the key has its content, since a script may have replaced it meanwhile
            self.files.put_into(record, {called: PROGRAM, os.path.realpath(called): PROGRAM})
            looked = self.names.begin(record.files)
            if subject.is_known_by_content:  # the stage's result may come from another toolkit
                self.add_variables(record, {environment.LIBRARY_PATH}, subject.environ)
                first = toolchain.first_directories(called, subject.environ)
                looked.add_absent(self.absent(toolchain.paths_in(first, toolchain.OF_NVIDIAS_TOOLS)))
            looked.add_tool(subject.argv0, subject.search_path)
            looked.put_into(record, subject.search_path)
        return record

    def union(
        self, parts: Iterable[InputRecord], environ: Mapping[str, str], more: Iterable[str] = ()
    ) -> InputRecord:
        """The union of input records and `more` files, for a call with this environment.

        Raises UnreadableError or OSError.
        """
        record = InputRecord()
        kinds: dict[str, str] = {}
        names: dict[str, set[str]] = {}
        lists: dict[str, dict[tuple[str, ...] | str, None]] = {fact.name: {} for fact in FACTS}
        for part in parts:
            for path, kind, digest in zip(part.files, part.kinds, part.digests, strict=True):
                kinds[path] = kind
                self.files.learn(path, digest)
            for directory, listed in zip(part.directories, part.names, strict=True):
                names.setdefault(directory, set()).update(listed)
            for name, found in lists.items():
                found.update(dict.fromkeys(getattr(part, name)))
        for name, found in lists.items():
            setattr(record, name, list(found))
        kinds = dict.fromkeys(more, SOURCE) | kinds
        self.names.drop_aliases(record, kinds, names, self.files.signature)
        self.files.put_into(record, kinds)
        # Two passes may have read copies of the same file, so copies are searched for again.
        record.dates = [row for row in record.dates if row[1][:1] != presence.LIKE]
        record.dates += presence.dates_of_copies(_copies(record))
        record.search_path = environ.get("PATH", "") if record.sought else ""
        self.add_variables(record, {name for name, _ in record.variables}, environ)
        self.names.add_names(record, names, set(record.plain))
        return record

    def absent(self, paths: Iterable[str]) -> list[str]:
        return [path for path in paths if self.names.state(path) == ABSENT]

    def present(self, paths: Iterable[str]) -> list[str]:
        """The paths that lead to regular files."""
        return [path for path in paths if self.names.state(path) in (PRESENT, EXECUTABLE)]

    def is_relevant(self, path: str) -> bool:
        """Whether a path may be an input: not a file of the call itself, and the same for all processes."""
        if not path.startswith(self.special):
            return True
        is_own = path.startswith(self._own) or path in (self.scratch, self._own[1][:-1])
        return not is_own and uncacheable.is_same_for_all(path)

    def add_facts(self, record: InputRecord, needed: Iterable[tuple[str, str]], subject: Subject) -> None:
        for topic, argument in dict.fromkeys(needed):
            answer = facts.answer(topic, argument, subject.environ)
            if not answer:
                raise UnreadableError(f"a tool depends on a fact of this machine that is unknown ({topic})")
            record.machine.append((topic, argument, answer))

    def add_variables(self, record: InputRecord, names: set[str], environ: Mapping[str, str]) -> None:
        whole = {environment.WHOLE}  # stands for all variables except ignored ones
        wanted = whole.union(filter(environment.is_ignored, names)) if whole <= names else names
        record.variables = [(name, environment.digest_of(name, environ)) for name in sorted(wanted)]


class _StageInputs:
    def __init__(self, call: ObservedInputs, observation: Observation, subject: Subject) -> None:
        self._call = call
        self._subject = subject
        self._program = subject.program
        self._processes = observation.processes
        self._written = observation.written
        self._temporary = _temporary_directories(subject.environ)
        self._created = frozenset(map(os.path.normpath, observation.written))
        self._in_key = subject.known
        if subject.is_known_by_content:
            self._in_key |= {self._program, os.path.realpath(self._program)}
        self._in_key |= {for_all(path, call.cwd) for path in self._in_key}
        # The beginnings of paths, and paths, that may be irrelevant.
        self._unusual = (*call.special, *(f"{directory}/" for directory in self._temporary))
        self._excluded = self._in_key | self._written
        self._libraries = [
            [path for path in process.loaded if path != process.program] for process in self._processes
        ]
        self._searched = sorted(self._places_of_libraries())

    def input_record(self) -> InputRecord:
        for process in self._processes:
            uncacheable.check(process)
        record = InputRecord()
        self._add_files(record)
        for process in self._processes:
            own = self._subject.intermediates or ()
            uncacheable.check_products(process, self._call.scratch, own)
        if self._subject.is_known_by_content:
            self._check_neighbours(record)
        self._call.add_facts(record, self._facts_needed(), self._subject)
        self._call.add_variables(record, self._variables(), self._subject.environ)
        self._add_lookups(record)
        # Where absolute paths lead does not depend on the working directory.
        searched = [
            dependencies.include_paths(process, self._subject.environ)
            for process in self._processes
            if process.kind == HOST
        ]
        followed = filter(lambda paths: not all(path.startswith("/") for path in paths), searched)
        record.include_paths = sorted(set(map(facts.which_are_one, followed)))
        if any(dependencies.reads_null_input(process) for process in self._processes):
            record.links.append((_STANDARD_INPUT, os.devnull))
        return record

    def _facts_needed(self) -> Iterator[tuple[str, str]]:
        """The facts about machine and caller on which the stage depends, as pairs of topic and argument."""
        yield from _facts_of_libraries(chain.from_iterable(self._libraries), self._subject)
        for process in self._processes:
            yield from dependencies.facts_needed(process)

    def _places_of_libraries(self) -> set[str]:
        """The paths at which the loader, which is not observed, might find other libraries."""
        places = {toolchain.PRELOAD_LIST}
        for process, libraries in zip(self._processes, self._libraries, strict=True):
            first = toolchain.first_directories(process.program, self._subject.environ)
            directories = [*map(os.path.dirname, libraries), *first]
            names = [toolchain.VARIANTS, *map(os.path.basename, libraries)]
            places.update(toolchain.paths_in(directories, names))
        return places.difference(*self._libraries)

    def _check_neighbours(self, record: InputRecord) -> None:
        """Raise UnreadableError if a tool whose path is in no key reads other files of its toolkit.

        In another toolkit, the same tool would read other files.
        """
        program = os.path.realpath(self._program)
        root = os.path.dirname(os.path.dirname(program)) + "/"
        for path, kind in zip(record.files, record.kinds, strict=True):
            if kind == LIBRARY and os.path.basename(path) in toolchain.OF_NVIDIAS_TOOLS:
                continue  # the key shows where the loader looks for these libraries
            if kind == PROGRAM or os.path.realpath(path).startswith(root):
                raise UnreadableError(f"`{program}` uses `{path}`, which is not in the stage's key")

    def _add_files(self, record: InputRecord) -> None:
        kinds: dict[str, str] = {}
        has_program = any(process.kind == OTHER for process in self._processes)
        for process in self._processes:
            self._check_intermediates(process.files)
            for opened_files, kind in ((process.files, SOURCE), (process.loaded, LIBRARY)):
                for path in self._relevant(opened_files):
                    if self._call.files.signature(path) != opened_files[path]:
                        raise UnreadableError(CHANGED_MEANWHILE)
                    kinds.setdefault(path, kind)
            for path in dependencies.files_of_status(process, has_program):
                if self._is_relevant(path) and not path.startswith(GENERATED_FILES):
                    kinds.setdefault(path, SOURCE)
                    record.dates.append((path, presence.status_of(path)))
            ran = (process.program, *process.started)
            kinds.update((path, PROGRAM) for path in ran if self._is_relevant(path))
        if self._program and self._is_relevant(self._program):
            kinds[self._program] = PROGRAM
        kinds |= dict.fromkeys(self._call.present(self._searched), LIBRARY)
        self._call.files.put_into(record, kinds)
        record.dates = sorted({*record.dates, *presence.dates_of_copies(_copies(record))})

    def _check_intermediates(self, read: Iterable[str]) -> None:
        """Raise UnreadableError if the stage read an intermediate that is not in its key.

        An unknown tool may have written that intermediate.
        """
        allowed = self._subject.intermediates
        if allowed is None:
            return
        for path in read:
            is_own = path.startswith(self._call.scratch + "/")
            if is_own and path not in self._written and path not in allowed:
                raise UnreadableError(
                    f"a tool reads `{os.path.basename(path)}`, which is not in the stage's key"
                )

    def _relevant(self, paths: Iterable[str]) -> list[str]:
        """The paths that are inputs. There are thousands, of which most only need the first check."""
        unusual, excluded = self._unusual, self._excluded
        return [
            path
            for path in paths
            if not (path.startswith(unusual) or path in excluded) or self._is_relevant(path)
        ]

    def _is_relevant(self, path: str) -> bool:
        is_input = path not in self._written and path not in self._in_key
        return is_input and self._call.is_relevant(path) and not self._is_temporary(path)

    def _is_temporary(self, path: str) -> bool:
        """Whether a path is, or is below, a temporary file of the stage, whose name is new each time."""
        for directory in self._temporary:
            if path.startswith(directory + "/"):
                entry = directory + "/" + path[len(directory) + 1 :].partition("/")[0]
                return entry in self._created and not os.path.lexists(entry)
        return False

    def _was_absent(self, path: str) -> bool:
        """Whether the stage created a path, which it had looked up in vain, and removed it again."""
        return self._call.is_relevant(path) and not os.path.lexists(path) and not self._is_temporary(path)

    def _relevance(self, process: Process, ignored: frozenset[str]) -> Callable[[Iterable[str]], list[str]]:
        """Returns a function that selects the paths of a process that are inputs.

        Directories do not count if a compiler looked at them only to choose one for its temporary files.
        """
        if process.kind in COMPILERS and "TMPDIR" in process.variables:
            ignored = ignored.union(self._temporary)
        beginnings = tuple(ignored)
        return lambda paths: [
            path
            for path in self._relevant(paths)
            if not (path.startswith(beginnings) and path.rstrip("/") in ignored)
        ]

    def _names_of_directory(self) -> frozenset[str]:
        """Paths that a tool may look up only to find the name of its working directory.

        They exist in every checkout. The stage's command shows whether the name can affect the result.
        """
        if not self._subject.is_known_by_content:
            return frozenset()
        names = (self._call.cwd, self._subject.environ.get("PWD", ""))
        return frozenset(name for name in names if name and _is_here(name))

    def _variables(self) -> set[str]:
        names = {*environment.OF_LIBC, *self._subject.variables_of_loader}
        # A wrapper may add an option for colours, so the arguments of all processes are searched.
        is_coloured = any(environment.requests_colours(process.arguments) for process in self._processes)
        for process in self._processes:
            names |= dependencies.variables_of(process, self._subject.environ, is_coloured)
        return names

    def _add_lookups(self, record: InputRecord) -> None:
        looked = self._call.names.begin(record.files)
        here = self._names_of_directory()
        listed: set[str] = set()
        for process in self._processes:
            looked.take(process, self._relevance(process, here))
            for path in filter(self._was_absent, process.absent & self._written):
                looked.follow(path)
            listed.update(self._relevance(process, frozenset())(process.listed))
        looked.add_absent(self._call.absent(self._searched))
        if not self._subject.is_known_by_content:
            looked.add_tool(self._subject.argv0, self._subject.search_path)
        looked.put_into(record, self._subject.search_path)
        for directory in sorted(listed):
            if not directory.startswith(GENERATED_FILES):
                self._call.files.signature(directory)  # raises UnreadableError if it has changed
                record.listings.append((directory, presence.digest_of_listing(directory)))


def _facts_of_libraries(libraries: Iterable[str], subject: Subject) -> Iterator[tuple[str, str]]:
    """The facts about the machine on which loaded libraries depend, as pairs of topic and argument."""
    names = sorted({*map(os.path.basename, libraries)})
    if os.path.exists(facts.CACHE_OF_LOADER):
        yield from ((facts.LIBRARIES, f"{facts.CACHE_OF_LOADER}:{name}") for name in names)
    if subject.folds_mathematics:
        has_libm = any(name.startswith(("libm.", "libm-")) for name in names)
        yield facts.FEATURES if has_libm else facts.NATIVE, ""


def _is_here(name: str) -> bool:
    try:
        return os.path.samefile(name, ".")
    except OSError:
        return False


def _temporary_directories(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The directories in which compilers may create temporary files."""
    named = [environ.get(name, "") for name in ("TMPDIR", "TMP", "TEMP")]
    return tuple(dict.fromkeys(os.path.normpath(path) for path in (*named, "/tmp") if path))


def _copies(record: InputRecord) -> list[tuple[str, str]]:
    """Sources that are equal to others, with their digests. Two names of one file may later lead to two."""
    read = zip(record.files, record.digests, record.kinds, record.signatures, strict=True)
    sources = [(path, digest) for path, digest, kind, signature in read if kind == SOURCE and signature[2]]
    count = Counter(digest for _, digest in sources)  # not of empty files, which have no effect
    return [source for source in sources if count[source[1]] > 1]
