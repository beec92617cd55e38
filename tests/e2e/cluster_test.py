"""`hearth init`, `token`, `join`, `nodes` and `leave` with real processes on loopback: what they
refuse, and what a worker does with a roster that contradicts its own. tests/e2e/machines_test.py
has the way of a new user.
"""

import json
import pathlib
import stat
import time

import cluster
import swarm


class Joining(cluster.Cluster):
    def test_init(self):
        self.refused(self.home, "hearth init NAME", "token", "create")
        self.refused(self.home, "hearth init NAME", "nodes", "rm", "desk")
        self.refused(self.home, "hearth init NAME", "nodes")
        self.refused(self.home, "must be an IPv4 or IPv6 address", "init", "a", "--address", "nowhere", code=2)
        self.init()
        for path in pathlib.Path(self.home).iterdir():
            self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600, path)
        made = {path.name for path in pathlib.Path(self.home).iterdir()}
        self.assertLessEqual({"cluster.key", "node.key", "admin.key", "cluster.json", "hearth.db"},
                             made)
        key = pathlib.Path(self.home, "cluster.key").read_bytes()
        self.refused(self.home, "holds the cluster home already", "init", "other", "--address",
                     "127.0.0.1")
        self.assertEqual(pathlib.Path(self.home, "cluster.key").read_bytes(), key)
        self.refused(self.home, "is a server's", "leave")
        self.refused(self.home, "is a server's", "join", self.token(), "--model", swarm.MODEL)
        with self.serve() as s:
            self.refused(self.home, "another server runs", "init", "other")
            self.assertIn("127.0.0.1", s.info["control"])

    def test_tokens(self):
        self.init()
        word = self.token("--ttl", "2h", "--uses", "3")
        one = json.loads(self.good(self.home, "token", "list", "--json"))[0]
        self.assertEqual((one["role"], one["uses_left"], one["state"]), ("worker", 3, "valid"))
        self.assertEqual(one["expires"] - one["created"], 7200)
        self.assertNotIn(word.split("@")[0].split(".")[3], json.dumps(one))
        self.good(self.home, "token", "revoke", one["id"])
        self.refused(self.home, "hearth token list", "token", "revoke", one["id"])
        self.assertIn("revoked", self.good(self.home, "token", "list"))
        for words in (["--ttl", "0"], ["--ttl", "x"], ["--uses", "0"]):
            self.assertEqual(self.run_in(self.home, "token", "create", *words)[0], 2, words)

        short, single = self.token("--ttl", "1s"), self.token()
        wrong = single.replace(single.split(".")[3].split("@")[0], "A" * 43)
        other = "hh1." + "0" * 32 + single[len("hh1.") + 32:]
        time.sleep(1.5)
        with self.serve():
            for token in (word, short, wrong):
                err = self.refused(self.folder("desk"), "refuses this join token", "join", token,
                                   "--model", swarm.MODEL, "--name", "desk")
                self.assertNotIn(token.split("@")[0].split(".")[3], err)
            self.refused(self.folder("desk"), "another cluster", "join", other, "--model",
                         swarm.MODEL, "--name", "desk")
            self.refused(self.folder("desk"), "hearth join", "join", "hello", "--model", swarm.MODEL)
            self.refused(self.folder("desk"), "nowhere.gguf", "join", single, "--model",
                         "/nowhere.gguf")
            self.assertEqual(self.names(), {"coordinator"})

            with self.subTest("used twice at once, exactly one wins"):
                joined = [self.join(f"node{i}", single) for i in range(2)]
                swarm.wait_until(lambda: any(p.poll() is not None for p, _ in joined), 30, "a loser")
                swarm.wait_until(lambda: len(self.names()) == 2, 30, "a winner")
                self.assertEqual([p.poll() for p, _ in joined].count(None), 1)

    def test_a_client_asks_and_serves_nothing_and_an_admin_may_look(self):
        self.init()
        with swarm.Swarm(0, "--stages", "1", "--host", "0.0.0.0", data_dir=self.home,
                         ready=False) as s:
            self.join("desk", self.token())
            for role in ("client", "admin"):
                word = self.token("--role", role)
                self.refused(self.folder(role), "refuses this join token", "join", word, "--model",
                             swarm.MODEL, "--name", role)
                self.good(self.folder(role), "join", word, "--name", role)
                self.refused(self.folder(role), "joined as " + role, "worker", "--model",
                             swarm.MODEL)
                key = pathlib.Path(self.folder(role), "api.key")
                self.assertEqual(stat.S_IMODE(key.stat().st_mode), 0o600)
                lost = key.read_text()
                self.good(self.folder(role), "join", word, "--name", role)  # as after a crash
                self.assertNotEqual(key.read_text(), lost)

            def run_as(role, *words):
                return swarm.hearth(*words, env={"HEARTH_DATA_DIR": self.folder(role)})
            swarm.wait_until(lambda: run_as("admin", "status")[0] == 0, 60, "an admin's look")
            self.assertEqual(run_as("client", "status")[0], 5, "a client has none")
            model = json.loads(run_as("admin", "status", "--json")[1])["model"]["id"]
            for role in ("client", "admin"):
                code, out, err = run_as(role, "run", model, "Hi", "-n", "4")
                self.assertEqual(code, 0, err)
                self.assertTrue(out)
            roles = {node["name"]: node["role"]
                     for node in json.loads(self.good(self.home, "nodes", "--json"))["nodes"]}
            self.assertEqual(roles, {"coordinator": "coordinator", "desk": "worker",
                                     "client": "client", "admin": "admin"})
            self.good(self.home, "nodes", "rm", "client")
            self.assertEqual(run_as("client", "run", model, "Hi", "-n", "4")[0], 5, "out")
            self.good(self.folder("admin"), "leave")
            self.assertFalse(pathlib.Path(self.folder("admin"), "api.key").exists())

    def test_the_admin_key_opens_the_api_beyond_loopback(self):
        self.init()
        key = pathlib.Path(self.home, "admin.key").read_text().strip()
        with swarm.Swarm(0, "--stages", "1", "--host", "0.0.0.0", data_dir=self.home,
                         ready=False) as s:
            url = s.api + "/metrics"
            self.assertEqual(swarm.http("GET", url)[0], 401)
            bearer = {"Authorization": "Bearer " + key}
            self.assertEqual(swarm.http("GET", url, headers=bearer)[0], 200)

    def test_a_prompt(self):
        self.init()
        with self.serve() as s:
            self.join("desk", self.token())
            s.wait_ready()
            code, out, err = swarm.hearth("run", s.model, "Hi", "-n", "4", "--host", s.api)
            self.assertEqual(code, 0, err)
            self.assertTrue(out)

    def test_rollback_and_fork_are_refused_and_kept(self):
        self.init()
        roster = pathlib.Path(self.home, "roster")
        desk = pathlib.Path(self.folder("desk"))
        with self.serve() as s:
            _, log = self.join("desk", self.token())
            s.wait_ready()
            older = roster.read_bytes()
            for name in ("one", "two"):
                process, _ = self.join(name, self.token())
                swarm.wait_until(lambda name=name: name in self.names(), 30, name)
                process.kill()
            swarm.wait_until(lambda: (desk / "roster").read_bytes() == roster.read_bytes(), 10,
                             "the newest roster on the desk")
        kept = (desk / "roster").read_bytes()
        roster.write_bytes(older)  # as a copy that was put back would be
        with self.serve() as s:
            s.wait_ready()
            swarm.wait_until(lambda: list(desk.glob("roster.evidence-*")), 10, "evidence")
            self.assertIn("kept as evidence", log.read_text())
            self.assertEqual((desk / "roster").read_bytes(), kept)


if __name__ == "__main__":
    swarm.main()
