"""Attempts to get in where one may not, over real sockets against real processes: every kind that
there is, counted. Each is refused; the peer hears one text, a TLS alert or a 401; the log of the
process has the exact reason; and the process lives on with the memory that it had.
"""

import http.client
import json
import os
import pathlib
import re
import shutil
import socket
import ssl
import subprocess
import threading
import time

import cluster
import stranger
import swarm

INTRUDER = os.environ.get("HEARTH_INTRUDER", "build/tests/e2e/intruder")
GENERIC = "this node is not admitted here"
UNAUTHENTICATED = "16 " + GENERIC
# What one hears that has shown the secret of a token, or its own key (proto/link/admission.h).
TOLD = (("has expired|was revoked|has no use left",
         "16 this join token is used up, has expired or was revoked"),
        ("grants the role", "16 this join token is for another role"),
        ("another node is named", "16 another node of the cluster has this name"),
        ("was removed as", "16 this node was removed from the cluster"))
ALERT = "^handshake: .*(alert|closed|reset|end of file)"
CONTROL = b"\x01"  # goes before the handshake of a control link
PAUSE = 0.08  # between two handshakes of one address: see proto/link/handshakes.h
LEAST = 300
MEMORY = 16 << 20  # bytes that a process may have grown by, after all of them


def resident(pid):
    pages = pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def answer_of(link):
    """What a peer says until it hangs up."""
    answer = b""
    while True:
        try:
            part = link.recv(65536)
        except OSError:
            return answer
        if not part:
            return answer
        answer += part


class Recorder:
    """A wire between a client and a port that keeps what the client says."""

    def __init__(self, port):
        self.said = b""
        self.port = port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        client, _ = self.listener.accept()
        server = socket.create_connection(("127.0.0.1", self.port))

        def back():
            shutil.copyfileobj(server.makefile("rb", 0), client.makefile("wb", 0))
        threading.Thread(target=back, daemon=True).start()
        while True:
            part = client.recv(65536)
            if not part:
                return
            self.said += part
            server.sendall(part)


class Intruders(cluster.Cluster):
    def setUp(self):
        super().setUp()
        self.count = {}

    def tearDown(self):
        super().tearDown()
        print("attempts:", json.dumps(self.count), "in all", sum(self.count.values()))

    def counted(self, kind, log, reason, attempts, times):
        """Runs `attempts` and finds its reason as often in what `log` has got meanwhile."""
        before = len(log())
        attempts()
        self.count[kind] = self.count.get(kind, 0) + times

        def found():
            return len(re.findall(reason, log()[before:])) >= times
        try:
            swarm.wait_until(found)
        except AssertionError:
            self.fail(f"{kind}: not {times} times {reason!r} in\n{log()[before:]}")

    def intrude(self, kind, log, reason, heard, *words, times=8):
        def attempts():
            done = subprocess.run([INTRUDER, *map(str, words), str(times)], capture_output=True,
                                  text=True, timeout=swarm.PATIENCE_S)
            self.assertEqual(done.returncode, 0, f"{kind}: {done.stderr}")
            lines = [json.loads(line) for line in done.stdout.splitlines()]
            self.assertEqual(len(lines), times)
            for line in lines:
                self.assertTrue(line["refused"], f"{kind}: {line}")
                self.assertRegex(line["heard"], heard, kind)
        self.counted(kind, log, reason, attempts, times)

    # --- the ways in

    def enrolments(self, control, log):
        token = self.parts
        worker, admin = token(), token("--role", "admin", "--uses", "9")
        client, many = token("--role", "client", "--uses", "9"), token("--uses", "9")
        short, revoked, used = token("--ttl", "1s"), token(), token()
        self.good(self.home, "token", "revoke", revoked[0])
        elsewhere = self.folder("elsewhere")
        self.good(elsewhere, "init", "elsewhere", "--address", "127.0.0.1")
        foreign = self.parts(folder=elsewhere)
        self.enrol("spent", used[2])
        time.sleep(1.5)
        desk, laptop = self.key("desk"), self.key("laptop")
        for kind, reason, key, name, role, credential in (
                ("no token", "malformed join token", "-", "spy", "", ("", "")),
                ("a token without an end", "malformed join token", "-", "spy", "",
                 (worker[0], "A" * 20_000)),
                ("a truncated token", "malformed join token", "-", "spy", "",
                 (worker[0], worker[1][:-1])),
                ("an unknown token", "is unknown", "-", "spy", "", ("0" * 16, worker[1])),
                ("a wrong secret", "wrong secret", "-", "spy", "", (worker[0], admin[1])),
                ("an expired token", "has expired", "-", "spy", "", short),
                ("a revoked token", "was revoked", "-", "spy", "", revoked),
                ("a replayed token", "has no use left", "-", "spy", "", used),
                ("another cluster's token", "is unknown", "-", "spy", "", foreign),
                ("escalation: worker to admin", "grants the role worker, not admin", "-", "spy",
                 "admin", many),
                ("escalation: client to worker", "grants the role client, not worker", "-", "spy",
                 "worker", client),
                ("escalation: client to admin", "grants the role client, not admin", "-", "spy",
                 "admin", client),
                ("escalation: worker to coordinator", "grants the role worker, not coordinator",
                 "-", "spy", "coordinator", many),
                ("escalation: a member's key", "client laptop asks to be enrolled as worker laptop",
                 laptop, "laptop", "worker", many),
                ("a member as another", "worker desk asks to be enrolled as worker attic", desk,
                 "attic", "worker", many),
                ("the name of another", "another node is named desk already", "-", "desk", "",
                 many),
                ("a removed key again", "the node was removed as gone", self.key("gone"), "gone",
                 "", many)):
            heard = next((said for what, said in TOLD if re.search(what, reason)), UNAUTHENTICATED)
            self.intrude(kind, log, reason, "^" + heard + "$", "enrol", control, key,
                         name, role, *credential[:2])
        left = {one["id"]: one["uses_left"]
                for one in json.loads(self.good(self.home, "token", "list", "--json"))}
        self.assertEqual([left[one[0]] for one in (worker, admin, client, many)], [1, 9, 9, 9],
                         "no refusal takes a use")

    def sessions(self, control, log):
        for kind, reason, key in (
                ("a stranger's session", "is not in the roster", "-"),
                ("a client's session", "laptop is in the roster as client", "laptop"),
                ("an admin's session", "boss is in the roster as admin", "boss"),
                ("a removed node's session", "is not in the roster", "gone")):
            self.intrude(kind, log, "refused a control session: .*" + reason, ALERT, "session",
                         control, key if key == "-" else self.key(key), "desk")
        self.intrude("speaking as another node", log, "worker desk speaks as attic",
                     "^" + GENERIC + "$", "session", control, self.key("desk"), "attic")
        self.intrude("a stranger leaves", log, "asks to leave and is not a member's",
                     "^" + UNAUTHENTICATED + "$", "leave", control, "-")

    def data_links(self, where, address, log):
        for kind, reason, key, name, stage, heard in (
                ("a stranger's link", "is not in the roster", "-", "desk", "0", ALERT),
                ("a client's link", "laptop is in the roster as client", "laptop", "laptop", "0",
                 ALERT),
                ("a removed node's link", "is not in the roster", "gone", "gone", "0", ALERT),
                ("a link as another node", "worker desk speaks as attic", "desk", "attic", "0",
                 "^" + GENERIC + "$"),
                ("a link as the coordinator", "worker desk speaks as", "desk", "coordinator", "c",
                 "^" + GENERIC + "$")):
            self.intrude(f"{kind} to {where}", log, reason, heard, "data", address,
                         key if key == "-" else self.key(key), name, stage)

    def without_tls(self, where, address, log):
        host, port = address.rsplit(":", 1)
        failed = r"handshake[^\n]*failed: "

        def say(said):
            with socket.create_connection((host, int(port)), timeout=swarm.PATIENCE_S) as link:
                link.sendall(said)
                answer = answer_of(link)
            self.assertTrue(not answer or (answer[0] == 21 and len(answer) <= 7), answer)
            time.sleep(PAUSE)
        for said in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                     b"HRT2" + bytes(64), b"\x16\x03\x01\x02\x00" + bytes(600),
                     *((CONTROL + b"HRT2" + bytes(64),) if where == "control" else ())):
            self.counted(f"plaintext to {where}", log, failed, lambda: [say(said)] * 1, 1)
        for kind, newest, reason in (
                ("TLS 1.2", ssl.TLSVersion.TLSv1_2, "unsupported protocol|no shared cipher"),
                ("TLS without a certificate", ssl.TLSVersion.TLSv1_3,
                 "peer did not return a certificate")):
            def attempt():
                with self.assertRaises((ssl.SSLError, ConnectionResetError)):
                    with socket.create_connection((host, int(port)), swarm.PATIENCE_S) as link:
                        with stranger.context(newest).wrap_socket(link) as tls:
                            if tls.recv(1) == b"":
                                raise ConnectionResetError
                time.sleep(PAUSE)
            self.counted(f"{kind} to {where}", log, failed + f"({reason})",
                         lambda: [attempt() for _ in range(4)], 4)

    def replays(self, where, address, log, *words):
        port = int(address.rsplit(":", 1)[1])
        recorder = Recorder(port)
        subprocess.run([INTRUDER, words[0], recorder.address, *words[1:], "1"],
                       capture_output=True, timeout=swarm.PATIENCE_S)
        self.assertGreater(len(recorder.said), 500)

        def replay():
            with socket.create_connection(("127.0.0.1", port), timeout=swarm.PATIENCE_S) as link:
                link.sendall(recorder.said)
                answer = answer_of(link)
            # Its half of a new handshake, which means nothing without the secret of the old one.
            self.assertIn(answer[:1], (b"", b"\x16"))
            self.assertNotIn(GENERIC.encode(), answer)
            time.sleep(PAUSE)
        self.counted(f"replayed bytes to {where}", log, r"handshake[^\n]*failed: ",
                     lambda: [replay() for _ in range(6)], 6)

    def api(self, base, log):
        user = self.good(self.home, "key", "create", "user")
        revoked = self.good(self.home, "key", "create", "revoked")
        self.good(self.home, "key", "revoke", "revoked")
        foreign = self.good(self.folder("elsewhere"), "key", "create", "foreign")
        wrong = user[:-3] + ("AAA" if user[-3:] != "AAA" else "BBB")
        host, port = base[len("http://"):].rsplit(":", 1)

        def ask(path, headers):
            link = http.client.HTTPConnection(host, int(port), timeout=swarm.PATIENCE_S)
            link.putrequest("GET", path)
            for value in headers:
                link.putheader("Authorization", value)
            link.endheaders()
            reply = link.getresponse()
            body = reply.read().decode()
            link.close()
            return reply.status, body
        heard = set()
        for kind, reason, path, headers, status in (
                ("no key", "no Authorization", "/v1/models", [], 401),
                ("an empty key", "no API key", "/v1/models", ["Bearer "], 401),
                ("another scheme", "no API key", "/v1/models", ["Basic " + user], 401),
                ("two keys", "two Authorization headers", "/v1/models", ["Bearer " + user] * 2, 401),
                ("a long key", "no API key", "/v1/models", ["Bearer " + "A" * 20_000], 401),
                ("another cluster's key", "is unknown", "/v1/models", ["Bearer " + foreign], 401),
                ("a wrong key", "wrong secret", "/v1/models", ["Bearer " + wrong], 401),
                ("a revoked key", "was revoked", "/v1/models", ["Bearer " + revoked], 401),
                ("an admin's route", "is not an admin key", "/metrics", ["Bearer " + user], 403),
                ("an admin's state", "is not an admin key", "/api/v1/state", ["Bearer " + user], 403)):
            def attempts():
                for _ in range(6):
                    got, body = ask(path, headers)
                    self.assertEqual(got, status, f"{kind}: {body}")
                    if got == 401 and kind != "a revoked key":
                        heard.add(body)
                    if kind == "a revoked key":  # who holds its secret is told which one it is
                        self.assertIn(revoked.split(".")[1], body)
                        self.assertNotIn(revoked.split(".")[2], body)
            time.sleep(1.1)  # of a flood of refusals one a second is logged
            before = len(log())
            attempts()
            self.count["API: " + kind] = 6
            swarm.wait_until(lambda: re.search(reason, log()[before:]), f"{kind}: {reason}")
        self.assertEqual(len(heard), 1, heard)

    def rosters(self, control, log):
        """After the server is gone: a machine with its key sends the desk rosters."""
        roster = pathlib.Path(self.folder("desk"), "roster")
        kept = roster.read_bytes()
        number = int.from_bytes(kept[40:48], "little")
        files = []
        for name, key, new in (("older", self.home, number - 1), ("fork", self.home, number),
                               ("foreign", self.folder("elsewhere"), number + 1)):
            files.append(self.folder(name))
            done = subprocess.run([INTRUDER, "forge", key + "/cluster.key", str(roster), str(new),
                                   files[-1]], capture_output=True, text=True,
                                  timeout=swarm.PATIENCE_S)
            self.assertEqual(done.returncode, 0, done.stderr)
        newer = bytearray(kept)
        newer[40:48] = (number + 1).to_bytes(8, "little")
        for name, content in (("unsigned", bytes(newer)), ("cut", kept[:-1])):
            files.append(self.folder(name))
            pathlib.Path(files[-1]).write_bytes(content)
        before = len(log())
        done = subprocess.run([INTRUDER, "rosters", control, self.home + "/node.key", str(roster),
                               "8", *files], capture_output=True, text=True,
                              timeout=swarm.PATIENCE_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        for kind, reason, times in (
                ("an older roster", "sent an older signed roster .*kept as evidence", 8),
                ("another roster of the same number", "sent another signed roster .*kept as", 8),
                ("another cluster's roster", "sent an invalid roster: .*another cluster", 8),
                ("an unsigned roster", "sent an invalid roster: .*signature", 16)):
            self.count[kind] = times
            swarm.wait_until(lambda: len(re.findall(reason, log()[before:])) >= times,
                             f"{kind}, {times} times {reason!r},")
        self.assertEqual(roster.read_bytes(), kept)
        self.assertEqual(len(list(pathlib.Path(self.folder("desk")).glob("roster.evidence-*"))), 2)

    # --- all of it

    def parts(self, *words, folder=None):
        """Id, secret and text of a new token."""
        text = self.good(folder or self.home, "token", "create", *words)
        _, _, name, secret = text.split("@")[0].split(".")
        return name, secret, text

    def key(self, name):
        return os.path.join(self.folder(name), "node.key")

    def members(self):
        desk, log = self.join("desk", self.token())
        for name, role in (("laptop", "client"), ("boss", "admin")):
            self.good(self.folder(name), "join", self.token("--role", role), "--name", name)
        self.enrol("gone", self.token())
        self.good(self.home, "nodes", "rm", "gone")
        return desk, log

    def test_all_are_refused(self):
        self.init()
        with swarm.Swarm(0, "--stages", "1", "--host", "0.0.0.0", data_dir=self.home,
                         ready=False) as s:
            desk, desk_file = self.members()
            admin = {"HEARTH_API_KEY": pathlib.Path(self.home, "admin.key").read_text().strip()}

            def desk_log():
                return desk_file.read_text(errors="replace")
            swarm.wait_until(lambda: "registered with" in desk_log(), "the desk")
            desk_data = re.search(r"data links at (\S+)", desk_log()).group(1)
            ports = (("control", s.info["control"], s.read_log),
                     ("data", s.info["data"], s.read_log), ("a worker", desk_data, desk_log))
            self.data_links("the coordinator", s.info["data"], s.read_log)  # warms up as well
            self.data_links("a worker", desk_data, desk_log)
            memory = resident(s.process.pid)
            self.enrolments(s.info["control"], s.read_log)
            self.sessions(s.info["control"], s.read_log)
            for where, address, log in ports:
                self.without_tls(where, address, log)
            self.replays("control", s.info["control"], s.read_log, "session", self.key("laptop"),
                         "desk")
            self.replays("data", s.info["data"], s.read_log, "data", self.key("desk"), "desk", "0")
            self.api(s.api, s.read_log)
            self.assertEqual(self.names(), {"coordinator", "desk", "laptop", "boss", "spent"})
            grown = resident(s.process.pid) - memory
            self.assertLess(grown, MEMORY)
            code, out, err = swarm.hearth("run", self.model(s, admin), "Hi", "-n", "4", "--host",
                                          s.api, env=admin)
            self.assertEqual(code, 0, err)
            self.assertTrue(out)
            memory = resident(desk.pid)
            s.kill()
            self.rosters(s.info["control"], desk_log)
            self.assertIsNone(desk.poll(), desk_log())
            self.assertLess(resident(desk.pid) - memory, MEMORY)
            print("memory: the server grew by", grown, "bytes, the worker with the rosters by",
                  resident(desk.pid) - memory)
        self.assertGreaterEqual(sum(self.count.values()), LEAST)

    def model(self, s, env):
        code, out, err = swarm.hearth("status", "--json", "--host", s.api, "--wait", "60", env=env)
        self.assertEqual(code, 0, err)
        return json.loads(out)["model"]["id"]


if __name__ == "__main__":
    swarm.main()
