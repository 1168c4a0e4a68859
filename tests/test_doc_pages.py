"""The reading and running of documentation pages, on small pages."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import doc_pages

PAGE = """\
# Page

```cuda title="a/b.txt"
one
```

```console
$ cat a/b.txt
one
$ export X=2; echo "$X
> three"
2
three
```

```sh
echo more >>a/b.txt
```

## Elsewhere

*Not run by the tests: there is no `frob` here.* Checked against nothing.

### More of it

```sh
frob
```

## Here again

```console
$ cat a/b.txt; echo took 3.5 s
...
more
took 1.25 s
```
"""


def environ(home: Path) -> dict[str, str]:
    return {**os.environ, "HOME": str(home)}


def test_files_commands_and_outputs_in_order(tmp_path: Path) -> None:
    outputs = doc_pages.run(PAGE, tmp_path, environ(tmp_path))
    assert [command.typed.split()[0] for command, _ in outputs] == ["cat", "export", "echo", "cat"]
    assert all(doc_pages.is_shown(command.shown, printed) for command, printed in outputs)


def test_a_command_that_fails_is_named(tmp_path: Path) -> None:
    with pytest.raises(doc_pages.CommandError, match=r"line 8: `cat a/c\.txt` failed"):
        doc_pages.run(PAGE.replace("$ cat a/b.txt\none", "$ cat a/c.txt\none"), tmp_path, environ(tmp_path))


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        (["a 1.5 s", "b"], ["a    12 s", "b"]),
        (["..."], []),
        (["a, ...", "c"], ["a, b", "c"]),
        (["since 2026-11-22 10:00, just now"], ["since 2026-11-23 09:01, 3 minutes ago"]),
        (["a", "...", "d"], ["a", "b", "c", "d"]),
        (["hits 3  50 %, 1.5 GiB"], ["hits       3   25 %, 12 MiB"]),
    ],
)
def test_amounts_and_left_out_lines_are_not_compared(shown: list[str], printed: list[str]) -> None:
    assert doc_pages.is_shown(shown, printed)


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        (["a"], ["b"]),
        (["a"], ["a", "b"]),
        (["a", "..."], ["b", "a"]),
        (["sm_80"], ["sm_90"]),
        (["hits 3"], ["hits 4"]),
        ([], ["a"]),
    ],
)
def test_other_words_and_lines_are(shown: list[str], printed: list[str]) -> None:
    assert not doc_pages.is_shown(shown, printed)


def test_outputs_are_written_into_the_page(tmp_path: Path) -> None:
    stale = PAGE.replace("2\nthree\n```", "old\n```").replace("more\ntook", "less\ntook")
    made = doc_pages.with_outputs(stale, doc_pages.run(stale, tmp_path, environ(tmp_path)))
    assert '\n> three"\n2\nthree\n```' in made
    assert "\none\nmore\ntook 3.5 s\n```" in made
    outputs = doc_pages.run(made, tmp_path, environ(tmp_path))
    assert all(doc_pages.is_shown(command.shown, printed) for command, printed in outputs)
