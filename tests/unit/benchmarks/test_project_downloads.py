from __future__ import annotations

import hashlib

import pytest
from real_projects import downloads
from real_projects.downloads import File, Indexes
from real_projects.faults import UnavailableError

CONTENT = b"an archive"
SUM = hashlib.sha256(CONTENT).hexdigest()
FILE = File("thing", "thing-1+x.tar.gz", SUM)


@pytest.fixture
def index(tmp_path):
    """An index of one project with one file, by the names that pip writes in addresses."""
    folder = tmp_path / "index" / "thing"
    folder.mkdir(parents=True)
    (folder / "thing-1+x.tar.gz").write_bytes(CONTENT)
    (folder / "index.html").write_text(f'<a href="thing-1%2Bx.tar.gz#sha256={SUM}">thing-1+x.tar.gz</a>')
    return Indexes((), (f"{(tmp_path / 'index').as_uri()}/",))


def test_a_file_comes_from_an_index_and_is_kept(index, tmp_path):
    cache = tmp_path / "cache"
    assert downloads.fetch(FILE, cache, index).read_bytes() == CONTENT
    assert downloads.fetch(FILE, cache, Indexes((), ())).read_bytes() == CONTENT
    assert [path.name for path in cache.iterdir()] == [FILE.name]


def test_a_file_comes_from_a_directory_of_links(tmp_path):
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / FILE.name).write_bytes(CONTENT)
    found = downloads.fetch(FILE, tmp_path / "cache", Indexes((str(tmp_path / "wheels"),), ()))
    assert found.read_bytes() == CONTENT


def test_another_file_that_serves_as_well_is_taken(index, tmp_path):
    either = File("thing", "thing-1.whl", "0" * 64, ((FILE.name, SUM),))
    assert downloads.fetch(either, tmp_path / "cache", index).name == FILE.name


def test_a_wrong_hash_is_a_sentence_and_leaves_no_file(index, tmp_path):
    wrong = File("thing", FILE.name, "0" * 64)
    with pytest.raises(UnavailableError, match=f"its SHA-256 is {SUM}, not 0000"):
        downloads.fetch(wrong, tmp_path / "cache", index)
    assert not (tmp_path / "cache" / FILE.name).exists()


def test_a_kept_file_that_was_changed_is_not_used(index, tmp_path):
    kept = downloads.fetch(FILE, tmp_path / "cache", index)
    kept.write_bytes(b"changed")
    with pytest.raises(UnavailableError, match="another file than was asked for"):
        downloads.fetch(FILE, tmp_path / "cache", index)


def test_without_an_answer_the_index_is_named(tmp_path):
    nowhere = Indexes((), ("http://127.0.0.1:9/simple",))
    with pytest.raises(UnavailableError, match=r"127\.0\.0\.1:9/simple/thing/ does not answer \(Conn.*\)"):
        downloads.fetch(FILE, tmp_path, nowhere)


def test_an_index_without_the_file_is_a_sentence(index, tmp_path):
    with pytest.raises(UnavailableError, match="no index that pip is configured with has it"):
        downloads.fetch(File("thing", "thing-2.tar.gz", SUM), tmp_path, index)


@pytest.mark.parametrize(
    ("listing", "expected"),
    [
        ("", Indexes((), ("https://default",), None)),
        ("global.index-url='https://a/simple'\n", Indexes((), ("https://a/simple",))),
        (
            "global.extra-index-url='https://b https://c'\n:env:.cert='/ca.pem'\n",
            Indexes((), ("https://default", "https://b", "https://c"), "/ca.pem"),
        ),
        ("global.no-index='true'\nglobal.find-links='/wheels'\n", Indexes(("/wheels",), ())),
        (":env:.index-url='https://env'\nglobal.index-url='https://file'\n", Indexes((), ("https://env",))),
    ],
    ids=["nothing", "an index", "more than one", "none", "a variable"],
)
def test_where_pip_looks_is_read(listing, expected):
    assert downloads.parsed(listing, "https://default") == expected
