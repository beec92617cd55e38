"""A terminal for the end-to-end tests: what a program writes there, and keys typed at it."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import threading

import swarm


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, *words, program=(swarm.HEARTH,), env=None, cwd=None, size=None):
        self.main, terminal = pty.openpty()
        if size is not None:  # rows, columns
            fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        self.process = subprocess.Popen(
            [*program, *words], cwd=cwd, stdin=terminal, stdout=terminal, stderr=terminal,
            env={**os.environ, "TERM": "xterm", "LC_ALL": "C", **(env or {})},
            preexec_fn=lambda: (os.setsid(), fcntl.ioctl(0, termios.TIOCSCTTY, 0)))
        os.close(terminal)
        self.seen = b""
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        try:
            while piece := os.read(self.main, 4096):
                self.seen += piece
        except OSError:
            pass

    def mode(self):
        return termios.tcgetattr(self.main)

    def type(self, data):
        os.write(self.main, data)

    def await_text(self, text, count=1):
        swarm.wait_until(lambda: self.seen.count(text) >= count,
                         f"{count} of {text!r} on the terminal")

    def command(self, line, answer):
        """Types a line at the prompt; what it prints must hold the answer."""
        begin = len(self.seen)
        self.type(line + b"\r")
        swarm.wait_until(lambda: answer in self.seen[begin:] and
                         self.seen[begin:].rfind(b">>> ") > self.seen[begin:].find(answer),
                         f"{answer!r} in {self.seen[begin:]!r}")

    def run(self, keys, answer, prompt):
        """Types keys; the answer must come, and a prompt after it. Escapes do not count."""
        begin = len(self.seen)

        def answered():
            plain = re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]|\r", b"", self.seen[begin:])
            return answer in plain and prompt in plain[plain.rfind(answer):]

        self.type(keys)
        swarm.wait_until(answered, f"{answer!r} and {prompt!r} on the terminal")

    def leave(self, test, words=b"/bye\r", code=0):
        self.type(words)
        test.assertEqual(self.process.wait(swarm.PATIENCE_S), code)
        # Before the close: the number may be another file's right after it.
        self.reader.join(swarm.PATIENCE_S)
        os.close(self.main)
