from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pytest

from hyperpod_ray.image import installer
from hyperpod_ray.image.versions import FILE, ImageError, read, record_installer

VERSION = "1.50.0"


ARCHIVE = f"aws-efa-installer-{VERSION}.tar.gz"


def test_the_sha256_is_recorded_once_and_then_guarded(tmp_path: Path) -> None:
    file = tmp_path / "versions.yaml"
    shutil.copy(FILE, file)
    name = read(file)[0]
    first, second = "1a" * 32, "2b" * 32
    record_installer(read(file)[1][name], first, update=True, file=file)
    assert {one.efa_sha256 for one in read(file)[1].values()} == {first}
    changed = [a for a, b in zip(FILE.read_text().splitlines(), file.read_text().splitlines(), strict=True) if a != b]
    assert len(changed) == 1
    assert "still" in record_installer(read(file)[1][name], first, file=file)
    with pytest.raises(ImageError, match=r"builds expect the recorded one.*pin --only installer --update"):
        record_installer(read(file)[1][name], second, file=file)


def test_what_is_no_installer_is_not_recorded(tmp_path: Path) -> None:
    page = tmp_path / ARCHIVE
    page.write_text("<html>not found</html>")
    with pytest.raises(ImageError, match="a gzip archive"):
        installer.sha256_of(VERSION, file=page)
    page.write_bytes(b"\x1f\x8b" + bytes(999_997))
    with pytest.raises(ImageError, match="999,999 bytes"):
        installer.sha256_of(VERSION, file=page)
    page.write_bytes(b"\x1f\x8b" + bytes(999_998))
    assert len(installer.sha256_of(VERSION, file=page)) == 64, "a megabyte is long enough"
    content = b"\x1f\x8b" + os.urandom(installer.LEAST)
    page.write_bytes(content)
    assert installer.sha256_of(VERSION, file=page) == hashlib.sha256(content).hexdigest()
    with pytest.raises(ImageError, match=r"the version of versions.yaml"):
        installer.sha256_of("1.49.0", file=page)
    with pytest.raises(ImageError, match="download it elsewhere and give --file"):
        installer.sha256_of(VERSION, site="http://127.0.0.1:9")
