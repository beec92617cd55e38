"""Embeddings, by the official clients of OpenAI and Ollama: of a model that gives them the same numbers on
every split and through the loss of a worker, and refusals of the others.

The model is the demo model with the key that makes it one of embeddings. What llama.cpp gives for a model
of qwen3 is compared where HEARTH_LLAMA_EMBEDDING names its program llama-embedding.
"""

import base64
import json
import math
import os
import pathlib
import signal
import struct
import subprocess
import tempfile
import threading
import unittest

import anthropic
import ollama
import openai

import swarm
from failover_test import all_here, stage_pid

BINARY = os.environ.get("HEARTH_LLAMA_EMBEDDING", "")
TEXT = pathlib.Path(__file__).parents[2] / "ARCHITECTURE.md"
LONG_TOKENS = 3000
TEXTS = ["The capital of France is Paris.", "Paris is where France is governed.",
         "Add two eggs and stir.", "\u00e9\u4f60\U0001f600"]
ALIGNMENT = 32


def with_pooling(source, target, way, eos):
    """A copy of a GGUF file with a key more, or two; a text fills them up to the file's alignment."""
    data = pathlib.Path(source).read_bytes()

    def text(words):
        return struct.pack("<Q", len(words)) + words

    keys = text(b"llama.pooling_type") + struct.pack("<II", 4, way)
    keys += text(b"tokenizer.ggml.add_eos_token") + struct.pack("<IB", 7, eos)
    filler = text(b"test.filler") + struct.pack("<I", 8)
    keys += filler + text(b"x" * (-(len(keys) + len(filler) + 8) % ALIGNMENT))
    assert data[:4] == b"GGUF" and len(keys) % ALIGNMENT == 0
    count = struct.unpack("<Q", data[16:24])[0]
    pathlib.Path(target).write_bytes(data[:16] + struct.pack("<Q", count + 3) + keys + data[24:])


def floats(text):
    raw = base64.b64decode(text)
    return list(struct.unpack(f"<{len(raw) // 4}f", raw))


def single(values):
    """As fp32 numbers."""
    return list(struct.unpack(f"<{len(values)}f", struct.pack(f"<{len(values)}f", *values)))


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True)) / (math.hypot(*a) * math.hypot(*b))


def theirs(file):
    """What llama.cpp makes of TEXTS."""
    done = subprocess.run([BINARY, "-m", file, "-p", "\n".join(TEXTS[:3]), "--embd-normalize", "2",
                           "--embd-output-format", "json"], capture_output=True, text=True,
                          check=True)
    return [each["embedding"] for each in json.loads(done.stdout)["data"]]


class Served(unittest.TestCase):
    """One worker on a model of embeddings."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.file = pathlib.Path(cls.folder.name, "embedder.gguf")
        with_pooling(swarm.MODEL, cls.file, way=3, eos=1)
        cls.swarm = swarm.Swarm(1, model=cls.file)
        cls.addClassCleanup(cls.swarm.stop)
        cls.model = cls.swarm.model
        cls.openai = openai.OpenAI(base_url=cls.swarm.api + "/v1", api_key="any", max_retries=0)
        cls.ollama = ollama.Client(host=cls.swarm.api)

    def embed(self, given, **fields):
        return self.openai.embeddings.create(model=self.model, input=given, **fields)

    def numbers(self, given, **fields):
        return [single(each.embedding) for each in
                self.embed(given, encoding_format="float", **fields).data]


class OpenAi(Served):
    def test_each_text_has_a_vector_of_length_one(self):
        answer = self.embed(TEXTS)
        self.assertEqual([each.index for each in answer.data], [0, 1, 2, 3])
        for each in answer.data:
            self.assertAlmostEqual(math.hypot(*each.embedding), 1, places=5)
        self.assertEqual(answer.usage.prompt_tokens, answer.usage.total_tokens)
        self.assertEqual(self.numbers(TEXTS), [self.numbers(text)[0] for text in TEXTS])

    def test_both_encodings_are_the_same_numbers(self):
        # Without a format the client asks for base64, and reads it.
        self.assertEqual(self.embed(TEXTS[0]).data[0].embedding, self.numbers(TEXTS[0])[0])
        status, raw = self.swarm.post("/v1/embeddings", {"input": TEXTS[0], "model": self.model,
                                                         "encoding_format": "base64"})
        self.assertEqual((status, floats(raw["data"][0]["embedding"])),
                         (200, self.numbers(TEXTS[0])[0]))

    def test_a_shorter_vector_is_the_beginning_at_length_one(self):
        whole, short = self.numbers(TEXTS[0])[0], self.numbers(TEXTS[0], dimensions=32)[0]
        self.assertEqual(len(short), 32)
        self.assertAlmostEqual(math.hypot(*short), 1, places=5)
        self.assertGreater(cosine(whole[:32], short), 0.999999)

    def test_tokens_are_taken_as_they_are(self):
        _, answer = self.swarm.post("/tokenize", {"content": TEXTS[0]})
        ids = answer["tokens"]
        eos = self.swarm.post("/tokenize", {"content": "<|im_end|>"})[1]["tokens"]
        self.assertEqual(len(eos), 1)
        self.assertEqual(self.numbers([ids + eos, ids])[0], self.numbers(TEXTS[0])[0],
                         "EOS stands behind a text")
        self.assertNotEqual(self.numbers(ids), self.numbers(TEXTS[0]))
        self.assertEqual(self.numbers(TEXTS[0] + "<|im_end|>"), self.numbers(TEXTS[0]))

    def test_errors_name_the_field(self):
        wrong = [("input", {"input": []}), ("input", {"input": [[]]}),
                 ("input", {"input": ["a"] * 129}), ("input", {"input": [10**9]}),
                 ("input", {"input": "word " * 20_000}), ("dimensions", {"dimensions": 10**6}),
                 ("encoding_format", {"encoding_format": "int8"})]
        for field, change in wrong:
            with self.assertRaises(openai.BadRequestError) as raised:
                self.embed(**{"given": "a", **change} if "input" not in change
                           else {"given": change["input"]})
            self.assertEqual(raised.exception.param, field, change)
        with self.assertRaises(openai.NotFoundError):
            self.openai.embeddings.create(model="no-such", input="a")

    def test_it_generates_no_text(self):
        say = [{"role": "user", "content": "Hi"}]
        claude = anthropic.Anthropic(base_url=self.swarm.api, api_key="any", max_retries=0)
        asked = [lambda: self.openai.chat.completions.create(model=self.model, messages=say),
                 lambda: self.openai.completions.create(model=self.model, prompt="Hi"),
                 lambda: self.openai.responses.create(model=self.model, input="Hi"),
                 lambda: claude.messages.create(model=self.model, messages=say, max_tokens=3),
                 lambda: self.ollama.chat(self.model, say),
                 lambda: self.ollama.generate(self.model, "Hi")]
        for ask in asked:
            with self.assertRaisesRegex(Exception, "gives embeddings and generates no text"):
                ask()


class Ollama(Served):
    def test_embed(self):
        answer = self.ollama.embed(self.model, TEXTS)
        self.assertEqual([single(each) for each in answer.embeddings], self.numbers(TEXTS))
        self.assertEqual(answer.model, self.model)
        self.assertEqual(answer.prompt_eval_count, self.embed(TEXTS).usage.prompt_tokens)
        short = self.ollama.embed(self.model, TEXTS[0], dimensions=16).embeddings[0]
        self.assertEqual(single(short), self.numbers(TEXTS[0], dimensions=16)[0])

    def test_the_older_route(self):
        answer = self.ollama.embeddings(self.model, TEXTS[0])
        self.assertEqual(single(answer.embedding), self.numbers(TEXTS[0])[0])

    def test_a_text_that_is_too_long_is_cut(self):
        long = "word " * 9_000
        self.assertEqual(len(self.ollama.embed(self.model, long).embeddings), 1)
        with self.assertRaisesRegex(ollama.ResponseError, "too large") as raised:
            self.ollama.embed(self.model, long, truncate=False)
        self.assertEqual(raised.exception.status_code, 400)

    def test_without_a_text_it_is_a_look(self):
        self.assertEqual(self.ollama.embed(self.model, "").embeddings, [])
        self.assertEqual(self.ollama.embeddings(self.model, "").embedding, [])
        self.assertEqual(self.ollama.show(self.model).capabilities, ["embedding"])


class Splits(unittest.TestCase):
    def test_the_loss_of_a_worker_changes_no_bit(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "embedder.gguf")
            with_pooling(swarm.MODEL, file, way=3, eos=0)
            with swarm.Swarm(1, model=file) as s:
                _, answer = s.post("/tokenize", {"content": TEXT.read_text()})
                # Computed each time, so that a loss finds it under way.
                asked = {"model": s.model, "encoding_format": "base64", "cache_prompt": False,
                         "input": [answer["tokens"][:LONG_TOKENS], "a short one"]}
                status, known = s.post("/v1/embeddings", asked)
                self.assertEqual(status, 200, known)
            with swarm.Swarm(3, "--stages", "2", model=file) as s:
                self.assertEqual(s.post("/v1/embeddings", asked)[1]["data"], known["data"])
                for stage in (1, 0):
                    swarm.wait_until(lambda: all_here(s, 3), "all workers")
                    found = []
                    asking = threading.Thread(
                        target=lambda: found.append(s.post("/v1/embeddings", asked)))
                    asking.start()
                    swarm.wait_until(lambda: s.state()["running"] > 0, "a running request")
                    os.kill(stage_pid(s, stage)[0], signal.SIGKILL)
                    asking.join(swarm.PATIENCE_S)
                    self.assertEqual([(200, known["data"])],
                                     [(code, body.get("data")) for code, body in found],
                                     f"stage {stage} of 2 was lost")


class Files(unittest.TestCase):
    def test_another_way_to_embed_is_refused_by_name(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "mean.gguf")
            with_pooling(swarm.MODEL, file, way=1, eos=0)
            code, _, said = swarm.hearth("serve", "--model", file, "--data-dir", folder)
            self.assertNotEqual(code, 0)
            self.assertIn("'llama.pooling_type' is 1 (mean)", said)

    def test_run_says_that_it_generates_no_text(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "embedder.gguf")
            with_pooling(swarm.MODEL, file, way=3, eos=0)
            code, _, said = swarm.hearth("run", "--local", file, "Hi")
            self.assertNotEqual(code, 0)
            self.assertIn("gives embeddings and generates no text", said)

    @unittest.skipUnless(os.path.exists(BINARY), "HEARTH_LLAMA_EMBEDDING names no program")
    def test_llamacpp_gives_the_same_vectors(self):
        with tempfile.TemporaryDirectory() as folder:
            files = {kind: pathlib.Path(folder, kind + ".gguf") for kind in ("F32", "F16", "Q8_0")}
            for kind, file in files.items():
                swarm.make_model(file, "--family", "qwen3", "--shape", "demo", "--layers", "6",
                                 "--vocabulary", "2000", "--type", kind, "--embeddings")
            true = theirs(files["F32"])
            rounded = min(map(cosine, theirs(files["Q8_0"]), true))
            for kind in ("F32", "F16"):
                with swarm.Swarm(2, model=files[kind]) as s:
                    status, answer = s.post("/v1/embeddings", {"input": TEXTS[:3]})
                self.assertEqual(status, 200, answer)
                near = min(cosine(ours["embedding"], other)
                           for ours, other in zip(answer["data"], true, strict=True))
                print(f"{kind}: cosine {near:.7f}; their own of Q8_0: {rounded:.7f}")
                # Activations of 8 bits lie between their fp32 and their Q8_0, which has them, too.
                self.assertGreaterEqual(near, rounded)
                self.assertGreaterEqual(near, 0.999)


if __name__ == "__main__":
    swarm.main(layers=6)
