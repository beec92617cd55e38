"""Credits of a real swarm: who sends prompts pays by the policy's prices, who computes earns, and who
has nothing is refused."""

import json
import urllib.request

import openai

import cluster
import swarm

LAYERS, STAGES = 30, 2
GRANT = 1_000_000
QUESTION = [{"role": "user", "content": "Name a fruit."}]


def price(prompt, answer, cached=0):
    """(what an answer of so many tokens costs, what each of its stages earns); the last is not fed."""
    layers = LAYERS // STAGES
    pay = layers * (prompt - cached + 5 * (answer - 1)) + layers * cached // 10
    return STAGES * (pay + pay // 10), pay


def price_of(answer):
    """The same of an answer, with its usage."""
    usage = answer.usage
    return price(usage.prompt_tokens, usage.completion_tokens,
                 usage.prompt_tokens_details.cached_tokens)


class Credits(swarm.InOneFolder):
    def run_here(self, *words, code=0, env=None):
        got, out, err = swarm.hearth(*words, "--data-dir", self.folder, env=env)
        self.assertEqual(got, code, f"{words}: {out}{err}")
        return out.strip() if code == 0 else err

    def init(self):
        cluster.init(self.folder)
        self.run_here("init", "--credits")
        self.admin = (self.folder / "admin.key").read_text().strip()

    def start(self):
        """Four workers, which become two pipelines of the same cut; every request needs a key."""
        s = swarm.Swarm(0, "--stages", "2", "--host", "0.0.0.0", data_dir=self.folder, ready=False)
        self.addCleanup(s.stop)
        self.swarm = s
        for name in ("w0", "w1", "w2", "w3"):
            self.work(s, name)

        def serving():
            pipelines = self.get("/api/v1/state")["pipelines"]
            return [p for p in pipelines if p["state"] == "serving"]
        swarm.wait_until(lambda: len(serving()) == 2, "two pipelines")
        return s

    def get(self, path):
        status, said = swarm.http("GET", self.swarm.api + path,
                                  headers={"Authorization": "Bearer " + self.admin})
        self.assertEqual(status, 200, said)
        return said

    def client(self, key, **options):
        return openai.OpenAI(base_url=self.swarm.api + "/v1", api_key=key,
                             timeout=swarm.PATIENCE_S, **options)

    def ask(self, key, most=8):
        """An answer of exactly so many tokens."""
        client = self.client(key, max_retries=0)
        return client.chat.completions.create(
            model=client.models.list().data[0].id, messages=QUESTION, max_tokens=most,
            temperature=0, extra_body={"ignore_eos": True})

    def grant(self, account, amount, key=None, code=0):
        out = swarm.hearth("ledger", "grant", account, amount, "--host",
                           self.swarm.api.removeprefix("http://"), "--json",
                           env={"HEARTH_API_KEY": key or self.admin})
        self.assertEqual(out[0], code, out[2])
        return json.loads(out[1]) if code == 0 else out[2]

    def books(self):
        """What the ledger's files say: (spendable by name, escrow by name, all in circulation)."""
        code, out, err = swarm.hearth("ledger", "--folder", self.folder, "--json")
        self.assertEqual(code, 0, err)
        said = json.loads(out)
        everybody = said["nodes"] + said["accounts"]
        spendable = {one["name"]: one["balance"] for one in everybody}
        escrow = {one["name"]: one["escrow"] for one in said["nodes"]}
        self.assertEqual(sum(spendable.values()) + sum(escrow.values()), said["in_circulation"])
        return spendable, escrow, said["in_circulation"]

    def balance_of(self, name, wanted):
        """Once the receipts are in the log, and nothing is kept."""
        swarm.wait_until(lambda: self.books()[0].get(name) == wanted,
                         f"{name} with {wanted} credits, not {self.books()[0].get(name)}")

    def refused(self, key, most=8):
        """Asks with a client that would try again twice; it must ask once."""
        asked = []
        client = self.client(key, max_retries=2, http_client=openai.DefaultHttpxClient(
            event_hooks={"request": [lambda request: asked.append(request.method)]}))
        model = client.models.list().data[0].id
        with self.assertRaises(openai.RateLimitError) as said:
            client.chat.completions.create(model=model, messages=QUESTION, max_tokens=most)
        self.assertEqual(asked.count("POST"), 1)
        error = said.exception
        self.assertEqual(error.status_code, 429)
        self.assertEqual((error.code, error.type), ("insufficient_quota", "insufficient_quota"))
        self.assertEqual(error.response.headers["x-should-retry"], "false")
        return error.body["message"]

    def test_who_sends_prompts_pays(self):
        self.init()
        laptop = self.run_here("key", "create", "laptop")
        self.start()
        account = next(k for k in json.loads(self.run_here("key", "list", "--json"))
                       if k["name"] == "laptop")
        self.assertEqual(account["balance"], 0)
        message = self.refused(laptop)
        self.assertIn("has 0", message)
        self.assertIn("hearth ledger grant laptop AMOUNT", message)

        # Only the owner's key grants, no other admin's, and only what an amount can be.
        another = self.run_here("key", "create", "another", "--admin")
        for key in (laptop, another):
            self.assertIn("admin.key", self.grant("laptop", GRANT, key=key, code=5))
        for amount in ("0", "1.5", "9007199254740993", "much"):
            self.grant("laptop", amount, code=2)
        self.grant("stranger", 5, code=1)
        granted = self.grant("laptop", GRANT)
        self.assertEqual((granted["account"], granted["balance"]), (account["account"], GRANT))

        # The answer costs what the policy says, to the credit; each stage earns its part.
        answer = self.ask(laptop)
        self.assertEqual(answer.usage.completion_tokens, 8)
        cost, pay = price_of(answer)
        said = answer.model_extra["hearth"]["credits"]
        self.assertLessEqual(abs(said["price"] - cost), STAGES)
        self.assertEqual(said["account"], account["account"])
        self.balance_of("laptop (API key)", GRANT - cost)
        escrow = self.books()[1]
        served = [one for one in escrow.values() if one >= pay]
        self.assertEqual(len(served), STAGES, escrow)
        self.assertIn("laptop", self.run_here("key", "list"))

        # The coordinator's own user has the coordinator's account; the key's is untouched.
        self.assertIn("costs up to", self.refused(self.admin))
        self.grant("coordinator", 5_000)
        own = self.ask(self.admin)
        self.balance_of("coordinator", 5_000 - price_of(own)[0])
        self.assertEqual(self.books()[0]["laptop (API key)"], GRANT - cost)

        # Too dear, and told so; for fewer tokens there is enough. A further grant pays for both.
        self.assertIn("max_tokens", self.refused(self.admin, most=500))
        left = self.books()[0]["coordinator"]
        own = self.ask(self.admin, most=2)
        left -= price_of(own)[0]
        self.balance_of("coordinator", left)
        self.grant("coordinator", 200_000)
        own = self.ask(self.admin, most=40)
        left += 200_000 - price_of(own)[0]
        self.balance_of("coordinator", left)

        # The program says it as well. The same question is asked until it meets the pipeline that
        # kept it: an audit that still runs there sends a request to the other one.
        server = ("--host", self.swarm.api.removeprefix("http://"))
        for _ in range(10):
            code, out, err = swarm.hearth("run", own.model, "Name a fruit.", "--max-tokens", 3,
                                          "--json", *server, env={"HEARTH_API_KEY": self.admin})
            self.assertEqual(code, 0, err)
            told = json.loads(out)
            cost_of_it = price(told["prompt_tokens"], told["completion_tokens"],
                               told["cached_tokens"])[0]
            self.assertLessEqual(abs(told["credits"] - cost_of_it), STAGES)
            left -= cost_of_it
            self.balance_of("coordinator", left)
            if told["cached_tokens"]:
                break
        self.assertGreater(told["cached_tokens"], 0, "the same question")
        swarm.wait_until(lambda: self.get("/api/v1/state")["credits"]["reserved"] == 0,
                         "nothing is kept when all has ended")
        code, out, err = swarm.hearth("status", *server, env={"HEARTH_API_KEY": self.admin})
        self.assertIn(f"credits the server's machine has {left};", out)
        code, out, _ = swarm.hearth("ledger", "--folder", self.folder)
        self.assertIn(f"coordinator has {left} credits to spend", out)
        code, out, _ = swarm.hearth("ledger", "laptop", "--folder", self.folder)
        self.assertRegex(out, rf"paid for 2 windows \(-{cost} credits\)")

        # A reader of the log finds that it adds up.
        self.swarm.stop()
        self.end()
        code, out, err = swarm.hearth("audit", self.folder, "--json")
        self.assertEqual(code, 0, err)
        before, _, in_circulation = self.books()
        self.assertEqual(json.loads(out)["books"]["in_circulation"], in_circulation)

        # A restart knows what everybody has.
        self.start()
        self.assertEqual(self.get("/api/v1/state")["credits"]["balance"], left)
        self.assertEqual(self.books()[0], before)
        again = self.ask(laptop)
        self.balance_of("laptop (API key)", GRANT - cost - price_of(again)[0])

    def hear(self, key, body, events=None):
        """A stream of an answer that its client may come back to, until so many of its events."""
        request = urllib.request.Request(
            self.swarm.api + "/v1/chat/completions", data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "Authorization": "Bearer " + key,
                     "Idempotency-Key": "one"})
        heard = 0
        with urllib.request.urlopen(request, timeout=swarm.PATIENCE_S) as reply:
            for raw in reply:
                if not raw.startswith(b"data: {"):
                    continue
                event = json.loads(raw[len("data: "):])
                self.assertNotIn("error", event)
                heard += 1
                if heard == events:
                    return None
        return event

    def test_a_request_that_goes_on_after_a_restart_is_paid_once(self):
        self.init()
        laptop = self.run_here("key", "create", "laptop")
        self.start()
        self.grant("coordinator", 5_000)
        prompt = self.ask(self.admin).usage.prompt_tokens
        most = 400
        pay = LAYERS * (prompt + 5 * most)
        all_of_it = pay + pay // 10  # so that the request takes all that its account has
        self.grant("laptop", all_of_it)
        model = self.client(laptop).models.list().data[0].id
        body = {"model": model, "messages": QUESTION, "max_tokens": most, "temperature": 0,
                "ignore_eos": True, "stream": True, "stream_options": {"include_usage": True}}
        self.hear(laptop, body, events=5)
        self.hear(laptop, body, events=10)  # it comes back while the request runs
        for events in (20, None):
            self.assertIn("are reserved for running requests", self.refused(laptop))
            self.swarm.kill()
            self.swarm.log.close()
            self.swarm = swarm.Swarm(0, "--stages", "2", "--host", "0.0.0.0",
                                     data_dir=self.folder, ready=False)
            self.addCleanup(self.swarm.stop)
            answer = self.hear(laptop, body, events)
        self.assertEqual(answer["usage"]["completion_tokens"], most)
        self.balance_of("laptop (API key)", all_of_it - price(prompt, most)[0])
        self.swarm.kill()  # and what is over costs nothing again
        self.swarm.log.close()
        self.swarm = swarm.Swarm(0, "--stages", "2", "--host", "0.0.0.0", data_dir=self.folder,
                                 ready=False)
        self.addCleanup(self.swarm.stop)
        self.assertEqual(self.hear(laptop, body)["usage"], answer["usage"])
        self.assertEqual(self.get("/api/v1/state")["credits"]["reserved"], 0)
        self.balance_of("laptop (API key)", all_of_it - price(prompt, most)[0])

    def test_no_credits_without_receipts(self):
        self.init()
        code, _, err = swarm.hearth("serve", "--model", swarm.MODEL, "--no-receipts", "--data-dir",
                                    self.folder)
        self.assertEqual(code, 5, err)
        self.assertIn("runs with credits", err)
        self.assertIn("--credits=false", err)
        self.run_here("init", "--credits=false")
        self.assertFalse(json.loads((self.folder / "cluster.json").read_text())["credits"])

    def test_with_a_log_only_no_client_pays(self):
        with swarm.Swarm(1, data_dir=self.folder) as s:
            status, said = s.post("/api/v1/grants", {"to": "coordinator", "amount": 5})
            self.assertEqual((status, said["error"]["code"]), (403, "owner_key_needed"))
            status, said = s.post("/v1/chat/completions",
                                  {"model": s.model, "messages": QUESTION, "max_tokens": 2})
            self.assertEqual(status, 200)
            self.assertNotIn("credits", said["hearth"])


if __name__ == "__main__":
    swarm.main()
