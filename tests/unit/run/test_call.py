"""The intermediates of one call: digests without bytes, and the name of the stub inserted and removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from nvccache.files import keys
from nvccache.passes import Pass
from nvccache.plan import stage_key
from nvccache.plan.model import Output, Stage
from nvccache.plan.stages.tool import STUB_PLACEHOLDER, Grammar
from nvccache.run.call import Intermediates
from nvccache.store.store import Store

TEXT = Pass(((b"a.cu", False),), "meaning", is_absolute=True)


@pytest.fixture
def scratch(tmp_path) -> Path:
    path = tmp_path / "scratch"
    path.mkdir()
    return path


@pytest.fixture
def output(scratch):
    """An output in the scratch directory."""
    return lambda role, name: Output(role, str(scratch / name))


@pytest.fixture
def files(scratch, cache) -> Intermediates:
    included = {str(scratch / "a.cudafe1.cpp"): (str(scratch / "a.compute_90.cudafe1.stub.c"),)}
    return Intermediates(cache, included)


def _write(output: Output, content: bytes) -> Output:
    Path(output.path).write_bytes(content)
    return output


def expect(files: Intermediates, output: Output, content: bytes, cache: Store) -> None:
    """Make a stage hit with an output in the store."""
    cache.add_blob(keys.digest_bytes(content), content, compress=True)
    files.expect(output.path, keys.digest_bytes(content))


def test_an_intermediate_that_was_written_has_digest_and_content(files, output):
    ptx = _write(output("code", "a.ptx"), b".version 9.0\n")
    assert files.read_written(ptx) == b".version 9.0\n"
    assert files.digest_of(ptx.path) == keys.digest_bytes(b".version 9.0\n")
    assert files.content_of(ptx.path) == b".version 9.0\n"


def test_output_of_a_stage_hit_is_restored_from_the_store_when_needed(files, output, cache):
    ptx = output("code", "product-3/a.ptx")
    assert not files.has_digest(ptx.path)
    expect(files, ptx, b"from the store", cache)
    assert files.has_digest(ptx.path) and not Path(ptx.path).exists()
    assert files.materialise(ptx.path, ptx)
    assert Path(ptx.path).read_bytes() == b"from the store"


def test_an_intermediate_lost_from_the_store_is_not_restored(files, output):
    ptx = output("code", "a.ptx")
    files.expect(ptx.path, keys.digest_bytes(b"lost"))
    assert files.content_of(ptx.path) is None
    assert not files.materialise(ptx.path, ptx)


def test_an_intermediate_that_is_on_disk_is_not_written_again(files, output):
    ptx = _write(output("code", "a.ptx"), b"x")
    files.read_written(ptx)
    Path(ptx.path).write_bytes(b"touched only by this test")
    assert files.materialise(ptx.path, ptx)
    assert Path(ptx.path).read_bytes() == b"touched only by this test"


def test_preprocessed_text_is_not_kept_in_memory(files, output):
    text = _write(output("ii", "a.cpp1.ii"), b"int x;\n")
    assert files.read_written(text) == b"int x;\n"
    assert files.content_of(text.path) is None
    assert files.materialise(text.path, text)


def test_a_stored_stub_has_a_placeholder_for_its_path_which_differs_between_calls(scratch, cache):
    text = b'# 1 "%s"\n'
    digests = set()
    for name in ("a.cudafe1.stub.c", "a.compute_90.cudafe1.stub.c"):
        stub, files = Output("stub", str(scratch / name)), Intermediates(cache, {})
        assert files.read_written(_write(stub, text % stub.path.encode())) == text % STUB_PLACEHOLDER.encode()
        digests.add(files.digest_of(stub.path))
        Path(stub.path).unlink()
        later = Intermediates(cache, {})
        expect(later, stub, text % STUB_PLACEHOLDER.encode(), cache)
        assert later.materialise(stub.path, stub)
        assert Path(stub.path).read_bytes() == text % stub.path.encode()
    assert len(digests) == 1


def test_the_placeholder_for_the_stub_is_replaced_in_the_text_that_includes_it(files, output):
    source = output("cudafe1.cpp", "a.cudafe1.cpp")
    _write(source, b'#include "%s"\n' % STUB_PLACEHOLDER.encode())
    assert files.read_written(source) == b'#include "%s"\n' % STUB_PLACEHOLDER.encode()
    assert files.materialise(source.path, source)
    assert Path(source.path).read_bytes() == b'#include "a.compute_90.cudafe1.stub.c"\n'


def test_a_file_changed_by_an_unknown_command_has_its_new_content(files, output):
    ptx = _write(output("code", "a.ptx"), b"before")
    files.read_written(ptx)
    files.adopt(_write(ptx, b"after").path, b"after")
    assert files.content_of(ptx.path) == b"after" and files.materialise(ptx.path, ptx)


def test_an_intermediate_changed_in_place_loses_its_normalized_digest(files, output):
    first, second = (_write(output("ii", name), b"int x;\n") for name in ("a.ii", "b.ii"))
    for text in (first, second):
        files.read_written(text)
        files.passes[text.path] = TEXT
    files.adopt(first.path, b"int y;\n")
    assert files.passes == {first.path: Pass(TEXT.listed), second.path: TEXT}
    assert files.meaning_of(first.path) == keys.digest_bytes(b"int y;\n")
    assert not files.are_absolute([first.path]) and files.are_absolute([second.path])


def test_a_stored_stub_has_a_placeholder_for_the_module_id_it_defines(scratch, cache, output):
    text = b"int x_%s;\n#define __NV_MODULE_ID %s\n"
    stub = output("stub", "a.stub.c")
    one, two = (Intermediates(cache, {}, lambda _, own=own: own) for own in (b"_1_id", b"_2_id"))
    one.read_written(_write(stub, text % (b"name", b"_1_id")))
    cache.add_blob(one.digest_of(stub.path), one.content_of(stub.path), compress=True)
    two.expect(stub.path, one.digest_of(stub.path))
    assert two.materialise(stub.path, stub)
    assert Path(stub.path).read_bytes() == text % (b"name", b"_2_id")


def test_the_id_that_a_stage_reads_in_a_stub_is_part_of_its_key(cache, tmp_path):
    tool = tmp_path / "tool"
    tool.write_text("")
    tool.chmod(0o755)
    stage = Stage(Grammar("fatbinary"), (str(tool),), (), (), (), (), (), ())
    found = [stage_key.of_stage(stage, [], {}, "/", cache, module_ids=[own]) for own in ("_1_id", "_2_id")]
    assert stage_key.key_of(found[0]) != stage_key.key_of(found[1])


@pytest.mark.parametrize(("role", "name"), [("code", "a.ptx"), ("cudafe1.cpp", "without_stub.cudafe1.cpp")])
def test_placeholders_are_replaced_only_in_stubs_and_the_text_that_includes_them(
    files, output, cache, role, name
):
    other = output(role, name)
    expect(files, other, STUB_PLACEHOLDER.encode(), cache)
    assert files.materialise(other.path, other)
    assert Path(other.path).read_bytes() == STUB_PLACEHOLDER.encode()
