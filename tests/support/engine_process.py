"""An engine as a process: it listens on HOST PORT, answers with the recorded pages of FOLDER in turn, and has a worker.

The worker is a child like a real engine's; it ends with its parent, however that ends. The first line of output is its pid. Then
it waits for a line of input, so that whoever shows it can do so before it listens, and says so by a second line.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path


def main(host: str, port: int, folder: Path) -> None:
    ours, theirs = os.pipe()
    worker = os.fork()
    if worker == 0:
        os.close(theirs)
        os.read(ours, 1)  # nothing is ever written: it returns once the parent is gone
        os._exit(0)
    pages = [gzip.decompress(path.read_bytes()) for path in sorted(folder.glob("*.prom.gz"))]
    asked = 0

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            nonlocal asked
            body = pages[min(asked, len(pages) - 1)]
            asked += 1
            self.send_response(200)
            self.send_header("content-type", "text/plain")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            with contextlib.suppress(ConnectionError):  # who asked has gone
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    class Server(HTTPServer):
        allow_reuse_address = True

    sys.stdout.write(f"{worker}\n")
    sys.stdout.flush()
    sys.stdin.readline()
    server = Server((host, port), Handler)
    sys.stdout.write("listening\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
