"""Several models on one server, real processes on loopback: one at a time, which take turns, and
side by side. Answers equal those of `hearth run --local` with the same file.

Needs HEARTH_BINARY, HEARTH_DEMO_MODEL and HEARTH_MEASURE.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import threading
import unittest
import urllib.request

import anthropic
import ollama
import openai

import cluster
import swarm
from embeddings_test import with_pooling

PROMPT = "The capital of France is"
TOKENS = 12
# Sampled, for what a model of random weights likes best is one token again and again.
SAMPLING = {"temperature": 0.9, "top_k": 0, "top_p": 1, "min_p": 0, "repeat_penalty": 1, "seed": 7}
FLAGS = ("--temp", "0.9", "--top-k", "0", "--top-p", "1", "--min-p", "0", "--repeat-penalty", "1",
         "--seed", "7", "-n", TOKENS)


def local(model, prompt=PROMPT):
    code, out, err = swarm.hearth("run", "--local", model, prompt, "--raw", *FLAGS, "--token-ids")
    assert code == 0, err
    return out


def events(url, body, headers=None):
    """Each line of a streamed completion."""
    request = urllib.request.Request(url, data=json.dumps({**body, "stream": True}).encode(),
                                     headers={"Content-Type": "application/json", **(headers or {})})
    with urllib.request.urlopen(request, timeout=swarm.PATIENCE_S) as reply:
        for raw in reply:
            yield raw.decode().rstrip("\n")


class Models(unittest.TestCase):
    """Three models, and what they answer alone."""

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        os.symlink(os.path.abspath(swarm.MODEL), cls.folder / "alpha.gguf")
        swarm.make_model(cls.folder / "beta.gguf", "--seed", "5", "--layers", "4")
        swarm.make_model(cls.folder / "gamma.gguf", "--seed", "6", "--layers", "2")
        cls.files = {name: cls.folder / f"{name}.gguf" for name in ("alpha", "beta", "gamma")}
        cls.wanted = {name: cls.ids_of(local(file)) for name, file in cls.files.items()}

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    @staticmethod
    def ids_of(printed):
        """Token ids that `hearth run --token-ids` prints."""
        return [int(word) for word in printed.replace("[", " ").replace("]", " ").replace(",", " ")
                .split() if word.isdigit()][-TOKENS:]

    def body(self, name, **more):
        return {"model": name, "prompt": PROMPT, "max_tokens": TOKENS, "return_token_ids": True,
                **SAMPLING, **more}

    def serve(self, *flags, models=("alpha", "beta"), workers=2, **more):
        rest = [word for name in models[1:] for word in ("--model", self.files[name])]
        return swarm.Swarm(workers, *rest, *flags, model=self.files[models[0]], **more)

    def ask(self, s, name, **more):
        status, reply = s.post("/v1/completions", self.body(name, **more))
        self.assertEqual(status, 200, reply)
        self.assertEqual(reply["model"], name)
        self.assertEqual(reply["choices"][0]["token_ids"], self.wanted[name], name)
        return reply

    def states(self, s):
        return {one["id"]: one["status"]["value"] for one in s.get("/v1/models")[1]["data"]}


class OneAtATime(Models):
    def serve(self, *flags, **more):
        return super().serve("--loaded-models", "1", *flags, **more)

    def test_requests_alternate_between_two_models(self):
        with self.serve() as s:
            self.assertEqual(self.states(s), {"alpha": "loaded", "beta": "unloaded"})
            self.assertEqual(s.get("/readyz/alpha")[0], 200)
            status, reply = s.get("/readyz/beta")
            self.assertEqual((status, reply["error"]["code"]), (503, "model_not_loaded"))
            self.assertEqual(s.get("/readyz/delta")[0], 404)
            code, out, err = swarm.hearth("ps", "--host", s.api)
            self.assertEqual(code, 0, err)
            self.assertIn("not loaded: beta", out)
            pids = set(s.worker_pids().values())
            for name in ("alpha", "beta", "alpha", "beta"):
                self.ask(s, name)
                self.assertEqual(s.state()["model"]["id"], name)
                self.assertEqual(s.get(f"/readyz/{name}")[0], 200)
                running = s.get("/api/ps")[1]["models"]
                self.assertEqual([one["name"] for one in running], [name])
            self.assertEqual(self.states(s), {"alpha": "unloaded", "beta": "loaded"})
            self.assertEqual({one["name"] for one in s.get("/api/tags")[1]["models"]},
                             {"alpha", "beta"})
            for pid in pids:
                self.assertFalse(swarm.alive(pid), "the workers of the model before are gone")
            # Without a name it is the first one.
            body = self.body("alpha")
            del body["model"]
            status, reply = s.post("/v1/completions", body)
            self.assertEqual((status, reply["model"]), (200, "alpha"))
            self.assertEqual(reply["choices"][0]["token_ids"], self.wanted["alpha"])
            totals = s.state()["totals"]
            self.assertGreaterEqual(totals["finished_length"] + totals["finished_stop"], 5)
            for route, body in (("/v1/completions", self.body("delta")),
                                ("/v1/chat/completions",
                                 {"model": "delta", "messages": [{"role": "user",
                                                                  "content": "Hello"}]})):
                status, reply = s.post(route, body)
                self.assertEqual((status, reply["error"]["code"]), (404, "model_not_found"))
                self.assertIn("'alpha', 'beta'", reply["error"]["message"])

    def test_a_stream_that_waits_for_its_model_is_kept_alive_and_told_why(self):
        with self.serve() as s:
            lines = list(events(s.api + "/v1/completions", self.body("beta")))
            chunks = [json.loads(line[6:]) for line in lines
                      if line.startswith("data: ") and line != "data: [DONE]"]
            loading = [chunk["hearth"]["loading"] for chunk in chunks
                       if "loading" in chunk.get("hearth", {})]
            self.assertTrue(loading, lines)
            self.assertEqual({one["model"] for one in loading}, {"beta"})
            self.assertEqual(loading[-1]["state"], "loading")
            self.assertTrue(lines[0].startswith(":"), "a comment comes first")
            self.assertTrue(all(len(chunk["choices"]) == 1 for chunk in chunks
                                if "loading" in chunk.get("hearth", {})))
            ids = [token for chunk in chunks for choice in chunk["choices"]
                   for token in choice.get("token_ids") or []]
            self.assertEqual(ids, self.wanted["beta"])
            self.assertEqual(lines[-2:], ["data: [DONE]", ""])

    def test_a_request_without_a_prompt_loads_the_model(self):
        with self.serve() as s:
            for route, name in (("/api/generate", "beta"), ("/api/chat", "alpha"),
                                ("/api/generate", "beta:latest")):
                status, reply = s.post(route, {"model": name})
                self.assertEqual((status, reply["done"], reply["done_reason"]),
                                 (200, True, "load"), reply)
                self.assertEqual(s.state()["model"]["id"], name.removesuffix(":latest"))
                self.assertEqual(s.get("/readyz")[0], 200)
            # To let it go changes nothing, nor does it load another one.
            status, reply = s.post("/api/generate", {"model": "alpha", "keep_alive": 0})
            self.assertEqual((status, reply["done_reason"]), (200, "unload"))
            self.assertEqual(s.state()["model"]["id"], "beta")

    def test_streams_of_other_dialects_are_told_what_they_wait_for(self):
        say = [{"role": "user", "content": "Hi"}]
        bodies = [("/v1/messages", {"messages": say, "max_tokens": 3}),
                  ("/api/chat", {"messages": say, "options": {"num_predict": 3}}),
                  ("/v1/responses", {"input": "Hi", "max_output_tokens": 3})]
        with self.serve() as s:
            name = "alpha"
            for route, body in bodies:
                name = "beta" if name == "alpha" else "alpha"
                lines = list(events(s.api + route, {"model": name, **body}))
                self.assertTrue(any(f'"loading":{{"model":"{name}"' in line for line in lines),
                                lines)
            # The official clients read such streams.
            for client in (self.claude, self.ollama, self.responses):
                name = "beta" if name == "alpha" else "alpha"
                self.assertTrue(client(s, name, say), (client, name))

    @staticmethod
    def claude(s, name, say):
        client = anthropic.Anthropic(base_url=s.api, api_key="any", max_retries=0)
        with client.messages.stream(model=name, messages=say, max_tokens=3,
                                    extra_body={"ignore_eos": True}) as events:
            return events.get_final_message().usage.output_tokens == 3

    @staticmethod
    def ollama(s, name, say):
        lines = list(ollama.Client(host=s.api).chat(name, say, stream=True,
                                                    options={"num_predict": 3,
                                                             "ignore_eos": True}))
        return lines[-1].done and lines[-1].eval_count == 3

    @staticmethod
    def responses(s, name, say):
        client = openai.OpenAI(base_url=s.api + "/v1", api_key="any", max_retries=0)
        with client.responses.stream(model=name, input="Hi", max_output_tokens=16,
                                     extra_body={"ignore_eos": True}) as events:
            kinds = [event.type for event in events]
            return kinds[:2] == ["response.created", "response.queued"] and \
                kinds[-1] == "response.incomplete"

    def test_three_models_of_a_folder_for_clients_at_once(self):
        with swarm.Swarm(2, "--loaded-models", "1", model=self.folder) as s:
            self.assertEqual(list(self.states(s)), ["alpha", "beta", "gamma"])
            failures = []

            def client(names):
                try:
                    for name in names:
                        self.ask(s, name)
                except BaseException as error:  # of a thread, for the test
                    failures.append(error)

            orders = (("alpha", "beta", "gamma"), ("gamma", "alpha", "beta"), ("beta", "beta"))
            threads = [threading.Thread(target=client, args=(order,)) for order in orders]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertFalse(failures, failures)
            self.assertEqual(s.state()["waiting"], 0)

    def test_a_worker_that_is_killed_while_its_model_loads(self):
        with self.serve() as s:
            first = set(s.worker_pids().values())
            answers = []
            thread = threading.Thread(
                target=lambda: answers.append(s.post("/v1/completions", self.body("beta"))))
            thread.start()

            def other():
                state = s.state()
                pids = {node["process_id"] for node in state["nodes"] if node["state"] != "lost"}
                return state["model"]["id"] == "beta" and pids - first

            os.kill(next(iter(swarm.wait_until(other, "a worker of the other model"))),
                    signal.SIGKILL)
            thread.join()
            status, reply = answers[0]
            self.assertEqual(status, 200, reply)
            self.assertEqual(reply["choices"][0]["token_ids"], self.wanted["beta"])
            self.ask(s, "alpha")

    def test_keys_share_the_wait_and_their_models_bind(self):
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        keys = {}
        for name, words in (("one", []), ("two", []), ("beta-only", ["--models", "beta"])):
            code, out, err = swarm.hearth("key", "create", name, *words, "--data-dir", folder)
            self.assertEqual(code, 0, err)
            keys[name] = out.split()[-1]
        with self.serve(data_dir=folder) as s:
            def ask(key, model):
                return swarm.http("POST", s.api + "/v1/completions", self.body(model),
                                  headers={"Authorization": f"Bearer {keys[key]}"})

            answers = {}

            def client(key, model):
                answers[key, model] = ask(key, model)

            threads = [threading.Thread(target=client, args=pair)
                       for pair in (("one", "alpha"), ("two", "beta"), ("one", "beta"),
                                    ("two", "alpha"), ("beta-only", "beta"))]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            for (key, model), (status, reply) in answers.items():
                self.assertEqual(status, 200, (key, reply))
                self.assertEqual(reply["choices"][0]["token_ids"], self.wanted[model])
            status, reply = ask("beta-only", "alpha")
            self.assertEqual((status, reply["error"]["code"]), (403, "model_not_allowed"))
            body = self.body("beta")
            del body["model"]
            status, reply = swarm.http("POST", s.api + "/v1/completions", body,
                                       headers={"Authorization": f"Bearer {keys['beta-only']}"})
            self.assertEqual((status, reply["model"]), (200, "beta"), "its own without a name")
            listed = swarm.http("GET", s.api + "/v1/models",
                                headers={"Authorization": f"Bearer {keys['beta-only']}"})[1]
            self.assertEqual([one["id"] for one in listed["data"]], ["beta"])

    def test_receipts_name_their_model(self):
        with self.serve() as s:
            answers = []
            for number, name in enumerate(("alpha", "beta", "alpha")):
                file = s.data_dir / f"answer-{number}"
                code, _, err = swarm.hearth("run", name, PROMPT, "--raw", "--host", s.api, *FLAGS,
                                            "--receipt", file)
                self.assertEqual(code, 0, err)
                answers.append((name, file))

            def verify(file, name):
                code, out, err = swarm.hearth("verify", file, s.data_dir, "--re-execute", "--json",
                                              "--model", self.files[name])
                return None if "has no receipt" in err else (code, out, err)

            for name, file in answers:
                code, out, err = swarm.wait_until(lambda: verify(file, name), "its receipts")
                self.assertEqual(code, 0, err)
                self.assertTrue(json.loads(out)["sound"])
                other = "beta" if name == "alpha" else "alpha"
                self.assertNotEqual(verify(file, other)[0], 0, "it is an answer of one model")
            audits = s.state()["audits"]
            self.assertEqual(audits.get("unreceipted", {}).get("windows", 0), 0, audits)


class SideBySide(Models):
    def nodes_of(self, s, name):
        return {node["name"]: node["process_id"] for node in s.state()["nodes"]
                if node["model"] == name and node["state"] == "serving"}

    def test_two_models_are_loaded_at_once(self):
        with self.serve() as s:
            pids = s.worker_pids()
            for name in ("alpha", "beta", "alpha", "beta"):
                self.ask(s, name)
                self.assertEqual(s.state()["model"]["id"], "alpha", "it is not unloaded")
            self.assertEqual(self.states(s), {"alpha": "loaded", "beta": "loaded"})
            for name in ("alpha", "beta"):
                self.assertEqual(s.get(f"/readyz/{name}")[0], 200)
            self.assertEqual({one["name"] for one in s.get("/api/ps")[1]["models"]},
                             {"alpha", "beta"})
            self.assertEqual(self.nodes_of(s, "alpha"), pids)
            beside = self.nodes_of(s, "beta")
            self.assertEqual(set(beside), {"local-1-m2", "local-2-m2"})
            code, out, err = swarm.hearth("ps", "--host", s.api)
            self.assertEqual(code, 0, err)
            self.assertEqual([line.split()[0] for line in out.splitlines()],
                             ["NAME", "alpha", "beta"])
            code, out, err = swarm.hearth("status", "--host", s.api)
            self.assertEqual(code, 0, err)
            self.assertIn(" of beta", out)
            self.assertEqual(s.state()["totals"]["finished_length"], 4)

            # A worker of the model beside dies in the middle, and the answer is whole.
            lines = events(s.api + "/v1/completions", self.body("beta", max_tokens=200))
            next(line for line in lines if "token_ids" in line)
            os.kill(next(iter(beside.values())), signal.SIGKILL)
            self.assertEqual(list(lines)[-2:], ["data: [DONE]", ""])
            self.ask(s, "beta")
            self.assertEqual(self.nodes_of(s, "alpha"), pids)

    def test_streams_of_three_models_at_once(self):
        with self.serve(models=("alpha", "beta", "gamma")) as s:
            failures = []

            def client(name):
                try:
                    for _ in range(3):
                        self.ask(s, name)
                except BaseException as error:  # of a thread, for the test
                    failures.append(error)

            threads = [threading.Thread(target=client, args=(name,))
                       for name in ("alpha", "beta", "gamma") * 2]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertFalse(failures, failures)
            self.assertEqual(set(self.states(s).values()), {"loaded"})

    def test_what_was_idle_longest_makes_room(self):
        with self.serve("--loaded-models", "2", models=("alpha", "beta", "gamma"), workers=1) as s:
            self.ask(s, "beta")
            self.ask(s, "alpha")
            gone = self.nodes_of(s, "beta")
            self.ask(s, "gamma")
            self.assertEqual(self.states(s),
                             {"alpha": "loaded", "beta": "unloaded", "gamma": "loaded"})
            for pid in gone.values():
                self.assertFalse(swarm.alive(pid), "its memory is free again")
            self.ask(s, "alpha")
            self.ask(s, "beta")
            self.assertEqual(self.states(s)["gamma"], "unloaded")

    def test_the_first_model_makes_room_when_it_was_idle_longest(self):
        with self.serve("--loaded-models", "2", models=("alpha", "beta", "gamma"), workers=1) as s:
            self.ask(s, "beta")
            beside = self.nodes_of(s, "beta")
            self.ask(s, "gamma")
            self.assertEqual(self.states(s),
                             {"alpha": "unloaded", "beta": "loaded", "gamma": "loaded"})
            self.assertEqual(self.nodes_of(s, "beta"), beside, "it stays")
            self.ask(s, "beta")

    def test_a_model_whose_file_is_gone_costs_the_others_nothing(self):
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        for name in ("alpha", "beta", "gamma"):
            shutil.copy(self.files[name], folder / f"{name}.gguf")
        with swarm.Swarm(1, model=folder) as s:
            pids = s.worker_pids()
            os.remove(folder / "beta.gguf")
            os.truncate(folder / "gamma.gguf", 100000)
            for name in ("beta", "gamma"):
                status, reply = s.post("/v1/completions", self.body(name))
                self.assertEqual(status, 503, reply)
                self.assertIn(str(folder / f"{name}.gguf"), reply["error"]["message"])
            self.assertEqual(s.worker_pids(), pids)
            self.ask(s, "alpha")
            shutil.copy(self.files["beta"], folder / "beta.gguf")
            self.ask(s, "beta")

    def test_a_model_that_does_not_fit_beside_takes_the_place(self):
        # The memory of one worker, which holds each of the models and no two of them.
        with self.serve("--kv-budget", "16MB", "--memory", "120MB", workers=1) as s:
            for name in ("beta", "alpha"):
                self.ask(s, name)
                loaded = [one for one, state in self.states(s).items() if state == "loaded"]
                self.assertEqual(loaded, [name])
                self.assertEqual(s.state()["model"]["id"], name)

    def test_receipts_and_audits_of_both(self):
        with self.serve("--stages", "1", "--audit", "full") as s:
            self.ask(s, "beta")

            def pipelines():
                serving = [p["model"] for p in s.state()["pipelines"] if p["state"] == "serving"]
                return sorted(serving) == ["alpha", "alpha", "beta", "beta"]
            swarm.wait_until(pipelines, "two pipelines of each")
            replies = {}

            def ask(name):
                replies[name] = s.post("/v1/completions",
                                       self.body(name, hearth={"verify": "full"}))
            threads = [threading.Thread(target=ask, args=(name,)) for name in ("alpha", "beta")]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            for name, (status, reply) in replies.items():
                self.assertEqual(status, 200, reply)
                self.assertEqual(reply["choices"][0]["token_ids"], self.wanted[name])
                self.assertEqual(reply["hearth"]["verified"]["state"], "verified", reply["hearth"])
            file = s.data_dir / "answer"
            code, _, err = swarm.hearth("run", "beta", PROMPT, "--raw", "--host", s.api, *FLAGS,
                                        "--receipt", file)
            self.assertEqual(code, 0, err)

            def verify():
                code, out, err = swarm.hearth("verify", file, s.data_dir, "--re-execute", "--json",
                                              "--model", self.files["beta"])
                return None if "has no receipt" in err else (code, out, err)
            code, out, err = swarm.wait_until(verify, "its receipts")
            self.assertEqual(code, 0, err)
            self.assertTrue(json.loads(out)["sound"])


class Audited(swarm.InOneFolder):
    """Two pipelines of one layer split, which audit each other, of one model at a time."""

    def test_audits_compute_with_the_model_of_the_answer(self):
        files = {name: self.folder / f"{name}.gguf" for name in ("beta", "gamma")}
        for vocabulary, file in zip((600, 700), files.values()):
            swarm.make_model(file, "--layers", "4", "--vocabulary", vocabulary)
        s = swarm.Swarm(4, "--stages", "2", "--audit", "full", "--loaded-models", "1", "--model",
                        files["gamma"], model=files["beta"], data_dir=self.folder)
        self.addCleanup(s.stop)
        swarm.wait_until(lambda: sum(p["state"] == "serving" for p in s.state()["pipelines"]) == 2,
                         "both pipelines")
        replies = []

        def ask(name):
            replies.append((name, s.post("/v1/completions", {
                "model": name, "prompt": PROMPT, "max_tokens": TOKENS,
                "hearth": {"verify": "full"}, **SAMPLING})))

        threads = [threading.Thread(target=ask, args=(name,))
                   for name in ("beta", "gamma", "beta", "gamma")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for name, (status, reply) in replies:
            self.assertEqual((status, reply.get("model")), (200, name), reply)
            self.assertEqual(reply["hearth"]["verified"]["state"], "verified", reply["hearth"])
        windows = 2 * len(replies)
        audits = swarm.wait_until(
            lambda: (now := s.state()["audits"])["agreed"] >= windows and now, "all windows")
        self.assertEqual((audits["disputed"], audits["missed"]), (0, 0), audits)
        code, out, err = swarm.hearth("audit", self.folder, "--json")
        self.assertEqual(code, 0, err)
        self.assertEqual(json.loads(out)["books"]["disputes"], [])


class Joined(cluster.Cluster):
    """Machines that joined have no file: each opens the model that the coordinator has."""

    def test_joined_workers_change_to_the_model_that_is_asked_for(self):
        files = {name: pathlib.Path(self.folder(f"{name}.gguf")) for name in ("beta", "gamma")}
        for layers, file in zip((4, 2), files.values()):
            swarm.make_model(file, "--layers", layers)
        wanted = {name: Models.ids_of(local(file)) for name, file in files.items()}
        self.init()
        with swarm.Swarm(0, "--stages", "2", "--model", files["gamma"], model=files["beta"],
                         data_dir=self.home, ready=False) as s:
            for name in ("attic", "den"):
                self.start(self.folder(name), "join", self.token(), "--name", name, "--offline")
            s.wait_ready()
            for name in ("beta", "gamma", "beta"):
                status, reply = s.post("/v1/completions", {
                    "model": name, "prompt": PROMPT, "max_tokens": TOKENS,
                    "return_token_ids": True, **SAMPLING})
                self.assertEqual(status, 200, reply)
                self.assertEqual(reply["choices"][0]["token_ids"], wanted[name], name)
                self.assertEqual(s.state()["model"]["id"], name)
            self.assertEqual({node["name"] for node in s.state()["nodes"]
                              if node["state"] == "serving"}, {"attic", "den"})
            for process in self.processes:
                self.assertIsNone(process.poll(), "no worker had to be started again")

    def test_an_embedding_model_is_beside_the_model_of_the_swarm(self):
        file = pathlib.Path(self.folder("embedder.gguf"))
        with_pooling(swarm.MODEL, file, way=3, eos=1)
        other = pathlib.Path(self.folder("other.gguf"))
        swarm.make_model(other, "--layers", "2")
        self.init()
        with swarm.Swarm(1, "--stages", "2", "--model", file, "--model", other,
                         data_dir=self.home, ready=False) as s:
            self.start(self.folder("attic"), "join", self.token(), "--name", "attic", "--offline",
                       "--model", swarm.MODEL)
            s.wait_ready()

            def say(model):
                status, reply = s.post("/v1/completions", {
                    "model": model, "prompt": PROMPT, "max_tokens": TOKENS,
                    "return_token_ids": True, **SAMPLING})
                self.assertEqual(status, 200, reply)
                return reply["choices"][0]["token_ids"]
            chat = pathlib.Path(swarm.MODEL).stem
            wanted = Models.ids_of(local(swarm.MODEL))
            for _ in range(2):
                self.assertEqual(say(chat), wanted)
                status, reply = s.post("/v1/embeddings", {"model": "embedder", "input": PROMPT})
                self.assertEqual(status, 200, reply)
            nodes = {node["name"]: node["model"] for node in s.state()["nodes"]
                     if node["state"] == "serving"}
            self.assertEqual(sorted(nodes.values()), [chat, chat, "embedder"], nodes)
            self.assertEqual(nodes["attic"], chat)
            # A model that generates text gets all machines.
            say("other")
            self.assertEqual(s.state()["model"]["id"], "other")


if __name__ == "__main__":
    swarm.main(layers=6)
