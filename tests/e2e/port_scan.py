"""port_scan.py HOST: connects to every TCP port of a host, and says to those that are open what a
stranger might: nothing, noise, HTTP of every kind without a key, and TLS without a certificate.
Prints JSON: of each open port, what each saying was answered, as hexadecimal digits; "TLS": the
application data that came back. Run on another machine of a test's wire.
"""

import json
import os
import selectors
import socket
import sys

import stranger

AT_ONCE = 500


def http(line, *headers, body=b"", host=True):
    fields = ([f"Host: {sys.argv[1]}"] if host else []) + list(headers)
    return "\r\n".join([line + " HTTP/1.1", *fields, "", ""]).encode() + body


PREFLIGHT = ("Origin: http://localhost:3000", "Access-Control-Request-Method: POST",
             "Access-Control-Request-Headers: authorization")


def sayings():
    """By name."""
    return {
        "nothing": b"",
        "noise": os.urandom(600),
        "another Host": http("GET /", "Host: x", host=False),
        "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "a frame of our own": b"HRT2" + bytes(64),
        "half a head": b"GET / HTTP/1.1\r\nHost:",
        "a head that folds": http("GET /livez", "X: a\r\n b"),
        "a NUL": http("GET /livez", "X: \0"),
        "HTTP/1.0": b"GET /livez HTTP/1.0\r\n\r\n",
        "HTTP/3.7": b"GET /livez HTTP/3.7\r\n\r\n",
        "no Host": http("GET /livez", host=False),
        "two Hosts": http("GET /livez", "Host: localhost"),
        "a rebinding Host": http("GET /v1/models", "Host: evil.example", host=False),
        "a foreign Origin": http("GET /v1/models", "Origin: http://evil.example"),
        "an allowed Origin": http("GET /v1/models", "Origin: app://page"),
        "a preflight": http("OPTIONS /v1/chat/completions", *PREFLIGHT),
        "a shell's preflight": http("OPTIONS /v1/models", "Origin: app://page", *PREFLIGHT[1:]),
        "a foreign preflight": http("OPTIONS /v1/models", "Origin: http://evil.example",
                                    *PREFLIGHT[1:]),
        "options": http("OPTIONS *"),
        "liveness": http("GET /livez"),
        "HEAD": http("HEAD /livez"),
        "readiness": http("GET /readyz"),
        "models": http("GET /v1/models"),
        "an admin's route": http("GET /api/v1/state"),
        "metrics": http("GET /metrics"),
        "a wrong path": http("GET /wp-admin"),
        "a broken path": http("GET /%zz"),
        "a wrong method": http("DELETE /v1/models"),
        "an unknown method": http("BREW /"),
        "a long target": http("GET /" + "a" * 10_000),
        "a large header": http("GET /livez", "X: " + "a" * 1_000_000),
        "many headers": http("GET /livez", *["X: y"] * 10_000),
        "a large body": http("POST /v1/chat/completions", "Content-Length: 9000000"),
        "a body": http("POST /v1/completions", "Content-Type: application/json",
                       "Content-Length: 2", body=b"{}"),
        "a body of no length": http("POST /v1/completions"),
        "two lengths": http("POST /v1/completions", "Content-Length: 2",
                            "Transfer-Encoding: chunked", body=b"{}"),
        "a wrong key": http("GET /v1/models", "Authorization: Bearer hk1.0.0"),
        "two keys": http("GET /v1/models", "Authorization: Bearer a", "Authorization: Bearer b"),
        "several at once": http("GET /livez") + http("GET /wp-admin") + http("OPTIONS *"),
    }


def open_ports(host):
    found, waiting = [], selectors.DefaultSelector()
    ports = iter(range(1, 65536))
    under_way = 0
    while True:
        while under_way < AT_ONCE:
            port = next(ports, None)
            if port is None:
                break
            link = socket.socket()
            link.setblocking(False)
            link.connect_ex((host, port))
            waiting.register(link, selectors.EVENT_WRITE, port)
            under_way += 1
        if under_way == 0:
            return found
        for key, _ in waiting.select(10):
            if key.fileobj.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
                found.append(key.data)
            waiting.unregister(key.fileobj)
            key.fileobj.close()
            under_way -= 1


def answer(host, port, said):
    with socket.create_connection((host, port), timeout=60) as link:
        heard = b""
        try:
            link.sendall(said)
            link.shutdown(socket.SHUT_WR)
            while len(heard) < 65536:
                part = link.recv(65536)
                if not part:
                    break
                heard += part
        except OSError:
            pass
        return heard


def told_over_tls(host, port):
    """What a client that begins TLS without a certificate is told."""
    heard = b""
    try:
        with socket.create_connection((host, port), timeout=60) as link, \
             stranger.context().wrap_socket(link) as held:
            held.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            heard = held.recv(65536)
    except OSError:
        pass
    return heard


def heard_at(host, port):
    heard = {name: answer(host, port, said).hex() for name, said in sayings().items()}
    heard["TLS"] = told_over_tls(host, port).hex()
    return heard


if __name__ == "__main__":
    at = sys.argv[1]
    print(json.dumps({port: heard_at(at, port) for port in open_ports(at)}))
