"""`hearth init`, `token`, `join`, `nodes` and `leave` with real processes on loopback: what they
refuse, and what a worker does with a roster that contradicts its own. tests/e2e/machines_test.py
has the way of a new user.
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import sqlite3
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
        self.refused(self.home, "belongs to a server", "leave")
        self.refused(self.home, "belongs to a server", "join", self.token(), "--model", swarm.MODEL)
        with self.serve() as s:
            self.refused(self.home, "the server of the data folder", "init", "other")
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
                swarm.wait_until(lambda: any(p.poll() is not None for p, _ in joined), "a loser")
                swarm.wait_until(lambda: len(self.names()) == 2, "a winner")
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
            swarm.wait_until(lambda: run_as("admin", "status", "--wait", "1")[0] == 0,
                             "an admin's look")
            self.assertEqual(run_as("client", "status")[0], 5, "a client has none")
            self.refused(self.folder("desk"), "its worker runs", "join",
                         self.token("--role", "client"), code=5)
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
            self.assertEqual(json.loads(self.good(self.folder("admin"), "leave", "--json")),
                             {"left": "admin", "coordinator_told": True})
            self.assertFalse(pathlib.Path(self.folder("admin"), "api.key").exists())
            self.refused(self.folder("admin"), "in no cluster", "leave", "--json")
            self.assertEqual(
                json.loads(self.good(self.folder("client"), "leave", "--here-only", "--json")),
                {"left": "client", "coordinator_told": False})

    def test_joining_alone_starts_no_worker(self):
        self.init()
        desk = self.folder("desk")
        with self.serve():
            code, _, err = self.run_in(desk, "join", self.token(), "--model", swarm.MODEL, "--name",
                                       "desk", "--no-worker")
            self.assertEqual(code, 0, err)
            self.assertTrue(err.rstrip().endswith(
                f"to start its worker: hearth worker --data-dir {desk}"), err)
            self.assertIn("desk", self.names())
            process, log = self.start(desk, "worker", "--model", swarm.MODEL)
            swarm.wait_until(lambda: "registered with" in log.read_text(errors="replace"), "desk")
            self.paused_by_an_admin(process, lambda: self.start(desk, "worker", "--model", swarm.MODEL)[0])

    def paused_by_an_admin(self, process, again):
        """The order holds for the next process, too, until an admin resumes the worker."""
        here = {"HEARTH_DATA_DIR": self.home}

        def order(*words):
            code, out, err = swarm.hearth(*words, "--node", "desk", env=here)
            self.assertEqual(code, 0, err)
            return out

        def away():
            [node] = json.loads(swarm.hearth("status", "--json", env=here)[1])["nodes"]
            return node["state"] != "lost" and node.get("away", {}).get("why", "-")
        swarm.wait_until(lambda: away() == "-", "the worker")
        self.assertIn("desk was told to pause until", order("pause", "2h"))
        swarm.wait_until(lambda: away() == "an admin of the cluster", "the pause")
        process.terminate()
        self.assertEqual(process.wait(swarm.PATIENCE_S), 0)
        swarm.wait_until(lambda: not away(), "the lost worker")
        process = again()
        swarm.wait_until(lambda: away() == "an admin of the cluster", "the same pause")
        self.assertIn("may serve again", order("resume"))
        swarm.wait_until(lambda: away() == "-", "the end of the pause")
        code, _, err = swarm.hearth("drain", "--node", "attic", env=here)
        self.assertEqual(code, 1)
        self.assertIn("no worker named attic is connected", err)
        process.terminate()
        self.assertEqual(process.wait(swarm.PATIENCE_S), 0)

    def test_machines_of_one_host_name(self):
        self.init()
        with swarm.Swarm(0, "--stages", "1", data_dir=self.home, ready=False):
            word = self.token("--role", "client", "--uses", "2")
            for one in ("first", "second"):
                self.good(self.folder(one), "join", word)
            first, second = sorted((node["name"] for node in json.loads(
                self.good(self.home, "nodes", "--json"))["nodes"] if node["role"] == "client"),
                key=len)
            self.assertRegex(second, re.escape(first) + r"-\d{4}$")
            self.good(self.folder("second"), "join", word)  # as after a crash: it keeps its name

    def test_an_admin_key_that_others_may_read(self):
        self.init()
        os.chmod(os.path.join(self.home, "admin.key"), 0o644)
        code, _, err = self.run_in(self.home, "serve", "--model", swarm.MODEL, "--port", "0")
        self.assertEqual(code, 1, err)
        self.assertRegex(err, r"admin\.key.*chmod 600 ")

    def test_the_admin_key_opens_the_api_beyond_loopback(self):
        self.init()
        key = pathlib.Path(self.home, "admin.key").read_text().strip()
        with swarm.Swarm(0, "--stages", "1", "--host", "0.0.0.0", data_dir=self.home,
                         ready=False) as s:
            url = s.api + "/metrics"
            self.assertEqual(swarm.http("GET", url)[0], 401)
            bearer = {"Authorization": "Bearer " + key}
            self.assertEqual(swarm.http("GET", url, headers=bearer)[0], 200)
            here = {"HEARTH_DATA_DIR": self.home}
            for words in (["status"], ["status", "--host", s.api]):
                code, _, err = swarm.hearth(*words, env=here)
                self.assertEqual(code, 0, f"on its own machine: {err}")
            elsewhere = {"HEARTH_DATA_DIR": self.folder("elsewhere")}
            self.assertEqual(swarm.hearth("status", "--host", s.api, env=elsewhere)[0], 5)

    def test_beyond_loopback_nothing_listens_without_a_cluster_and_a_key(self):
        serve = ("serve", "--model", swarm.MODEL, "--stages", "1", "--port", "0", "--host",
                 "0.0.0.0")
        self.refused(self.home, "hearth init NAME", *serve, code=2)
        self.refused(self.home, "add --host ADDRESS", "serve", "--model", swarm.MODEL,
                     "--host-name", "den.local", code=2)
        self.good(self.home, "key", "create", "laptop")
        err = self.refused(self.home, "hearth init NAME", *serve, code=2)
        self.assertIn("--host 0.0.0.0", err)
        self.assertFalse(os.path.exists(os.path.join(self.home, "serve.json")), "none has begun")
        self.init()
        before = pathlib.Path(self.home, "admin.key").read_text()
        self.good(self.home, "key", "revoke", "admin")
        self.assertNotEqual(pathlib.Path(self.home, "admin.key").read_text(), before)
        with self.serve():
            self.enrol("desk", self.token())
        self.refused(self.folder("desk"), "on its coordinator's machine", *serve, code=2)

    def test_a_member_that_asks_hears_what_to_do(self):
        self.init()
        with self.serve():
            self.enrol("desk", self.token())
            where = {"HEARTH_DATA_DIR": self.folder("desk")}
            # Over its own link it asks without a key: it sees the swarm, and is no admin.
            code, out, err = swarm.hearth("status", "--json", env=where)
            self.assertEqual(code, 0, err)
            self.assertTrue(json.loads(out)["model"]["id"])
            code, out, err = swarm.hearth("status", "--host", "127.0.0.1:9", env=where)
            self.assertEqual((code, out), (3, ""), err)
            self.assertIn("this machine is worker desk and its coordinator should be there", err)
            self.good(self.home, "nodes", "rm", "desk")
            swarm.wait_until(lambda: swarm.hearth("status", env=where)[0] != 0, "the removal")
            self.enrol("desk2", self.token())
            where = {"HEARTH_DATA_DIR": self.folder("desk2")}
            for words in (["create", "mine"], ["list"], ["revoke", "mine"]):
                self.refused(self.folder("desk2"), "another machine's cluster", "key", *words)
            for words in (["create"], ["list"], ["revoke", "mine"]):
                self.refused(self.folder("desk2"), "this machine is desk2 in another machine's "
                             "cluster; run this on its coordinator's machine", "token",
                             *words)
            self.assertFalse(pathlib.Path(self.folder("desk2"), "hearth.db").exists())
            found = json.loads(swarm.hearth("doctor", "--json", env=where)[1])["findings"]
            [one] = [each for each in found if each["check"] == "coordinator"]
            self.assertIn("the coordinator of this machine's cluster is at 127.0.0.1:",
                          one["text"])
        os.chmod(self.home, 0o777)
        self.refused(self.home, f"chmod go-w {self.home}", "serve", "--model", swarm.MODEL)

    def test_a_prompt(self):
        self.init()
        with self.serve() as s:
            self.join("desk", self.token())
            s.wait_ready()
            code, out, err = swarm.hearth("run", s.model, "Hi", "-n", "4", "--host", s.api)
            self.assertEqual(code, 0, err)
            self.assertTrue(out)

    def test_machines_of_one_owner_do_not_check_each_other(self):
        self.init()
        token = self.token("--owner", "Ada Lovelace", "--uses", "2")
        with swarm.Swarm(0, "--stages", "1", "--audit", "full", data_dir=self.home,
                         ready=False) as s:
            for name in ("desk", "den"):
                self.join(name, token)

            def serving(count):
                pipelines = s.state()["pipelines"]
                return sum(p["state"] == "serving" for p in pipelines) == count
            swarm.wait_until(lambda: serving(2), "two pipelines")
            code, _, err = swarm.hearth("run", s.model, "Hi", "-n", "4", "--host", s.api)
            self.assertEqual(code, 0, err)

            def audits(condition):
                found = s.state()["audits"]
                return found if condition(found) else None
            found = swarm.wait_until(lambda: audits(lambda a: a["waiting"] == 1), "a window")
            self.assertIn("owner", found["why_waiting"])
            self.assertEqual({n["owner"] for n in s.state()["nodes"]}, {"Ada Lovelace"})
            listed = json.loads(self.good(self.home, "nodes", "--json"))["nodes"]
            self.assertEqual({n["name"]: n.get("owner") for n in listed},
                             {"coordinator": None, "desk": "Ada Lovelace", "den": "Ada Lovelace"})
            self.assertIn("OWNER", swarm.hearth("status", "--host", s.api)[1])
            self.join("loft", self.token())
            swarm.wait_until(lambda: audits(lambda a: a["agreed"] == 1), "loft's audit")
            words = ("--folder", self.home, "--json")
            ledger = {n["name"]: n["owner"]
                      for n in json.loads(swarm.hearth("ledger", *words)[1])["nodes"]}
            self.assertEqual(len(ledger), 2, "who served and who checked")
            self.assertEqual(len(set(ledger.values())), 2)
            self.assertNotIn("Ada", json.dumps(ledger))

    def refused_to_serve(self, says):
        code, out, err = self.run_in(self.home, "serve", "--model", swarm.MODEL, "--port", "0")
        self.assertEqual(code, 5, out + err)
        self.assertIn(says, err)
        self.assertIn("hearth nodes restore", err)

    def test_a_store_that_is_set_back_lets_nobody_in_again(self):
        self.init()
        with self.serve():
            self.enrol("desk", self.token())
            self.enrol("spy", self.token())
            left = self.token("--uses", "9")
        copy = self.folder("copy")
        shutil.copytree(self.home, copy)
        with self.serve():
            self.good(self.home, "nodes", "rm", "spy")
            self.enrol("attic", self.token("--owner", "ann"))
            self.enrol("cellar", self.token("--newcomer"))
        for path in pathlib.Path(self.home).glob("hearth.db*"):
            path.unlink()
        # With its journal, which holds what a server that was killed had not moved to the file.
        for path in pathlib.Path(copy).glob("hearth.db*"):
            shutil.copy(path, self.home)
        for _ in range(2):
            self.refused_to_serve("the store is an older copy")
        everybody = {"coordinator", "desk", "attic", "cellar"}
        self.assertEqual(self.names(), everybody, "the roster is as it was")
        restored = json.loads(self.good(self.home, "nodes", "restore", "--json"))
        self.assertEqual((restored["removed"], set(restored["added"])),
                         (["spy"], {"attic", "cellar"}))
        # The roster names no owner, and does not say whether a node is vouched for.
        with contextlib.closing(sqlite3.connect(os.path.join(self.home, "hearth.db"))) as db:
            rows = db.execute("SELECT name, owner, newcomer FROM nodes WHERE revoked = 0").fetchall()
        self.assertEqual(set(rows), {("desk", "", 0), ("attic", "", 1), ("cellar", "", 1)})
        with self.serve():
            self.assertEqual(self.names(), everybody)
            self.refused(self.folder("spy"), "removed", "worker", "--model", swarm.MODEL, code=5)
            self.refused(self.folder("late"), "refuses this join token", "join", left, "--model",
                         swarm.MODEL, "--name", "late")
            self.refused(self.home, "the server of the data folder", "nodes", "restore")

    def test_a_folder_that_is_set_back_is_found_out_by_a_member(self):
        self.init()
        desk = pathlib.Path(self.folder("desk"))
        with self.serve() as s:
            process, log = self.join("desk", self.token())
            s.wait_ready()
        copy = self.folder("copy")
        shutil.copytree(self.home, copy)
        with self.serve() as s:
            s.wait_ready()
            for name in ("one", "two"):
                self.enrol(name, self.token())
            self.good(self.home, "nodes", "rm", "two")
            swarm.wait_until(lambda: (desk / "roster").read_bytes() ==
                             pathlib.Path(self.home, "roster").read_bytes(),
                             "the newest roster on the desk")
        kept = (desk / "roster").read_bytes()
        shutil.rmtree(self.home)
        shutil.copytree(copy, self.home)
        server = self.serve()
        try:
            self.assertEqual(server.process.wait(swarm.PATIENCE_S), 5, server.read_log())
        finally:
            server.stop()
        self.assertIn("desk holds a roster", server.read_log())
        self.assertIn("hearth nodes restore", server.read_log())
        swarm.wait_until(lambda: "kept as evidence" in log.read_text(), "the desk's own word")
        self.assertEqual((desk / "roster").read_bytes(), kept)
        [shown] = pathlib.Path(self.home).glob("roster.evidence-*")
        self.assertEqual(shown.read_bytes(), kept)
        self.refused_to_serve("a roster that a member holds")
        restored = json.loads(self.good(self.home, "nodes", "restore", "--json"))
        self.assertEqual((restored["removed"], restored["added"]), ([], ["one"]))
        with self.serve() as s:
            s.wait_ready()
            self.assertEqual(self.names(), {"coordinator", "desk", "one"})
            self.assertIsNone(process.poll(), log.read_text())

    def test_a_coordinator_that_moves(self):
        self.init()
        with self.serve() as s:
            process, log = self.join("desk", self.token())
            s.wait_ready()
            port = s.info["control"].rsplit(":", 1)[1]
            self.assertEqual(s.info["control"], "127.0.0.1:" + port)
        at = pathlib.Path(self.home, "cluster.json")
        at.write_text(at.read_text().replace("127.0.0.1", "192.0.2.7"))  # as after another DHCP lease
        code, _, err = self.run_in(self.home, "serve", "--model", swarm.MODEL)
        self.assertEqual(code, 3, err)
        self.assertIn("192.0.2.7, which this machine does not have", err)
        self.assertRegex(err, r"hearth init --address \d+\.")
        self.refused(self.home, "which this machine does not have", "init", "--address", "192.0.2.8",
                     code=3)
        said = self.good(self.home, "init", "--address", "127.0.0.2")
        self.assertIn("hearth join 127.0.0.2:" + port, said)
        with self.serve() as s:
            self.assertEqual(s.info["control"], "127.0.0.2:" + port)
            self.assertIsNone(process.poll(), log.read_text())
            said = self.run_in(self.folder("desk"), "join", "127.0.0.2:" + port)
            self.assertEqual(said[0], 0, said[2])
            s.wait_ready()
            self.assertIsNone(process.poll(), log.read_text())
            self.assertIn("127.0.0.2:" + port, self.token())
            where = json.loads(pathlib.Path(self.folder("desk"), "member.json").read_text())
            self.assertEqual(where["coordinators"][0], "127.0.0.2:" + port)
            self.good(self.home, "nodes", "rm", "desk")
            self.assertEqual(process.wait(swarm.PATIENCE_S), 5, log.read_text())
            self.refused(self.folder("desk"), "removed", "join", "127.0.0.2:" + port, code=5)


if __name__ == "__main__":
    swarm.main()
