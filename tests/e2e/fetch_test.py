"""hearth pull --layers against a real web server: bytes, kills, liars, stalls, full disks."""

import hashlib
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import tempfile
import unittest

import swarm
from file_server import Server

HEARTH = swarm.HEARTH


class Fetch(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.model = cls.folder / "model.gguf"
        swarm.make_model(cls.model, "--shape", "demo", "--layers", "6", "--vocabulary", "2000",
                         "--type", "Q8_0")
        code, _, err = swarm.hearth("manifest", cls.model)
        assert code == 0, err
        cls.manifest = str(cls.model) + ".manifest"
        cls.data = cls.model.read_bytes()

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def setUp(self):
        self.cache = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        self.servers = []
        # Nothing of this user's own may be found.
        self.env = {"HEARTH_CACHE_DIR": str(self.cache), "HEARTH_MODELS": str(self.cache / "none"),
                    "HF_HUB_CACHE": str(self.cache / "hub"),
                    "OLLAMA_MODELS": str(self.cache / "ollama")}

    def tearDown(self):
        for server in self.servers:
            server.close()

    def serve(self, data=None):
        self.servers.append(Server(self.data if data is None else data))
        return self.servers[-1]

    def words(self, source, *more, layers="2-3"):
        return ["pull", source, "--manifest", self.manifest, "--layers", layers, "--json", *more]

    def pull(self, source, *more, layers="2-3"):
        code, out, err = swarm.hearth(*self.words(source, *more, layers=layers), env=self.env)
        return code, json.loads(out) if code == 0 else None, err

    def tensors(self, layers):
        """(name, offset, bytes) of what lies in these layers, from the manifest's own bytes."""
        raw = pathlib.Path(self.manifest).read_bytes()
        at, count = 60, int.from_bytes(raw[56:60], "little")
        found = []
        for _ in range(count):
            size = int.from_bytes(raw[at:at + 2], "little")
            name = raw[at + 2:at + 2 + size].decode()
            at += 2 + size
            offset = int.from_bytes(raw[at:at + 8], "little")
            length = int.from_bytes(raw[at + 8:at + 16], "little")
            self.assertEqual(hashlib.sha256(self.data[offset:offset + length]).digest(),
                             raw[at + 16:at + 48], name)
            at += 48
            if any(name.startswith(f"blk.{layer}.") for layer in layers):
                found.append((name, offset, length))
        return found

    def assert_right(self, path, layers):
        got = pathlib.Path(path).read_bytes()
        self.assertEqual(len(got), len(self.data))
        for name, offset, length in self.tensors(layers):
            self.assertEqual(got[offset:offset + length], self.data[offset:offset + length], name)

    def own(self, layers):
        header = int.from_bytes(pathlib.Path(self.manifest).read_bytes()[16:24], "little")
        return header + sum(length for _, _, length in self.tensors(layers))

    def test_only_its_own_bytes(self):
        server = self.serve()
        code, answer, err = self.pull(server.url)
        self.assertEqual(code, 0, err)
        own = self.own((2, 3))
        self.assertEqual(answer["bytes"], own)
        self.assertEqual(answer["fetched"], server.sent)
        print(f"own layers {own} bytes, the server sent {server.sent}: "
              f"{server.sent / own:.4f} of them, {server.sent / len(self.data):.3f} of the file")
        self.assertLessEqual(server.sent, 1.02 * own)
        self.assert_right(answer["path"], (2, 3))
        blocks = os.stat(answer["path"]).st_blocks * 512
        self.assertLess(blocks, 1.1 * own + 65536, "the rest of the file takes no room")
        code, again, _ = self.pull(server.url)
        self.assertEqual((code, again["fetched"]), (0, 0))

    def test_killed_twenty_times(self):
        server = self.serve()
        server.delay = 0.002
        chance = random.Random(7)
        own = self.own((0, 1, 2, 3, 4, 5))
        kills = 0
        while kills < 20:
            server.most = server.sent + chance.randrange(1, len(self.data) // 16)
            process = subprocess.Popen([HEARTH, *map(str, self.words(server.url, layers="0-5"))],
                                       env={**os.environ, **self.env}, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
            swarm.wait_until(lambda: server.sent >= server.most or process.poll() is not None,
                             "bytes")
            self.assertIsNone(process.poll(), "it was done before its last kill")
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
        server.delay, server.most = 0.0, None
        before = server.sent
        code, answer, err = self.pull(server.url, layers="0-5")
        self.assertEqual(code, 0, err)
        self.assert_right(answer["path"], range(6))
        print(f"20 kills: {before} bytes before the last run, {answer['fetched']} in it, "
              f"{own} needed")
        self.assertLess(answer["fetched"], own, "nothing of the killed runs was kept")

    def test_a_liar_is_named_and_another_asked(self):
        _, offset, length = self.tensors((3,))[2]
        wrong = bytearray(self.data)
        wrong[offset + length // 2] ^= 1
        liar, honest = self.serve(bytes(wrong)), self.serve()
        code, answer, err = self.pull(liar.url, "--mirror", honest.url, "--connections", "1")
        self.assertEqual(code, 0, err)
        self.assertIn(f"{liar.url} is dropped: tensor blk.3.", err)
        self.assertNotIn(f"{honest.url} is dropped", err)
        self.assert_right(answer["path"], (2, 3))
        code, _, err = self.pull(liar.url, layers="3")
        self.assertEqual(code, 0, "what is here and right needs no source")

    def test_a_liar_alone_gives_nothing(self):
        wrong = bytearray(self.data)
        wrong[self.tensors((3,))[0][1]] ^= 128
        liar = self.serve(bytes(wrong))
        code, _, err = self.pull(liar.url)
        self.assertEqual(code, 3)
        self.assertIn("does not match the manifest", err)

    def test_servers_without_ranges_are_refused_at_once(self):
        for failing, value, says in (("no_range", True, "does not serve ranges"),
                                     ("other_range", True, "it sends"), ("status", 404, "404"),
                                     ("status", 416, "416"),
                                     ("redirect_for_ever", True, "redirect")):
            server = self.serve()
            setattr(server, failing, value)
            code, _, err = self.pull(server.url)
            self.assertEqual(code, 3, failing)
            self.assertIn(says, err)
            self.assertLessEqual(server.requests, 4, "asked again, to no purpose")

    def test_another_file_of_another_length(self):
        server = self.serve(self.data + b"x")
        code, _, err = self.pull(server.url)
        self.assertEqual(code, 3)
        self.assertIn(f"/{len(self.data) + 1}", err)

    def test_replies_that_break_off(self):
        server = self.serve()
        server.truncate = 0.5
        code, answer, err = self.pull(server.url)
        self.assertEqual(code, 0, err)
        self.assert_right(answer["path"], (2, 3))
        self.assertLessEqual(answer["fetched"], 1.02 * self.own((2, 3)))

    def test_a_stall_is_noticed(self):
        server = self.serve()
        server.stall_once = {1, 3}
        code, answer, err = self.pull(server.url, "--stall", "1")
        self.assertEqual(code, 0, err)
        self.assert_right(answer["path"], (2, 3))

    def test_redirects(self):
        server = self.serve()
        server.redirect = True
        code, answer, err = self.pull(server.url)
        self.assertEqual(code, 0, err)
        self.assert_right(answer["path"], (2, 3))

    def test_offline_dials_nobody(self):
        server = self.serve()
        code, _, err = self.pull(server.url, "--offline")
        self.assertEqual(code, 1)
        self.assertIn("--offline", err)
        self.assertEqual(server.requests, 0)

    def test_files_of_other_programs_are_used_in_place(self):
        server = self.serve()
        blob = self.cache / "hub" / "models--org--name" / "blobs" / ("a" * 64)
        blob.parent.mkdir(parents=True)
        shutil.copy(self.model, blob)
        snapshot = self.cache / "hub" / "models--org--name" / "snapshots" / "c0ffee" / "m.gguf"
        snapshot.parent.mkdir(parents=True)
        snapshot.symlink_to("../../blobs/" + "a" * 64)
        code, answer, err = self.pull(server.url, "--offline")
        self.assertEqual(code, 0, err)
        self.assertTrue(answer["in_place"])
        self.assertEqual(answer["path"], str(blob.resolve()))
        shutil.rmtree(self.cache / "hub")
        mine = self.cache / "ollama" / "blobs" / ("sha256-" + "b" * 64)
        mine.parent.mkdir(parents=True)
        shutil.copy(self.model, mine)
        self.assertEqual(self.pull(server.url)[1]["path"], str(mine.resolve()))
        shutil.rmtree(self.cache / "ollama")
        nfs = self.cache / "nfs"
        nfs.mkdir()
        shutil.copy(self.model, nfs / "any name")
        os.chmod(nfs, 0o555)
        code, answer, _ = self.pull(server.url, "--model-dir", str(nfs))
        os.chmod(nfs, 0o755)
        self.assertEqual(answer["path"], str((nfs / "any name").resolve()))
        self.assertEqual(server.requests, 0)

    def test_a_full_disk(self):
        server = self.serve()
        mount = self.cache / "small"
        mount.mkdir()
        words = " ".join(map(str, self.words(server.url, layers="0-5")))
        done = subprocess.run(
            ["unshare", "-rm", "sh", "-c",
             f"mount -t tmpfs -o size=2m none {mount} || exit 77; "
             f"HEARTH_CACHE_DIR={mount} {os.path.abspath(HEARTH)} {words}"],
            capture_output=True, text=True, env={**os.environ, **self.env},
            timeout=swarm.PATIENCE_S)
        if done.returncode == 77 or "unshare" in done.stderr:
            self.skipTest("this machine does not let a user mount a small disk")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r"another \d+ bytes are needed in .*small.*; free some space")

    def test_wrong_words(self):
        for words in (["pull", "x", "--layers", "1"], ["pull", "x", "--manifest", self.manifest],
                      ["pull", "x", "--mirror", "y"]):
            self.assertEqual(swarm.hearth(*words, env=self.env)[0], 2, words)
        for layers in ("x", "3-2", "1-", "-1", "0-6", "1-2-3", "4294967296"):
            code, _, err = swarm.hearth(*self.words("http://127.0.0.1:9/x", layers=layers),
                                        env=self.env)
            self.assertIn(code, (1, 2), layers)
            self.assertIn("layers", err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
