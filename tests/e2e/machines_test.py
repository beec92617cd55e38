"""A cluster of three machines, which are network namespaces on one wire: as a new user would make
it, and then without one of them. Exits 77 where namespaces are not permitted.
"""

import ipaddress
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import swarm

NETWORK = "10.83.0."


def ip(*words):
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")


class Wire:
    """A namespace with a bridge, and one namespace for each machine, joined to it."""

    def __init__(self, *machines):
        self.prefix = f"hearth-{os.getpid()}-"
        self.made = []
        try:
            self._make(machines)
        except OSError:
            self.cut()
            raise

    def _make(self, machines):
        hub = self._namespace("hub")
        ip("-n", hub, "link", "add", "wire", "type", "bridge")
        ip("-n", hub, "link", "set", "wire", "up")
        for number, machine in enumerate(machines, 1):
            space = self._namespace(machine)
            ip("-n", hub, "link", "add", machine, "type", "veth", "peer", "name", "eth0", "netns",
               space)
            ip("-n", hub, "link", "set", machine, "master", "wire", "up")
            ip("-n", space, "addr", "add", f"{NETWORK}{number}/24", "dev", "eth0")
            ip("-n", space, "link", "set", "eth0", "up")
            ip("-n", space, "link", "set", "lo", "up")

    def _namespace(self, name):
        ip("netns", "add", self.prefix + name)
        self.made.append(self.prefix + name)
        return self.prefix + name

    def cut(self):
        for space in self.made:
            subprocess.run(["ip", "netns", "del", space], capture_output=True)

    def words(self, machine, *words):
        return ["ip", "netns", "exec", self.prefix + machine, *map(str, words)]


class Machine:
    """One machine: its namespace, its data folder, and the process that runs there."""

    def __init__(self, wire, name, folder):
        self.wire, self.name = wire, name
        self.folder = pathlib.Path(folder, name)
        self.log_path = pathlib.Path(folder, name + ".log")
        self.process = None

    def environment(self):
        return {**os.environ, "HEARTH_DATA_DIR": str(self.folder)}

    def run(self, *words, timeout=60):
        done = subprocess.run(self.wire.words(self.name, swarm.HEARTH, *words),
                              capture_output=True, text=True, timeout=timeout,
                              env=self.environment())
        return done.returncode, done.stdout, done.stderr

    def start(self, *words):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.wire.words(self.name, swarm.HEARTH, *words),
                                            stdout=log, stderr=log, env=self.environment())

    def log(self):
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def stop(self, how=signal.SIGTERM):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(how)
            self.process.wait(15)

    def listening(self):
        """(host, port) of every listening TCP socket of the machine."""
        tables = subprocess.run(self.wire.words(self.name, "cat", "/proc/net/tcp",
                                                "/proc/net/tcp6"),
                                capture_output=True, text=True).stdout.splitlines()
        found = set()
        for line in tables:
            _, local, _, state = line.split()[:4]
            if state == "0A":
                host, port = local.split(":")
                words = [host[at:at + 8] for at in range(0, len(host), 8)]  # of 4 bytes, reversed
                raw = b"".join(bytes.fromhex(word)[::-1] for word in words)
                address = ipaddress.ip_address(raw)
                found.add((getattr(address, "ipv4_mapped", None) or address, int(port, 16)))
        return found


class Cluster(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.wire = Wire("home", "desk", "attic")
        self.home, self.desk, self.attic = self.machines = [
            Machine(self.wire, name, self.folder.name) for name in ("home", "desk", "attic")]

    def tearDown(self):
        for machine in self.machines:
            machine.stop(signal.SIGKILL)
        self.wire.cut()
        self.folder.cleanup()

    def good(self, machine, *words):
        code, out, err = machine.run(*words)
        self.assertEqual(code, 0, f"{words}: {err}")
        return out.strip()

    def serve(self):
        self.home.start("serve", "--model", swarm.MODEL, "--stages", "2")

    def ready(self):
        def asked():
            self.assertIsNone(self.home.process.poll(), self.home.log())
            return self.home.run("status", "--wait", "1")[0] == 0
        swarm.wait_until(asked, 60, "readiness")

    def names(self, machine):
        return {node["name"] for node in json.loads(self.good(machine, "nodes", "--json"))["nodes"]}

    def join(self, machine, token):
        machine.start("join", token, "--model", swarm.MODEL, "--name", machine.name)

    def test_init_join_run_remove_restart_leave(self):
        began = time.monotonic()
        said = self.good(self.home, "init", "testhome")
        self.assertLess(time.monotonic() - began, 3)
        self.assertRegex(said, r"(?s)testhome.*10\.83\.0\.1:11501.*next:\n"
                               r"  hearth serve [^\n]*\n  hearth token create$")
        self.serve()
        token = self.good(self.home, "token", "create", "--uses", "2")
        self.assertRegex(token, r"^hh1\.[0-9a-f]{32}\.[0-9a-f]{16}\.[\w-]{43}@10\.83\.0\.1:11501$")
        swarm.wait_until(lambda: self.home.run("status")[0] == 0, 30, "the server")
        self.join(self.desk, token)
        self.join(self.attic, token)
        self.ready()

        prompt = ("run", swarm.MODEL, "Count to five.", "-n", "12", "--temp", "0", "--seed", "1")
        answer = self.good(self.home, "run", self.model(), *prompt[2:])
        self.assertTrue(answer)
        self.assertEqual(answer, self.good(self.home, "run", "--local", *prompt[1:]))
        self.assertEqual(self.names(self.home), {"coordinator", "desk", "attic"})
        swarm.wait_until(lambda: self.names(self.desk) == {"coordinator", "desk", "attic"}, 10,
                         "the roster on the desk")

        with self.subTest("what listens"):
            beyond = [at for at in self.home.listening() if not at[0].is_loopback]
            self.assertEqual(len(beyond), 2, beyond)
            beyond = [at for at in self.desk.listening() if not at[0].is_loopback]
            self.assertEqual(len(beyond), 1, beyond)
            self.assertEqual({str(host) for host, _ in beyond}, {NETWORK + "2"})

        with self.subTest("removed"):
            self.good(self.home, "nodes", "rm", "attic")
            self.assertEqual(self.attic.process.wait(15), 5, self.attic.log())
            self.assertIn("removed from the cluster", self.attic.log())
            self.assertEqual(self.names(self.home), {"coordinator", "desk"})
            code, _, err = self.home.run("nodes", "rm", "attic")
            self.assertEqual(code, 1, err)
            code, _, _ = self.home.run("run", self.model(), "Hi", "-n", "1", timeout=30)
            self.assertEqual(code, 4, "one stage is missing")
            code, _, err = self.attic.run("worker", "--model", swarm.MODEL, timeout=60)
            self.assertEqual(code, 5, err)
            code, _, err = self.attic.run("join", token, "--model", swarm.MODEL, "--name", "attic")
            self.assertEqual(code, 1, err)
            self.assertNotIn(token.split("@")[0].rsplit(".", 1)[1],
                             self.home.log() + self.attic.log() + err)

        with self.subTest("with a new key and a new word it comes back"):
            self.assertEqual(self.attic.run("leave")[0], 5, "the coordinator knows it no more")
            self.good(self.attic, "leave", "--here-only")
            self.join(self.attic, self.good(self.home, "token", "create"))
            self.ready()

        with self.subTest("either side starts again"):
            before = json.loads(self.good(self.home, "nodes", "--json"))
            self.home.stop(signal.SIGKILL)
            self.serve()
            swarm.wait_until(lambda: self.home.run("status")[0] == 0, 30, "the server")
            self.ready()
            after = json.loads(self.good(self.home, "nodes", "--json"))
            self.assertEqual(after["nodes"], before["nodes"])
            self.assertGreater(after["number"], before["number"])
            self.desk.stop()
            self.desk.start("worker", "--model", swarm.MODEL)
            swarm.wait_until(lambda: self.desk.log().count("registered with") >= 3, 30, "the desk")
            self.ready()
            self.assertEqual(self.good(self.home, "run", self.model(), *prompt[2:]), answer)

        with self.subTest("leave"):
            self.good(self.desk, "leave")
            self.assertEqual(self.desk.process.wait(15), 5, self.desk.log())
            self.assertEqual(self.names(self.home), {"coordinator", "attic"})
            self.assertFalse((self.desk.folder / "node.key").exists())
            self.assertEqual(self.desk.run("leave")[0], 1)

    def model(self):
        return json.loads(self.good(self.home, "status", "--json"))["model"]["id"]


if __name__ == "__main__":
    if shutil.which("ip") is None:
        print("not run: this machine has no ip command (iproute2)")
        sys.exit(77)
    try:
        Wire("try").cut()
    except OSError as error:
        print(f"not run: network namespaces are not permitted here ({error})")
        sys.exit(77)
    swarm.main()
