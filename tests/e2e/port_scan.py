"""port_scan.py HOST: connects to every TCP port of a host, and says several things to those that
are open. Prints JSON: of each open port, the longest answer as hexadecimal digits. Run on another
machine of a test's wire.
"""

import json
import os
import selectors
import socket
import sys

AT_ONCE = 500
SAYINGS = (b"", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
           b"HRT2" + bytes(64), os.urandom(600))


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
    with socket.create_connection((host, port), timeout=15) as link:
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


if __name__ == "__main__":
    at = sys.argv[1]
    print(json.dumps({port: max((answer(at, port, said) for said in SAYINGS), key=len).hex()
                      for port in open_ports(at)}))
