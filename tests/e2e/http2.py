"""HTTP/2 over TLS by hand, for saying what no library would say: frames as the test wants them, with
the certificate of a key file.
"""

import select
import socket
import ssl
import struct
import subprocess
import time

import stranger
import swarm

DATA, HEADERS, RESET, SETTINGS, PING, GO_AWAY, CONTINUATION = 0, 1, 3, 4, 6, 7, 9
END_STREAM = ACK = 1
END_HEADERS = 4
SERVICE = "/hearth.control.v1.Control/"


def frame(kind, flags, stream, payload=b""):
    return (struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) +
            struct.pack(">I", stream) + payload)


def length_of(size):
    """The length of a string in a header block (RFC 7541, 5.1)."""
    if size < 127:
        return bytes([size])
    size -= 127
    out = b"\x7f"
    while size >= 128:
        out += bytes([size % 128 | 128])
        size //= 128
    return out + bytes([size])


def header(name, value):
    """One header, in clear and not to be remembered."""
    return b"\x00" + b"".join(length_of(len(text)) + text.encode() for text in (name, value))


def request(method):
    return b"".join(header(*one) for one in (
        (":method", "POST"), (":scheme", "https"), (":path", SERVICE + method),
        (":authority", "x"), ("te", "trailers"), ("content-type", "application/grpc")))


def message(body=b"", declared=None):
    return b"\0" + struct.pack(">I", len(body) if declared is None else declared) + body


def identity(intruder, key, path):
    """A file of certificate and key, for a key file or (-) for a new key."""
    subprocess.run([intruder, "identity", key, path], check=True, timeout=swarm.PATIENCE_S)
    return str(path)


class Connection:
    """A connection to a control port, from a source address of this machine's loopback network. It
    answers pings: who does not is hung up on after ten seconds, whatever else he does."""

    def __init__(self, address, pem, source="127.0.0.1", settings=b"", after=None):
        """`after`: a connection whose session is to be taken up again."""
        host, port = address.rsplit(":", 1)
        self.tls = after.tls if after else stranger.context()
        self.tls.load_cert_chain(pem)
        self.reads = True  # what comes, while it speaks
        self.closed = False
        self.received = b""
        self.whole = True  # no frame of ours is half-way
        self.frames = []  # those that came last: (kind, flags, stream)
        self.link = socket.create_connection((host, int(port)), swarm.PATIENCE_S, (source, 0))
        try:
            self.link = self.tls.wrap_socket(self.link, session=after.link.session if after else None)
        except OSError:
            self.link.close()
            raise
        self.link.setblocking(False)
        self.say(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0, settings))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.link.close()

    def take(self):
        """What has come; notices the end."""
        while not self.closed:
            try:
                part = self.link.recv(65536)
            except ssl.SSLWantReadError:
                break
            except OSError:
                part = b""
            self.closed = not part
            self.received += part
        while len(self.received) >= 9:
            size = 9 + int.from_bytes(self.received[:3], "big")
            if len(self.received) < size:
                break
            kind, flags = self.received[3], self.received[4]
            stream, body = int.from_bytes(self.received[5:9], "big"), self.received[9:size]
            self.frames = self.frames[-99:] + [(kind, flags, stream)]
            self.received = self.received[size:]
            if kind == PING and not flags & ACK and self.whole and not self.closed:
                self._answer(body)

    def _answer(self, ping):
        try:
            self.link.send(frame(PING, ACK, 0, ping))
        except OSError:
            self.closed = True

    def say(self, data, seconds=5.0):
        """False when the other side has ended it, or takes nothing any more."""
        rest, until = memoryview(data), time.monotonic() + seconds
        self.whole = False
        while rest and not self.closed and time.monotonic() < until:
            if self.reads:
                self.take()
            try:
                rest = rest[self.link.send(rest[:65536]):]
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                select.select([self.link] if self.reads else [], [self.link], [], 0.1)
            except OSError:
                self.closed = True
        self.whole = not rest
        return self.whole and not self.closed

    def wait(self, seen, seconds=swarm.PATIENCE_S):
        """Until a frame is there for which `seen` holds."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.take()
            if any(seen(*one) for one in self.frames):
                return True
            if self.closed:
                return False
            select.select([self.link], [], [], 0.1)
        return False

    def wait_end(self, seconds=swarm.PATIENCE_S):
        self.wait(lambda *_: False, seconds)
        return self.closed

    def ask(self, method, body=b"", stream=1):
        """Whether a call is answered to its end."""
        self.say(frame(HEADERS, END_HEADERS, stream, request(method)) +
                 frame(DATA, END_STREAM, stream, message(body)))
        return self.wait(lambda kind, flags, at: kind == HEADERS and flags & END_STREAM and
                         at == stream)
