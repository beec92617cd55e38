"""A control link by hand (proto/link/control_links.h), for saying what no worker would say."""

import select
import socket
import ssl
import struct
import time

import stranger
import swarm

FIRST_BYTE = b"\x01"  # before the handshake
BATCH, CONTROL, PING, BEAT = 5, 7, 8, 12
FRAME_BYTES = 64 * 1024  # of a worker's message at most: limits::kControlWorkerBytes


def control_frame(payload, declared=None, kind=CONTROL):
    return struct.pack("<4sHHQ", b"HRT2", kind, 0,
                       len(payload) if declared is None else declared) + payload


class Link:
    """From a source address of this machine's loopback network, with the certificate of a file."""

    def __init__(self, address, pem, source="127.0.0.1"):
        host, port = address.rsplit(":", 1)
        tls = stranger.context()
        tls.set_alpn_protocols(["hearth/1"])
        tls.load_cert_chain(pem)
        self.closed = False
        self.link = socket.create_connection((host, int(port)), 10, (source, 0))
        try:
            self.link.sendall(FIRST_BYTE)
            self.link = tls.wrap_socket(self.link)
        except OSError:
            self.link.close()
            raise
        self.link.setblocking(False)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.link.close()

    def take(self):
        """Drops what has come; notices the end."""
        while not self.closed:
            try:
                self.closed = not self.link.recv(65536)
            except ssl.SSLWantReadError:
                return
            except OSError:
                self.closed = True

    def say(self, data, seconds=5.0):
        """False when the other side has ended it, or takes nothing any more."""
        rest, until = memoryview(data), time.monotonic() + seconds
        while rest and not self.closed and time.monotonic() < until:
            self.take()
            try:
                rest = rest[self.link.send(rest[:65536]):]
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                select.select([self.link], [self.link], [], 0.1)
            except OSError:
                self.closed = True
        return not rest and not self.closed

    def wait_end(self, seconds=swarm.PATIENCE_S):
        until = time.monotonic() + seconds
        while not self.closed and time.monotonic() < until:
            self.take()
            if not self.closed:
                select.select([self.link], [], [], 0.1)
        return self.closed
