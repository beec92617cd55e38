"""Libraries that programs use for their models, unmodified, against a running server: one task each.

    HEARTH_API_ROOT=http://127.0.0.1:8177 python3 tests/e2e/clients_suite.py

The packages are those of clients.txt. The server is started by clients_test.py with the scripted
model of small_model.py, which says WORDS and calls a tool only where it must.
"""

import json
import os
import subprocess
import sys
import tempfile
import typing
import unittest

import instructor
import litellm
import openai
import pydantic
import pydantic_ai
import smolagents
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from llama_index.core.llms import ChatMessage
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from smolagents.models import CODEAGENT_RESPONSE_FORMAT

ROOT = os.environ.get("HEARTH_API_ROOT", "")
MODEL = os.environ.get("HEARTH_MODEL_ID", "")
WORDS = os.environ.get("HEARTH_WORDS", "")
SAY = [{"role": "user", "content": "Count."}]
PATIENCE_S = 240


class Place(pydantic.BaseModel):
    """Where somebody lives."""

    city: str
    kind: typing.Literal["house", "flat"]
    rooms: int = pydantic.Field(ge=1, le=9)


WEATHER = {"type": "function", "function": {
    "name": "weather", "description": "The weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}},
                   "required": ["city"], "additionalProperties": False}}}


@tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


class LangChain(unittest.TestCase):
    def model(self, **fields):
        return ChatOpenAI(base_url=ROOT + "/v1", api_key="any", model=MODEL, max_retries=0,
                          timeout=PATIENCE_S, **fields)

    def test_text_and_stream(self):
        self.assertEqual(self.model().invoke("Count.").content, WORDS)
        self.assertEqual("".join(part.content for part in self.model().stream("Count.")), WORDS)

    def test_bind_tools(self):
        bound = self.model().bind_tools([add], tool_choice="any")
        answer = bound.invoke("Add 1 and 2.")
        call = answer.tool_calls[0]
        self.assertEqual(call["name"], "add")
        self.assertEqual(sorted(call["args"]), ["a", "b"])
        result = add.invoke(call)
        again = self.model().bind_tools([add]).invoke([HumanMessage("Add 1 and 2."), answer, result])
        self.assertEqual(again.content, WORDS)

    def test_structured_output(self):
        for method in ("json_schema", "function_calling", "json_mode"):
            with self.subTest(method):
                asked = self.model().with_structured_output(
                    Place if method != "json_mode" else {"type": "object", "title": "Any"},
                    method=method)
                got = asked.invoke("Where does Ann live? Answer in JSON.")
                self.assertIsInstance(got, Place if method != "json_mode" else dict)

    def test_responses(self):
        answer = self.model(use_responses_api=True, store=False).invoke("Count.")
        self.assertEqual(answer.text() if callable(answer.text) else answer.text, WORDS)


class Embeddings(unittest.TestCase):
    """Of another server, whose model gives them."""

    ROOT = os.environ.get("HEARTH_EMBED_ROOT", "")
    MODEL = os.environ.get("HEARTH_EMBED_ID", "")
    TEXTS = [f"This is text number {i}." for i in range(150)]

    def test_langchain(self):
        # Its own tokens are of OpenAI's models: it is to send texts, in parts of at most 128.
        model = OpenAIEmbeddings(base_url=self.ROOT + "/v1", api_key="any", model=self.MODEL,
                                 check_embedding_ctx_length=False, chunk_size=100)
        vectors = model.embed_documents(self.TEXTS)
        self.assertEqual(len(vectors), len(self.TEXTS))
        self.assertEqual(vectors[149], model.embed_query(self.TEXTS[149]))

    def test_litellm(self):
        for prefix, base in (("openai", self.ROOT + "/v1"), ("ollama", self.ROOT)):
            with self.subTest(prefix):
                answer = litellm.embedding(model=f"{prefix}/{self.MODEL}", api_base=base,
                                           api_key="any", input=self.TEXTS[:3])
                self.assertEqual(len(answer.data), 3)


class LiteLlm(unittest.TestCase):
    def ask(self, prefix, base=ROOT + "/v1", **fields):
        return litellm.completion(model=f"{prefix}/{MODEL}", api_base=base, api_key="any",
                                  messages=SAY, num_retries=0, timeout=PATIENCE_S, **fields)

    def test_providers(self):
        for prefix, base in (("openai", ROOT + "/v1"), ("hosted_vllm", ROOT + "/v1"),
                             ("llamafile", ROOT + "/v1"), ("lm_studio", ROOT + "/v1"),
                             ("ollama_chat", ROOT), ("ollama", ROOT), ("anthropic", ROOT)):
            with self.subTest(prefix):
                self.assertEqual(self.ask(prefix, base).choices[0].message.content, WORDS)
                text = "".join(part.choices[0].delta.content or ""
                               for part in self.ask(prefix, base, stream=True))
                self.assertEqual(text, WORDS)

    def test_tools(self):
        for prefix, base in (("openai", ROOT + "/v1"), ("anthropic", ROOT)):
            with self.subTest(prefix):
                answer = self.ask(prefix, base, tools=[WEATHER], tool_choice="required")
                call = answer.choices[0].message.tool_calls[0]
                self.assertEqual(call.function.name, "weather")
                self.assertIn('"city"', call.function.arguments)

    def test_json(self):
        answer = self.ask("openai", response_format={"type": "json_object"})
        self.assertTrue(answer.choices[0].message.content.lstrip().startswith("{"))
        answer = self.ask("openai", response_format=Place)
        Place.model_validate_json(answer.choices[0].message.content)

    def test_responses(self):
        answer = litellm.responses(model=f"openai/{MODEL}", api_base=ROOT + "/v1", api_key="any",
                                   input="Count.", timeout=PATIENCE_S)
        self.assertEqual(answer.output[-1].content[0].text, WORDS)


class Instructor(unittest.TestCase):
    def test_modes(self):
        client = openai.OpenAI(base_url=ROOT + "/v1", api_key="any", max_retries=0,
                               timeout=PATIENCE_S)
        for mode in (instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA,
                     instructor.Mode.TOOLS_STRICT):
            with self.subTest(mode.name):
                got = instructor.from_openai(client, mode=mode).create(
                    model=MODEL, messages=SAY, response_model=Place, max_retries=0)
                self.assertIn(got.kind, ("house", "flat"))
                self.assertTrue(1 <= got.rooms <= 9)


class LlamaIndex(unittest.TestCase):
    def model(self):
        return OpenAILike(model=MODEL, api_base=ROOT + "/v1", api_key="any", is_chat_model=True,
                          is_function_calling_model=True, should_use_structured_outputs=True,
                          context_window=8192, max_retries=0, timeout=PATIENCE_S)

    def test_text_and_stream(self):
        self.assertEqual(self.model().complete("Count.").text, WORDS)
        asked = [ChatMessage(role="user", content="Count.")]
        self.assertEqual(self.model().chat(asked).message.content, WORDS)
        text = "".join(part.delta or "" for part in self.model().stream_chat(asked))
        self.assertEqual(text, WORDS)

    def test_chat_with_tools(self):
        def add(a: int, b: int) -> int:
            """Adds two numbers."""
            return a + b
        answer = self.model().chat_with_tools([FunctionTool.from_defaults(add)], "Add 1 and 2.",
                                              tool_required=True)
        call = self.model().get_tool_calls_from_response(answer)[0]
        self.assertEqual(call.tool_name, "add")
        self.assertEqual(sorted(call.tool_kwargs), ["a", "b"])

    def test_structured_predict(self):
        got = self.model().structured_predict(Place, PromptTemplate("Where does Ann live?"))
        self.assertIsInstance(got, Place)


class PydanticAi(unittest.TestCase):
    def agent(self, **fields):
        client = openai.AsyncOpenAI(base_url=ROOT + "/v1", api_key="any", max_retries=0,
                                    timeout=PATIENCE_S)
        model = OpenAIChatModel(MODEL, provider=OpenAIProvider(openai_client=client))
        return pydantic_ai.Agent(model, instructions="Be brief.", **fields)

    def test_text(self):
        self.assertEqual(self.agent().run_sync("Count.").output, WORDS)

    def test_tools_are_offered(self):
        def add(a: int, b: int) -> int:
            """Adds two numbers."""
            return a + b
        self.assertEqual(self.agent(tools=[add]).run_sync("Count.").output, WORDS)

    def test_output_types(self):
        for form in (pydantic_ai.ToolOutput, pydantic_ai.NativeOutput):
            with self.subTest(form.__name__):
                got = self.agent(output_type=form(Place)).run_sync("Where does Ann live?").output
                self.assertIsInstance(got, Place)


class SmolAgents(unittest.TestCase):
    def model(self):
        return smolagents.OpenAIServerModel(
            MODEL, api_base=ROOT + "/v1", api_key="any",
            client_kwargs={"max_retries": 0, "timeout": PATIENCE_S})

    def test_text_stream_and_stop(self):
        self.assertEqual(self.model().generate(SAY).content, WORDS)
        text = "".join(part.content or "" for part in self.model().generate_stream(SAY))
        self.assertEqual(text, WORDS)
        stop = WORDS.split()[2]
        self.assertEqual(self.model().generate(SAY, stop_sequences=[stop]).content.strip(),
                         WORDS.partition(stop)[0].strip())

    def test_code_agents_format(self):
        got = self.model().generate(SAY, response_format=CODEAGENT_RESPONSE_FORMAT).content
        self.assertEqual(sorted(json.loads(got)), ["code", "thought"])

    def test_tool_calling_agent(self):
        agent = smolagents.ToolCallingAgent(tools=[], model=self.model(), max_steps=1,
                                            verbosity_level=0)
        agent.run("Count.")
        calls = [call.name for step in agent.memory.steps
                 for call in getattr(step, "tool_calls", None) or []]
        self.assertEqual(calls, ["final_answer"])


class Llm(unittest.TestCase):
    """S. Willison's `llm`, as a person types it."""

    def llm(self, *words, model="chat"):
        with tempfile.TemporaryDirectory() as folder:
            lines = []
            for name, fields in (("chat", ["supports_schema: true", "supports_tools: true"]),
                                 ("text", ["completion: true"])):
                lines += [f"- model_id: {name}", f"  model_name: {MODEL}",
                          f"  api_base: {ROOT}/v1", *("  " + each for each in fields)]
            with open(os.path.join(folder, "extra-openai-models.yaml"), "w") as out:
                out.write("\n".join(lines) + "\n")
            program = os.path.join(os.path.dirname(sys.executable), "llm")
            done = subprocess.run([program, "-m", model, *words], capture_output=True, text=True,
                                  stdin=subprocess.DEVNULL, timeout=PATIENCE_S,
                                  env={**os.environ, "LLM_USER_PATH": folder,
                                       "OPENAI_API_KEY": "any"})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def test_text(self):
        self.assertEqual(self.llm("Count."), WORDS)
        self.assertEqual(self.llm("Count.", "--no-stream"), WORDS)

    def test_schema(self):
        got = self.llm("Count.", "--schema", "city, rooms int")
        self.assertEqual(sorted(json.loads(got)), ["city", "rooms"])

    def test_json(self):
        self.assertTrue(self.llm("Count.", "-o", "json_object", "1").startswith("{"))

    def test_tools_are_offered(self):
        self.assertEqual(self.llm("Count.", "-T", "llm_version"), WORDS)


if __name__ == "__main__":
    unittest.main(verbosity=2)
