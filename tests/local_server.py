"""A web server on the loopback."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextlib.contextmanager
def served(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    """The address of a server; ``answer`` gets each request."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            with contextlib.suppress(OSError):  # the client is gone
                answer(self)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
