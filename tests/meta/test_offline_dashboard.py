"""A dashboard gets its scripts from npm: each is the file that its tag means or the declared one, or an error tells."""

from __future__ import annotations

import base64
import hashlib
import io
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import dashboard_picture
import offline_dashboard as offline
import pytest
from offline_dashboard import OfflineError, Source

SCRIPT = b"let a = 1;\n"
ADDRESS = "https://cdn.jsdelivr.net/npm/bootstrap@3.1.1/dist/js/bootstrap.min.js"
PLOT = "https://cdnjs.cloudflare.com/ajax/libs/flot/0.8.3/jquery.flot.min.js"


def hash_of(content: bytes, name: str = "sha256") -> str:
    return f"{name}-{base64.b64encode(hashlib.new(name, content).digest()).decode()}"


def tag(address: str = ADDRESS, integrity: str = hash_of(SCRIPT)) -> str:
    kept = f'integrity="{integrity}" crossorigin="anonymous" referrerpolicy="no-referrer"'
    return f'<script src="{address}" {kept} onerror="js_load_failure()"></script>'


def dashboard(folder: Path, *tags: str) -> Path:
    links = '<a href="https://example.org/">a</a><script src="asv.js"></script>'
    (folder / "index.html").write_text(f"<head>{''.join(tags)}</head>{links}")
    (folder / "error.html").write_text("<head></head>")
    return folder


def packing(**files: bytes) -> Any:
    """A stand-in for `npm pack` whose packages have these files."""

    def pack(package: str, version: str, folder: Path) -> Path:
        archive = folder / f"{package}-{version}.tgz"
        with tarfile.open(archive, "w:gz") as packed:
            for name, content in files.items():
                member = tarfile.TarInfo(f"package/{name}")
                member.size = len(content)
                packed.addfile(member, io.BytesIO(content))
        return archive

    return pack


BOOTSTRAP = {"dist/js/bootstrap.min.js": SCRIPT, "LICENSE.txt": b"You may."}


def test_tags_load_what_lies_beside_the_page(tmp_path: Path) -> None:
    folder = dashboard(tmp_path, tag())
    assert offline.make_offline(folder, packing(**BOOTSTRAP)) == [ADDRESS]
    text = (folder / "index.html").read_text()
    assert f'<script src="vendor/bootstrap.min.js" integrity="{hash_of(SCRIPT)}" onerror=' in text
    assert 'href="https://example.org/"' in text and 'src="asv.js"' in text
    assert (folder / "vendor/bootstrap.min.js").read_bytes() == SCRIPT
    assert (folder / "vendor/bootstrap-LICENSE.txt").read_bytes() == b"You may."
    assert offline.make_offline(folder, packing()) == []


def test_a_declared_replacement_is_checked_by_its_own_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(offline.REPLACED, PLOT, Source("flot", "0.8.3", "a.js", hash_of(SCRIPT, "sha512")))
    folder = dashboard(tmp_path, tag(PLOT, "sha512-ofAnotherFile"))
    offline.make_offline(folder, packing(**{"a.js": SCRIPT}))
    assert f'src="vendor/a.js" integrity="{hash_of(SCRIPT, "sha512")}"' in (folder / "index.html").read_text()


@pytest.mark.parametrize(
    ("shown", "files", "message"),
    [
        (tag(), {"dist/js/bootstrap.min.js": b"let a = 2;\n"}, "dist/js/bootstrap.min.js of bootstrap@3.1.1 is not"),
        (tag(PLOT), {"jquery.flot.js": SCRIPT}, "jquery.flot.js of flot@0.8.3 is not the file"),
        (f'<script src="{ADDRESS}"></script>', BOOTSTRAP, "its hash is not given"),
        (tag(), {"a.js": SCRIPT}, "bootstrap@3.1.1 has no file dist/js/bootstrap.min.js"),
        (tag("https://example.org/a.js"), {}, "https://example.org/a.js: it is not known which package .* cure: add"),
    ],
)
def test_what_cannot_be_checked_is_refused_and_the_page_left(
    shown: str, files: dict[str, bytes], message: str, tmp_path: Path
) -> None:
    folder = dashboard(tmp_path, shown)
    before = (folder / "index.html").read_text()
    with pytest.raises(OfflineError, match=message):
        offline.make_offline(folder, packing(**files))
    assert (folder / "index.html").read_text() == before


def test_addresses_name_package_version_and_file() -> None:
    servers = "https://cdnjs.cloudflare.com/ajax/libs"
    assert offline.source_of(ADDRESS) == Source("bootstrap", "3.1.1", "dist/js/bootstrap.min.js")
    jquery = offline.source_of("https://code.jquery.com/jquery-3.3.1.min.js")
    assert jquery == Source("jquery", "3.3.1", "dist/jquery.min.js")
    md5 = offline.source_of(f"{servers}/blueimp-md5/2.19.0/js/md5.min.js")
    assert md5 == Source("blueimp-md5", "2.19.0", "js/md5.min.js")


def test_absent_pages_and_an_absent_or_failing_npm_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert offline.main([str(tmp_path)]) == 1
    assert "index.html is missing; cure: make dashboard" in capsys.readouterr().err
    with pytest.raises(dashboard_picture.PictureError, match="cure: make dashboard OFFLINE=1"):
        dashboard_picture.draw(tmp_path)
    failed = subprocess.CompletedProcess([], 1, "", "no network")
    monkeypatch.setattr(offline.subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(OfflineError, match="npm has no a@1 or cannot be reached: no network"):
        offline.pack("a", "1", tmp_path)
    monkeypatch.undo()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OfflineError, match="npm is not installed; cure"):
        offline.pack("a", "1", tmp_path)
