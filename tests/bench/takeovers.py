#!/usr/bin/env python3
"""Three coordinators with one PostgreSQL store, four workers, and streams through all coordinators,
while the leader or the store fails: what clients lose, and for how long.

    tests/bench/takeovers.py --model FILE [--tries 20] [--faults kill,freeze,cut,away,restart]
                             [--streams 16] [--tokens 100] [--layers 4] [--out FILE]

kill: SIGKILL of the leader. freeze: it stands still (SIGSTOP) until another one leads and has
answered. cut: nothing passes between the leader and the store. away: nothing passes between any
coordinator and the store, for 5 s. restart: the store's server is killed and started again.

Every client sends an Idempotency-Key, and comes back with its Last-Event-ID by the next coordinator.
Each answer must equal that of an undisturbed run, token by token. A trigger in the database writes
down each change of the lease and each write of the ledger, with the database's clock: no lease may
begin before the one before it has ended, and each connection writes the ledger in one epoch. At the
end `hearth audit` reads the ledger. Exits with 1 where that does not hold; asserts nothing about
time.
"""

import argparse
import collections
import json
import os
import pathlib
import platform
import random
import select
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

root = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(root / "tests/e2e"))
os.environ.setdefault("HEARTH_BINARY", str(root / "build/hearth"))
os.environ.setdefault("HEARTH_MEASURE", str(root / "build/tests/tools/hearth-measure"))

import cluster  # noqa: E402
import postgres  # noqa: E402
import swarm  # noqa: E402

FAULTS = ("kill", "freeze", "cut", "away", "restart")
AWAY_S = 5
SILENCE_S = 6  # after which a client leaves a connection that gives nothing

LOG = """
CREATE SCHEMA watched;
CREATE TABLE watched.leases (n BIGSERIAL, at DOUBLE PRECISION, epoch BIGINT, holder TEXT, name TEXT,
  lasts BIGINT, ends DOUBLE PRECISION, taken BOOLEAN);
CREATE TABLE watched.writes (n BIGSERIAL, at DOUBLE PRECISION, epoch BIGINT, connection TEXT);
CREATE FUNCTION watched.lease() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO watched.leases (at, epoch, holder, name, lasts, ends, taken) VALUES (
    extract(epoch FROM clock_timestamp()), NEW.epoch, NEW.holder, NEW.name, NEW.lasts,
    extract(epoch FROM NEW.ends), NEW.epoch <> OLD.epoch);
  RETURN NEW; END $$;
CREATE FUNCTION watched.ledger() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO watched.writes (at, epoch, connection) SELECT extract(epoch FROM clock_timestamp()),
    epoch, (SELECT pid || ' ' || backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid())
    FROM hearth.lease;
  RETURN NULL; END $$;
CREATE TRIGGER watched AFTER UPDATE ON hearth.lease FOR EACH ROW EXECUTE FUNCTION watched.lease();
CREATE TRIGGER watched AFTER INSERT OR UPDATE OR DELETE ON hearth.ledger_files
  FOR EACH STATEMENT EXECUTE FUNCTION watched.ledger();
"""


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--tries", type=int, default=20)
    parser.add_argument("--faults", default=",".join(FAULTS))
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--layers", type=int, default=4, help="of the model, the first ones")
    parser.add_argument("--out", help="a file for one line of JSON of each try")
    return parser.parse_args()


class Relay:
    """A way to the store that can be cut: what is under way then arrives when it is mended."""

    def __init__(self, folder, database):
        self.folder, self.target = folder, database.socket
        os.makedirs(folder)
        self.path = f"{folder}/.s.PGSQL.{database.port}"
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(64)
        self.url = f"postgresql://hearth@/postgres?host={folder}&port={database.port}"
        self.is_cut = False
        self.wakes, self.woken = socket.socketpair()
        threading.Thread(target=self.run, daemon=True).start()

    def cut(self, is_cut=True):
        self.is_cut = is_cut
        self.wakes.send(b".")

    def run(self):
        pairs = {}
        while True:
            reads = [self.woken] + ([] if self.is_cut else [self.listener, *pairs])
            for ready in select.select(reads, [], [])[0]:
                if ready is self.woken:
                    ready.recv(64)
                elif ready is self.listener:
                    self.take(pairs)
                elif ready in pairs:
                    self.move(pairs, ready)

    def take(self, pairs):
        near, far = self.listener.accept()[0], socket.socket(socket.AF_UNIX)
        try:
            far.connect(self.target)
        except OSError:
            near.close()
            return
        pairs[near], pairs[far] = far, near

    def move(self, pairs, ready):
        other = pairs[ready]
        try:
            data = ready.recv(1 << 16)
            if data:
                other.sendall(data)
        except OSError:
            data = b""
        if not data:
            for end in (ready, other):
                del pairs[end]
                end.close()


class Stream(threading.Thread):
    """One answer, whose client goes on by the next coordinator when a connection gives nothing."""

    def __init__(self, apis, first, body, key):
        super().__init__(daemon=True)
        self.apis, self.at, self.body, self.key = apis, first, body, key
        self.ids, self.last, self.done, self.error = [], None, False, None
        self.times, self.notes = [], []
        self.start()

    def run(self):
        end = time.monotonic() + swarm.PATIENCE_S
        while not self.done and self.error is None:
            if time.monotonic() > end:
                self.error = "it is not whole in time"
            try:
                self.connect()
            except (OSError, ValueError) as failure:
                self.notes.append(repr(failure))
            if not self.done:
                self.at += 1
                time.sleep(0.05)

    def connect(self):
        headers = {"Content-Type": "application/json", "Idempotency-Key": self.key}
        if self.last:
            headers["Last-Event-ID"] = self.last
        api = self.apis[self.at % len(self.apis)]
        ask = urllib.request.Request(api + "/v1/completions", data=json.dumps(self.body).encode(),
                                     headers=headers)
        try:
            with urllib.request.urlopen(ask, timeout=SILENCE_S) as reply:
                self.read(reply)
        except urllib.error.HTTPError as refusal:
            text = refusal.read().decode(errors="replace")
            self.notes.append(f"{refusal.code} {text}")
            if refusal.code not in (429, 503):
                self.error = f"{refusal.code} {text}"

    def read(self, reply):
        event_id, data = None, None
        for raw in reply:
            line = raw.decode().rstrip("\n")
            if line.startswith("id: "):
                event_id = line[4:]
            elif line.startswith("data: "):
                data = line[6:]
            elif line == "" and data is not None:
                self.take(event_id, data)
                event_id, data = None, None

    def take(self, event_id, data):
        if data == "[DONE]":
            self.done = True
            return
        event = json.loads(data)
        if "error" in event:
            self.notes.append(data)
            return
        self.last = event_id or self.last
        for choice in event.get("choices", []):
            self.ids += choice.get("token_ids") or []
        self.times.append(time.time())

    def pause(self):
        """The longest between two events, in seconds."""
        return max((b - a for a, b in zip(self.times, self.times[1:])), default=0)


class House:
    """The processes."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.database = postgres.Postgres()
        self.homes, self.relays, self.ports, self.coordinators = [], [], [], []
        self.workers = []
        self.begin()

    def path(self, name):
        return os.path.join(self.folder, name)

    def good(self, *words):
        code, out, err = swarm.hearth(*words)
        if code != 0:
            raise AssertionError(f"{words}: {out}{err}")
        return out.strip()

    def begin(self):
        home = self.path("coordinator-0")
        cluster.init(home)
        self.good("store", "migrate", "--to", self.database.url, "--data-dir", home)
        self.database.ask(LOG)
        for number in range(3):
            self.add(home, number)
        for s in self.coordinators:
            s.log.flush()
        for number in range(4):
            token = self.good("token", "create", "--data-dir", home)
            with open(self.path(f"worker-{number}.log"), "ab") as log:
                self.workers.append(subprocess.Popen(
                    [swarm.HEARTH, "join", token, "--model", swarm.MODEL, "--name", f"w{number}",
                     "--data-dir", self.path(f"worker-{number}")], stdout=log, stderr=log))
        swarm.wait_until(lambda: self.is_settled(), "the swarm")

    def add(self, home, number):
        """As docs/operate.md says."""
        folder = self.path(f"coordinator-{number}")
        if folder != home:
            os.makedirs(folder, mode=0o700)
            for name in ("cluster.key", "node.key", "cluster.json", "admin.key"):
                pathlib.Path(folder, name).write_bytes(pathlib.Path(home, name).read_bytes())
                os.chmod(pathlib.Path(folder, name), 0o600)
        self.relays.append(Relay(self.path(f"way-{number}"), self.database))
        url = pathlib.Path(folder, "store.url")
        url.write_text(self.relays[-1].url + "\n")
        os.chmod(url, 0o600)
        self.homes.append(folder)
        # A join token names the address in cluster.json, which the first one has.
        control = None if number == 0 else swarm.free_port()
        self.ports.append((swarm.free_port(), control))
        self.coordinators.append(self.serve(number))

    def serve(self, number):
        port, control = self.ports[number]
        return swarm.Swarm(0, "--stages", "4", data_dir=self.homes[number], port=port,
                           control_port=control, ready=False)

    def apis(self):
        return [s.api for s in self.coordinators]

    def lease(self):
        """(epoch, number of the coordinator that holds it)."""
        epoch, name = self.database.ask("SELECT epoch, name FROM hearth.lease").split("|")
        for number, s in enumerate(self.coordinators):
            if name.endswith(f", process {s.process.pid}"):
                return int(epoch), number
        return int(epoch), None

    def is_settled(self):
        """A leader, two standbys, and all of them answer."""
        for s in self.coordinators:
            if s.process.poll() is not None:
                raise AssertionError("a coordinator ended: " + s.read_log()[-2000:])
        count = self.database.ask("SELECT count(*) FROM hearth.coordinators, hearth.lease WHERE "
                                  "id <> holder AND seen > clock_timestamp() - interval '5 s'")
        if self.lease()[1] is None or int(count) < 2:
            return False
        try:
            return all(swarm.http("GET", api + "/readyz", timeout=5)[0] == 200
                       for api in self.apis())
        except (OSError, ValueError):
            return False

    def end(self):
        for relay in self.relays:
            relay.cut(False)
        for s in self.coordinators:
            if s.process.poll() is None:
                os.kill(s.process.pid, signal.SIGCONT)
            s.stop()
        for worker in self.workers:
            worker.kill()
            worker.wait()

    # Each fault returns when what is lost can come back, by the clock, and what mends it.

    def kill(self, leader):
        begun = time.time()
        self.coordinators[leader].kill()

        def again():
            self.coordinators[leader].log.close()
            self.coordinators[leader] = self.serve(leader)
        return begun, again

    def freeze(self, leader):
        pid = self.coordinators[leader].process.pid
        begun = time.time()
        os.kill(pid, signal.SIGSTOP)
        return begun, lambda: os.kill(pid, signal.SIGCONT)

    def cut(self, leader):
        begun = time.time()
        self.relays[leader].cut()
        return begun, lambda: self.relays[leader].cut(False)

    def away(self, _):
        for relay in self.relays:
            relay.cut()
        time.sleep(AWAY_S)
        begun = time.time()
        for relay in self.relays:
            relay.cut(False)
        return begun, lambda: None

    def restart(self, _):
        self.database.cut()
        self.database.start()
        begun = float(self.database.ask("SELECT extract(epoch FROM pg_postmaster_start_time())"))
        return begun, lambda: None


def body_of(number, options):
    return {"model": pathlib.Path(swarm.MODEL).stem, "seed": number + 1, "stream": True,
            "prompt": f"Story number {number} begins at the sea.", "temperature": 0.9,
            "max_tokens": options.tokens, "ignore_eos": True, "return_token_ids": True}


def streams(house, options, name):
    return [Stream(house.apis(), number % 3, body_of(number, options), f"{name} {number}")
            for number in range(options.streams)]


def finished(all_streams):
    for each in all_streams:
        each.join(swarm.PATIENCE_S + 2 * SILENCE_S)
    return all_streams


def one_try(house, options, fault, name, expected):
    swarm.wait_until(house.is_settled, "a leader and two standbys")
    running = streams(house, options, name)
    swarm.wait_until(lambda: all(len(each.ids) > 2 or each.error for each in running), "tokens")
    time.sleep(random.random() / 2)  # some moment between two renewals
    epoch, leader = house.lease()
    since, mend = getattr(house, fault)(leader)
    try:
        after = swarm.wait_until(lambda: house.database.ask(
            f"SELECT at, epoch FROM watched.leases WHERE at >= {since!r} AND lasts > 0 AND (epoch > "
            f"{epoch} OR {fault in ('away', 'restart')}) ORDER BY n LIMIT 1"), "a leader")
        new = [each for each in running if not each.done]
        if fault == "freeze":
            swarm.wait_until(lambda: any(each.times and each.times[-1] > float(after.split("|")[0])
                                         for each in running) or not new, "tokens of the new one")
    finally:
        mend()
    finished(running)
    pause = max(each.pause() for each in running)
    wrong = [(each.key, each.error, len(each.ids), each.notes[-3:]) for each, right in
             zip(running, expected) if each.error or not each.done or each.ids != right]
    return {"fault": fault, "take_s": float(after.split("|")[0]) - since, "pause_s": pause,
            "epochs": int(after.split("|")[1]) - epoch, "streams": len(running),
            "wrong": wrong}


def check_leases(house):
    """What is wrong with them."""
    rows = house.database.ask("SELECT at, epoch, holder, lasts, ends, taken FROM watched.leases "
                              "ORDER BY n").split("\n")
    faults, takes, before = [], 0, None
    for row in rows:
        at, epoch, holder, lasts, ends, taken = row.split("|")
        at, epoch, ends = float(at), int(epoch), float(ends)
        if before is not None:
            if taken == "t" and (epoch != before[0] + 1 or at < before[2]):
                faults.append(f"epoch {epoch} begins {before[2] - at:.3f} s before {before[0]} ends")
            if taken == "f" and (epoch, holder) != before[:2]:
                faults.append(f"epoch {epoch} has two holders")
        takes += taken == "t"
        before = epoch, holder, min(at, ends) if lasts == "0" else ends
    writes = house.database.ask("SELECT epoch, connection FROM watched.writes ORDER BY n")
    connections, last = collections.defaultdict(set), 0
    for row in filter(None, writes.split("\n")):
        epoch, connection = row.split("|")
        connections[connection].add(int(epoch))
        if int(epoch) < last:
            faults.append(f"the ledger goes back from epoch {last} to {epoch}")
        last = int(epoch)
    faults += [f"one connection writes the ledger in the epochs {sorted(epochs)}"
               for epochs in connections.values() if len(epochs) > 1]
    return faults, takes, len(writes.split("\n"))


def spread(values):
    return f"{statistics.median(values):.2f} / {max(values):.2f}" if values else "-"


def table(results):
    print("\n| fault | tries | streams | answers changed or lost | a leader again after, s: "
          "median / most | longest pause of a stream, s: median / most |\n|---|---|---|---|---|---|")
    for fault in FAULTS:
        these = [one for one in results if one["fault"] == fault]
        if not these:
            continue
        print(f"| {fault} | {len(these)} | {sum(one['streams'] for one in these)} | "
              f"{sum(len(one['wrong']) for one in these)} | "
              f"{spread([one['take_s'] for one in these])} | "
              f"{spread([one['pause_s'] for one in these])} |")


def measure(options, folder):
    house = House(options, folder)
    results = []
    try:
        expected = [each.ids for each in finished(streams(house, options, "undisturbed"))]
        if any(len(ids) != options.tokens for ids in expected):
            raise AssertionError(f"the undisturbed answers have {[len(ids) for ids in expected]}")
        faults = [fault for fault in options.faults.split(",") if fault]
        for number in range(options.tries):
            for fault in faults:
                one = one_try(house, options, fault, f"{fault} {number}", expected)
                results.append(one)
                print(json.dumps(one), flush=True)
                if options.out:
                    with open(options.out, "a") as out:
                        print(json.dumps(one), file=out)
        swarm.wait_until(house.is_settled, "a leader and two standbys")
        wrong, takes, writes = check_leases(house)
    except BaseException:
        for s in house.coordinators:
            print(f"--- {s.data_dir}\n{s.read_log()[-6000:]}", file=sys.stderr)
        raise
    finally:
        table(results)
        house.end()
    audits = [swarm.hearth("audit", home) for home in house.homes]
    house.database.end()
    print(f"\n{takes} leases, {writes} writes of the ledger, {len(wrong)} contradictions")
    for each in wrong:
        print(each)
    for code, out, err in audits:
        print(f"hearth audit: {code}; {(out + err).strip().splitlines()[-1]}")
    bad = wrong or any(code != 0 for code, _, _ in audits) or any(one["wrong"] for one in results)
    return 1 if bad else 0


def main():
    options = arguments()
    if not postgres.BIN:
        sys.exit("the package postgresql is not installed")
    swarm.MODEL = os.path.abspath(options.model)
    if options.layers:
        swarm.MODEL = swarm.first_layers(options.layers)
    commit = subprocess.run(["git", "-C", str(root), "rev-parse", "--short", "HEAD"],
                            capture_output=True, text=True).stdout.strip()
    load = " ".join(f"{one:.1f}" for one in os.getloadavg())
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} CPUs, load {load}, commit "
          f"{commit}: {' '.join(sys.argv)}", flush=True)
    with tempfile.TemporaryDirectory(prefix="takeovers-") as folder:
        return measure(options, folder)


if __name__ == "__main__":
    sys.exit(main())
