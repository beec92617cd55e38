"""Several machines on one wire, which are network namespaces, for the end-to-end tests."""

import ctypes
import ipaddress
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

import swarm

NETWORK = "10.83.0."
FAR_CABLE = os.environ.get("HEARTH_FAR_CABLE", "")


def ip(*words):
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")


class Wire:
    """A namespace with a bridge, and one namespace for each machine, joined to it."""

    def __init__(self, *machines):
        self.prefix = f"hearth-{os.getpid()}-"
        self.made = []
        self.cables = []
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

    def far(self, machine, milliseconds, lost_in_a_million=0, seed=1):
        """The machine moves away: every frame of its cable takes so long, and some do not come."""
        hub, end = self.prefix + "hub", machine + "-end"
        ip("-n", hub, "link", "set", machine, "nomaster")
        ip("-n", hub, "link", "add", end, "type", "veth", "peer", "name", machine + "-wire")
        ip("-n", hub, "link", "set", machine + "-wire", "master", "wire", "up")
        ip("-n", hub, "link", "set", end, "up")
        self.cables.append(subprocess.Popen(self.words(
            "hub", FAR_CABLE, machine, end, milliseconds, lost_in_a_million, seed)))

    def cut(self):
        for cable in self.cables:
            cable.kill()
            cable.wait()
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
        self.variables = {}

    def environment(self):
        return {**os.environ, "HEARTH_DATA_DIR": str(self.folder), **self.variables}

    def run(self, *words, timeout=swarm.PATIENCE_S):
        done = subprocess.run(self.wire.words(self.name, swarm.HEARTH, *words),
                              capture_output=True, text=True, timeout=timeout,
                              env=self.environment())
        return done.returncode, done.stdout, done.stderr

    def start(self, *words):
        """A server is one alone unless the words say otherwise."""
        if words[0] == "serve" and "--local-workers" not in words:
            words += ("--local-workers", "0")
        text = self.log()
        with open(self.log_path, "ab") as log:
            if text and not text.endswith("\n"):
                log.write(b"\n")  # the last process was killed within a line
                log.flush()
            self.process = subprocess.Popen(self.wire.words(self.name, swarm.HEARTH, *words),
                                            stdout=log, stderr=log, env=self.environment())

    def log(self):
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def stop(self, how=signal.SIGTERM):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(how)
            self.process.wait(swarm.PATIENCE_S)

    def listen(self):
        """A socket of this process that listens on the machine's own loopback."""
        made = []

        def make():
            # A thread has a namespace of its own, and a socket keeps that of its maker.
            with open(f"/run/netns/{self.wire.prefix}{self.name}") as space:
                if ctypes.CDLL(None, use_errno=True).setns(space.fileno(), 0) == 0:
                    made.append(socket.create_server(("127.0.0.1", 0)))
        maker = threading.Thread(target=make)
        maker.start()
        maker.join()
        return made[0]

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


class Household(unittest.TestCase):
    """Machines on one wire, each an attribute under its name; the first is the coordinator's."""

    on_the_wire = ("home", "desk", "attic")
    kind = Machine

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.wire = Wire(*self.on_the_wire)
        self.addCleanup(self.wire.cut)
        self.machines = [self.kind(self.wire, name, self.folder) for name in self.on_the_wire]
        for machine in self.machines:
            setattr(self, machine.name, machine)
            self.addCleanup(machine.stop, signal.SIGKILL)

    def good(self, machine, *words):
        code, out, err = machine.run(*words)
        self.assertEqual(code, 0, f"{words}: {err}")
        return out.strip()

    def answers(self):
        """Until the server of the first machine says how it is."""
        swarm.wait_until(lambda: self.home.run("status")[0] == 0, "the server")

    def ready(self):
        """Until its swarm serves."""
        def asked():
            self.assertIsNone(self.home.process.poll(), self.home.log())
            return self.home.run("status", "--wait", "1")[0] == 0
        swarm.wait_until(asked, "readiness")

    def nodes(self):
        return json.loads(self.good(self.home, "status", "--json"))["nodes"]

    def model(self):
        return json.loads(self.good(self.home, "status", "--json"))["model"]["id"]

    def names(self, machine):
        """Who is in the cluster, as that machine has it."""
        return {node["name"] for node in json.loads(self.good(machine, "nodes", "--json"))["nodes"]}


def main(layers=None):
    """swarm.main; exits 77 where namespaces are not permitted."""
    if shutil.which("ip") is None:
        print("not run: this machine has no ip command (iproute2)")
        sys.exit(77)
    try:
        Wire("try").cut()
    except OSError as error:
        print(f"not run: network namespaces are not permitted here ({error})")
        sys.exit(77)
    swarm.main(layers=layers)
