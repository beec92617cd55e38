"""More machines than an exact search sees, as real workers: one cut of the layers for all pipelines,
each holder of a range stands in where it is lost, and a later node changes nothing that runs."""

import os
import signal
import subprocess
import time
import unittest

import failover_test
import swarm

WORKERS = 18
STAGES = 3
TOKENS = 120


class Pool(unittest.TestCase):
    def setUp(self):
        self.s = swarm.Swarm(WORKERS, "--optimise", "throughput", "--stages", STAGES, "--threads",
                             "1", "--kv-budget", "24MB", ready=False)
        self.addCleanup(self.s.stop)
        began = time.monotonic()
        self.s.wait_ready()
        print(f"{WORKERS} workers serve after {time.monotonic() - began:.0f} s", flush=True)
        swarm.wait_until(lambda: len(self.pipelines()) == WORKERS // STAGES, "all pipelines")

    def pipelines(self):
        return {p["epoch"]: p for p in self.s.state()["pipelines"] if p["state"] == "serving"}

    def cut(self, pipeline):
        nodes = {node["name"]: node["layers"] for node in self.s.state()["nodes"]}
        return [nodes[name] for name in pipeline["nodes"]]

    def stream(self, seed):
        return failover_test.Stream(self.s.api, failover_test.request(self.s.model, seed, "Hi", TOKENS))

    def test_one_cut_stand_ins_and_joiners(self):
        before = self.pipelines()
        cuts = [self.cut(pipeline) for pipeline in before.values()]
        self.assertEqual(cuts, [cuts[0]] * len(cuts), "one cut for all")
        self.assertEqual([0] + [layers[1] for layers in cuts[0]],
                         [layers[0] for layers in cuts[0]] + [30])
        placed = [name for pipeline in before.values() for name in pipeline["nodes"]]
        self.assertEqual(len(placed), len(set(placed)), "pipelines share no node")

        words = ("Hi", "-n", "24", "--temp", "0.7", "--seed", "4", "--token-ids")
        here = swarm.hearth("run", self.s.model, *words, "--host", self.s.api)
        alone = swarm.hearth("run", "--local", swarm.MODEL, *words)
        self.assertEqual(here[:2], alone[:2], here[2] + alone[2])

        late = subprocess.Popen(
            [swarm.HEARTH, "worker", "--model", swarm.MODEL, "--coordinator", self.s.info["control"],
             "--data-dir", str(self.s.data_dir), "--name", "late", "--threads", "1"],
            stdout=self.s.log, stderr=self.s.log)
        self.addCleanup(late.wait)
        self.addCleanup(late.kill)

        def spare():
            late = next((n for n in self.s.state()["nodes"] if n["name"] == "late"), {})
            return late.get("spare") if late.get("state") == "free" else None
        swarm.wait_until(spare, "why the one who came later is spare")
        self.assertEqual(set(self.pipelines()), set(before), "nothing that runs is changed")

        references = [self.stream(seed) for seed in range(4)]
        for reference in references:
            reference.join(swarm.PATIENCE_S)
            self.assertEqual(len(reference.ids), TOKENS, reference.error)
        streams = [self.stream(seed) for seed in range(4)]
        swarm.wait_until(lambda: all(len(one.ids) >= 20 for one in streams), "first tokens")
        pids = self.s.worker_pids()
        victims = [p["nodes"][at % STAGES] for at, p in enumerate(list(before.values())[:4])]
        for name in victims:
            os.kill(pids[name], signal.SIGKILL)
        for one, reference in zip(streams, references):
            one.join(swarm.PATIENCE_S)
            self.assertIsNone(one.error)  # an audit of the lost nodes may end with one
            self.assertEqual(one.answer(), reference.answer())
        self.assertGreater(self.s.state()["totals"]["resumed"], 0)
        swarm.wait_until(lambda: len(self.pipelines()) >= WORKERS // STAGES - 1, "pipelines")
        self.assertEqual(self.cut(next(iter(self.pipelines().values()))), cuts[0])


if __name__ == "__main__":
    swarm.main()
