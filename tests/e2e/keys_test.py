"""API keys with real processes: `hearth key`, a server beyond loopback, and the official client."""

import json
import os
import socket
import stat
import subprocess
import tempfile
import unittest

import openai

import cluster
import swarm


def key(folder, *words):
    code, out, err = swarm.hearth("key", *words, "--data-dir", folder)
    assert code == 0, err
    return out.strip()


class Keys(unittest.TestCase):
    def test_create_list_revoke(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = os.path.join(folder, "data")
            text = key(folder, "create", "laptop", "--models", "a,b", "--rate", "30")
            self.assertRegex(text, r"^hk1\.[0-9a-f]{16}\.[A-Za-z0-9_-]{43}$")
            made = json.loads(key(folder, "create", "--admin", "--json"))
            self.assertEqual(made["role"], "admin")
            listed = json.loads(key(folder, "list", "--json"))
            self.assertEqual([each["name"] for each in listed], ["laptop", made["id"]])
            self.assertEqual(listed[0]["models"], ["a", "b"])
            self.assertEqual(listed[0]["requests_per_minute"], 30)
            secret = text.rsplit(".", 1)[1]
            self.assertNotIn(secret, key(folder, "list") + json.dumps(listed))
            for name in os.listdir(folder):
                path = os.path.join(folder, name)
                self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600, name)
                with open(path, "rb") as file:
                    self.assertNotIn(secret.encode(), file.read())
            code, _, err = swarm.hearth("key", "create", "laptop", "--data-dir", folder)
            self.assertEqual(code, 1)
            self.assertIn("revoke", err)
            key(folder, "revoke", "laptop")
            code, _, err = swarm.hearth("key", "revoke", "laptop", "--data-dir", folder)
            self.assertEqual(code, 1)
            self.assertIn("hearth key list", err)
            self.assertTrue(json.loads(key(folder, "list", "--json"))[0]["revoked"])
            self.assertNotIn("laptop", key(folder, "list"))

    def test_a_folder_that_is_no_servers(self):
        with tempfile.TemporaryDirectory() as folder:
            elsewhere = os.path.join(folder, "elsewhere")
            for words in (["list"], ["revoke", "laptop"]):
                code, _, err = swarm.hearth("key", *words, "--data-dir", elsewhere)
                self.assertEqual(code, 1, err)
                self.assertIn("belongs to no server", err)
                self.assertIn("hearth init", err)
                self.assertFalse(os.path.exists(elsewhere), "nothing is made")
            code, out, err = swarm.hearth("key", "create", "laptop", "--data-dir", elsewhere)
            self.assertEqual(code, 0, err)
            self.assertIn("no server has used the data folder " + elsewhere + " yet", err)
            self.assertIn("hearth init NAME", err)
            code, _, err = swarm.hearth("key", "create", "phone", "--data-dir", elsewhere)
            self.assertEqual(code, 0, err)
            self.assertNotIn("no server has used", err)
            # A cluster that is made afterwards keeps them.
            code, _, err = swarm.hearth("init", "home", "--address", "127.0.0.1", "--data-dir",
                                        elsewhere)
            self.assertEqual(code, 0, err)
            names = [one["name"] for one in json.loads(key(elsewhere, "list", "--json"))]
            self.assertEqual(names, ["laptop", "phone", "admin"])

    def test_wrong_words(self):
        for words in (["key"], ["key", "create", "--rate", "-1"], ["key", "revoke"],
                      ["key", "create", "x", "--rate", "9999999"]):
            self.assertEqual(swarm.hearth(*words)[0], 2, words)


class Beyond(unittest.TestCase):
    """A server that others can reach."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cluster.init(cls.folder.name)
        cls.user = key(cls.folder.name, "create", "user")
        cls.admin = key(cls.folder.name, "create", "boss", "--admin")
        cls.swarm = swarm.Swarm(1, "--host", "0.0.0.0", data_dir=cls.folder.name, ready=False)
        done = swarm.hearth("status", "--wait", "60", "--host", cls.swarm.api,
                            env={"HEARTH_API_KEY": cls.admin})
        assert done[0] == 0, done[2]

    @classmethod
    def tearDownClass(cls):
        cls.swarm.stop()
        cls.folder.cleanup()

    def client(self, text):
        return openai.OpenAI(base_url=self.swarm.api + "/v1", api_key=text, max_retries=0,
                             timeout=swarm.PATIENCE_S)

    def ask(self, client):
        model = client.models.list().data[0].id
        return client.chat.completions.create(
            model=model, max_tokens=4, messages=[{"role": "user", "content": "Hello"}])

    def test_the_official_client(self):
        self.assertEqual(self.ask(self.client(self.user)).usage.completion_tokens, 4)
        for text in ("none", "hk1.0123456789abcdef." + "A" * 43, self.user[:-1] + "!"):
            with self.assertRaises(openai.AuthenticationError) as refused:
                self.ask(self.client(text))
            self.assertEqual(refused.exception.code, "invalid_api_key")

    def test_that_it_lives_is_told_to_this_machine_alone(self):
        self.assertEqual(self.swarm.get("/livez")[0], 200)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
            try:
                way.connect(("192.0.2.1", 9))  # sends nothing
            except OSError:
                self.skipTest("this machine has no address beside loopback")
            own = way.getsockname()[0]
        base = f"http://{own}:{self.swarm.api.rsplit(':', 1)[1]}"
        code, body = swarm.http("GET", base + "/livez")
        self.assertEqual((code, body["error"]["code"]), (401, "invalid_api_key"))
        self.assertEqual(body, swarm.http("GET", base + "/v1/models")[1], "as of any route")
        keyed = {"Authorization": "Bearer " + self.user}
        self.assertEqual(swarm.http("GET", base + "/livez", headers=keyed)[0], 200)

    def test_revoked_while_the_server_runs(self):
        text = key(self.folder.name, "create", "short-lived")
        client = self.client(text)
        self.ask(client)
        key(self.folder.name, "revoke", "short-lived")
        with self.assertRaises(openai.AuthenticationError) as refused:
            self.ask(client)
        self.assertIn("(short-lived) was revoked", str(refused.exception))

    def test_scope_and_rate(self):
        scoped = key(self.folder.name, "create", "scoped", "--models", "another")
        client = self.client(scoped)
        self.assertEqual(client.models.list().data, [])
        model = self.client(self.user).models.list().data[0].id
        with self.assertRaises(openai.PermissionDeniedError):
            client.chat.completions.create(model=model, messages=[{"role": "user", "content": "a"}])
        slow = self.client(key(self.folder.name, "create", "slow", "--rate", "2"))
        slow.models.list()
        slow.models.list()
        with self.assertRaises(openai.RateLimitError) as refused:
            slow.models.list()
        self.assertLessEqual(int(refused.exception.response.headers["retry-after"]), 30)

    def test_a_trust_set_is_kept_or_the_request_refused(self):
        state = json.loads(swarm.hearth("status", "--json", "--host", self.swarm.api, "--api-key",
                                        self.admin)[1])
        worker = state["nodes"][0]["name"]
        at_home = self.client(key(self.folder.name, "create", "home", "--trust", worker))
        abroad = self.client(key(self.folder.name, "create", "abroad", "--trust", "attic,den"))
        self.ask(at_home)
        with self.assertRaises(openai.PermissionDeniedError) as refused:
            self.ask(abroad)
        self.assertEqual(refused.exception.code, "outside_trust_set")
        self.assertIn("(attic, den)", str(refused.exception))
        self.assertNotIn(worker, str(refused.exception), "who serves is not this key's to know")
        model = abroad.models.list().data[0].id
        abroad.completions.create(model=model, prompt="a", max_tokens=2,
                                  extra_body={"trust": [worker, "den"]})
        words = ["run", model, "Hello", "-n", "3", "--host", self.swarm.api, "--api-key", self.user]
        self.assertEqual(swarm.hearth(*words, "--trust", worker)[0], 0)
        code, _, err = swarm.hearth(*words, "--trust", "attic")
        self.assertNotEqual(code, 0)
        self.assertIn("trust names (attic)", err)

    def test_our_own_client(self):
        model = self.client(self.user).models.list().data[0].id
        words = ["run", model, "Hello", "-n", "3", "--host", self.swarm.api]
        code, out, err = swarm.hearth(*words, "--api-key", self.user)
        self.assertEqual(code, 0, err)
        self.assertTrue(out.strip())
        self.assertEqual(swarm.hearth(*words, env={"HEARTH_API_KEY": self.user})[0], 0)
        code, _, err = swarm.hearth(*words)
        self.assertEqual(code, 5)
        self.assertIn("HEARTH_API_KEY", err)
        code, _, err = swarm.hearth("status", "--host", self.swarm.api, "--api-key", self.user)
        self.assertEqual(code, 5)
        self.assertIn("admin", err)

    def test_our_own_client_says_when_to_come_again(self):
        slow = key(self.folder.name, "create", "slow-client", "--rate", "1")
        model = self.client(self.user).models.list().data[0].id
        words = ["run", model, "Hello", "-n", "1", "--host", self.swarm.api, "--api-key", slow]
        swarm.hearth(*words)
        code, out, err = swarm.hearth(*words)
        self.assertEqual((code, out), (4, ""), err)
        self.assertRegex(err, r"rate limit is 1 requests a minute; retry in \d+ s")

    def test_the_log_names_the_reason(self):
        with self.assertRaises(openai.AuthenticationError):
            self.client("hk1.0123456789abcdef." + "A" * 43).models.list()
        swarm.wait_until(lambda: "refused" in self.swarm.read_log(), "a line of the log")
        self.assertNotIn(self.user.rsplit(".", 1)[1], self.swarm.read_log())

    def test_only_the_api_can_be_reached(self):
        for name in ("control", "data"):
            self.assertTrue(self.swarm.info[name].startswith("127.0.0.1:"), name)
        listening = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True).stdout
        mine = [line.split()[3] for line in listening.splitlines()
                if f"pid={self.swarm.process.pid}," in line]
        loopback = ("127.0.0.1:", "[::ffff:127.0.0.1]:")
        self.assertEqual([each for each in mine if not each.startswith(loopback)],
                         ["0.0.0.0:" + self.swarm.api.rsplit(":", 1)[1]] if mine else [])


if __name__ == "__main__":
    swarm.main()
