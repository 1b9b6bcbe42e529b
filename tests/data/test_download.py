"""Transfers from a local server: what is kept of an interrupted one, further addresses, archives, and check-links."""

import bz2
import gzip
import hashlib
import io
import re
import tarfile
import zipfile

import pytest
from local_server import served
from reference.examples import toy_entry

from opauc_bench.commands import terminal
from opauc_bench.data import Sources, ask, load_catalogue, prepare
from opauc_bench.data import download as download_module
from opauc_bench.data.download import Answer, SourceMissing, download
from opauc_bench.data.entry import FileSpec
from opauc_bench.errors import DataError

CONTENT = bytes(range(256)) * 2000  # 512 kB: eight pieces
TEXT = b"+1 1:0.5 2:1\n-1 1:-1\n+1 2:-0.25\n-1 1:0.125 2:1\n"


class Server:
    """A local web server that knows ranges and versions, and may break off."""

    def __init__(self):
        self.files: dict[str, bytes] = {}
        self.tag = '"one"'
        self.ranges = True
        self.most: list[int] = []  # bytes of the next answers, after which the connection is closed
        self.asked: list[tuple[str, str | None]] = []  # path and range
        self.kind = "application/octet-stream"
        self.headers: dict[str, str] = {}  # further ones
        self.refusals: list[int] = []  # status of the next answers
        self.range = "bytes {}-{}/{}"
        self.heeds_if_range = True
        self.part = len(CONTENT)  # most bytes of an answer to a range

    def answer(self, request):
        wanted = request.headers.get("Range")
        self.asked.append((request.path, wanted))
        content = self.files.get(request.path)
        if content is None:
            return request.send_error(404)
        if request.path == "/loop":
            request.send_response(302)
            request.send_header("Location", request.path)
            return request.end_headers()
        if request.path == "/malformed":
            request.send_response(302)
            request.send_header("Location", "http://[bad/")
            return request.end_headers()
        if request.path == "/none":
            request.send_response(204)
            return request.end_headers()
        if self.refusals:
            request.send_response(self.refusals.pop(0))
            for name, value in self.headers.items():
                request.send_header(name, value)
            return request.end_headers()
        start, end, size = 0, len(content), len(content)
        valid = not self.heeds_if_range or request.headers.get("If-Range") in (None, self.tag)
        if partly := bool(wanted and self.ranges and valid):
            first, last = re.fullmatch(r"bytes=(\d+)-(\d*)", wanted).groups()
            start, end = int(first), int(last) + 1 if last else min(size, int(first) + self.part)
            if start >= size:
                return request.send_error(416)
        request.send_response(206 if partly else 200)
        request.send_header("Content-Type", self.kind)
        request.send_header("Content-Length", str(end - start))
        if self.tag:
            request.send_header("ETag", self.tag)
        for name, value in self.headers.items():
            request.send_header(name, value)
        if partly:
            request.send_header("Content-Range", self.range.format(start, end - 1, size))
        request.end_headers()
        request.wfile.write(content[start:end][: self.most.pop(0) if self.most else None])

    @property
    def ranges_asked(self):
        return [wanted for _, wanted in self.asked]


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(download_module, "WAIT", 0.0)
    running = Server()
    running.files["/file"] = CONTENT
    with served(running.answer) as running.url:
        yield running


def get(server, folder, limit=1 << 20, notify=lambda text: None):
    return download(f"{server.url}/file", folder, limit, "toy: file", notify).read_bytes()


def entry_of(*urls, member=None, known=True):
    known = {"sha256": hashlib.sha256(TEXT).hexdigest(), "confirmed": True} if known else {}
    file = FileSpec(name="toy.txt", urls=urls, member=member, **known)
    return toy_entry(files=(file,))


# ------------------------------------------------------------------------------------------ resuming


def test_the_next_try_asks_for_the_rest_only(server, tmp_path):
    server.most = [100_000, 200_000]
    said = []
    assert get(server, tmp_path, notify=said.append) == CONTENT
    assert server.ranges_asked == [None, "bytes=100000-", "bytes=300000-"]
    assert said == ["toy: file: continuing after 0.1 MB", "toy: file: continuing after 0.3 MB"]


def test_the_next_process_goes_on(server, tmp_path, monkeypatch):
    monkeypatch.setattr(download_module, "TRIES", 1)
    server.most = [100_000]
    with pytest.raises(SourceMissing, match=r"broke off .*; the same command continues after 0\.1 MB"):
        get(server, tmp_path)
    assert get(server, tmp_path) == CONTENT
    assert server.ranges_asked == [None, "bytes=100000-"]


@pytest.mark.parametrize("change", ["tag", "no tag", "no ranges"])
def test_another_version_begins_anew(server, tmp_path, monkeypatch, change):
    monkeypatch.setattr(download_module, "TRIES", 1)
    server.most = [100_000]
    if change == "no tag":
        server.tag = ""
    with pytest.raises(SourceMissing):
        get(server, tmp_path)
    if change == "tag":
        server.tag, server.files["/file"] = '"two"', CONTENT[::-1]
    server.ranges = change != "no ranges"
    assert get(server, tmp_path) == server.files["/file"]
    assert server.ranges_asked == [None, None if change == "no tag" else "bytes=100000-"]


@pytest.mark.parametrize(("tag", "content"), [('"two"', CONTENT[::-1]), ('"one"', CONTENT[::-1] + CONTENT)])
def test_the_rest_of_another_version_is_not_added(server, tmp_path, monkeypatch, tag, content):
    server.heeds_if_range, server.most = False, [100_000]
    monkeypatch.setattr(download_module, "TRIES", 1)
    with pytest.raises(SourceMissing):
        get(server, tmp_path)
    monkeypatch.setattr(download_module, "TRIES", 3)
    server.tag, server.files["/file"] = tag, content
    assert get(server, tmp_path) == content
    assert server.ranges_asked == [None, "bytes=100000-", None]


def test_a_part_of_the_rest_is_not_the_file(server, tmp_path):
    server.most, server.part = [100_000], 300_000
    assert get(server, tmp_path) == CONTENT
    assert server.ranges_asked == [None, "bytes=100000-", "bytes=400000-"]


def test_transfers_that_the_server_compresses_are_read_to_their_end(server, tmp_path):
    server.headers = {"Content-Encoding": "gzip"}
    server.files["/toy"] = gzip.compress(TEXT)
    entry = entry_of(f"{server.url}/toy", known=False)
    assert prepare(entry, Sources(tmp_path / "1")).X.shape == (4, 2)
    server.files["/toy"] = gzip.compress(gzip.compress(TEXT))  # a .gz file that the server compresses once more
    assert prepare(entry, Sources(tmp_path / "2")).X.shape == (4, 2)
    server.files["/toy"] = gzip.compress(TEXT)[:-10]
    with pytest.raises(DataError, match=r"the transfer broke off: the compressed content is damaged \("):
        prepare(entry, Sources(tmp_path / "3"))
    assert not list((tmp_path / "3").rglob(".download*"))
    for coding in ("none", "", "UTF-8", "identity"):  # which change no byte
        server.headers = {"Content-Encoding": coding}
        assert get(server, tmp_path) == CONTENT
    server.headers = {"Content-Encoding": "br"}
    with pytest.raises(SourceMissing, match="encoded as br, which was not asked for"):
        get(server, tmp_path)


# ------------------------------------------------------------------------------------------ reasons


def reason(address, folder):
    with pytest.raises(SourceMissing) as caught:
        download(address, folder, 1 << 20, "toy: file", print)
    return str(caught.value)


def test_permanent_failures_are_named_and_not_tried_again(server, tmp_path):
    server.files["/loop"] = b""
    assert reason(f"{server.url}/loop", tmp_path) == "Exceeded 30 redirects."
    assert len(server.asked) == 31
    server.files["/malformed"] = b""
    assert reason(f"{server.url}/malformed", tmp_path) == "Invalid IPv6 URL"
    assert ask(f"{server.url}/malformed") == Answer(False, "Invalid IPv6 URL")
    assert "99999" in reason("http://127.0.0.1:99999/file", tmp_path)
    assert "ftp://" in reason("ftp://127.0.0.1/file", tmp_path)
    assert reason(server.url.replace("http:", "https:"), tmp_path).startswith("no secure connection (")


def test_servers_say_how_long_to_wait(server, tmp_path, monkeypatch):
    waited = []
    monkeypatch.setattr(download_module.time, "sleep", waited.append)
    server.headers, server.refusals = {"Retry-After": "7"}, [503, 429]
    assert get(server, tmp_path) == CONTENT
    server.headers, server.refusals = {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, [503]
    for name in ("2", "3"):
        (tmp_path / name).mkdir()
    assert get(server, tmp_path / "2") == CONTENT
    assert waited == [7.0, 7.0, 0.0]
    server.headers, server.refusals = {"Retry-After": "3600"}, [429]
    assert reason(f"{server.url}/file", tmp_path / "3") == "HTTP status 429, to be asked again in 3,600 s"
    assert len(waited) == 3


def test_the_proxy_is_named_without_its_password(tmp_path, monkeypatch):
    monkeypatch.setattr(download_module, "TRIES", 1)
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("HTTP_PROXY", "http://me:secret@127.0.0.1:9")
    for name in ("no_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    expected = "no connection by the proxy http://127.0.0.1:9 (Connection refused)"
    assert reason("http://localhost/file", tmp_path) == expected


def test_a_mirror_may_answer_with_a_page_to_other_names(server, tmp_path):
    page = b"<!DOCTYPE html><html></html>"
    server.files |= {"/toy/toy.txt": page, "/toy/toy.txt.xz": page, "/toy/toy.txt.bz2": bz2.compress(TEXT)}
    assert prepare(entry_of(), Sources(tmp_path / "1", (server.url,))).X.shape == (4, 2)
    del server.files["/toy/toy.txt.bz2"]
    with pytest.raises(DataError, match="got an HTML page"):
        prepare(entry_of(), Sources(tmp_path / "2", (server.url,)))


def test_weak_tags_are_no_version(server, tmp_path):
    server.tag, server.most = 'W/"one"', [100_000]
    assert get(server, tmp_path) == CONTENT
    assert server.ranges_asked == [None, None]


def test_all_bytes_may_have_come_before(server, tmp_path, monkeypatch):
    (path,) = [download(f"{server.url}/file", tmp_path, 1 << 20, "toy: file", print)]
    assert path.stat().st_size == len(CONTENT)
    assert get(server, tmp_path) == CONTENT, "after the answer 416, all of it is asked for"
    assert server.ranges_asked == [None, f"bytes={len(CONTENT)}-", None]


def test_a_file_above_the_limit_is_not_kept(server, tmp_path):
    server.files["/file"] = bytes(3 << 20)
    with pytest.raises(DataError, match="at most 1,000 bytes"):
        get(server, tmp_path, limit=1000)
    assert list(tmp_path.iterdir()) == []


def test_a_prepared_dataset_leaves_nothing_of_its_transfers(server, tmp_path, monkeypatch):
    server.files |= {"/broken": TEXT, "/good": TEXT}
    monkeypatch.setattr(download_module, "TRIES", 1)
    server.most = [20]
    sources = Sources(tmp_path)
    data = prepare(entry_of(f"{server.url}/broken", f"{server.url}/good"), sources)
    assert data.manifest["files"][0]["source"] == f"{server.url}/good", "addresses are tried in turn"
    assert {path.name for path in (tmp_path / "toy" / "raw").iterdir()} == {"toy.txt", ".toy.txt.json"}


# ------------------------------------------------------------------------------------------ archives


def zipped(files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


@pytest.mark.parametrize("packed", [TEXT, gzip.compress(TEXT)], ids=["plain", "gz inside"])
def test_members_of_zip_archives_are_read(server, tmp_path, packed):
    server.files["/a.zip"] = zipped({"folder/": b"", "folder/readme": b"hello", "folder/toy.dat": packed})
    assert prepare(entry_of(f"{server.url}/a.zip", member="toy.dat"), Sources(tmp_path)).X.shape == (4, 2)


def test_an_address_may_serve_the_member_itself(server, tmp_path):
    server.files["/toy.dat.gz"] = gzip.compress(TEXT)
    entry = entry_of(f"{server.url}/away.zip", f"{server.url}/toy.dat.gz", member="toy.dat.gz")
    assert prepare(entry, Sources(tmp_path)).X.shape == (4, 2)


def tarred(files, mode="w"):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


@pytest.mark.parametrize("packed", [zipped, tarred])
def test_the_exact_path_of_a_member_is_preferred(server, tmp_path, packed):
    files = {"backup/toy.dat": b"other", "old/data/toy.dat": b"other", "data/toy.dat": TEXT}
    server.files["/a"] = packed(files)
    assert prepare(entry_of(f"{server.url}/a", member="data/toy.dat"), Sources(tmp_path / "1")).X.shape == (4, 2)
    with pytest.raises(DataError, match=r"toy\.dat in the archive, found 3: backup/toy\.dat, old/data/toy"):
        prepare(entry_of(f"{server.url}/a", member="toy.dat"), Sources(tmp_path / "2"))
    with pytest.raises(DataError, match=r"else\.dat in the archive, found none; it has backup/toy\.dat"):
        prepare(entry_of(f"{server.url}/a", member="else.dat"), Sources(tmp_path / "3"))
    for number, path in enumerate(("toy.dat", "./toy.dat", "/toy.dat"), 4):
        server.files["/a"] = packed(files | {path: TEXT})
        entry = entry_of(f"{server.url}/a", member="toy.dat")
        assert prepare(entry, Sources(tmp_path / str(number))).X.shape == (4, 2)


def test_a_zip_archive_without_its_end_is_damaged(server, tmp_path):
    server.files["/a.zip"] = zipped({"toy.dat": TEXT})[:-30]
    with pytest.raises(DataError, match="the archive is truncated or damaged"):
        prepare(entry_of(f"{server.url}/a.zip", member="toy.dat", known=False), Sources(tmp_path))


@pytest.mark.parametrize("member", ["toy.dat", None])
def test_an_archive_that_is_not_unpacked_is_no_data(tmp_path, member):
    pyarrow = pytest.importorskip("pyarrow")
    path = tmp_path / "toy.tar.zst"
    path.write_bytes(pyarrow.compress(tarred({"toy.dat": TEXT}), "zstd", asbytes=True))
    with pytest.raises(DataError, match=r"toy\.tar\.zst: expected data, got a \.zip or \.tar archive"):
        prepare(entry_of(path.as_uri(), member=member, known=False), Sources(tmp_path))
    (tmp_path / "toy.zip").write_bytes(zipped({"toy.csv": b"a,label\n1,2\n"}))
    own = load_catalogue({"mine": {"source": {"csv": str(tmp_path / "toy.zip"), "label": "label"}}})["mine"]
    with pytest.raises(DataError, match=r"toy\.zip: expected data, got a \.zip or \.tar archive"):
        prepare(own, Sources(tmp_path))


@pytest.mark.parametrize("damage", ["truncated", "changed", "other member", "huge"])
def test_bad_zip_archives_are_errors(server, tmp_path, damage):
    files = {"toy.dat" if damage != "other member" else "else.dat": bytes(3 << 20) if damage == "huge" else TEXT * 40}
    content = bytearray(zipped(files))
    if damage == "truncated":
        del content[60:90]
    if damage == "changed":
        content[45:60] = bytes(15)
    server.files["/a.zip"] = bytes(content)
    expected = {"other member": "found none", "huge": "at most .* got 3,145,728"}.get(damage, "truncated or damaged")
    with pytest.raises(DataError, match=expected):
        prepare(entry_of(f"{server.url}/a.zip", member="toy.dat"), Sources(tmp_path))


def test_no_address_of_the_catalogue_is_an_archive_without_member():
    for entry in load_catalogue().values():
        for form in entry.forms:
            for file in form.all_files:
                archives = [url for url in file.urls if re.search(r"\.(zip|tar|tgz|tar\.gz)$", url)]
                assert not archives or file.member, (entry.name, archives)


# ------------------------------------------------------------------------------------------ asking, showing


def test_asking_takes_one_byte(server):
    found = ask(f"{server.url}/file")
    assert (found.good, found.text, found.size, found.resumes) == (True, "ok", len(CONTENT), True)
    assert server.ranges_asked == ["bytes=0-0"]
    server.range = "bytes {}-{}/*"
    assert ask(f"{server.url}/file") == Answer(True, "ok", None, resumes=True)
    server.range = ""
    assert ask(f"{server.url}/file") == Answer(False, "HTTP 206 without the range that was asked for")
    server.headers = {"Content-Encoding": "br"}
    assert ask(f"{server.url}/file") == Answer(False, "encoded as br, which was not asked for")
    server.headers, server.ranges, server.tag = {}, False, ""
    found = ask(f"{server.url}/file")
    assert (found.good, found.size, found.resumes) == (True, len(CONTENT), False)
    server.kind = "text/html; charset=utf-8"
    assert ask(f"{server.url}/file").text == "an HTML page"
    assert ask(f"{server.url}/else").text == "HTTP 404"
    assert ask("http://127.0.0.1:9/file").text == "no connection (Connection refused)"
    assert "label empty" in ask("http://a..b/file").text
    server.kind, server.files["/empty"], server.files["/none"] = "text/plain", b"", b""
    assert ask(f"{server.url}/none").text == "HTTP 204"
    assert ask(f"{server.url}/empty").text in ("an empty file", "HTTP 416")
    server.ranges = False
    assert ask(f"{server.url}/empty").text == "an empty file"


CATALOGUE = """
datasets:
  one:
    title: Two addresses
    format: svmlight
    files: [{{name: one.txt, urls: ["{url}/away", "{url}/file"]}}]
    n_samples: 4
    n_features: 2
    positive: [1]
    scaling: none
  two:
    base: one
    title: The same file
  three:
    base: one
    title: Only one address
    files: [{{name: three.txt, urls: ["{url}/gone"]}}]
"""


def test_check_links_asks_each_address_once(server, command, tmp_path):
    (tmp_path / "mine.yaml").write_text(CATALOGUE.format(url=server.url))
    done = command("data", "check-links", "one", "two", "--catalogue", "mine.yaml", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    rows = [re.split(r" {2,}", line.strip()) for line in done.stdout.splitlines()[2:4]]
    assert rows == [
        ["one", "HTTP 404", f"{server.url}/away"],
        ["one", "ok", "0.6 MB", "yes", f"{server.url}/file"],
    ]
    assert done.stdout.splitlines()[-1] == "1 of 2 addresses answer"
    assert sorted(path for path, _ in server.asked) == ["/away", "/file"]
    done = command("data", "check-links", "one", "three", "--catalogue", "mine.yaml", cwd=tmp_path, exits=3)
    assert done.stdout.splitlines()[-2:] == ["1 of 3 addresses answer", "no address answers for three three.txt"]


def test_check_links_of_datasets_without_addresses(command, tmp_path):
    done = command("data", "check-links", "wine", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "these need no http address\n")
    done = command("data", "check-links", "ecml2012", "wine", cwd=tmp_path, exits=3)
    assert re.fullmatch(r"no address is known of ecml2012 \S.*\n", done.stdout)


def test_a_terminal_shows_a_bar(server, tmp_path, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert get(server, tmp_path, notify=terminal.say) == CONTENT
    assert "toy: file" in screen.getvalue()
    assert "512.0/512.0 kB" in screen.getvalue()
    monkeypatch.setenv("TERM", "dumb")
    assert terminal.say.bar("toy", 0, 0) is None


def test_tar_archives_are_still_read(server, tmp_path):
    server.files["/a.tar.gz"] = tarred({"a/toy.dat": TEXT}, "w:gz")
    assert prepare(entry_of(f"{server.url}/a.tar.gz", member="toy.dat"), Sources(tmp_path)).X.shape == (4, 2)


def test_each_wait_is_twice_as_long_as_the_one_before(server, tmp_path, monkeypatch):
    waited = []
    monkeypatch.setattr(download_module.time, "sleep", waited.append)
    monkeypatch.setattr(download_module, "WAIT", 1.0)
    server.refusals = [503, 503]
    assert get(server, tmp_path) == CONTENT
    assert waited == [1.0, 2.0]


def test_a_file_that_is_said_to_be_above_the_limit_is_refused_before_it_has_come(server, tmp_path):
    server.files["/file"], server.most = bytes(3 << 20), [10] * 3
    with pytest.raises(DataError, match="at most 1,000 bytes"):
        get(server, tmp_path, limit=1000)
    assert len(server.asked) == 1
