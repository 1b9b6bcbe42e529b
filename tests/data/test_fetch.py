"""Sources of files, their verification, and the cache."""

import bz2
import errno
import gzip
import hashlib
import io
import lzma
import os
import shutil
import tarfile
import threading
import time
from pathlib import Path

import platformdirs
import pytest
from local_server import served
from reference.examples import toy_entry

from opauc_bench.data import (
    Sources,
    availability,
    find_prepared,
    has_changed_files,
    load_catalogue,
    prepare,
    verify,
)
from opauc_bench.data import download as download_module
from opauc_bench.data.entry import DatasetEntry, FileSpec, Form
from opauc_bench.errors import ConfigError, DataError, DataUnavailable

TEXT = b"+1 1:0.5 2:1\n-1 1:-1\n+1 2:-0.25\n-1 1:0.125 2:1\n"
SHA = hashlib.sha256(TEXT).hexdigest()
PACKED = {"": TEXT, ".xz": lzma.compress(TEXT), ".bz2": bz2.compress(TEXT), ".gz": gzip.compress(TEXT)}
OTHER = TEXT.replace(b"0.125", b"0.250")


def entry_of(name: str = "toy", confirmed: bool = True, sha256: str | None = SHA, urls=(), **options) -> DatasetEntry:
    file = FileSpec(name="toy.txt", sha256=sha256, confirmed=confirmed, urls=urls, **options)
    return toy_entry(name=name, files=(file,), n_positive=2)


def mirror_of(folder: Path, content: bytes, file: str = "toy.txt") -> str:
    (folder / "toy").mkdir(parents=True, exist_ok=True)
    (folder / "toy" / file).write_bytes(content)
    return str(folder)


def raw_files(sources: Sources) -> list[str]:
    return sorted(path.name for path in (sources.cache / "toy" / "raw").glob("*") if path.name[0] != ".")


def leftovers(sources: Sources) -> list[Path]:
    return [*sources.cache.rglob(".part-*"), *sources.cache.rglob(".new-*")]


class Server:
    """A local web server: answers by path; records the requests."""

    def __init__(self):
        self.answers: dict[str, tuple[int, bytes]] = {}
        self.asked: list[str] = []
        self.failures = 0  # first answers that are 503
        self.claim = 0  # bytes that Content-Length promises beyond the body
        self.released = threading.Event()
        self.hang = False

    def answer(self, request):
        self.asked.append(request.path)
        if self.hang:
            self.released.wait(10)
            return
        status, body = self.answers.get(request.path, (404, b"<html><body>no such page</body></html>"))
        if self.failures:
            self.failures -= 1
            status, body = 503, b"busy"
        request.send_response(status)
        request.send_header("Content-Length", str(len(body) + self.claim))
        request.end_headers()
        request.wfile.write(body)


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(download_module, "WAIT", 0.0)
    running = Server()
    with served(running.answer) as running.url:
        yield running
        running.released.set()


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


# ------------------------------------------------------------------------------------------ success


@pytest.mark.parametrize("suffix", list(PACKED))
def test_mirror_folder_accepts_each_compression(tmp_path, cache, suffix):
    sources = Sources(cache, (mirror_of(tmp_path / "m", PACKED[suffix], "toy.txt" + suffix),), offline=True)
    assert availability(entry_of(), sources) == "mirror"
    dataset = prepare(entry_of(), sources)
    assert raw_files(sources) == ["toy.txt" + suffix]
    assert dataset.manifest["files"] == [{"name": "toy.txt", "sha256": SHA, "confirmed": True, "source": "mirror"}]
    assert availability(entry_of(), sources) == "prepared"
    assert not leftovers(sources)


@pytest.mark.parametrize("suffix", list(PACKED))
def test_web_mirror_accepts_each_compression(cache, server, suffix):
    server.answers[f"/data/toy/toy.txt{suffix}"] = (200, PACKED[suffix])
    sources = Sources(cache, (f"{server.url}/data/",))
    assert prepare(entry_of(), sources).manifest["files"][0]["source"] == "mirror"
    assert raw_files(sources) == ["toy.txt" + suffix]


def test_compression_is_detected_by_content_not_by_name(cache, server):
    server.answers["/official"] = (200, PACKED[".bz2"])
    sources = Sources(cache)
    dataset = prepare(entry_of(urls=(f"{server.url}/official",)), sources)
    assert dataset.manifest["files"][0]["source"] == f"{server.url}/official"
    assert raw_files(sources) == ["toy.txt.bz2"]


def test_file_address_works_offline(tmp_path, cache):
    (tmp_path / "my data.txt").write_bytes(TEXT)
    entry = entry_of(urls=(f"file://{tmp_path}/my%20data.txt",))
    sources = Sources(cache, offline=True)
    assert availability(entry, sources) == "local"
    assert prepare(entry, sources).manifest["files"][0]["source"] == "file"


def test_member_of_archive_is_extracted(cache, server):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in (("cup/readme", b"hello"), ("cup/toy.dat", TEXT), ("my cup/_n (1).csv", TEXT)):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    server.answers["/cup.tar.gz"] = (200, buffer.getvalue())
    urls = (f"{server.url}/cup.tar.gz",)
    sources = Sources(cache)
    assert prepare(entry_of(urls=urls, member="toy.dat"), sources).manifest["files"][0]["sha256"] == SHA
    assert raw_files(sources) == ["toy.txt"]
    for number, member in enumerate(("_n (1).csv", "my cup/_n (1).csv")):
        second = Sources(cache.with_name(f"of_blanks_{number}"))
        assert prepare(entry_of(urls=urls, member=member), second).manifest["files"][0]["sha256"] == SHA
    with pytest.raises(DataError, match=r"expected a file other\.dat in the archive, found none"):
        prepare(entry_of(urls=urls, member="other.dat"), Sources(cache.with_name("second")))
    server.answers["/cup.tar.gz"] = (200, buffer.getvalue()[:-40])
    with pytest.raises(DataError, match="truncated or damaged"):
        prepare(entry_of(urls=urls, member="toy.dat"), Sources(cache.with_name("third")))


def test_archive_with_huge_member_is_refused(cache, server):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        info = tarfile.TarInfo("toy.dat")
        info.size = 3 << 20
        archive.addfile(info, io.BytesIO(bytes(info.size)))
    server.answers["/cup.tar.gz"] = (200, buffer.getvalue())
    with pytest.raises(DataError, match=r"expected toy\.dat of at most 1,050,880 bytes, got 3,145,728"):
        prepare(
            entry_of(sha256=None, confirmed=False, urls=(f"{server.url}/cup.tar.gz",), member="toy.dat"), Sources(cache)
        )


def test_local_form_is_preferred_to_download(tmp_path, cache, server):
    server.answers["/toy"] = (200, TEXT)
    other = Form(format="csv", files=(FileSpec(name="toy.csv"),), positive=(1,))
    entry = entry_of(urls=(f"{server.url}/toy",)).model_copy(update={"alternatives": (other,)})
    mirror = mirror_of(tmp_path / "m", b"0.5,1,1\n-1,0,-1\n0,-0.25,1\n0.125,1,-1\n", "toy.csv")
    here = prepare(entry, Sources(cache, (mirror,)))
    assert server.asked == []
    assert here.manifest["files"][0]["name"] == "toy.csv"
    assert here.fingerprint == prepare(entry, Sources(cache.with_name("second"))).fingerprint
    assert server.asked == ["/toy"]


def test_download_retries_temporary_failures(cache, server):
    server.answers["/toy"] = (200, TEXT)
    server.failures = 2
    prepare(entry_of(urls=(f"{server.url}/toy",)), Sources(cache))
    assert server.asked == ["/toy"] * 3


# ------------------------------------------------------------------------------------------ wrong content


def test_wrong_hash_leads_to_next_source(tmp_path, cache, server):
    server.answers["/toy"] = (200, TEXT)
    said = []
    sources = Sources(cache, (mirror_of(tmp_path / "m", OTHER),))
    dataset = prepare(entry_of(urls=(f"{server.url}/toy",)), sources, said.append)
    assert dataset.manifest["files"][0]["source"] == f"{server.url}/toy"
    assert any(SHA in line and hashlib.sha256(OTHER).hexdigest() in line for line in said)


def test_error_lists_each_attempt_if_all_sources_are_wrong(tmp_path, cache, server):
    server.answers["/toy"] = (200, TEXT[:-5])
    mirrors = (
        mirror_of(tmp_path / "m", OTHER),
        str(tmp_path / "absent"),
        mirror_of(tmp_path / "e", b"", "x"),
    )
    sources = Sources(cache, mirrors)
    with pytest.raises(DataError) as caught:
        prepare(entry_of(urls=(f"{server.url}/toy",)), sources)
    error = caught.value
    assert not isinstance(error, DataUnavailable)
    for part in (
        "toy: toy.txt: no source has the expected content",
        "cache: not found",
        f"expected sha256 {SHA}, got {hashlib.sha256(OTHER).hexdigest()}",
        f"mirror {tmp_path / 'absent'}: no such folder",
        f"mirror {tmp_path / 'e'}: no toy/toy.txt",
        f"{server.url}/toy: expected sha256 {SHA}, got {hashlib.sha256(TEXT[:-5]).hexdigest()}",
    ):
        assert part in error.message
    assert "opauc-bench data fetch toy --fresh" in error.hint
    assert all(f"--mirror {mirror}" in error.hint for mirror in mirrors)
    assert raw_files(sources) == []
    assert not leftovers(sources)


def test_different_unconfirmed_hash_is_reported_and_recorded(tmp_path, cache):
    said = []
    sources = Sources(cache, (mirror_of(tmp_path / "m", OTHER),))
    (file,) = prepare(entry_of(confirmed=False), sources, said.append).manifest["files"]
    assert file == {
        "name": "toy.txt",
        "sha256": hashlib.sha256(OTHER).hexdigest(),
        "confirmed": False,
        "source": "mirror",
    }
    assert any(SHA in line and file["sha256"] in line for line in said)


def test_unconfirmed_file_with_wrong_counts_is_fetched_again(tmp_path, cache):
    bad = Sources(cache, (mirror_of(tmp_path / "bad", TEXT[:20]),))
    with pytest.raises(DataError, match="expected 4 rows"):
        prepare(entry_of(confirmed=False), bad)
    good = Sources(cache, (mirror_of(tmp_path / "good", TEXT),))
    assert prepare(entry_of(confirmed=False), good).X.shape == (4, 2)


def test_web_file_that_cannot_be_read_is_fetched_again(cache, server):
    entry = entry_of(confirmed=False, sha256=None, urls=(f"{server.url}/toy",))
    server.answers["/toy"] = (200, TEXT)
    first = prepare(entry, Sources(cache))
    server.answers["/toy"] = (200, TEXT + b"1 1:x\n")
    for fresh in (True, False):
        with pytest.raises(DataError, match="to be a number") as caught:
            prepare(entry, Sources(cache), fresh=fresh)
        assert f"(from {server.url}/toy)" in caught.value.message
        assert find_prepared(entry, Sources(cache)) is None, "arrays of another file than that of the cache"
    server.answers["/toy"] = (200, TEXT)
    assert prepare(entry, Sources(cache)).fingerprint == first.fingerprint
    assert server.asked == ["/toy"] * 4, "no other time"


def test_corrected_entry_reads_the_file_of_the_cache(cache, server):
    entry = entry_of(confirmed=False, sha256=None, urls=(f"{server.url}/toy",))
    server.answers["/toy"] = (200, TEXT)
    with pytest.raises(DataError, match="expected 5 rows"):
        prepare(entry.model_copy(update={"n_samples": 5}), Sources(cache))
    prepare(entry, Sources(cache))
    assert server.asked == ["/toy"]


def test_equal_unconfirmed_hash_stays_unconfirmed(tmp_path, cache):
    said = []
    sources = Sources(cache, (mirror_of(tmp_path / "m", TEXT),))
    assert prepare(entry_of(confirmed=False), sources, said.append).manifest["files"][0]["confirmed"] is False
    assert said == ["toy: reading toy.txt"]


@pytest.mark.parametrize("suffix", [".xz", ".bz2", ".gz"])
@pytest.mark.parametrize("damage", ["truncated", "changed"])
def test_damaged_archive_is_refused(tmp_path, cache, suffix, damage):
    content = bytearray(PACKED[suffix])
    if damage == "truncated":
        del content[-12:]
    else:
        content[len(content) // 2 :] = bytes(len(content) - len(content) // 2)
    sources = Sources(cache, (mirror_of(tmp_path / "m", bytes(content), "toy.txt" + suffix),))
    with pytest.raises(DataError, match="the compressed file is truncated or damaged") as caught:
        prepare(entry_of(confirmed=False, sha256=None), sources)
    assert str(tmp_path / "m" / "toy" / "toy.txt") in caught.value.message
    assert raw_files(sources) == []


def test_html_page_is_refused(cache, server):
    server.answers["/toy"] = (200, b"\n <!DOCTYPE HTML><html><body>Moved</body></html>")
    sources = Sources(cache)
    with pytest.raises(DataError, match=r"/toy: expected data, got an HTML page"):
        prepare(entry_of(confirmed=False, sha256=None, urls=(f"{server.url}/toy",)), sources)
    assert raw_files(sources) == []


def test_empty_file_is_refused(tmp_path, cache):
    with pytest.raises(DataError, match="expected data, got an empty file"):
        prepare(entry_of(confirmed=False), Sources(cache, (mirror_of(tmp_path / "m", b""),)))


def test_small_file_with_huge_content_is_refused(tmp_path, cache):
    bomb = gzip.compress(bytes(3 << 20))
    sources = Sources(cache, (mirror_of(tmp_path / "m", bomb, "toy.txt.gz"),))
    with pytest.raises(DataError, match=r"expected at most 1,050,880 bytes of uncompressed content, got more"):
        prepare(entry_of(confirmed=False, sha256=None), sources)
    with pytest.raises(DataError, match=r"expected at most 400 bytes of uncompressed content, got more"):
        prepare(entry_of(confirmed=False, sha256=None, bytes=100), sources)


def test_download_above_limit_is_aborted(cache, server):
    server.answers["/toy"] = (200, bytes(3 << 20))
    with pytest.raises(DataError, match=r"expected a download of at most 400 bytes, got more"):
        prepare(entry_of(urls=(f"{server.url}/toy",), bytes=100), Sources(cache))


# ------------------------------------------------------------------------------------------ unavailable


def test_missing_file_lists_all_sources(cache, server):
    with pytest.raises(DataUnavailable) as caught:
        prepare(entry_of(urls=(f"{server.url}/toy",)), Sources(cache, (f"{server.url}/mirror",)))
    assert f"mirror {server.url}/mirror: HTTP status 404" in caught.value.message
    assert f"{server.url}/toy: HTTP status 404" in caught.value.message
    assert "--mirror <folder>" in caught.value.hint
    assert len(server.asked) == 6  # five spellings at the mirror, no second tries


def test_server_without_answer_times_out(cache, server, monkeypatch):
    monkeypatch.setattr(download_module, "TIMEOUT", 0.1)
    monkeypatch.setattr(download_module, "TRIES", 2)
    server.hang = True
    start = time.monotonic()
    with pytest.raises(DataUnavailable, match=r"no answer in 0.1 s"):
        prepare(entry_of(urls=(f"{server.url}/toy",)), Sources(cache, (server.url,)))
    assert time.monotonic() - start < 5
    assert len(server.asked) == 4  # two tries each; the mirror is not asked for other spellings


def test_incomplete_transfer_is_refused(cache, server):
    server.answers["/toy"] = (200, TEXT)
    server.claim = 10
    with pytest.raises(DataUnavailable, match="the transfer broke off"):
        prepare(entry_of(confirmed=False, urls=(f"{server.url}/toy",)), Sources(cache))


def test_closed_port_is_reported_as_no_connection(cache, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(download_module, "WAIT", 0.0)
    with pytest.raises(DataUnavailable, match=r"http://127.0.0.1:9/toy: no connection"):
        prepare(entry_of(urls=("http://127.0.0.1:9/toy",)), Sources(cache))


def test_offline_makes_no_request(tmp_path, cache, server):
    server.answers["/toy"] = server.answers["/toy/toy.txt"] = (200, TEXT)
    entry = entry_of(urls=(f"{server.url}/toy",))
    with pytest.raises(DataUnavailable) as caught:
        prepare(entry, Sources(cache, (server.url,), offline=True))
    assert caught.value.message.count("not tried, offline") == 2
    assert "--offline" in caught.value.hint
    assert availability(entry, Sources(cache, (server.url,), offline=True)) == "unavailable"
    assert availability(entry, Sources(cache, (server.url,))) == "download"
    prepare(entry, Sources(cache, (server.url, mirror_of(tmp_path / "m", TEXT)), offline=True))
    assert server.asked == []


def test_missing_address_is_reported(cache):
    assert availability(entry_of(), Sources(cache)) == "unavailable"
    with pytest.raises(DataUnavailable, match="no official address is known"):
        prepare(entry_of(), Sources(cache))


def test_unwritable_cache_is_reported(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    sources = Sources(tmp_path / "file", (mirror_of(tmp_path / "m", TEXT),))
    with pytest.raises(DataError, match=r"the cache .* cannot be used") as caught:
        prepare(entry_of(), sources)
    assert "OPAUC_BENCH_CACHE" in caught.value.hint


# ------------------------------------------------------------------------------------------ the cache


def test_damaged_cached_file_is_reported_and_replaced(tmp_path, cache):
    sources = Sources(cache, (mirror_of(tmp_path / "m", TEXT),))
    entry = entry_of(confirmed=False, sha256=None)  # only the noted hash of the fetched file shows it
    prepare(entry, sources)
    assert all(check.ok for check in verify(entry, sources))
    (cache / "toy" / "raw" / "toy.txt").write_bytes(OTHER)
    bad = [check for check in verify(entry, sources) if not check.ok]
    assert [check.item for check in bad] == ["toy.txt"]
    assert SHA in bad[0].detail
    assert "--fresh" in bad[0].hint
    said = []
    changed = entry.model_copy(update={"range": (-2.0, 2.0)})  # makes it read the raw file again
    assert prepare(changed, sources, said.append).manifest["files"][0]["sha256"] == SHA
    assert any(line.startswith("note: ") and "trying the next source" in line for line in said)
    assert (cache / "toy" / "raw" / "toy.txt").read_bytes() == TEXT


def test_fresh_fetches_again_and_failure_keeps_old_file(tmp_path, cache):
    folder = tmp_path / "m"
    sources = Sources(cache, (mirror_of(folder, TEXT),))
    entry = entry_of(confirmed=False)
    first = prepare(entry, sources)
    (folder / "toy" / "toy.txt").unlink()
    with pytest.raises(DataUnavailable):
        prepare(entry, sources, fresh=True)
    assert find_prepared(entry, sources).fingerprint == first.fingerprint
    assert all(check.ok for check in verify(entry, sources))
    mirror_of(folder, gzip.compress(OTHER), "toy.txt.gz")
    assert prepare(entry, sources).fingerprint == first.fingerprint
    second = prepare(entry, sources, fresh=True)
    assert second.fingerprint != first.fingerprint
    assert find_prepared(entry, sources).fingerprint == second.fingerprint
    assert raw_files(sources) == ["toy.txt.gz"]


def test_leftovers_of_killed_process_are_removed(tmp_path, cache):
    sources = Sources(cache, (mirror_of(tmp_path / "m", TEXT),))
    (cache / "toy" / "raw").mkdir(parents=True)
    (cache / "toy" / "raw" / ".part-abc").write_bytes(b"half")
    (cache / "toy" / "prepared" / ".new-abc").mkdir(parents=True)
    (cache / "toy" / "prepared" / ".new-abc" / "X.npy").write_bytes(b"half")
    prepare(entry_of(), sources)
    assert not leftovers(sources)


# ------------------------------------------------------------------------------------------ Sources


@pytest.mark.parametrize(
    ("value", "mirrors"),
    [
        ("/a/b", ("/a/b",)),
        ("/a:rel/b", ("/a", "rel/b")),
        ("https://h.org/x", ("https://h.org/x",)),
        (
            "/a:http://h.org:8000/x:file:///b:https://h.org",
            ("/a", "http://h.org:8000/x", "file:///b", "https://h.org"),
        ),
        ("http://h.org:8000:/b", ("http://h.org:8000", "/b")),
        ("", ()),
        ("/a::/a", ("/a",)),
    ],
)
def test_mirrors_are_read_from_environment(monkeypatch, tmp_path, value, mirrors):
    monkeypatch.setenv("OPAUC_BENCH_MIRROR", value)
    monkeypatch.setenv("OPAUC_BENCH_CACHE", str(tmp_path))
    assert Sources.from_environment() == Sources(tmp_path, mirrors)
    assert Sources.from_environment(("/first",), offline=True) == Sources(tmp_path, ("/first", *mirrors), True)


def test_mirror_with_unknown_scheme_is_refused(monkeypatch):
    monkeypatch.delenv("OPAUC_BENCH_MIRROR", raising=False)
    with pytest.raises(ConfigError, match="ftp://x"):
        Sources.from_environment(("ftp://x",))


def test_cache_of_checkout_is_inside_it(monkeypatch):
    monkeypatch.delenv("OPAUC_BENCH_CACHE", raising=False)
    monkeypatch.delenv("OPAUC_BENCH_MIRROR", raising=False)
    checkout = Path(__file__).resolve().parents[2]
    assert Sources.from_environment().cache == checkout / "datasets" / "cache"


def test_cache_of_installation_is_user_cache(monkeypatch, tmp_path):
    monkeypatch.delenv("OPAUC_BENCH_CACHE", raising=False)
    monkeypatch.setattr("opauc_bench.data.sources.__file__", str(tmp_path / "a" / "b" / "c" / "sources.py"))
    assert Sources.from_environment().cache == Path(platformdirs.user_cache_dir("opauc-bench"))


# ---------------------------------------------------------------------- local files


def at_address(path):
    return entry_of(urls=[path.as_uri()], sha256=None, confirmed=False)


def test_local_file_is_read_again_after_change(tmp_path, cache):
    path, sources = tmp_path / "mine.txt", Sources(cache)
    path.write_bytes(TEXT)
    first = prepare(at_address(path), sources)
    path.write_bytes(OTHER)
    assert find_prepared(at_address(path), sources) is None
    said = []
    second = prepare(at_address(path), sources, said.append)
    assert second.fingerprint != first.fingerprint
    assert f"note: toy: {path} has changed since it was read" in said
    assert find_prepared(at_address(path), sources).fingerprint == second.fingerprint


@pytest.mark.parametrize("steps", [1, 2], ids=["after the note", "after the file"])
def test_killed_while_a_local_file_is_copied_its_later_changes_are_seen(tmp_path, cache, monkeypatch, steps):
    path, sources = tmp_path / "mine.txt", Sources(cache)
    path.write_bytes(TEXT)
    replace, done = os.replace, []

    def killed(source, target):
        replace(source, target)
        done.extend([target] * (Path(target).parent.name == "raw"))
        if len(done) == steps:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            prepare(at_address(path), sources)
    path.write_bytes(OTHER)
    expected = prepare(at_address(path), Sources(tmp_path / "another")).fingerprint
    assert prepare(at_address(path), sources).fingerprint == expected


def test_a_touched_local_file_is_hashed_once(tmp_path, cache, monkeypatch):
    path, sources = tmp_path / "mine.txt", Sources(cache)
    path.write_bytes(TEXT)
    prepare(at_address(path), sources)
    os.utime(path, ns=(1, 1))
    assert find_prepared(at_address(path), sources) is not None
    monkeypatch.setattr("opauc_bench.data.cache.digest", None)
    assert find_prepared(at_address(path), sources) is not None


def test_touched_or_removed_local_file_is_not_read_again(tmp_path, cache):
    path, sources = tmp_path / "mine.txt", Sources(cache)
    path.write_bytes(TEXT)
    first = prepare(at_address(path), sources)
    os.utime(path, ns=(1, 1))
    assert find_prepared(at_address(path), sources).folder == first.folder
    path.unlink()
    assert find_prepared(at_address(path), sources).folder == first.folder
    said = []
    prepare(at_address(path), sources, said.append)
    assert said == [f"note: toy: {path} does not exist any more; its copy in the cache is used"]


def test_local_file_of_other_catalogue_with_same_name_is_not_used(tmp_path, cache):
    """Two projects may use the same dataset name; a wrong path in one must not give it the rows of the other."""
    path, sources = tmp_path / "mine.txt", Sources(cache)
    path.write_bytes(TEXT)
    first = prepare(at_address(path), sources)
    assert availability(at_address(tmp_path / "else" / "mine.txt"), sources) == "unavailable"
    with pytest.raises(DataUnavailable, match=r"from another address(.|\n)*else/mine.txt: no such file"):
        prepare(at_address(tmp_path / "else" / "mine.txt"), sources)
    moved = tmp_path / "moved.txt"
    path.rename(moved)
    assert find_prepared(at_address(moved), sources).folder == first.folder, "the content decides, not the path"
    assert find_prepared(at_address(path), sources).folder == first.folder, (
        "a file may be removed after it has been read"
    )


def test_error_in_local_file_names_original_not_cached_copy(tmp_path, cache):
    path, sources = tmp_path / "mine.txt", Sources(cache)
    path.write_bytes(TEXT)
    prepare(at_address(path), sources)
    path.write_bytes(b"")
    with pytest.raises(DataError, match="empty file"):
        prepare(at_address(path), sources)
    path.write_bytes(TEXT + b"1 1:x\n")
    with pytest.raises(DataError, match=rf"^toy: {path}:\d+: expected the value of feature 1 to be a number") as caught:
        prepare(at_address(path), sources)
    assert str(cache) not in caught.value.message, "users cannot correct the copy in the cache"
    assert "correct the file" in caught.value.hint
    path.write_bytes(OTHER)
    assert prepare(at_address(path), sources).X.shape[0] > 0


# ------------------------------------------------------------------------------------------ changed addresses


def rows_of(entry, sources):
    return prepare(entry, sources).X.shape[0]


def own_entry(*urls):
    """A dataset of any number of rows."""
    return entry_of(urls=urls, sha256=None, confirmed=False).model_copy(update={"n_samples": None, "n_positive": None})


def test_changed_web_address_is_asked(cache, server):
    server.answers |= {"/v1/toy": (200, TEXT), "/v2/toy": (200, TEXT * 2)}
    first, second = own_entry(f"{server.url}/v1/toy"), own_entry(f"{server.url}/v2/toy")
    sources = Sources(cache)
    assert rows_of(first, sources) == 4
    assert find_prepared(second, sources) is None
    (bad,) = (check for check in verify(second, sources) if not check.ok)
    assert f"from another address ({server.url}/v1/toy)" in bad.detail
    with pytest.raises(DataUnavailable, match="from another address"):
        prepare(second, Sources(cache, offline=True))
    assert [rows_of(entry, sources) for entry in (second, second, first)] == [8, 8, 4]
    assert server.asked == ["/v1/toy", "/v2/toy", "/v1/toy"]


def test_web_file_is_not_used_for_a_local_one(tmp_path, cache, server):
    server.answers["/toy"] = (200, TEXT * 2)
    (tmp_path / "toy.txt").write_bytes(TEXT)
    web, local = own_entry(f"{server.url}/toy"), own_entry((tmp_path / "toy.txt").as_uri())
    assert [rows_of(entry, Sources(cache)) for entry in (web, local, web)] == [8, 4, 8]


def test_a_file_of_a_mirror_does_not_replace_the_users_own_file(tmp_path, cache):
    (tmp_path / "toy.txt").write_bytes(TEXT)
    local, official = own_entry((tmp_path / "toy.txt").as_uri()), own_entry("http://127.0.0.1:9/toy")
    mirrored = Sources(cache, (mirror_of(tmp_path / "m", TEXT * 2),))
    assert rows_of(official, mirrored) == rows_of(official, Sources(cache)) == 8
    assert rows_of(local, mirrored) == rows_of(local, Sources(cache)) == 4
    (tmp_path / "toy.txt").unlink()
    assert rows_of(local, mirrored) == 4  # the copy in the cache
    assert prepare(local, mirrored, fresh=True).manifest["n_samples"] == 8


def test_another_address_in_the_web_is_no_change_of_the_users_files(server, cache):
    server.answers |= {f"/{version}/toy.txt": (200, TEXT) for version in ("v1", "v2")}
    entries = [own_entry(f"{server.url}/{version}/toy.txt") for version in ("v1", "v2")]
    assert rows_of(entries[0], Sources(cache)) == 4
    assert not has_changed_files(entries[1], Sources(cache))
    assert rows_of(entries[1], Sources(cache)) == 4


def test_removed_files_of_the_cache_are_read_again(tmp_path, cache):
    path = tmp_path / "toy.txt"
    path.write_bytes(TEXT)
    assert rows_of(own_entry(path.as_uri()), Sources(cache)) == 4
    shutil.rmtree(cache / "toy" / "raw")
    assert not has_changed_files(own_entry(path.as_uri()), Sources(cache)), "as far as that is known"
    path.write_bytes(TEXT * 2)
    assert rows_of(own_entry(path.as_uri()), Sources(cache)) == 8


def test_own_files_of_an_entry_with_a_base_are_not_those_of_the_base(tmp_path):
    base = load_catalogue()["rcv"]
    spec = {"name": base.files[0].name, "urls": ["mine.txt"]}
    entry = load_catalogue({"mine": {"base": "rcv", "title": "Mine", "files": [spec]}})["mine"]
    assert entry.home == "mine"
    assert load_catalogue()["rcv1b"].home == "rcv", "the training part is the same file"
    for name, file in [("rcv", base.files[0].name), ("mnist", "mnist.scale")]:  # that of its alternative
        settings = {"base": name, "title": "Mine", "files": [{"name": file}]}
        if name == "mnist":
            settings |= {"format": "svmlight", "drop_columns": []}
        assert load_catalogue({"mine": settings})["mine"].home == name, "no other address is given"


# ------------------------------------------------------------------------------------------ unreadable folders


@pytest.fixture
def closed(tmp_path, monkeypatch):
    """A folder that this process may not enter, also if it runs as root."""
    folder = tmp_path / "closed"

    def refusing(call):
        def refuse(path=".", *args, **options):
            if str(path).startswith(f"{folder}/"):
                raise PermissionError(errno.EACCES, "Permission denied", str(path))
            return call(path, *args, **options)

        return refuse

    for name in ("stat", "listdir", "scandir"):
        monkeypatch.setattr(os, name, refusing(getattr(os, name)))
    folder.mkdir()
    return folder


def test_unreadable_sources_are_named_not_the_cache(cache, closed):
    sources = Sources(cache, (str(closed),), offline=True)
    entry = entry_of(urls=((closed / "toy.txt").as_uri(),))
    assert availability(entry, sources) == "unavailable"
    with pytest.raises(DataUnavailable) as caught:
        prepare(entry, sources)
    assert f"{closed}/toy.txt: Permission denied" in caught.value.message
    assert f"mirror {closed}: toy/toy.txt: Permission denied" in caught.value.message


def test_an_unreadable_cache_is_an_error(closed):
    with pytest.raises(DataError, match=f"the cache {closed}/cache cannot be used: Permission denied"):
        availability(entry_of(), Sources(closed / "cache"))
    with pytest.raises(DataError, match="cannot be used: Permission denied"):
        verify(entry_of(), Sources(closed / "cache"))


def test_long_names_are_cut(tmp_path, cache):
    address = f"http://127.0.0.1:9/{'x' * 300}.csv.gz"
    source = {"source": {"csv": address, "label": "y"}}
    (file,) = load_catalogue({"toy": source})["toy"].data_files
    assert file.name == f"{'x' * 226}.csv"
    with pytest.raises(DataUnavailable, match="File name too long"):
        prepare(entry_of(urls=((tmp_path / ("x" * 300)).as_uri(),)), Sources(cache))
