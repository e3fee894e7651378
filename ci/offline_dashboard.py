"""This script makes a published dashboard of benchmarks self-contained: scripts and styles lie beside its pages.

    python ci/offline_dashboard.py FOLDER

The pages that `asv publish` writes load jQuery, Flot, Bootstrap and others from public servers, with a hash of each
file in its tag. The script gets these files from npm, checks the hashes, writes the files and their licenses to
FOLDER/vendor, and lets the tags name them. Nothing of this is committed. `make dashboard OFFLINE=1` runs the script.
"""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

VENDOR = "vendor"
PAGES = ("index.html", "error.html")
TAG = re.compile(r"<(?:script|link)\b[^>]*\b(?:src|href)=\"(https?://[^\"]+)\"[^>]*>")
INTEGRITY = re.compile(r"\bintegrity=\"(sha(?:256|384|512)-[^\"]+)\"")
CROSS_ORIGIN = re.compile(r"\s(?:crossorigin|referrerpolicy)=\"[^\"]*\"")


class OfflineError(Exception):
    """Signal that a page loads a file that cannot be got or checked."""


@dataclass(frozen=True)
class Source:
    """Represent a file of a package of npm.

    Attributes:
        package: the name of the package.
        version: its version.
        file: the path of the file in the package.
        integrity: the hash of the file, where it is another file than that of the tag; else empty.
    """

    package: str
    version: str
    file: str
    integrity: str = ""


CDN = (
    (r"https://code\.jquery\.com/jquery-([\d.]+)\.min\.js", r"jquery|\1|dist/jquery.min.js"),
    (r"https://cdnjs\.cloudflare\.com/ajax/libs/blueimp-md5/([\d.]+)/(.+)", r"blueimp-md5|\1|\2"),
    (r"https://cdn\.jsdelivr\.net/npm/([^@/]+)@([\d.]+)/(.+)", r"\1|\2|\3"),
)
"""Addresses whose files npm has byte for byte, and what they are called there: package, version and file."""

_FLOT = "https://cdnjs.cloudflare.com/ajax/libs/flot/0.8.3/jquery.flot"
_TABLE = "https://cdnjs.cloudflare.com/ajax/libs/stupidtable/1.0.1/stupidtable.min.js"

REPLACED = {
    # npm has Flot 0.8.3 as it was written, not as the server compressed it.
    f"{_FLOT}.min.js": Source(
        "flot",
        "0.8.3",
        "jquery.flot.js",
        "sha512-1bVFcysZL1+sq86GjuK3hopY6NUKgO8hbXkMn8Bh7OEKYuUKAsu+77qYVCCEkm5XkeKh4yodJtVNRQzbDjoA1Q==",
    ),
    f"{_FLOT}.time.min.js": Source(
        "flot",
        "0.8.3",
        "jquery.flot.time.js",
        "sha512-fEs27qcvuepYOlPbogPMCRS2q1JLH+sSuTf59pTAHu224ltQYiSF5wKkZ5AQgkmn39D8BzKkJfVNQrsTEHvWgQ==",
    ),
    f"{_FLOT}.selection.min.js": Source(
        "flot",
        "0.8.3",
        "jquery.flot.selection.js",
        "sha512-c6h/44fD74kBkH1kAEx6q6aq6KXcbSn4ReY45CTD4Tu6R1O2T7Ql0Aa/Pqkzh3MQHZam58pHnjyvfJA6JfM4AA==",
    ),
    f"{_FLOT}.categories.min.js": Source(
        "flot",
        "0.8.3",
        "jquery.flot.categories.js",
        "sha512-N8W4gxKd16zsSZZ2OWsQDMaQu0jnxJPSiAsOwFkXgvnB1W0mmOqbxFiNhgGFJUFLjII7Q8VHdGNMDP+RH87uuA==",
    ),
    # npm has no 1.0.1 of this package; 1.1.3 has the same two functions and the same event.
    _TABLE: Source(
        "stupid-table-plugin",
        "1.1.3",
        "stupidtable.min.js",
        "sha512-T2dqwCYHuN8dbqIgYhwdGm+VtfUBecC06wUrciItlLJsteoe07db34cbmp/GZGIrC5/q1xy1V96BuvPiMXnedA==",
    ),
}
"""Addresses whose files npm lacks, with the file that is taken in their place."""


def source_of(url: str) -> Source:
    """Return the file of npm that stands for an address.

    Raises:
        OfflineError: the address is unknown.
    """
    if url in REPLACED:
        return REPLACED[url]
    for address, name in CDN:
        if match := re.fullmatch(address, url):
            return Source(*match.expand(name).split("|"))
    raise OfflineError(f"{url}: it is not known which package of npm has this file; cure: add it to {__file__}")


def fits(content: bytes, integrity: str) -> bool:
    """Return True if a content has the hash of an `integrity` attribute."""
    name, _, wanted = integrity.partition("-")
    return base64.b64encode(hashlib.new(name, content).digest()).decode() == wanted


def pack(package: str, version: str, folder: Path) -> Path:
    """Get the archive of a package from npm into a folder, and return its path.

    Raises:
        OfflineError: npm is not installed or cannot get the package.
    """
    command = ["npm", "pack", "--silent", "--pack-destination", str(folder), f"{package}@{version}"]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    except FileNotFoundError:
        raise OfflineError("npm is not installed; cure: install Node.js, which has npm") from None
    archive = folder / f"{package}-{version}.tgz"
    if done.returncode or not archive.is_file():
        raise OfflineError(f"npm has no {package}@{version} or cannot be reached: {done.stderr.strip()}")
    return archive


def content_of(packed: tarfile.TarFile, name: str) -> bytes:
    """Return the content of a member of an archive.

    Raises:
        KeyError: the archive has no such file.
    """
    if (member := packed.extractfile(name)) is None:
        raise KeyError(name)
    return member.read()


@dataclass
class Files:
    """Represent the files that the pages of a dashboard need, and write each one once.

    Attributes:
        folder: the folder of the dashboard.
        archives: the folder of the archives that were got.
        pack: the function that gets an archive.
    """

    folder: Path
    archives: Path
    pack: Callable[[str, str, Path], Path] = pack

    def _read(self, source: Source) -> bytes:
        """Return the content of a file of npm, and write the licenses of its package."""
        archive = self.archives / f"{source.package}-{source.version}.tgz"
        if not archive.is_file():
            archive = self.pack(source.package, source.version, self.archives)
        with tarfile.open(archive) as packed:
            for name in packed.getnames():
                path = PurePosixPath(name)
                if len(path.parts) == 2 and re.match(r"(?i)licen[cs]e", path.name):
                    self._write(f"{source.package}-{path.name}", content_of(packed, name))
            try:
                return content_of(packed, f"package/{source.file}")
            except KeyError:
                raise OfflineError(f"{source.package}@{source.version} has no file {source.file}") from None

    def _write(self, name: str, content: bytes) -> None:
        """Write a file beside the pages."""
        (self.folder / VENDOR).mkdir(exist_ok=True)
        (self.folder / VENDOR / name).write_bytes(content)

    def local(self, tag: str, url: str) -> str:
        """Return a tag that loads the file beside the page in place of an address, and write the file.

        Raises:
            OfflineError: the file cannot be got, or is not the one that the tag means.
        """
        source = source_of(url)
        given = INTEGRITY.search(tag)
        wanted = source.integrity or (given[1] if given else "")
        content = self._read(source)
        if not wanted or not fits(content, wanted):
            raise OfflineError(
                f"{source.file} of {source.package}@{source.version} is not the file of {url}: "
                f"its hash is not {wanted or 'given'}"
            )
        name = PurePosixPath(source.file).name
        self._write(name, content)
        tag = CROSS_ORIGIN.sub("", tag.replace(url, f"{VENDOR}/{name}"))
        return tag.replace(given[1], wanted) if given else tag


def make_offline(folder: Path, pack: Callable[[str, str, Path], Path] = pack) -> list[str]:
    """Write what the pages of a dashboard load from other servers beside them, and return the addresses.

    Args:
        folder: the folder that `asv publish` wrote.
        pack: the function that gets the archive of a package.

    Raises:
        OfflineError: there is no dashboard, or a file cannot be got or checked.
    """
    if not (folder / PAGES[0]).is_file():
        raise OfflineError(f"{folder / PAGES[0]} is missing; cure: make dashboard")
    replaced: list[str] = []
    with tempfile.TemporaryDirectory() as archives:
        files = Files(folder, Path(archives), pack)

        def local(match: re.Match[str]) -> str:
            replaced.append(match[1])
            return files.local(match[0], match[1])

        texts = {page: TAG.sub(local, (folder / page).read_text(encoding="utf-8")) for page in PAGES}
    for page, text in texts.items():
        (folder / page).write_text(text, encoding="utf-8")
    return replaced


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the dashboard of a folder self-contained, and return the exit status."""
    (folder,) = sys.argv[1:] if arguments is None else arguments
    try:
        replaced = make_offline(Path(folder))
    except OfflineError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{len(replaced)} files of other servers lie in {Path(folder) / VENDOR} now")
    return 0


if __name__ == "__main__":
    sys.exit(main())
