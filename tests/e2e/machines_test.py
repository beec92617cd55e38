"""A cluster of three machines, which are network namespaces on one wire: as a new user would make
it, and then without one of them. Exits 77 where namespaces are not permitted.
"""

import json
import pathlib
import re
import signal
import subprocess
import sys
import time

import machines
import swarm


class Cluster(machines.Household):
    def serve(self):
        self.home.start("serve", "--model", swarm.MODEL, "--stages", "2")

    def scan(self, host):
        """Open ports of a machine, as the attic sees them, with what they answer to a stranger."""
        script = pathlib.Path(__file__).with_name("port_scan.py")
        done = subprocess.run(self.wire.words("attic", sys.executable, script, host),
                              capture_output=True, text=True, timeout=swarm.PATIENCE_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def closed_to_strangers(self, port, heard):
        """A TLS alert, or nothing; and no word after the handshake."""
        self.assertEqual(heard.pop("TLS"), "", port)
        for name, answer in heard.items():
            said = bytes.fromhex(answer)
            self.assertTrue(not said or (said[0] == 21 and len(said) <= 7), f"{port}, {name}: {said}")

    def join(self, machine, token):
        machine.start("join", token, "--model", swarm.MODEL, "--name", machine.name)

    def test_strangers_of_an_api_that_is_open_to_others(self):
        """The third port of a server with --host says 401 to them, whatever they say, or nothing."""
        self.good(self.home, "init", "testhome")
        self.home.start("serve", "--model", swarm.MODEL, "--stages", "1", "--host",
                        machines.NETWORK + "1", "--port", "11500")
        self.answers()
        found = self.scan(machines.NETWORK + "1")
        self.assertEqual(len(found), 3, found)
        at_api = found.pop("11500")
        for port, heard in found.items():
            self.closed_to_strangers(port, heard)
        self.assertEqual(at_api.pop("TLS"), "")
        said = {name: bytes.fromhex(answer).decode("latin-1") for name, answer in at_api.items()}
        answered = {name: set(re.findall(r"HTTP/1\.[01] (\d+)", text))
                    for name, text in said.items() if text}
        self.assertEqual(set().union(*answered.values()), {"401"}, answered)
        # What could be read was answered: nothing here holds because no server listens.
        for name in ("liveness", "HEAD", "a preflight", "a wrong path", "an admin's route",
                     "a foreign Origin", "a rebinding Host", "a large body", "several at once"):
            self.assertIn(name, answered)
        for name in ("noise", "a large header", "a head that folds", "a NUL"):
            self.assertEqual(said[name], "", name)
        bodies = {text.split("\r\n\r\n", 1)[1] for name, text in said.items()
                  if text and name not in ("HEAD", "several at once")}
        self.assertEqual(len(bodies), 1, "one text for all")
        key = pathlib.Path(self.home.folder, "admin.key").read_text().strip()
        code, out, err = self.attic.run("status", "--json", "--host",
                                        f"http://{machines.NETWORK}1:11500", "--api-key", key)
        self.assertEqual(code, 0, err)
        self.assertIn("model", json.loads(out))

    def test_a_server_follows_its_machine_to_another_address(self):
        """As with a new DHCP lease: it serves on there, and a member needs to be told once."""
        space = self.wire.prefix + "home"
        self.good(self.home, "init", "testhome")
        self.home.start("serve", "--model", swarm.MODEL, "--stages", "1", "--local-workers", "1")
        self.ready()
        self.join(self.desk, self.good(self.home, "token", "create"))
        here = lambda: {node["name"] for node in self.nodes() if node["state"] != "lost"}
        swarm.wait_until(lambda: "desk" in here(), "the desk")
        asked = ("run", self.model(), "Count to five.", "-n", "12", "--temp", "0", "--seed", "1")
        answer = self.good(self.home, *asked)
        machines.ip("-n", space, "addr", "del", machines.NETWORK + "1/24", "dev", "eth0")
        machines.ip("-n", space, "addr", "add", machines.NETWORK + "9/24", "dev", "eth0")
        machines.ip("-n", space, "route", "add", "default", "dev", "eth0")
        moved = f"the cluster testhome is at {machines.NETWORK}9 now"
        swarm.wait_until(lambda: moved in self.home.log(), "the new address")
        self.ready()
        self.assertEqual(self.good(self.home, *asked), answer)
        self.assertIn(f"@{machines.NETWORK}9:", self.good(self.home, "token", "create"))
        self.good(self.desk, "join", machines.NETWORK + "9")
        swarm.wait_until(lambda: "desk" in here(), "the desk at the new address")
        self.assertIsNone(self.desk.process.poll(), self.desk.log())
        self.home.stop()
        self.assertEqual(self.home.process.returncode, 0, self.home.log())

    def test_init_join_run_remove_restart_leave(self):
        began = time.monotonic()
        said = self.good(self.home, "init", "testhome")
        print(f"init took {time.monotonic() - began:.2f} s", flush=True)
        self.assertRegex(said, r"(?s)testhome.*10\.83\.0\.1:11501.*next:\n"
                               r"  hearth serve [^\n]*\n  hearth token create$")
        self.serve()
        token = self.good(self.home, "token", "create", "--uses", "2")
        self.assertRegex(token, r"^hh1\.[0-9a-f]{32}\.[0-9a-f]{16}\.[\w-]{43}@10\.83\.0\.1:11501$")
        self.answers()
        self.join(self.desk, token)
        self.join(self.attic, token)
        self.ready()

        prompt = ("run", swarm.MODEL, "Count to five.", "-n", "12", "--temp", "0", "--seed", "1")
        answer = self.good(self.home, "run", self.model(), *prompt[2:])
        self.assertTrue(answer)
        self.assertEqual(answer, self.good(self.home, "run", "--local", *prompt[1:]))
        self.assertEqual(self.names(self.home), {"coordinator", "desk", "attic"})
        swarm.wait_until(lambda: self.names(self.desk) == {"coordinator", "desk", "attic"},
                         "the roster on the desk")

        with self.subTest("what listens"):
            beyond = [at for at in self.home.listening() if not at[0].is_loopback]
            self.assertEqual(len(beyond), 2, beyond)
            beyond = [at for at in self.desk.listening() if not at[0].is_loopback]
            self.assertEqual(len(beyond), 1, beyond)
            self.assertEqual({str(host) for host, _ in beyond}, {machines.NETWORK + "2"})

        with self.subTest("ping"):
            out = json.loads(self.good(self.desk, "ping", "attic", "-c", "3", "--interval", "0.1",
                                       "--json"))
            self.assertTrue(out["address"].startswith(machines.NETWORK + "3:"), out)
            self.assertEqual(len(out["probes"]), 3)
            self.assertLess(0, out["milliseconds"]["least"])
            self.assertLessEqual(out["milliseconds"]["least"], out["milliseconds"]["most"])
            self.assertGreater(min(out["bytes_per_second"].values()), 1e6)
            for machine, node in ((self.home, "desk"), (self.attic, "coordinator")):
                out = self.good(machine, "ping", node, "-c", "1")
                self.assertRegex(out, rf"answer from {node} \(10\.83\.0\.\d:\d+\) direct: "
                                      r"\d+\.\d+ ms")
            code, _, err = self.desk.run("ping", "cellar", "-c", "1")
            self.assertEqual(code, 1, err)
            self.assertIn("no node named cellar is connected", err)
            self.assertEqual(answer, self.good(self.home, "run", self.model(), *prompt[2:]),
                             "the pipeline did not notice")

        with self.subTest("what a port scan finds"):
            for host, ports in (("1", 2), ("2", 1)):
                found = self.scan(machines.NETWORK + host)
                self.assertEqual(len(found), ports, found)
                for port, heard in found.items():
                    self.closed_to_strangers(port, heard)

        with self.subTest("removed"):
            self.good(self.home, "nodes", "rm", "attic")
            self.assertEqual(self.attic.process.wait(swarm.PATIENCE_S), 5, self.attic.log())
            self.assertIn("removed from the cluster", self.attic.log())
            self.assertEqual(self.names(self.home), {"coordinator", "desk"})
            self.assertIn("attic (removed)", self.good(self.home, "ledger"))
            code, _, err = self.home.run("nodes", "rm", "attic")
            self.assertEqual(code, 1, err)
            code, _, _ = self.home.run("run", self.model(), "Hi", "-n", "1")
            self.assertEqual(code, 4, "one stage is missing")
            code, _, err = self.attic.run("worker", "--model", swarm.MODEL)
            self.assertEqual(code, 5, err)
            code, _, err = self.attic.run("join", token, "--model", swarm.MODEL, "--name", "attic")
            self.assertEqual(code, 5, err)
            self.assertIn("has removed this machine from its cluster", err)
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
            self.answers()
            self.ready()
            after = json.loads(self.good(self.home, "nodes", "--json"))
            self.assertEqual(after["nodes"], before["nodes"])
            self.assertGreater(after["number"], before["number"])
            self.desk.stop()
            self.desk.start("worker", "--model", swarm.MODEL)
            swarm.wait_until(lambda: self.desk.log().count("registered with") >= 3, "the desk")
            files = [path.name for path in (self.desk.folder / "logs").glob("*.log")]
            self.assertEqual(files, ["worker-desk.log"], "of every start")
            self.assertIn("registered with", self.good(self.desk, "logs", "-n", "20"))
            self.ready()
            self.assertEqual(self.good(self.home, "run", self.model(), *prompt[2:]), answer)

        with self.subTest("leave"):
            self.good(self.desk, "leave")
            self.assertEqual(self.desk.process.wait(swarm.PATIENCE_S), 5, self.desk.log())
            self.assertIn("this machine has left the cluster", self.desk.log())
            swarm.wait_until(lambda: "desk" not in {node["name"] for node in self.nodes()},
                             "that it is not even shown as lost")
            self.assertEqual(self.names(self.home), {"coordinator", "attic"})
            self.assertFalse((self.desk.folder / "node.key").exists())
            self.assertEqual(self.desk.run("leave")[0], 1)


if __name__ == "__main__":
    machines.main()
