"""What strangers find at the ports of a running swarm, and who may join it."""

import os
import pathlib
import socket
import ssl
import stat
import subprocess
import tempfile
import unittest

import stranger
import swarm


def ports_of(s):
    """The two ports that other machines would dial: control and data."""
    return [int(s.info[name].rsplit(":", 1)[1]) for name in ("control", "data")]


def ask(port, said):
    """What a port answers to bytes until it hangs up."""
    with socket.create_connection(("127.0.0.1", port), timeout=swarm.PATIENCE_S) as link:
        try:
            link.sendall(said)
            link.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # hung up on already; what it said may still be read
        answer = b""
        while True:
            try:
                part = link.recv(4096)
            except OSError:
                return answer
            if not part:
                return answer
            answer += part


def prompt_works(test, s):
    code, out, err = swarm.hearth("run", s.model, "Say hi", "-n", "4", "--temp", "0", "--host",
                                  s.api)
    test.assertEqual(code, 0, err)
    test.assertTrue(out)


class Strangers(unittest.TestCase):
    def test_plaintext_is_answered_with_an_alert_at_most(self):
        with swarm.Swarm(2) as s:
            for port in ports_of(s):
                for said in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                             b"HRT2" + bytes(12), os.urandom(5000), b"\x16\x03\x01\x02\x00", b""):
                    answer = ask(port, said)
                    self.assertLessEqual(len(answer), 7, answer)
                    self.assertTrue(not answer or answer[0] == 21, answer)
            prompt_works(self, s)

    def test_tls_without_a_certificate_or_below_1_3_gets_no_further(self):
        with swarm.Swarm(2) as s:
            for port in ports_of(s):
                for newest in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
                    with self.assertRaises((ssl.SSLError, ConnectionResetError)):
                        with socket.create_connection(("127.0.0.1", port),
                                                      swarm.PATIENCE_S) as link:
                            with stranger.context(newest).wrap_socket(link) as tls:
                                tls.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
                                if tls.recv(1) == b"":
                                    raise ConnectionResetError
            prompt_works(self, s)


class Identity(unittest.TestCase):
    def test_keys_are_for_their_owner_alone_and_a_wider_mode_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            with swarm.Swarm(1, data_dir=folder) as s:
                secrets = [path for path in pathlib.Path(folder).rglob("*")
                           if path.suffix in (".key", ".token") or path.name == "roster"]
                self.assertGreaterEqual(len(secrets), 5, secrets)
                for path in secrets:
                    self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600, path)
                self.assertNotIn("secret", s.read_log())
            self.assertFalse(pathlib.Path(folder, "local.token").exists())
            key = pathlib.Path(folder, "cluster.key")
            before = key.read_bytes()
            key.chmod(0o640)
            code, _, err = swarm.hearth("serve", "--model", swarm.MODEL, "--data-dir", folder,
                                        "--port", "0")
            self.assertEqual(code, 1)
            self.assertIn(f"chmod 600 {key}", err)
            key.chmod(0o600)
            with swarm.Swarm(1, data_dir=folder) as s:
                prompt_works(self, s)
            self.assertEqual(key.read_bytes(), before)

    def test_a_worker_of_another_server_is_not_let_in(self):
        with swarm.Swarm(0, "--stages", "1", ready=False) as ours, \
                swarm.Swarm(0, "--stages", "1", ready=False) as other:
            log = pathlib.Path(ours.data_dir, "worker.log")
            with open(log, "wb") as out:
                worker = subprocess.Popen([swarm.HEARTH, "worker", "--model", swarm.MODEL,
                                           "--coordinator", ours.info["control"], "--name", "spy",
                                           "--data-dir", str(other.data_dir)],
                                          stdout=out, stderr=out)
            try:
                swarm.wait_until(lambda: "is not in the roster" in log.read_text(),
                                 "the refusal")
                self.assertEqual(ours.state()["nodes"], [])
            finally:
                worker.kill()
                worker.wait()

    def test_a_worker_without_a_server_says_what_to_do(self):
        with tempfile.TemporaryDirectory() as folder:
            code, _, err = swarm.hearth("worker", "--model", swarm.MODEL, "--coordinator",
                                        "127.0.0.1:9", "--data-dir", folder)
            self.assertEqual(code, 3, err)
            self.assertIn("--data-dir", err)


if __name__ == "__main__":
    swarm.main()
