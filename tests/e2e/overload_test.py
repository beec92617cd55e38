"""More work than the swarm can do: who is let in gets the tokens that it would get alone, all others
are told when to come again, nothing is left behind, and no key keeps another waiting."""

import asyncio
import tempfile
import unittest

import cluster
import load
import swarm


PROMPTS = ["Once upon a time", "The capital of France is", "Water boils at", "To be or not"]


def body(number, tokens=16):
    return {"model": body.model, "prompt": PROMPTS[number % len(PROMPTS)], "max_tokens": tokens,
            "ignore_eos": True, "temperature": 0.8, "seed": number % 3}


def alone(api):
    """What each of them is answered when nobody else asks."""
    known = {}
    for number in range(len(PROMPTS) * 3):
        answer = asyncio.run(load.ask(api, body(number)))
        assert answer.status == 200 and answer.done, answer.error
        known[number % len(PROMPTS), number % 3] = answer.ids
    return known


class Overload(unittest.TestCase):
    def idle(self, s):
        def nothing_left():
            state = s.state()
            pipelines = state["pipelines"]
            return (state["running"] == 0 and state["waiting"] == 0 and
                    all(p["kv_pages_reserved"] == 0 for p in pipelines) and
                    all(n["kv_tokens_used"] == 0 for n in state["nodes"]))
        swarm.wait_until(nothing_left, 30, "idle")

    def test_who_is_let_in_gets_his_tokens_and_the_others_are_told_when(self):
        with swarm.Swarm(2, "--kv-budget", "16MB") as s:
            body.model = s.model
            expected = alone(s.api)
            answers = asyncio.run(load.opened(s.api, 150, 8, body))
            seen = {}
            for number, answer in enumerate(answers):
                self.assertIn(answer.status, (200, 429), answer.error)
                seen[answer.status] = seen.get(answer.status, 0) + 1
                if answer.status == 429:
                    self.assertTrue(1 <= int(answer.headers["retry-after"]) <= 60)
                    continue
                self.assertIsNone(answer.error)
                self.assertIsNotNone(answer.done)
                self.assertEqual(answer.ids, expected[number % len(PROMPTS), number % 3])
            print("answers by status:", seen, flush=True)
            self.assertGreater(seen.get(200, 0), 50)
            self.assertGreater(seen.get(429, 0), 50)
            self.idle(s)
            self.assertEqual(asyncio.run(load.ask(s.api, body(0))).ids, expected[0, 0])

    def test_a_greedy_key_keeps_nobody_waiting(self):
        with tempfile.TemporaryDirectory() as folder:
            cluster.init(folder)
            keys = [swarm.hearth("key", "create", name, "--data-dir", folder)[1].strip()
                    for name in ("greedy", "guest")]
            admin = swarm.hearth("key", "create", "boss", "--admin", "--data-dir", folder)[1]
            with swarm.Swarm(1, "--host", "0.0.0.0", "--kv-budget", "16MB", data_dir=folder,
                             ready=False) as s:
                code, out, err = swarm.hearth("status", "--wait", "60", "--host", s.api,
                                              env={"HEARTH_API_KEY": admin.strip()})
                self.assertEqual(code, 0, err)
                models = swarm.http("GET", s.api + "/v1/models",
                                    headers={"Authorization": "Bearer " + keys[0]})[1]
                body.model = models["data"][0]["id"]

                async def both():
                    greedy = [asyncio.create_task(load.ask(s.api, body(i, 32), keys[0]))
                              for i in range(300)]
                    await asyncio.sleep(1)
                    guest = await load.ask(s.api, body(0, 32), keys[1])
                    before = sum(task.done() for task in greedy)
                    for task in greedy:
                        task.cancel()
                    await asyncio.gather(*greedy, return_exceptions=True)
                    return guest, before
                guest, before = asyncio.run(both())
                self.assertEqual(guest.status, 200, guest.error)
                self.assertIsNotNone(guest.done)
                print(f"greedy answers before the guest's: {before} of 300", flush=True)
                self.assertLess(before, 200)


if __name__ == "__main__":
    swarm.main()
