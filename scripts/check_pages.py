"""Check what building the site does not: files written from code, links, fields, drawings, maps of the code.

python scripts/check_pages.py     prints each fault; fails if there is one
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
SVG = "http://www.w3.org/2000/svg"


def prose(path: Path) -> str:
    return FENCED.sub("", path.read_text(encoding="utf-8"))


def stale_pages() -> Iterator[str]:
    for name in (
        "docs/generate/reference.py",
        "docs/generate/manual.py",
        "src/native/generate_native_header.py",
    ):
        if subprocess.run([sys.executable, ROOT / name, "--check"], check=False).returncode:
            yield f"what is written from code is stale: run `python {name}`"


def links() -> Iterator[str]:
    """Those that lead to no page, or to no heading there; as GitHub follows them."""
    pages = [*DOCS.rglob("*.md"), *ROOT.glob("*.md"), *(ROOT / ".github").glob("*.md")]
    for path in sorted(pages):
        for link in re.findall(r"\]\(([^)\s]+)\)", prose(path)):
            name, _, anchor = link.partition("#")
            target = (path.parent / name).resolve() if name else path
            if link.startswith(("http:", "https:", "mailto:")):
                continue
            if not target.exists() or (anchor and anchor not in anchors(target)):
                yield f"{path.relative_to(ROOT)}: `{link}` leads nowhere"


def anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", prose(path), re.MULTILINE)
    bare = (re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", heading).lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading).strip().replace(" ", "-") for heading in bare}


def shown_files() -> Iterator[str]:
    """Files that are shown before they are named: the title of a fence is not shown everywhere."""
    for path in sorted(DOCS.rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        for title in re.finditer(r'^```[\w+-]+ title="([^"]+)"$', text, re.MULTILINE):
            if f"`{title[1]}`" not in text[: title.start()].rstrip().split("\n\n")[-1]:
                yield f"{path.relative_to(ROOT)}: nothing names `{title[1]}` before it is shown"


def unchecked_commands() -> Iterator[str]:
    """Pages with commands that no test runs, and that the page about testing does not list."""
    _, _, table = (DOCS / "development/testing.md").read_text().partition("| pages | checked |\n|---|---|\n")
    rows = table.partition("\n\n")[0].splitlines()
    listed = {page for row in rows for page in row.split(" | ")[0].strip("| ").split(", ")}
    not_run = {
        path.stem for path in (DOCS / "how-to").glob("*.md") if "\n<!-- not-run -->" in path.read_text()
    }
    yield from (f"testing.md does not say how {name} was checked" for name in sorted(not_run - listed))
    yield from (f"testing.md lists {name}, which is run or gone" for name in sorted(listed - not_run))


def json_fields() -> Iterator[str]:
    """Fields that commands print with `--json`, by the texts that the tests compare, and json.md lacks."""
    printed = re.compile(r"^\$ ([^\n]* --json[^\n]*)\n([\[{]\n.*?^[\]}])$", re.MULTILINE | re.DOTALL)
    described = (DOCS / "reference/json.md").read_text()
    for path in sorted((ROOT / "tests/unit/cli/golden").iterdir()):
        for line, document in printed.findall(path.read_text()):
            command = line.partition("nvccache ")[2].split()[0]
            titles = f"nvccache {command}" + "|nvccache stats|The event log" * (command == "explain")
            sections = re.findall(rf"^## (?:{titles})\n.*?(?=^## )", described, re.MULTILINE | re.DOTALL)
            names = set(re.findall(r"`(\w+)`", "".join(sections)))
            for name in sorted(names_in(json.loads(document.replace(": TIME", ": 0"))) - names):
                yield f"json.md does not describe `{name}` of `{line}`"


def names_in(document: object, name: str = "") -> set[str]:
    """All names of fields, but for those that are outcomes or names of settings, stages or the like."""
    if isinstance(document, list):
        return {found for element in document for found in names_in(element)}
    if not isinstance(document, dict):
        return set()
    below = {found for key, value in document.items() for found in names_in(value, key)}
    is_by_word = name in ("calls", "stages", "settings", "wrong_settings") or name.endswith(
        ("faults", "reasons")
    )
    return below if is_by_word else below | document.keys()


def reasons() -> Iterator[str]:
    """Reasons that the code gives for a bypass, and that the reference lacks."""
    listed = set(re.findall(r"`(\w+)`", (DOCS / "reference/outcomes.md").read_text()))
    for path in sorted((ROOT / "src").rglob("*.py")):
        for reason in re.findall(r'\bBypass\(\s*"(\w+)"', path.read_text()):
            if reason not in listed:
                yield f"{path.relative_to(ROOT)}: nothing explains the reason `{reason}`"


def drawings() -> Iterator[str]:
    """Drawings that load something, have no title, or show other figures than those that are recorded."""
    for path in DOCS.glob("images/*.svg"):
        text = path.read_text(encoding="utf-8")
        has_title = ElementTree.fromstring(text).findtext(f"{{{SVG}}}title")
        if not has_title or set(re.findall(r"https?://[^\"' )]+", text)) > {SVG}:
            yield f"{path.relative_to(ROOT)} has no title, or needs something from elsewhere"
    benchmarks = ROOT / "benchmarks"
    with tempfile.TemporaryDirectory() as folder:
        for name in ("peers", "projects"):
            drawn, recorded = Path(folder, f"{name}.svg"), benchmarks / "recorded" / f"{name}.json"
            argv = [sys.executable, benchmarks / f"{name}.py", "--draw", recorded, "--svg", drawn]
            subprocess.run(argv, check=True, capture_output=True)
            if drawn.read_text() != (DOCS / "images" / f"{name}.svg").read_text():
                yield f"docs/images/{name}.svg does not show {recorded.relative_to(ROOT)}"


def map_of_code() -> Iterator[str]:
    """Modules that the page about architecture does not list, and files on such pages that do not exist."""
    source = ROOT / "src" / "nvccache"
    lines = (DOCS / "development/architecture.md").read_text().splitlines()
    for path in sorted(source.rglob("*.py")):
        folder = path.parent.relative_to(source)
        if path.name[:2] == "__" or folder.parts[:1] == ("cli",) or folder.parts[1:2] == ("stages",):
            continue
        row = f"| `{folder}/` |" if folder.parts else "| `"
        if not any(f"`{path.stem}`" in line for line in lines if line.startswith(row)):
            yield f"architecture.md does not list {path.relative_to(ROOT)}"
    below = ("", "src/nvccache", "src/nvccache/plan/stages", "src/native", "src/native/launcher")
    made_up = {"database.py", "hello.py"}
    for name in ("architecture", "extending"):
        text = prose(DOCS / "development" / f"{name}.md")
        named = {*re.findall(r"`(?:python )?((?:\w+/)*\w+\.(?:py|c|h|md))`", text)}
        for file in sorted(named - made_up):
            if not any((ROOT / place / file).exists() for place in below):
                yield f"{name}.md names {file}, which does not exist"


def launcher_files() -> Iterator[str]:
    """Files of the launcher that call one above them in the order of launcher.h."""
    folder = ROOT / "src/native/launcher"
    order = re.findall(r"^   (\w+\.c) ", (folder / "launcher.h").read_text(), re.MULTILINE)
    if sorted(order) != sorted(path.name for path in folder.glob("*.c")):
        yield "launcher.h does not list the files of the launcher"
    above: set[str] = set()
    for name in order:
        text = (folder / name).read_text()
        for function in sorted(above.intersection(re.findall(r"\b(\w+)\(", text))):
            yield f"{name} calls `{function}` of a file above it"
        above |= set(re.findall(r"^(?!static)\w[\w *]*?\b(\w+)\(", text, re.MULTILINE)) - {"main"}


def decisions() -> Iterator[str]:
    """Pages of decisions that are long, and those that code names and that do not exist."""
    pages = {path.name: path.read_text() for path in (DOCS / "development" / "decisions").iterdir()}
    yield from (f"{name} has more than 400 words" for name, text in pages.items() if len(text.split()) > 400)
    for path in (ROOT / "src").rglob("*.py"):
        for name in re.findall(r"development/decisions/([\w.-]+\.md)", path.read_text()):
            if name not in pages:
                yield f"{path.relative_to(ROOT)} names {name}, which does not exist"


def fragments() -> Iterator[str]:
    """Fragments of an unknown kind, or with lines that would not read well behind `- kind: `."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]
    kinds = "|".join(kind["name"] for kind in settings["type"])
    prefixed = re.compile(rf"\s|$|[-*#]\s|({kinds}):")
    for path in sorted((ROOT / settings["directory"]).iterdir()):
        if path.name in ("README.md", *settings["ignore"]):
            continue
        lines = path.read_text().splitlines()
        if not lines or not re.fullmatch(rf"[a-z0-9-]+\.({kinds})\.md", path.name):
            yield f"{path.name} is empty, or is not called NAME.KIND.md"
        for line in lines:
            if prefixed.match(line) or line.endswith(".") or line.count("`") % 2:
                yield f"{path.name}: not a plain clause: {line}"


def addresses() -> Iterator[str]:
    """Another repository in the links of the issue forms than pyproject.toml names."""
    source = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Source"]
    form = ROOT / ".github/ISSUE_TEMPLATE/config.yml"
    for url in re.findall(r"url: (\S+)", form.read_text()):
        if not url.startswith(f"{source}/"):
            yield f"{form.relative_to(ROOT)}: {url} is not below {source}"


CHECKS = (stale_pages, links, shown_files, unchecked_commands, json_fields, reasons)
CHECKS += (drawings, map_of_code, launcher_files, decisions, fragments, addresses)

if __name__ == "__main__":
    faults = [fault for check in CHECKS for fault in check()]
    print("\n".join(faults), end="\n" * bool(faults))
    sys.exit(bool(faults))
