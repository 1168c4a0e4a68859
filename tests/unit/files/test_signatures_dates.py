"""Which file systems have dates that show every change."""

from __future__ import annotations

import os

import pytest

from nvccache.files import signatures

SECOND = 10**9
WHOLE, FINE = 1_700_000_000 * SECOND, 1_700_000_000 * SECOND + 5
MOUNTS = r"""22 28 0:20 / /proc rw,nosuid shared:5 - proc proc rw
28 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw
40 28 7:3 / /opt/sif ro,relatime - squashfs /dev/loop3 ro
41 28 0:51 / /mnt/remote\040files rw,nosuid shared:9 master:3 - fuse.sshfs user@host:/ rw,user_id=0
42 28 8:17 / /media/stick rw - vfat /dev/sdb1 rw
43 28 0:62 / /container rw - overlay overlay rw,lowerdir=/a - b,upperdir=/c
44 28 0:63 / /net rw - nfs4 server:/x rw
45 28 0:64 / /home rw - fuseblk /dev/sdc1 rw
47 28 0:65 / /work rw - lustre mgs@tcp:/fs rw
46 28 11:0 / /cdrom ro - iso9660 /dev/sr0 ro
1 2 3
28 1 x:y / / rw - ext4 a rw
28 1 259 / / rw - ext4 a rw
28 1 259:7 / / rw -
"""
KINDS = {
    os.makedev(major, minor): kind
    for major, minor, kind in (
        (0, 20, "proc"), (259, 2, "ext4"), (7, 3, "squashfs"), (0, 51, "fuse"), (8, 17, "vfat"),
        (0, 62, "overlay"), (0, 63, "nfs4"), (0, 64, "fuseblk"), (0, 65, "lustre"), (11, 0, "iso9660"),
    )
}  # fmt: skip


@pytest.fixture
def mounted(monkeypatch):
    monkeypatch.setattr(signatures, "_kinds_by_device", dict(KINDS))


def test_file_system_kinds_are_read_from_mountinfo():
    assert signatures.kinds_in(MOUNTS) == KINDS


@pytest.mark.parametrize(
    ("major", "minor", "of_whole_seconds", "of_fractions"),
    [
        (259, 2, False, True),  # ext4 images exist with made-up dates, in whole seconds
        (0, 63, False, True),
        (0, 65, True, True),
        (7, 3, False, False),
        (0, 51, False, False),
        (8, 17, False, False),
        (0, 64, False, False),
        (11, 0, False, False),
        (0, 62, False, True),
        (0, 99, False, True),  # not mounted: some kinds have other devices for their files
    ],
)
def test_the_file_system_decides_whether_dates_are_reliable(
    mounted, major, minor, of_whole_seconds, of_fractions
):
    device = os.makedev(major, minor)
    assert signatures.has_reliable_dates(device, WHOLE) is of_whole_seconds
    assert signatures.has_reliable_dates(device, FINE) is of_fractions


def test_whole_second_dates_of_the_root_are_trusted_on_a_real_disk_only(monkeypatch):
    root = os.stat("/").st_dev
    for kind, tells in (("ext4", True), ("squashfs", False), ("overlay", False), ("", False)):
        monkeypatch.setattr(signatures, "_kinds_by_device", {root: kind})
        assert signatures.has_reliable_dates(root, WHOLE) is tells
    monkeypatch.setattr(signatures, "_LOOP", os.major(root))
    monkeypatch.setattr(signatures, "_kinds_by_device", {root: "ext4"})
    assert not signatures.has_reliable_dates(root, WHOLE)


def test_only_proc_counts_as_a_pseudo_file_system(mounted):
    made = [device for device in KINDS if signatures.is_pseudo_file_system(device)]
    assert made == [os.makedev(0, 20)]


def test_without_mountinfo_only_fractional_dates_are_reliable(monkeypatch):
    monkeypatch.setattr(signatures, "_kinds_by_device", {})
    monkeypatch.setattr(signatures, "_MOUNTS", "/nowhere/mountinfo")
    assert not signatures.has_reliable_dates(os.makedev(259, 2), WHOLE)
    assert signatures.has_reliable_dates(os.makedev(259, 2), FINE)


def test_file_system_kinds_of_this_machine_are_found(monkeypatch, tmp_path):
    monkeypatch.setattr(signatures, "_kinds_by_device", {})
    found = signatures._kinds()
    assert found and -1 not in found
    (tmp_path / "file").write_text("")
    assert signatures.signature_of(str(tmp_path / "file"))
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as stream:
        assert signatures.kinds_in(stream.read()) == found
