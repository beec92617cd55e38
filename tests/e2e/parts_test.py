"""Models in parts (model/gguf/parts.h): served, joined, pulled and verified, and the same to the byte
as the one file. Real processes on loopback.

Needs HEARTH_BINARY, HEARTH_DEMO_MODEL and HEARTH_MEASURE.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import unittest

import cluster
import swarm
from file_server import CHUNK, Hub, Server

PROMPT = "The capital of France is"
FLAGS = ("--raw", "--temp", "0.9", "--top-k", "0", "--top-p", "1", "--min-p", "0",
         "--repeat-penalty", "1", "--seed", "7", "-n", 12)
SHAPE = ("--shape", "demo", "--layers", "4", "--vocabulary", "2000", "--type", "Q8_0")


class Models:
    """One model as a file and in parts, in a folder."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        (self.folder / "whole").mkdir()
        (self.folder / "parts").mkdir()
        self.whole = self.folder / "whole" / "model.gguf"
        swarm.make_model(self.whole, *SHAPE)
        swarm.make_model(self.folder / "parts" / "model.gguf", *SHAPE, "--split", 3,
                         "--no-tensor-first-split")
        self.parts = sorted((self.folder / "parts").glob("*.gguf"))
        assert [part.name for part in self.parts] == [
            f"model-0000{i}-of-00003.gguf" for i in (1, 2, 3)], self.parts
        self.first = self.parts[0]


class InFolder(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.models = Models(cls.folder)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def env(self, name):
        """Caches of its own, so that no model of another is found."""
        cache = self.folder / name
        return {"HEARTH_CACHE_DIR": str(cache), "HEARTH_MODELS": str(cache / "models"),
                "HF_HUB_CACHE": str(cache / "hub"), "OLLAMA_MODELS": str(cache / "ollama")}

    def good(self, *words, env=None):
        code, out, err = swarm.hearth(*words, env=env)
        self.assertEqual(code, 0, f"{words}: {err}")
        return out


class Parts(InFolder):
    def test_every_verb_takes_the_first_part_for_the_file(self):
        whole, first = self.models.whole, self.models.first
        shown = [json.loads(self.good("show", path, "--json")) for path in (whole, first)]
        self.assertEqual(shown[1].pop("parts"), 3)
        self.assertEqual(shown[0], shown[1])
        manifests = []
        for path in (whole, first):
            self.good("manifest", path)
            manifests.append(pathlib.Path(f"{path}.manifest").read_bytes())
        self.assertEqual(manifests[0], manifests[1])
        answers = []
        for number, path in enumerate((whole, first)):
            hashes = self.folder / f"hashes-{number}"
            out = self.good("run", "--local", path, PROMPT, *FLAGS, "--hashes", hashes,
                            "--stages", "2")
            answers.append((out, hashes.read_bytes()))
        self.assertEqual(answers[0], answers[1])
        self.assertEqual(len(answers[0][1].splitlines()) % 2, 0)

    def test_another_part_is_refused_with_the_name_of_the_first(self):
        for verb in (("show",), ("manifest",), ("run", "--local")):
            code, _, err = swarm.hearth(*verb, self.models.parts[1], *(
                (PROMPT,) if verb[0] == "run" else ()))
            self.assertEqual(code, 1, err)
            self.assertIn(f"name the first part, '{self.models.first}'", err)

    def test_a_swarm_serves_parts_with_the_hashes_of_the_file(self):
        local = self.folder / "local-hashes"
        text = self.good("run", "--local", self.models.whole, PROMPT, *FLAGS, "--hashes", local,
                         "--stages", "2")
        # A folder of parts has one model.
        for model in (self.models.first, self.models.first.parent):
            with swarm.Swarm(2, model=model) as s:
                self.assertEqual([one["id"] for one in s.get("/v1/models")[1]["data"]], ["model"])
                hashes = s.data_dir / "hashes"
                receipt = s.data_dir / "answer"
                out = self.good("run", "model", PROMPT, *FLAGS, "--host", s.api, "--hashes", hashes,
                                "--receipt", receipt)
                self.assertEqual(out, text)
                self.assertEqual(hashes.read_bytes(), local.read_bytes())
                # The one file is enough to check the answer, and so are the parts.
                for path in (self.models.whole, self.models.first):
                    def verified():
                        code, out, err = swarm.hearth("verify", receipt, s.data_dir, "--re-execute",
                                                      "--json", "--model", path)
                        return None if "has no receipt" in err else (code, out, err)

                    code, out, err = swarm.wait_until(verified, "its receipts")
                    self.assertEqual(code, 0, err)
                    self.assertTrue(json.loads(out)["sound"])

    def test_only_the_wanted_layers_of_parts_are_fetched(self):
        self.good("manifest", self.models.whole, "-o", self.folder / "m.manifest")
        server = Server(b"")
        self.addCleanup(server.close)
        server.bytes_of = lambda path: next(
            (part.read_bytes() for part in self.models.parts if path == "/" + part.name), None)
        url = server.url.replace("model.gguf", self.models.first.name)
        words = ("--manifest", self.folder / "m.manifest", "--layers", "2-3", "--json")
        answer = json.loads(self.good("pull", url, *words, env=self.env("layers")))
        self.assertFalse(answer["in_place"])
        # The headers of the parts are looked for a quarter of a megabyte at a time.
        self.assertLess(server.sent, 1.02 * answer["bytes"] + 3 * 256 * 1024)
        got, whole = pathlib.Path(answer["path"]).read_bytes(), self.models.whole.read_bytes()
        self.assertEqual(len(got), len(whole))
        header = int.from_bytes((self.folder / "m.manifest").read_bytes()[16:24], "little")
        self.assertEqual(got[:header], whole[:header])
        # And where the parts lie on this disk, nothing is fetched.
        answer = json.loads(self.good("pull", url, *words, "--model-dir",
                                      self.models.first.parent, "--offline",
                                      env=self.env("in-place")))
        self.assertEqual((answer["in_place"], answer["path"]), (True, str(self.models.first)))


class Joined(cluster.Cluster):
    """Nodes that hold the model in different files agree on which it is."""

    def test_nodes_with_a_file_with_parts_and_with_none_compute_one_answer(self):
        models = Models(self.root.name)
        text = None
        for served, held in ((models.first, models.whole), (models.whole, models.first)):
            home = self.home = self.folder("home-" + served.parent.name)
            self.init()
            with swarm.Swarm(0, "--stages", "2", model=served, data_dir=home, ready=False) as s:
                for name, words in (("attic", ("--model", held)), ("den", ())):
                    folder = self.folder(f"{name}-{served.parent.name}")
                    cache = pathlib.Path(folder + ".cache")
                    process = subprocess.Popen(
                        [swarm.HEARTH, "join", self.token(), "--name", name, "--offline", "--json",
                         "--data-dir", folder, *map(str, words)],
                        stdout=open(folder + ".out", "ab"), stderr=open(folder + ".err", "ab"),
                        env={**os.environ, "HEARTH_CACHE_DIR": str(cache),
                             "HEARTH_MODELS": str(cache / "models"),
                             "HF_HUB_CACHE": str(cache / "hub"),
                             "OLLAMA_MODELS": str(cache / "ollama")})
                    self.processes.append(process)
                s.wait_ready()
                code, out, err = swarm.hearth("run", "model", PROMPT, *FLAGS, "--host", s.api)
                self.assertEqual(code, 0, err)
                text = text or out
                self.assertEqual(out, text)
                self.assertEqual({node["name"] for node in s.state()["nodes"]
                                  if node["state"] == "serving"}, {"attic", "den"})
            events = {}
            for name in ("attic", "den"):
                lines = pathlib.Path(self.folder(f"{name}-{served.parent.name}.out")).read_text()
                said = [json.loads(line) for line in lines.splitlines()
                        if line.startswith("{") and line.endswith("}")]
                events[name] = [event for event in said if event["event"] == "held"][-1]
            self.assertEqual(events["attic"]["in_place"], str(held))
            self.assertEqual(events["den"]["in_place"], "")
            self.assertGreater(events["den"]["fetched"], events["den"]["bytes"] / 2)


class Pulled(InFolder):
    def hub(self, *more):
        files = {"README.md": b"text", "mmproj-F16.gguf": b"no model",
                 **{f"Q8_0/repo-Q8_0{part.name.removeprefix('model')}": part.read_bytes()
                    for part in self.models.parts}, **dict(more)}
        hub = Hub(files)
        self.addCleanup(hub.close)
        return hub

    def test_a_pull_that_is_killed_in_the_second_part_goes_on_there(self):
        hub = self.hub()
        env = {**self.env("pulled"), "HF_ENDPOINT": hub.endpoint}
        words = [swarm.HEARTH, "pull", "hf:org/repo-GGUF:q8_0"]
        sizes = [len(data) for path, data in hub.files.items() if "Q8_0" in path]
        listed = len(hub.bytes_of("/api/models/org/repo-GGUF/tree/main?recursive=true"))
        hub.most = listed + sizes[0] + sizes[1] // 2
        process = subprocess.Popen(words, env={**os.environ, **env}, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        models = self.folder / "pulled" / "models"

        def kept():
            return sum(each.stat().st_size for each in
                       (models / ".repo.q8_0.incomplete-parts").glob("*.gguf"))

        swarm.wait_until(lambda: hub.sent >= hub.most and kept() > sizes[0],
                         "half of the second part")
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.assertEqual(list(models.glob("*.gguf")), [], "nothing is a model yet")
        had = kept()
        hub.most, before = None, hub.sent
        code, out, err = swarm.hearth(*words[1:], "--json", env=env)
        self.assertEqual(code, 0, err)
        # The server may hand a piece or two to the connection of the killed process.
        self.assertLess(hub.sent - before, listed + sum(sizes) - had + 4 * CHUNK)
        answer = json.loads(out)
        self.assertEqual(answer["name"], "repo.q8_0")
        self.assertEqual(answer["source"],
                         "hf:org/repo-GGUF/Q8_0/repo-Q8_0-00001-of-00003.gguf")
        self.assertEqual(len(answer["part_sha256"]), 3)
        # One bar for all of them.
        bars = [line for line in err.splitlines() if line.startswith("repo.q8_0 ")]
        self.assertTrue(bars, err)
        self.assertIn("100%", bars[-1])
        self.assertFalse((models / ".repo.q8_0.incomplete-parts").exists())
        listed = json.loads(self.good("ls", "--json", env=env))
        self.assertEqual([(one["name"], one["bytes"]) for one in listed],
                         [("repo.q8_0", sum(sizes))])
        for whole, pulled in zip(self.models.parts, sorted(models.glob("*.gguf"))):
            self.assertEqual(whole.read_bytes(), pulled.read_bytes())
        self.assertEqual(self.good("run", "--local", "repo.q8_0", PROMPT, *FLAGS, env=env),
                         self.good("run", "--local", self.models.whole, PROMPT, *FLAGS))
        self.good("rm", "repo.q8_0", env=env)
        self.assertEqual(list(models.glob("repo*")), [])

    def test_layers_come_from_the_model_that_a_repository_has_of_a_quantisation(self):
        hub = self.hub()
        env = {**self.env("by-quantisation"), "HF_ENDPOINT": hub.endpoint}
        manifest = self.folder / "q.manifest"
        self.good("manifest", self.models.whole, "-o", manifest)
        answer = json.loads(self.good("pull", "hf:org/repo-GGUF:q8_0", "--manifest", manifest,
                                      "--layers", "2-3", "--json", env=env))
        self.assertFalse(answer["in_place"])
        self.assertEqual(pathlib.Path(answer["path"]).stat().st_size,
                         self.models.whole.stat().st_size)

    def test_a_repository_that_leaves_a_choice_is_listed(self):
        hub = self.hub(("repo-Q4_0.gguf", b"x" * 3_000))
        env = {**self.env("listed"), "HF_ENDPOINT": hub.endpoint}
        for source in ("hf:org/repo-GGUF", "hf:org/repo-GGUF:Q6_K"):
            code, _, err = swarm.hearth("pull", source, env=env)
            self.assertEqual(code, 1, err)
            self.assertIn("Q8_0/repo-Q8_0-00001-of-00003.gguf", err)
            self.assertIn(", 3 parts)", err)
            self.assertIn("repo-Q4_0.gguf (3.0 kB)", err)
            self.assertNotIn("mmproj", err)
        code, _, err = swarm.hearth("pull", "hf:org/none-GGUF:Q8_0", env=env)
        self.assertEqual(code, 1, err)
        self.assertIn("answers 404; check the name", err)


if __name__ == "__main__":
    swarm.main()
