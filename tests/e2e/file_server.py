"""A web server of one file, with the failings that are asked of it; and one that plays a model hub."""

import hashlib
import http.server
import json
import random
import re
import socket
import threading
import time

CHUNK = 16 * 1024


class Server:
    """Of these bytes, at any path; on a free port of loopback or where `listener` is."""

    def __init__(self, data, listener=None):
        self.data = data
        self.sent = 0
        self.requests = 0
        self.no_range = False      # 200 and the whole file
        self.other_range = False   # 206 and other bytes than were asked for
        self.truncate = 0.0        # probability that a reply breaks off half-way
        self.stall_once = set()    # numbers of requests that stop for ever after a first piece
        self.redirect = False
        self.delay = 0.0           # seconds before every piece
        self.most = None           # bytes sent in all, then every reply waits
        self.status = 0            # instead of any answer: 404, 416
        self.redirect_for_ever = False
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                outer.answer(self)

            def do_HEAD(self):
                data = outer.bytes_of(self.path)
                self.send_response(404 if data is None else 200)
                self.send_header("Content-Length", str(len(data or b"")))
                for name, value in outer.headers_of(self.path).items():
                    self.send_header(name, value)
                self.end_headers()

        listener = listener or socket.create_server(("127.0.0.1", 0))
        self.httpd = http.server.ThreadingHTTPServer(listener.getsockname(), Handler,
                                                     bind_and_activate=False)
        self.httpd.socket.close()
        self.httpd.socket = listener
        self.httpd.daemon_threads = True
        self.httpd.handle_error = lambda *_: None  # a killed client is no news
        self.lock = threading.Lock()
        self.random = random.Random(11)
        self.stopping = threading.Event()
        # Looks as often whether it is to end: close() waits for that.
        threading.Thread(target=self.httpd.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.httpd.socket.getsockname()[1]}/model.gguf"

    def bytes_of(self, path):
        """Those at a path; None: there are none."""
        return self.data

    def headers_of(self, path):
        """What the answer to a HEAD says beside the length."""
        return {}

    def close(self):
        self.stopping.set()
        self.httpd.shutdown()
        self.httpd.server_close()

    def answer(self, request):
        if self.status:
            with self.lock:
                self.requests += 1
            return self.head(request, self.status, 0)
        if self.redirect_for_ever or (self.redirect and not request.path.startswith("/moved")):
            request.send_response(302)
            request.send_header("Location", "/moved" + request.path)
            request.send_header("Content-Length", "0")
            return request.end_headers()
        with self.lock:
            self.requests += 1
            number = self.requests
        data = self.bytes_of(request.path)
        if data is None:
            return self.head(request, 404, 0)
        # A range may be open: bytes=100-.
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", request.headers.get("Range", ""))
        begin, end = (int(wanted[1]), int(wanted[2] or len(data) - 1) + 1) if wanted else (0, 0)
        if self.no_range or not wanted:
            begin, end = 0, len(data)
            self.head(request, 200, end)
        else:
            shift = 1 if self.other_range else 0
            self.head(request, 206, end - begin,
                      f"bytes {begin + shift}-{end - 1 + shift}/{len(data)}")
        try:
            self.body(request, number, data, begin, end)
        except OSError:
            request.close_connection = True

    def head(self, request, status, length, content_range=None):
        request.send_response(status)
        request.send_header("Content-Length", str(length))
        if content_range:
            request.send_header("Content-Range", content_range)
        request.end_headers()

    def body(self, request, number, data, begin, end):
        with self.lock:
            breaks = self.random.random() < self.truncate
            at_most = self.random.randrange(end - begin) if breaks else end - begin
        stop = begin + at_most
        while begin < stop:
            piece = data[begin:min(begin + CHUNK, stop)]
            if self.delay:
                time.sleep(self.delay)
            while self.most is not None and self.sent >= self.most:
                if self.stopping.wait(0.001):
                    return
            request.wfile.write(piece)
            with self.lock:
                self.sent += len(piece)
            begin += len(piece)
            if number in self.stall_once:
                self.stopping.wait()
                break
        if begin < end:
            request.close_connection = True


class Hub(Server):
    """The hub of one repository, org/repo-GGUF: its list of files, and each of them with the headers
    that say its digest, its length and the commit. `files`: bytes by path."""

    def __init__(self, files):
        super().__init__(b"")
        self.files = files

    @property
    def endpoint(self):
        return self.url.removesuffix("/model.gguf")

    def bytes_of(self, path):
        if path == "/api/models/org/repo-GGUF/tree/main?recursive=true":
            return json.dumps([{"type": "file", "path": name, "size": len(data)}
                               for name, data in self.files.items()]).encode()
        found = re.fullmatch(r"/org/repo-GGUF/resolve/(main|c0ffee)/(.*)", path)
        return self.files.get(found[2]) if found else None

    def headers_of(self, path):
        data = self.bytes_of(path)
        if data is None:
            return {}
        return {"X-Linked-Etag": f'"{hashlib.sha256(data).hexdigest()}"',
                "X-Linked-Size": str(len(data)), "X-Repo-Commit": "c0ffee"}
