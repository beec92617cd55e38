#!/usr/bin/env python3
"""First-token times of later turns: what the prefix cache brings.

    tests/bench/turns.py --model FILE [--workers 3] [--history 10000] [--llama-server PATH]

Three traces over loopback workers: a chat of ten turns behind a long history, an agent that appends
the results of its tools, and eight conversations that take turns. Each prints, by turn, the tokens of
the prompt, those that were cached, the seconds to the first token, and the processor seconds that
workers and server took for the turn. The ratio is to the first turn. With --llama-server the same
messages go to llama.cpp's server on the same file, in turns with Hearth. With --pairs N only the
times of another API key are measured: of N prompts that the first key has asked, and of N that no key
has, how often one is quicker than the other. Asserts nothing.
"""

import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import time
import urllib.request

root = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(root / "tests/e2e"))
sys.path.insert(0, str(root / "tests/bench"))
os.environ.setdefault("HEARTH_BINARY", str(root / "build/hearth"))

TEXTS = sorted(root.glob("docs/*.md")) + sorted(root.glob("docs/decisions/*.md"))
ANSWER = 16  # tokens of an answer


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--history", type=int, default=10_000, help="tokens before the first turn")
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--kv-budget", default="512MB")
    parser.add_argument("--pairs", type=int, default=0, help="times of another API key, alone")
    parser.add_argument("--llama-server", help="llama.cpp's server, beside Hearth")
    parser.add_argument("--threads", type=int, default=1, help="of each worker")
    return parser.parse_args()


class Side:
    """A server: where it listens, and the processes that compute."""

    def __init__(self, name, api, model, pids):
        self.name, self.api, self.model, self.pids = name, api, model, pids

    def processor_s(self):
        ticks = 0
        for pid in self.pids():
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def ask(self, messages, key=None, **more):
        """Seconds to the first token, processor seconds, tokens of the prompt, cached, the text."""
        body = {"model": self.model, "messages": messages, "max_tokens": ANSWER, "temperature": 0,
                "stream": True, "stream_options": {"include_usage": True}, "ignore_eos": True, **more}
        request = urllib.request.Request(self.api + "/v1/chat/completions",
                                         data=json.dumps(body).encode(),
                                         headers={"Content-Type": "application/json",
                                                  **({"Authorization": "Bearer " + key} if key
                                                     else {})})
        used, begun = self.processor_s(), time.monotonic()
        first, text, usage = None, "", None
        with urllib.request.urlopen(request, timeout=600) as reply:
            for line in reply:
                if not line.startswith(b"data: ") or line.strip() == b"data: [DONE]":
                    continue
                event = json.loads(line[6:])
                usage = event.get("usage") or usage
                for choice in event.get("choices", []):
                    part = choice.get("delta", {}).get("content") or ""
                    if part and first is None:
                        first = time.monotonic() - begun
                    text += part
        found = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
        return first, self.processor_s() - used, usage["prompt_tokens"], found, text


def source_text():
    """Much text without an end."""
    whole = "\n".join(path.read_text() for path in TEXTS)
    return whole * 4


def cut(side_tokens, text, tokens):
    """A beginning of the text with about so many tokens."""
    ids = side_tokens(text[:tokens * 8])
    return text[:int(len(text[:tokens * 8]) * min(1.0, tokens / len(ids)))]


def chat(args, history):
    messages = [{"role": "user", "content": history + "\nSay what this is about."}]
    for turn in range(args.turns):
        yield f"chat, turn {turn + 1}", 0, messages
        messages = messages + [{"role": "assistant", "content": None},
                               {"role": "user", "content": f"Go on with point {turn + 2}, please."}]


def agent(args, history):
    words = source_text()[20_000:].split()
    messages = [{"role": "user", "content": "You edit files. " + history}]
    for turn in range(args.turns):
        yield f"agent, step {turn + 1}", 1, messages
        result = " ".join(words[turn * 150:(turn + 1) * 150])
        messages = messages + [{"role": "assistant", "content": None},
                               {"role": "user", "content": f"Result of the tool: {result}"}]


def eight(history):
    conversations = [[{"role": "user", "content": f"Conversation {i}. " + history}] for i in range(8)]
    for turn in range(3):
        for i, messages in enumerate(conversations):
            yield f"conversation {i + 1}, turn {turn + 1}", 2 + i, messages
            conversations[i] = messages + [{"role": "assistant", "content": None},
                                           {"role": "user", "content": f"And part {turn + 2}?"}]


def filled(messages, answers):
    """The messages with the answers that this server gave."""
    said = iter(answers)
    return [{**m, "content": next(said)} if m["content"] is None else m for m in messages]


def run(sides, trace, **more):
    firsts = {}
    answers = {}
    for name, conversation, messages in trace:
        row = f"{name:26}"
        for side in sides:
            key = (side.name, conversation)
            said = answers.setdefault(key, [])
            first, used, prompt, found, text = side.ask(filled(messages, said), **more)
            said.append(text)
            base = firsts.setdefault(key, (first, used))
            row += (f" | {prompt:6} {found:6} {first:8.3f} {first / base[0]:7.1%}"
                    f" {used:8.2f} {used / max(base[1], 0.01):7.1%}")
        print(row, flush=True)


def quicker(some, others):
    """The share of pairs in which one of the first is quicker; a half: they tell nothing."""
    wins = sum((a < b) + (a == b) / 2 for a in some for b in others)
    return wins / (len(some) * len(others))


def compare_keys(side, swarm, data_dir, pairs):
    keys = []
    for name in ("first", "second"):
        code, out, err = swarm.hearth("key", "create", name, "--data-dir", data_dir)
        assert code == 0, err
        keys.append(out.strip())
    words = source_text().split()
    rng = random.Random(1)

    def prompt():
        at = rng.randrange(len(words) - 200)
        return [{"role": "user", "content": f"{rng.random()} " + " ".join(words[at:at + 150])}]
    times = {"asked by the first key": [], "asked by no key": [], "asked by the same key": []}
    for _ in range(pairs):
        known, fresh = prompt(), prompt()
        side.ask(known, keys[0])
        asks = [("asked by the first key", known, keys[1]), ("asked by no key", fresh, keys[1]),
                ("asked by the same key", known, keys[0])]
        rng.shuffle(asks)
        for name, messages, key in asks:
            times[name].append(side.ask(messages, key)[0])
    for name, found in times.items():
        share = quicker(found, times["asked by no key"])
        print(f"{name:24} median {statistics.median(found) * 1000:8.1f} ms, quicker than one that no "
              f"key asked in {share:.1%} of pairs", flush=True)


def llama(args):
    import swarm
    port = swarm.free_port()
    process = subprocess.Popen([args.llama_server, "-m", args.model, "--port", str(port), "-c",
                                str(4 * args.history), "-t", str(os.cpu_count()), "-np", "1"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    api = f"http://127.0.0.1:{port}"

    def up():
        try:
            return swarm.http("GET", api + "/health")[0] == 200
        except OSError:
            return False
    swarm.wait_until(up, "llama-server")
    return process, Side("llama-server", api, "m", lambda: [process.pid])


def main():
    args = arguments()
    import llamacpp
    import swarm
    print(f"{llamacpp.cpu_name()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}, commit "
          f"{llamacpp.commit()}; {pathlib.Path(args.model).name}; {args.workers} workers")
    process = None
    with swarm.Swarm(args.workers, "--kv-budget", args.kv_budget, "--threads", str(args.threads),
                     model=args.model) as s:
        def pids():
            return [s.process.pid, *s.worker_pids().values()]
        sides = [Side("hearth", s.api, s.model, pids)]
        if args.pairs:
            return compare_keys(sides[0], swarm, s.data_dir, args.pairs)
        if args.llama_server:
            process, other = llama(args)
            sides.append(other)

        def tokens(text):
            return s.post("/tokenize", {"content": text})[1]["tokens"]
        history = cut(tokens, source_text(), args.history)
        part = cut(tokens, source_text(), args.history // 8)
        head = " | prompt cached first,s of 1st  cpu,s  of 1st"
        print(f"{'':26}" + "".join(f"{head}  ({side.name})" for side in sides))
        try:
            run(sides, chat(args, history))
            run(sides, agent(args, history))
            run(sides, eight(part))
            print("without the cache:")
            run(sides[:1], list(chat(args, history))[:2], cache_prompt=False)
        finally:
            if process:
                process.terminate()
                process.wait()


if __name__ == "__main__":
    main()
