"""Stage entries: what comes back is what was put in, or nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nvccache.files import keys
from nvccache.store import entries, store
from nvccache.store.entries import Entry

KEY = keys.digest_bytes(b"a key")
OTHER_KEY = keys.digest_bytes(b"another key")
FACTS = {"entered": [["a\xff.cu", False, []], ["b.h", True, ["a\xff.cu"]]], "free_of": "/base"}
ENTRY = Entry(
    {"object": keys.digest_bytes(b"object"), "module_id": KEY},
    b"out\xff",
    b"warning: \xe2\x82\xac\n",
    1.25,
    facts=FACTS,
)
FOREIGN = [
    b"",
    b"no JSON",
    b"[]",
    b"{}",
    b'{"outputs": {}, "stdout": "", "stderr": "", "seconds": 0, "is_redirect": false}',
    b'{"outputs": [], "stdout": "", "stderr": "", "seconds": 0, "is_redirect": false, "facts": {}}',
    b'{"outputs": {}, "stdout": 1, "stderr": "", "seconds": 0, "is_redirect": false, "facts": {}}',
    b'{"outputs": {}, "stdout": "", "stderr": "\\u20ac", "seconds": 0, "is_redirect": false, "facts": {}}',
    b'{"outputs": {}, "stdout": "", "stderr": "", "seconds": "x", "is_redirect": false, "facts": {}}',
    b'{"outputs": {}, "stdout": "", "stderr": "", "seconds": 0, "is_redirect": false, "facts": 1}',
    *(
        b'{"outputs": {}, "stdout": "", "stderr": "", "seconds": %s, "redirect": "", "facts": {}, "text": []}'
        % seconds
        for seconds in (b"NaN", b"Infinity", b"-1e300")
    ),
]


def test_an_entry_comes_back_as_it_was_put_in(cache):
    entries.add(cache, KEY, ENTRY)
    assert entries.find(cache, KEY) == ENTRY
    assert entries.find(cache, OTHER_KEY) is None


def test_what_an_earlier_version_timed_while_others_ran_is_worth_nothing(cache):
    former = {"outputs": {}, "stdout": "", "stderr": "", "redirect": "", "facts": {}, "text": []}
    cache.add_record(store.STAGE, KEY, json.dumps({**former, "seconds": 4.0, "wall": 3.0}).encode())
    found = entries.find(cache, KEY)
    assert found and (found.seconds, found.wall, found.cpu) == (4.0, 0.0, 0.0)


def test_a_redirect_comes_back_as_one(cache):
    entries.add(cache, KEY, Entry(redirect="seeded"))
    assert entries.find(cache, KEY) == Entry(redirect="seeded")


def test_a_later_entry_takes_the_place_of_an_earlier_one(cache):
    entries.add(cache, KEY, Entry(stderr=b"first"))
    entries.add(cache, KEY, ENTRY)
    assert entries.find(cache, KEY) == ENTRY


@pytest.mark.parametrize("body", FOREIGN)
def test_an_entry_that_cannot_be_understood_is_absent_and_removed(cache, body):
    """One that is whole, as another version or somebody hostile writes it."""
    cache.add_record(store.STAGE, KEY, body)
    assert entries.find(cache, KEY) is None
    assert not Path(cache.path(store.STAGE, KEY)).exists()
    assert "damaged" in cache.trouble
