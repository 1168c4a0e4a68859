"""Where a compiler looks for headers, and which names must stay absent there for the same ones to be found.

A header that appears earlier on the search path changes a compile though no file that was read has
changed. Every place where a header of the same name would be found counts, whichever comes first: that
is never too few. Where a directory lacks the first folder of a name, that folder's absence says it all.
"""

from __future__ import annotations

import os
import stat

from nvccache.reading import ABSENT, PRESENT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

COMMAND_LINE = "<command-line>"  # stands for the file that includes what -include names
Watch = tuple[str, str]
Link = tuple[str, str]  # (path, where it leads)
_DOTS = ("", ".", "..")


class Listings(dict[str, "frozenset[str] | None"]):
    """The names in directories, each listed once; None where one may be searched, but not listed."""

    def __missing__(self, directory: str) -> frozenset[str] | None:
        try:
            self[directory] = frozenset(os.listdir(directory))
        except NotADirectoryError:
            self[directory] = frozenset()
        except OSError:
            self[directory] = None
        return self[directory]


class Plan:
    """Where names of certain folders are looked for.

    `directories` may hold the last part of a name; `watches` are what must stay missing for there to be no
    more such directories; `links` lead to where the compiler says that it found the header, if it
    `is_understood` how it did.
    """

    __slots__ = ("directories", "is_understood", "links", "watches")

    def __init__(
        self, places: Iterable[str | Watch], links: Iterable[Link] = (), is_understood: bool = True
    ) -> None:
        found = list(dict.fromkeys(places))
        self.directories = tuple(place for place in found if isinstance(place, str))
        self.watches = frozenset(place for place in found if not isinstance(place, str))
        self.links = tuple(links)
        self.is_understood = is_understood


class Places:
    """Where headers are looked for along one search path; every answer is worked out once.

    Answers are watches: (directory, PRESENT or ABSENT and a name in it). Headers share their folders, so
    what is found for a folder is kept, and for each header only its last part is looked for.
    """

    def __init__(self, chain: Iterable[str], listings: Listings | None = None) -> None:
        self.chain = list(dict.fromkeys(directory.rstrip("/") or "/" for directory in chain))
        # gcc shortens the names of system headers by resolving links.
        self._real_chain = [os.path.realpath(directory) for directory in self.chain]
        self.listings = listings if listings is not None else Listings()
        self.present: dict[str, os.stat_result] = {}  # what was found where a name was looked for
        self._is_there: dict[str, bool] = {}
        self._folders: dict[tuple[str, str], str | Watch] = {}
        self._chains: dict[str, list[str | Watch]] = {}
        self._directories: dict[str, tuple[str, ...]] = {}  # those among the latter
        self._absences: dict[tuple[str, str], Watch | None] = {}
        self._header_plans: dict[tuple[str, tuple[str, ...]], Plan] = {}
        self._name_plans: dict[tuple[str, tuple[str, ...]], Plan] = {}
        self._ways: dict[str, tuple[str, Link]] = {}  # of files, and of folders with their slash
        self._found: dict[tuple[str, str], tuple[str, ...]] = {}

    def of_question(self, name: str, includer: str) -> list[Watch]:
        """For what `__has_include` asks: what is there must stay, what is not must not come."""
        folder, base = _split(name)
        plan = self.plan_of_name(folder, (directory_of(includer),))
        absences = [(directory, self.absence(directory, base)) for directory in plan.directories]
        return [*plan.watches, *(absence or (directory, PRESENT + base) for directory, absence in absences)]

    def found(self, name: str, directory: str) -> tuple[str, ...]:
        """Every file that an include of this name by a file in the directory could mean."""
        key = (directory, name)
        found = self._found.get(key)
        if found is None:
            folder, base = _split(name)
            places = self._directories_along_chain(folder)
            beside = self._folder(directory, folder) if not folder.startswith("/") else ""
            if isinstance(beside, str) and beside and beside not in places:
                places = (*places, beside)
            paths = [_path(place, base) for place in places if self.absence(place, base) is None]
            found = tuple(path for path in paths if stat.S_ISREG(self.present[path].st_mode))
            self._found[key] = found
        return found

    def way_to(self, path: str) -> tuple[str, Link]:
        """Where a file that was found really is, and the link that leads there."""
        way = self._ways.get(path)
        if way is None:
            if os.path.islink(path):
                real = os.path.realpath(path)
                way = real, (path, real)
            else:
                folder, base = _split(path)
                if folder not in self._ways:
                    self._ways[folder] = self._find_way(folder)
                real_folder, link = self._ways[folder]
                way = real_folder + base, link
            self._ways[path] = way
        return way

    def _find_way(self, folder: str) -> tuple[str, Link]:
        directory = folder.rstrip("/") or folder[:1] or "."
        real = os.path.realpath(directory)
        real_folder = real.rstrip("/") + "/"
        for start, leads_to in zip(self.chain, self._real_chain, strict=True):
            rest = _below(start, folder)
            # One link for all that is below a directory of the search path.
            if rest is not None and leads_to.rstrip("/") + "/" + rest == real_folder:
                return real_folder, (start, leads_to)
        return real_folder, (directory, real)

    def plan_of_header(self, folder: str, nearby: tuple[str, ...]) -> Plan:
        """The plan for headers whose path is `folder`, up to its last slash, and a name."""
        plan = self._header_plans.get((folder, nearby))
        if plan is None:
            starts = (*self.chain, *self._real_chain, *nearby)
            found = [rest for start in starts if (rest := _below(start, folder)) is not None]
            is_understood = bool(found)
            if not is_understood:
                # Found in a way that is not understood: any end of the path can be its name.
                parts = [part for part in folder.split("/") if part]
                found = ["/".join([*parts[start:], ""]) for start in range(len(parts) + 1)]
            places = [place for rest in dict.fromkeys(found) for place in self._places(rest, nearby)]
            links = [
                (start, leads_to)
                for start, leads_to in zip(self.chain, self._real_chain, strict=True)
                if start != leads_to and _below(leads_to, folder) is not None
            ]
            plan = self._header_plans[folder, nearby] = Plan(places, links, is_understood)
        return plan

    def plan_of_name(self, folder: str, nearby: tuple[str, ...]) -> Plan:
        """The plan for names that are `folder`, up to its last slash, and something behind it."""
        plan = self._name_plans.get((folder, nearby))
        if plan is None:
            plan = self._name_plans[folder, nearby] = Plan(self._places(folder, nearby))
        return plan

    def absence(self, directory: str, base: str) -> Watch | None:
        """What must stay missing for there to be no such file; None where there is one."""
        key = (directory, base)
        if key not in self._absences:
            self._absences[key] = self._find_absence(directory, base)
        return self._absences[key]

    def _places(self, folder: str, nearby: tuple[str, ...]) -> list[str | Watch]:
        along_chain = self._along_chain(folder)
        if folder.startswith("/"):
            return along_chain
        return [*along_chain, *(self._folder(directory, folder) for directory in nearby)]

    def _along_chain(self, folder: str) -> list[str | Watch]:
        found = self._chains.get(folder)
        if found is None:
            starts = ["/"] if folder.startswith("/") else self.chain
            found = self._chains[folder] = [self._folder(start, folder) for start in starts]
        return found

    def _directories_along_chain(self, folder: str) -> tuple[str, ...]:
        found = self._directories.get(folder)
        if found is None:
            places = self._along_chain(folder)
            found = tuple(dict.fromkeys(place for place in places if isinstance(place, str)))
            self._directories[folder] = found
        return found

    def _folder(self, directory: str, folder: str) -> str | Watch:
        """The folder in a directory, or what must stay missing for there to be none."""
        key = (directory, folder)
        found = self._folders.get(key)
        if found is None:
            found = self._folders[key] = self._find_folder(directory, folder.lstrip("/"))
        return found

    def _find_folder(self, directory: str, folder: str) -> str | Watch:
        if not self._is_directory(directory):
            return self._nearest(directory)
        if not folder:
            return directory
        head, _, rest = folder.partition("/")
        if not self._holds(directory, head):
            return directory, ABSENT + head
        return self._folder(_path(directory, head) or ".", rest)

    def _find_absence(self, directory: str, base: str) -> Watch | None:
        if not self._holds(directory, base):
            return directory, ABSENT + base
        path = _path(directory, base)
        try:
            status = os.stat(path)
        except (OSError, ValueError):
            return directory, ABSENT + base  # a link that leads nowhere
        if stat.S_ISDIR(status.st_mode):
            return path, PRESENT + "."  # a compiler passes it over, as long as it is a directory
        self.present[path] = status
        return None

    def _nearest(self, directory: str) -> Watch:
        """The nearest directory that exists, and the name that is missing from it."""
        while True:
            parent, name = os.path.split(directory)
            if self._is_directory(parent or ".") or parent in ("", "/"):
                return parent or ".", ABSENT + name
            directory = parent

    def _is_directory(self, path: str) -> bool:
        if path not in self._is_there:
            # What is below a file is missing like what is in an empty directory.
            self._is_there[path] = os.path.exists(path)
        return self._is_there[path]

    def _holds(self, directory: str, name: str) -> bool:
        listing = self.listings[directory]
        if listing is None:
            return os.path.lexists(os.path.join(directory, name))
        return name in listing or name in _DOTS


class Lookups:
    """The names that one command looked for, gathered so that each directory is gone through once."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._plans: set[Plan] = set()
        self._bases: dict[str, set[str]] = {}
        self._watches: set[Watch] = set()
        self.unexplained: list[str] = []  # headers that were found in a way that is not understood

    def add_header(self, path: str, nearby: tuple[str, ...]) -> None:
        folder, base = _split(path)
        plan = self._places.plan_of_header(folder, nearby)
        self._add(plan, base)
        if not plan.is_understood:
            self.unexplained.append(path)

    def add_name(self, name: str, includer: str) -> None:
        folder, base = _split(name)
        self._add(self._places.plan_of_name(folder, (directory_of(includer),)), base)

    def add_question(self, name: str, includer: str) -> None:
        self._watches.update(self._places.of_question(name, includer))

    def _add(self, plan: Plan, base: str) -> None:
        self._plans.add(plan)
        for directory in plan.directories:
            bases = self._bases.get(directory)
            if bases is None:
                bases = self._bases[directory] = set()
            bases.add(base)

    def links(self) -> set[Link]:
        """Links that would lead the same command elsewhere if they were changed."""
        return {link for plan in self._plans for link in plan.links}

    def watches(self) -> dict[str, set[str]]:
        """What is to be watched, by directory."""
        found: dict[str, set[str]] = {}
        for directory, name in self._watches.union(*(plan.watches for plan in self._plans)):
            found.setdefault(directory, set()).add(name)
        for directory, bases in self._bases.items():
            listing = self._places.listings[directory]
            missing = bases - listing - {*_DOTS} if listing is not None else set()
            if missing:
                found.setdefault(directory, set()).update([ABSENT + base for base in missing])
            for base in bases - missing:
                watch = self._places.absence(directory, base)
                if watch:
                    found.setdefault(watch[0], set()).add(watch[1])
        return found


def _split(path: str) -> tuple[str, str]:
    """The folder of a path with its slash, and what is behind it."""
    base = path[path.rfind("/") + 1 :]
    return path[: len(path) - len(base)], base


def _path(directory: str, name: str) -> str:
    return f"{directory.rstrip('/')}/{name}" if directory != "." else name


def _below(directory: str, folder: str) -> str | None:
    """The rest of a folder below a directory; None where it is elsewhere."""
    if directory == ".":
        return None if folder.startswith("/") else folder
    prefix = directory.rstrip("/") + "/"
    return folder[len(prefix) :].lstrip("/") if folder.startswith(prefix) else None


def directory_of(includer: str) -> str:
    """Where a quoted include of a file looks first; for what the command line includes it is the cwd."""
    return "." if includer == COMMAND_LINE else os.path.dirname(includer) or "."


def absence_of(path: str) -> Watch:
    """What must stay missing for there to be no such file: the nearest directory, and a name in it."""
    directory, name = os.path.split(path)
    while directory and not os.path.isdir(directory):
        directory, name = os.path.split(directory)
    return directory or ".", ABSENT + name
