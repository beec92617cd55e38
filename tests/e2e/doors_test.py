"""Floods against the control port of a real server, HTTP/2 that no client should send, by strangers
and by members of the cluster, and control links as no member should use them: each loses its
connection, the process keeps its memory, and a client from another address is served meanwhile.
"""

import json
import os
import pathlib
import re
import shutil
import socket
import struct
import subprocess
import threading
import time

import control_link
import cluster
import http2
import swarm
from control_link import FRAME_BYTES, control_frame
from http2 import frame, header, message, request

INTRUDER = os.environ.get("HEARTH_INTRUDER", "build/tests/e2e/intruder")
OF_ADDRESS, STRANGERS = 16, 256     # connections: limits::kHandshakesAddress, kConnections
MEMORY = 256 << 20                  # that the server may grow by, what gRPC is given in all
                                    # (limits::kControlMemoryBytes); 145 MB were seen
MEMORY_CONNECTIONS = 16 << 20       # the same, by connections alone
SHARE = 16384                       # of a frame, the most that HTTP/2 allows unasked


def resident(pid):
    """Memory of its own: the model's file, which it hashes meanwhile, does not count."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"RssAnon:\s+(\d+) kB", status).group(1)) * 1024


def until_it_ends(link, data, seconds=4.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end and link.say(data() if callable(data) else data):
        pass


class Streams:
    """Numbers of streams, two apart."""

    def __init__(self, first=3):
        self.next = first

    def __call__(self):
        self.next += 2
        return self.next - 2


def copied(folder, to):
    shutil.rmtree(to, ignore_errors=True)
    return subprocess.run(["cp", "-a", folder, to], check=False,
                          stderr=subprocess.DEVNULL).returncode == 0


# --- attacks on gRPC: each takes a connection that is open

def rapid_reset(link):
    streams = Streams()

    def some():
        numbers = [streams() for _ in range(200)]
        return b"".join(frame(http2.HEADERS, http2.END_HEADERS, number, request("Prove")) +
                        frame(http2.RESET, 0, number, struct.pack(">I", 8)) for number in numbers)
    until_it_ends(link, some, swarm.PATIENCE_S)


def settings_flood(link):
    until_it_ends(link, frame(http2.SETTINGS, 0, 0, struct.pack(">HI", 4, 65535)) * 1000)


def settings_unread(link):
    """Whose answers are not read."""
    link.reads = False
    settings_flood(link)


def ping_flood(link):
    until_it_ends(link, frame(http2.PING, 0, 0, b"12345678") * 1000)


def continuation_flood(link):
    link.say(frame(http2.HEADERS, 0, 3, request("Prove")))
    until_it_ends(link, frame(http2.CONTINUATION, 0, 3, header("a", "v" * 1000) * 16) * 8)


def endless_header(link):
    """A header of 4 GiB less a byte, and its bytes."""
    link.say(frame(http2.HEADERS, 0, 3, request("Prove") + b"\x00" + http2.length_of(1) + b"a" +
                   http2.length_of(2**32 - 1)))
    until_it_ends(link, frame(http2.CONTINUATION, 0, 3, b"v" * SHARE) * 4)


def many_headers(link):
    link.say(frame(http2.HEADERS, 0, 3, request("Prove")))
    until_it_ends(link, frame(http2.CONTINUATION, 0, 3, header("a", "") * 4000) * 8)


def huge_message(link):
    """Declared with 4 GiB less a byte."""
    link.say(frame(http2.HEADERS, http2.END_HEADERS, 3, request("Enrol")) +
             frame(http2.DATA, 0, 3, message(b"x", 2**32 - 1)))
    until_it_ends(link, frame(http2.DATA, 0, 3, b"x" * SHARE) * 4)


def unknown_frames(link):
    until_it_ends(link, frame(0x7f, 0, 0, b"x" * SHARE) * 4)


def half_frame(link):
    """A frame of which a byte comes now and then."""
    whole = frame(http2.HEADERS, http2.END_HEADERS, 3, request("Prove"))
    for at in range(len(whole)):
        said = link.say(whole[at:at + 1])
        link.whole = False
        if not said or link.wait_end(0.5):
            return


def half_call(link):
    """A call whose message never comes."""
    link.say(frame(http2.HEADERS, http2.END_HEADERS, 3, request("Enrol")) +
             frame(http2.DATA, 0, 3, message(b"", 100)))


def silence(link):
    del link


def window_of_nothing(link):
    """Asks, and lets nothing be sent back; see settings_of()."""
    link.say(frame(http2.HEADERS, http2.END_HEADERS, 3, request("Prove")) +
             frame(http2.DATA, http2.END_STREAM, 3, message()))


# --- attacks on control links: each takes a link of a member that is open

def huge_frame(link):
    """Declared with 2^63 bytes."""
    until_it_ends(link, control_frame(b"", 1 << 63) + b"x" * SHARE)


def long_frame(link):
    """A byte longer than a worker's message may be, of which all are sent."""
    until_it_ends(link, control_frame(b"x" * (FRAME_BYTES + 1)))


def half_a_frame(link):
    """A message of which a byte comes now and then."""
    whole = control_frame(b"x" * 1000)
    for at in range(len(whole)):
        if not link.say(whole[at:at + 1]) or link.wait_end(0.5):
            return


def only_signs_of_life(link):
    def some():
        time.sleep(0.02)
        return control_frame(b"", kind=control_link.BEAT) * 500
    until_it_ends(link, some, swarm.PATIENCE_S)


def a_frame_of_data(link):
    until_it_ends(link, control_frame(b"x" * 100, kind=control_link.BATCH))


def a_ping(link):
    until_it_ends(link, control_frame(b"x" * 100, kind=control_link.PING))


def no_frame(link):
    until_it_ends(link, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(http2.SETTINGS, 0, 0))


def no_message(link):
    """Whose first message is no protobuf, and the others neither."""
    until_it_ends(link, lambda: control_frame(b"\xff" * FRAME_BYTES) * 4, swarm.PATIENCE_S)


def another_message(link):
    """A heartbeat of a node that has not registered."""
    until_it_ends(link, lambda: (time.sleep(0.1), control_frame(b"\x12\x00"))[1],
                  swarm.PATIENCE_S)


ON_CONTROL_LINKS = (huge_frame, long_frame, half_a_frame, only_signs_of_life, a_frame_of_data,
                    a_ping, no_frame, no_message, another_message, silence)
FAST = (rapid_reset, settings_flood, settings_unread, ping_flood, continuation_flood,
        endless_header, many_headers, huge_message, unknown_frames)
SLOW = (half_frame, half_call, silence, window_of_nothing)


def settings_of(attack):
    return struct.pack(">HI", 4, 0) if attack is window_of_nothing else b""


class Watch:
    """The server's memory at its highest, and how long somebody else waits for an answer."""

    def __init__(self, pid, address, pem):
        self.pid, self.address, self.pem = pid, address, pem
        self.before = resident(pid)
        self.peak, self.waits, self.unserved = 0, [], 0
        self.stopping = threading.Event()
        self.threads = [threading.Thread(target=one) for one in (self._memory, self._ask)]
        for thread in self.threads:
            thread.start()

    def _memory(self):
        while not self.stopping.wait(0.02):
            self.peak = max(self.peak, resident(self.pid) - self.before)

    def _ask(self):
        while not self.stopping.wait(0.25):
            began = time.monotonic()
            try:
                with http2.Connection(self.address, self.pem) as link:
                    served = link.ask("Prove")
            except OSError:
                served = False
            self.unserved += not served
            self.waits.append(time.monotonic() - began)

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join()


class Doors(cluster.Cluster):
    def setUp(self):
        super().setUp()
        self.attempts = {}
        self.counting = threading.Lock()
        self.init()
        self.server = swarm.Swarm(0, "--stages", "1", data_dir=self.home, ready=False)
        self.addCleanup(self.server.stop)
        self.control = self.server.info["control"]
        self.word = self.token("--uses", "99")  # while it is good, strangers are heard
        self.someone = self.pem("-", "someone")

    def pem(self, key, name):
        return http2.identity(INTRUDER, key, os.path.join(self.root.name, name + ".pem"))

    def log(self):
        return self.server.read_log()

    def watch(self):
        watch = Watch(self.server.process.pid, self.control, self.someone)
        self.addCleanup(watch.stop)
        return watch

    def check(self, watch, what, memory=MEMORY_CONNECTIONS):
        watch.stop()
        self.assertIsNone(self.server.process.poll(), self.log())
        print(f"{what}: the server grew by {watch.peak} bytes at most, somebody else asked "
              f"{len(watch.waits)} times and waited {max(watch.waits):.3f} s at most", flush=True)
        self.assertEqual(watch.unserved, 0, what)
        self.assertLess(watch.peak, memory, what)

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.server.process.pid}/fd"))

    # --- floods of connections

    def flood(self, sources, each):
        """Connections that say nothing, as many as the port takes."""
        links = []
        for at in range(each):
            for source in sources:
                link = socket.socket()
                self.addCleanup(link.close)
                link.bind((source, 0))
                link.setblocking(False)
                link.connect_ex(("127.0.0.1", int(self.control.rsplit(":", 1)[1])))
                links.append(link)
            if at % 64 == 63:
                time.sleep(0.01)
        return links

    def still_open(self, links):
        count = 0
        for link in links:
            try:
                count += link.recv(1, socket.MSG_PEEK) != b""
            except BlockingIOError:
                count += 1
            except OSError:
                pass
        return count

    def held_of(self, links, most):
        """How many are held, once the server has hung up on the others."""
        seen = []

        def few():
            seen.append(self.still_open(links))
            return seen[-1] <= most
        swarm.wait_until(few, f"at most {most} connections")
        return seen[-1]

    def test_a_flood_from_one_address(self):
        watch = self.watch()
        before = self.descriptors()
        links = self.flood(["127.0.0.77"], 1000)
        held, more = self.held_of(links, OF_ADDRESS), self.descriptors() - before
        began = time.monotonic()
        spent, _ = self.start(self.folder("laptop"), "join", self.token("--role", "client"),
                              "--name", "laptop")
        self.assertEqual(spent.wait(swarm.PATIENCE_S), 0)
        took = time.monotonic() - began
        self.assertIn("laptop", self.names())
        print(f"1000 connections from one address: {held} held, {more} descriptors more; a machine "
              f"of another address was enrolled in {took:.2f} s")
        self.assertGreater(held, 0)
        self.assertLessEqual(held, OF_ADDRESS)
        # Of the silent one each, of those who speak meanwhile three.
        self.assertLessEqual(more, OF_ADDRESS + 8)
        self.assertIn("control connections were refused: too many at once, the last of 127.0.0.77",
                      self.log())
        swarm.wait_until(lambda: self.still_open(links) == 0, "none is held")
        self.check(watch, "a flood from one address")

    def test_a_flood_from_many_addresses(self):
        sources = [f"127.0.1.{i}" for i in range(1, 41)]
        before = self.descriptors()
        links = self.flood(sources, OF_ADDRESS)
        held, more = self.held_of(links, STRANGERS), self.descriptors() - before
        print(f"{len(links)} connections from {len(sources)} addresses: {held} held, {more} "
              "descriptors more")
        self.assertLessEqual(held, STRANGERS)
        self.assertLessEqual(more, STRANGERS + 4)
        swarm.wait_until(lambda: self.still_open(links) == 0, "none is held")
        with http2.Connection(self.control, self.someone) as link:
            self.assertTrue(link.ask("Prove"))

    def test_a_flood_that_goes_on_keeps_nobody_out(self):
        """230 addresses hold four connections each, and open each again that they lose."""
        port = int(self.control.rsplit(":", 1)[1])
        stopping, opened = threading.Event(), [0]

        def hold(numbers):
            links = {}
            while not stopping.is_set():
                for number in numbers:
                    link = links.get(number)
                    try:
                        if link is not None and link.recv(1):
                            continue
                    except BlockingIOError:
                        continue
                    except OSError:
                        pass
                    if link is not None:
                        link.close()
                    link = links[number] = socket.socket()
                    link.bind((f"127.0.2.{1 + number % 230}", 0))
                    link.setblocking(False)
                    link.connect_ex(("127.0.0.1", port))
                    opened[0] += 1
                stopping.wait(0.5)
            for link in links.values():
                link.close()
        holders = [threading.Thread(target=hold, args=(range(at, 920, 4),)) for at in range(4)]
        token = self.token()
        for holder in holders:
            holder.start()
        try:
            swarm.wait_until(lambda: opened[0] >= 920, "the flood")
            waits = []
            for _ in range(5):
                began = time.monotonic()
                with http2.Connection(self.control, self.someone, "127.0.3.1") as link:
                    self.assertTrue(link.ask("Prove"))
                waits.append(time.monotonic() - began)
                time.sleep(0.5)
            desk, desk_log = self.join("desk", token)
            swarm.wait_until(lambda: "worker desk registered" in self.log(), "the desk")
        finally:
            stopping.set()
            for holder in holders:
                holder.join()
        print(f"{opened[0]} connections from 230 addresses; asked {len(waits)} times meanwhile and "
              f"waited {max(waits):.3f} s at most", flush=True)
        self.assertIsNone(desk.poll(), desk_log.read_text())

    def test_handshakes_that_are_finished_and_nothing_more(self):
        watch = self.watch()
        pem, held, refused = self.pem("-", "many"), [], 0
        for _ in range(100):
            try:
                held.append(http2.Connection(self.control, pem, "127.0.0.78"))
            except OSError:
                refused += 1
        print(f"100 finished handshakes from one address: {refused} refused")
        self.assertLessEqual(len([one for one in held if not one.wait_end(0)]), OF_ADDRESS)
        self.assertGreater(refused, 0)
        for one in held:
            self.assertTrue(one.wait_end())
            one.link.close()
        self.check(watch, "finished handshakes")

    # --- HTTP/2

    def attack(self, attack, pem, source, member):
        """One attempt; whether it ends as it must."""
        with http2.Connection(self.control, pem, source, settings_of(attack)) as link:
            attack(link)
            ended = link.wait_end()
        self.note(f"{attack.__name__} by a {'member' if member else 'stranger'}", ended)

    def attack_control_link(self, attack, pem, source):
        with control_link.Link(self.control, pem, source) as link:
            attack(link)
            ended = link.wait_end()
        self.note(f"{attack.__name__} on a control link", ended)

    def note(self, kind, ended):
        with self.counting:
            self.attempts[kind] = self.attempts.get(kind, 0) + 1
            if not ended:
                self.failed.append(kind)

    def test_http2_as_nobody_should_speak_it(self):
        desk, desk_log = self.join("desk", self.token())
        keys = {}
        for name in ("attic", "shed"):
            member, _ = self.join(name, self.token())
            swarm.wait_until(lambda: f"worker {name} registered" in self.log(), name)
            member.kill()
            member.wait()
            swarm.wait_until(lambda: f"worker {name} lost" in self.log(), f"{name} is away")
            keys[name] = self.pem(os.path.join(self.folder(name), "node.key"), name)
        swarm.wait_until(lambda: "worker desk registered" in self.log(), "the desk")
        spy = self.pem("-", "spy")
        self.failed = []
        watch = self.watch()
        slow = [threading.Thread(target=self.attack, args=(attack, spy, "127.0.0.80", False))
                for attack in SLOW]
        slow += [threading.Thread(target=lambda half: [
            self.attack(attack, keys["shed"], "127.0.0.81", True) for attack in half], args=(half,))
            for half in (SLOW[::2], SLOW[1::2])]
        for thread in slow:
            thread.start()
        source = iter(range(100, 250))
        for attack in FAST:
            for by_member in (False, True):
                for _ in range(2):
                    self.attack(attack, keys["attic"] if by_member else spy,
                                f"127.0.0.{next(source)}", by_member)
        for thread in slow:
            thread.join()
        self.check(watch, "HTTP/2", MEMORY)
        print("attempts:", json.dumps(self.attempts), "in all", sum(self.attempts.values()))
        self.assertEqual(sum(self.attempts.values()), 2 * len(SLOW) + 4 * len(FAST))
        self.assertEqual(self.failed, [], "these still hold their connections")
        self.assertNotIn("worker desk lost", self.log(), "the desk was served all the while")
        self.assertIsNone(desk.poll(), desk_log.read_text())
        self.assertRegex(self.log(), r"control connection of 127.0.0.1\d\d is closed: it sent "
                                     r"\d+ bytes; the limit is 32768")

    def test_control_links_as_no_member_should_use_them(self):
        desk, desk_log = self.join("desk", self.token())
        swarm.wait_until(lambda: "worker desk registered" in self.log(), "the desk")
        self.enrol("attic", self.token())
        attic = self.pem(os.path.join(self.folder("attic"), "node.key"), "attic")
        self.failed = []
        watch = self.watch()
        with self.subTest("a key has two at a time"):
            def third():
                links = [control_link.Link(self.control, attic) for _ in range(3)]
                ended = links[2].wait_end()
                for link in links:
                    link.link.close()
                return ended and "the peer has 2 links here, which is the limit" in self.log()
            swarm.wait_until(third, "the third is refused")
        # Each has the place of one of the two, which others' attempts must not take.
        for at, attack in enumerate(ON_CONTROL_LINKS):
            self.attack_control_link(attack, attic, f"127.0.0.{100 + at}")
        with self.subTest("a machine that is not a member has none"):
            with control_link.Link(self.control, self.someone) as link:
                self.assertTrue(link.wait_end())
            swarm.wait_until(lambda: re.search("refused a control session: .* is not in the roster",
                                               self.log()), "the log names the refusal")
        self.check(watch, "control links")
        print("attempts:", json.dumps(self.attempts), "in all", sum(self.attempts.values()))
        self.assertEqual(sum(self.attempts.values()), len(ON_CONTROL_LINKS))
        self.assertEqual(self.failed, [], "these still hold their connections")
        self.assertNotIn("worker desk lost", self.log(), "the desk was served all the while")
        self.assertIsNone(desk.poll(), desk_log.read_text())

    # --- a door that is closed

    def said_to(self, pem):
        """What the port says to a stranger that has finished its handshake, and asks."""
        host, port = self.control.rsplit(":", 1)
        tls = http2.stranger.context()
        tls.load_cert_chain(pem)
        with socket.create_connection((host, int(port)), swarm.PATIENCE_S) as link:
            try:
                with tls.wrap_socket(link) as held:
                    held.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" +
                                 frame(http2.SETTINGS, 0, 0) +
                                 frame(http2.HEADERS, http2.END_HEADERS, 1, request("Prove")) +
                                 frame(http2.DATA, http2.END_STREAM, 1, message()))
                    return held.recv(65536)
            except OSError:
                return b""

    def asks(self, process, log, words):
        swarm.wait_until(lambda: process.poll() is not None or words in log.read_text(), words)
        self.assertIsNone(process.poll(), log.read_text())

    def test_strangers_hear_nothing_while_nobody_may_come(self):
        desk, desk_log = self.join("desk", self.word)
        swarm.wait_until(lambda: "worker desk registered" in self.log(), "the desk")
        self.assertTrue(self.said_to(self.someone), "a token is good")
        self.good(self.home, "token", "revoke", self.word.split(".")[2])
        before = self.descriptors()
        for number in range(12):
            self.assertEqual(self.said_to(self.pem("-", f"stranger-{number}")), b"")
        self.assertRegex(self.log(), "is not in the roster, and no join token is valid now")
        swarm.wait_until(lambda: self.descriptors() <= before, "their connections")
        code, _, err = self.run_in(self.folder("late"), "join", self.word, "--name", "late")
        self.assertEqual(code, 1, err)
        self.assertIn("refuses this join token", err)

        with self.subTest("members come and go"):
            self.assertTrue(self.said_to(self.pem(os.path.join(self.folder("desk"), "node.key"),
                                                  "desk")))
            desk.kill()
            desk.wait()
            desk, desk_log = self.start(self.folder("desk"), "worker", "--model", swarm.MODEL)
            swarm.wait_until(lambda: self.log().count("worker desk registered") == 2,
                             "the desk again")
            local, _ = self.start(self.home, "worker", "--model", swarm.MODEL, "--name",
                                          "mine")
            swarm.wait_until(lambda: "worker mine registered" in self.log(),
                             "a worker of the server's own folder")
            local.kill()

        with self.subTest("who asks too early waits until somebody looks"):
            laptop, log = self.start(self.folder("laptop"), "join", self.control, "--name",
                                     "laptop", "--yes")
            self.asks(laptop, log, "accepts no unknown machine now")
            swarm.wait_until(lambda: "laptop" in self.good(self.home, "approve", "--json"),
                             "the laptop asks")
            self.assertTrue(self.said_to(self.someone))
            self.good(self.home, "approve", "laptop", "--role", "client")
            self.assertEqual(laptop.wait(swarm.PATIENCE_S), 0, log.read_text())
            self.assertIn("as client laptop", log.read_text())
            roles = {one["name"]: one["role"] for one in
                     json.loads(self.good(self.home, "nodes", "--json"))["nodes"]}
            self.assertEqual(roles["laptop"], "client")
        self.assertIsNone(desk.poll(), desk_log.read_text())

    def test_a_session_is_not_taken_up_again(self):
        desk, _ = self.join("desk", self.token())
        swarm.wait_until(lambda: "desk registered" in self.log(), "the desk")
        desk.kill()
        desk.wait()
        pem = self.pem(os.path.join(self.folder("desk"), "node.key"), "desk")
        members = lambda: {one["name"] for one in
                           json.loads(self.good(self.home, "nodes", "--json"))["nodes"]}
        with http2.Connection(self.control, pem) as before:
            self.assertTrue(before.ask("Prove"))
            self.assertIsNotNone(before.link.session)
            # The holder of the ticket does not have the key.
            with http2.Connection(self.control, pem, after=before) as link:
                self.assertTrue(link.link.session_reused)
                self.assertTrue(link.ask("Leave"), "refused, as any call of a stranger")
                self.assertIn("resumes an earlier session", self.log())
                self.assertIn("desk", members())
        with http2.Connection(self.control, pem) as link:
            self.assertTrue(link.ask("Leave"))
            swarm.wait_until(lambda: "desk" not in members(), "it has left by its key")

    # --- the API

    def half_a_request(self, source):
        host, port = self.server.api.split("//")[-1].rsplit(":", 1)
        link = socket.create_connection((host, int(port)), swarm.PATIENCE_S, (source, 0))
        self.addCleanup(link.close)
        link.sendall(b"GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        return link

    def status_of(self, link):
        link.sendall(b"Connection: close\r\n\r\n")
        return link.recv(12)

    def test_one_address_leaves_the_api_to_others(self):
        first = self.half_a_request("127.0.0.2")
        for _ in range(200):
            self.half_a_request("127.0.0.2")
        self.assertEqual(first.recv(12), b"HTTP/1.1 429", "the oldest that asks nothing gives way")
        for other in ("127.0.0.3", "127.0.0.1"):
            self.assertEqual(self.status_of(self.half_a_request(other)), b"HTTP/1.1 200", other)
        for source in range(4, 9):
            for _ in range(110):
                self.half_a_request(f"127.0.0.{source}")
        own = self.half_a_request("127.0.0.1")
        self.assertEqual(self.status_of(own), b"HTTP/1.1 200", "of many addresses")

    def test_a_clone_of_a_node_that_is_there(self):
        desk, desk_log = self.join("desk", self.token())
        swarm.wait_until(lambda: "desk registered" in self.log(), "the desk")
        clone = self.folder("clone")
        # A file that its node is just replacing may vanish under a copy, which is then made again.
        swarm.wait_until(lambda: copied(self.folder("desk"), clone), "a copy of the folder")
        began = len(self.log())
        twin, twin_log = self.start(clone, "worker", "--model", swarm.MODEL)
        swarm.wait_until(lambda: "its key was copied" in self.log()[began:], "it is said")
        self.assertIn("hearth nodes rm desk", self.log()[began:])
        self.assertNotIn("worker desk lost", self.log())
        self.assertEqual(len(re.findall("worker desk registered", self.log())), 1)
        self.assertIsNone(desk.poll(), desk_log.read_text())
        swarm.wait_until(lambda: "is already connected with this key" in
                         twin_log.read_text(), "the clone is told")
        # It tries for ten seconds, since it may have been started again, and then never more.
        self.assertEqual(twin.wait(swarm.PATIENCE_S), 5, twin_log.read_text())
        self.assertIn("hearth leave --here-only", twin_log.read_text())
        self.assertIsNone(desk.poll(), desk_log.read_text())
        self.assertEqual(len(re.findall("worker desk registered", self.log())), 1)
        self.assertNotIn("worker desk lost", self.log())
        # What the log says: then neither of the two is in.
        self.good(self.home, "nodes", "rm", "desk")
        self.assertEqual(desk.wait(swarm.PATIENCE_S), 5, desk_log.read_text())
        twin, twin_log = self.start(clone, "worker", "--model", swarm.MODEL)
        self.assertEqual(twin.wait(swarm.PATIENCE_S), 5, twin_log.read_text())


if __name__ == "__main__":
    swarm.main(layers=6)
