"""Hooks of mkdocs: the site has to contain the files of the repository that pages of docs/ link to."""

import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
_FOLDER = "repository"
_LINK = re.compile(r"\]\(\.\./([^)#]+)")


def on_files(files, config):
    """Add the files of the repository that pages link to."""
    pages = [
        Path(file.abs_src_path).read_text(encoding="utf-8") for file in files.documentation_pages() if _is_at_top(file)
    ]
    for path in sorted({path for page in pages for path in _LINK.findall(page)}):
        files.append(File.generated(config, _address(path), abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown, page, config, files):
    """Let links to files of the repository point to the copies in the site."""
    return _LINK.sub(lambda link: f"]({_address(link[1])}", markdown) if _is_at_top(page.file) else markdown


def _is_at_top(file: File) -> bool:
    """Whether `..` of a page leads out of docs/."""
    return "/" not in file.src_uri


def _address(path: str) -> str:
    """Address of a file of the repository; Markdown is shown as it is written, because its own links lead elsewhere."""
    return f"{_FOLDER}/{path}.txt" if path.endswith(".md") else f"{_FOLDER}/{path}"
