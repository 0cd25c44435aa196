"""The files of the page as a browser gets them: ours from this package, uPlot's from the wheel that carries it.

uPlot comes from the registries in the wheel ``youplot``, of which no code is run: two of its files are read and served,
and only if they are, to the byte, what uPlot's authors published. The page tells the browser the same digests.
"""

from __future__ import annotations

import gzip
from base64 import b64encode
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b, sha384
from importlib.resources import files
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path
from typing import Final

MEDIA_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
UPLOT: Final = {
    "uplot.js": ("uplot.iife.min.js", "sha384-XMP23k7YSCFr13Xrkxh4IO0v1W+8fB6AP+3Vycxphp2Z0V2vocAZHyuGaFCysrtM"),
    "uplot.css": ("uplot.min.css", "sha384-IfV0B7MIOYuO95kO9G5ySKPz/85zqFNOAs8iy4tkK5zd9izhJAB8b7lHrwYqqmYE"),
}
"""uPlot 1.6.31: what we call a file, its name in the wheel, and the digest of the published one."""
_LEAST_TO_COMPRESS: Final = 500


@dataclass(frozen=True, slots=True)
class Asset:
    """One file. ``packed`` is the same with gzip, None where that gains nothing."""

    body: bytes
    packed: bytes | None
    media_type: str
    etag: str


def asset(name: str, body: bytes) -> Asset:
    """A file of that name with that content."""
    packed = gzip.compress(body, mtime=0) if len(body) >= _LEAST_TO_COMPRESS else None
    suffix = "." + name.rpartition(".")[2]
    return Asset(body, packed, MEDIA_TYPES[suffix], f'W/"{blake2b(body, digest_size=12).hexdigest()}"')


@cache
def assets() -> dict[str, Asset]:
    """Every file by its path below ``/web/``, and the page itself as ``index.html``. Read once."""
    found = {name: asset(name, body) for name, body in sorted(_own(files(__package__) / "static", ""))}
    for name, (theirs, digest) in UPLOT.items():
        body = _of_the_wheel(theirs, digest)
        if body is not None:
            found[name] = asset(name, body)
    page = found["index.html"].body.decode()
    modules = "".join(f'<link rel="modulepreload" href="web/{name}">\n' for name in found if name.startswith("js/"))
    for name, (_, digest) in UPLOT.items():
        page = page.replace(f"{{{{{name}}}}}", digest)
    found["index.html"] = asset("index.html", page.replace("{{modules}}\n", modules).encode())
    return found


def _own(folder: Traversable, above: str) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for each in folder.iterdir():
        name = f"{above}{each.name}"
        if each.is_dir():
            found += _own(each, f"{name}/")
        elif "." + name.rpartition(".")[2] in MEDIA_TYPES:
            found.append((name, each.read_bytes()))
    return found


def _of_the_wheel(name: str, digest: str) -> bytes | None:
    """The file as published; None where the wheel is not installed, or holds another. Imports nothing of it."""
    spec = find_spec("youplot")
    if spec is None or not spec.submodule_search_locations:
        return None
    path = Path(spec.submodule_search_locations[0]) / "vendor" / name
    body = path.read_bytes() if path.is_file() else b""
    return body if digest == f"sha384-{b64encode(sha384(body).digest()).decode()}" else None
