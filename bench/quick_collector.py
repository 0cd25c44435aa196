"""A collector that answers at once and stores nothing, for measuring what the agent costs. Prints its port."""

from __future__ import annotations

import socket
import threading

BODY = b'{"accepted":1,"rejected":0,"reasons":[],"duplicate":false}'
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY)


def serve(connection: socket.socket) -> None:
    """Answer every request on one connection."""
    with connection, connection.makefile("rb") as stream:
        while stream.readline():
            length = 0
            while (line := stream.readline()) not in (b"\r\n", b""):
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            stream.read(length)
            connection.sendall(ANSWER)


def main() -> None:
    """Listen on a port of its own until killed."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        print(server.getsockname()[1], flush=True)
        while True:
            connection, _ = server.accept()
            threading.Thread(target=serve, args=(connection,), daemon=True).start()


if __name__ == "__main__":
    main()
