"""The Debian package on clean machines: it is made, installed from a file, its services start, a
second machine joins, one question is answered, both machines boot again, and a purge leaves the
data folder alone. Exits 77 without root, mmdebstrap, systemd-nspawn or a mirror of packages.
"""

import json
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import tomllib

import containers
import machines
import swarm

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(swarm.HEARTH).resolve().parent
EXPOSURE_MOST = 20  # tenths, of systemd-analyze security
KEYS_MOST = 12
# What apt and the libraries of the package leave, and what every boot writes.
LEFT_BY_OTHERS = re.compile(
    r"/(var/(cache|log|tmp)|var/lib/(apt|dpkg|systemd|dbus|private|ucf)|run|tmp|proc|sys|dev|root"
    r"|etc/(ld\.so\.cache|passwd-|group-|shadow-|gshadow-|\.pwd\.lock|machine-id|resolv\.conf"
    r"|hostname|hosts|mtab|ssl|ca-certificates|ldap|gss|avahi|dbus-1|systemd/network)"
    r"|usr/share/(info|mime|ca-certificates)|usr/local)(/|$)")


def files_of(root):
    """The paths of a system, as seen from inside."""
    found = set()
    for folder, folders, files in os.walk(root):
        inside = "/" + os.path.relpath(folder, root).lstrip(".")
        for name in folders + files:
            path = os.path.join(inside, name).replace("//", "/")
            if not LEFT_BY_OTHERS.match(path):
                found.add(path)
    return found


class Package(machines.Household):
    """One test, for each step begins where the one before it ended."""

    on_the_wire = ("home", "desk")
    kind = containers.Booted

    def step_package(self):
        done = subprocess.run([SOURCE / "deploy/package", BUILD], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        [self.deb] = (BUILD / "package").glob("*.deb")
        sums = subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"],
                              cwd=BUILD / "package", capture_output=True, text=True)
        self.assertEqual(sums.returncode, 0, sums.stderr)

    def step_archive(self):
        """The archive needs no library of the machine that it comes to."""
        root = self.home.root
        containers.unpack(root, "systemd", "systemd-sysv", "dbus", "ca-certificates")
        shutil.copy(swarm.MODEL, root / "srv/demo.gguf")
        [archive] = (BUILD / "package").glob("*.tar.zst")
        done = subprocess.run([SOURCE / "deploy/install.sh", "--yes", "--prefix",
                               root / "opt/hearth", archive], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        words = ["What is the capital of France?", "--temp", "0", "-n", "32", "--seed", "7"]
        code, out, err = containers.run_in(root, "/opt/hearth/bin/hearth", "run", "--local",
                                           "/srv/demo.gguf", *words)
        self.assertEqual(code, 0, err)
        self.assertEqual(out.split(), swarm.hearth("run", "--local", swarm.MODEL, *words)[1].split())
        shutil.rmtree(root / "opt/hearth")

    def install(self):
        for words in (["apt-get", "update", "-q"],
                      ["apt-get", "install", "-qy", "--no-install-recommends", "/root/hearth.deb"]):
            code, out, err = containers.run_in(self.home.root, *words)
            self.assertEqual(code, 0, out[-2000:] + err[-2000:])

    def step_install(self):
        root = self.home.root
        self.before = files_of(root)
        self.users = (root / "etc/passwd").read_text()
        shutil.copy(self.deb, root / "root/hearth.deb")
        self.install()
        folder = root / "var/lib/hearth"
        self.assertEqual(stat.S_IMODE(folder.stat().st_mode), 0o700)
        self.assertNotEqual(folder.stat().st_uid, 0)
        self.assertFalse(list(root.glob("etc/systemd/system/*.wants/hearth*")))  # none by itself

    def step_units(self):
        units = ["hearth-server.service", "hearth-worker.service"]
        code, _, err = containers.run_in(self.home.root, "systemd-analyze", "verify", "--man=no",
                                         *units)
        self.assertEqual((code, [line for line in err.splitlines() if "hearth" in line]), (0, []))
        for unit in units:
            code, out, _ = containers.run_in(
                self.home.root, "systemd-analyze", "security", "--offline=true",
                f"--threshold={EXPOSURE_MOST}", "/usr/lib/systemd/system/" + unit)
            self.assertEqual(code, 0, out)

    def step_settings(self):
        """All keys that the file shows are keys of the program."""
        text = (self.home.root / "etc/hearth/hearth.toml").read_text()
        keys = re.sub(r"(?m)^#(?=[a-z-]+ = )", "", text)
        tables = tomllib.loads(keys)
        self.assertLessEqual(sum(map(len, tables.values())), KEYS_MOST)
        path = pathlib.Path(self.folder, "all.toml")
        path.write_text(keys)
        for verb in ("serve", "worker"):
            code, _, err = swarm.hearth(verb, "--log-level", "nonsense",
                                        env={"HEARTH_CONFIG": str(path)})
            self.assertEqual(code, 2)
            self.assertIn("log-level", err)  # it got that far
        self.assertEqual(tomllib.loads(text), {"serve": {"model": ["/var/lib/hearth/models"]},
                                               "worker": {}})

    def step_pages(self):
        """One manual page for each verb."""
        pages = self.home.root / "usr/share/man"
        _, out, _ = swarm.hearth("--help")
        listed = out.split("Subcommands:")[1].split("A flag overrides")[0]
        verbs = re.findall(r"(?m)^  (\w+)[, ]", listed)
        self.assertGreater(len(verbs), 20)
        excluded = (self.home.root / "etc/dpkg/dpkg.cfg.d").exists() and not pages.exists()
        if not excluded:
            have = {path.name for path in (pages / "man1").glob("hearth*")}
            self.assertEqual(have, {"hearth.1.gz", *(f"hearth-{verb}.1.gz" for verb in verbs)})
        for path in ("bash-completion/completions/hearth", "zsh/vendor-completions/_hearth",
                     "fish/vendor_completions.d/hearth.fish"):
            self.assertIn("__complete", (self.home.root / "usr/share" / path).read_text())

    def step_serve(self):
        subprocess.run(["cp", "-a", self.home.root, self.desk.root], check=True)
        (self.desk.root / "etc/machine-id").write_text("uninitialized\n")
        for machine in self.machines:
            machine.boot()  # for the first time, when systemd enables what presets do not forbid
            for service in ("hearth-server", "hearth-worker"):
                self.assertEqual(machine.shell("systemctl is-enabled " + service)[1].strip(),
                                 "disabled")
        said = self.home.good("hearth-service init home --invite 1")
        self.assertIn("sudo systemctl enable --now hearth-server", said)
        self.token = said.split("hearth join ")[1].strip()
        self.home.good("hearth-service pull /srv/demo.gguf --name demo")
        self.home.good("systemctl enable --now hearth-server")  # returns once it has started
        self.assertEqual(self.home.good("systemctl is-active hearth-server"), "active")
        self.home.good("hearth status --wait 120")
        self.first = self.ask()

    def ask(self):
        self.home.good("hearth status --wait 120")
        said = self.home.good("hearth run demo 'What is the capital of France?' --temp 0 -n 32"
                              " --seed 7")
        self.assertIn("Paris", said)
        return said

    def members(self):
        """Who is connected."""
        code, out, _ = self.home.shell("hearth-service status --json")
        return {node["name"] for node in json.loads(out)["nodes"]
                if node["state"] != "lost"} if code == 0 and out else set()

    def step_join(self):
        said = self.desk.good(f"hearth-service join {self.token} --name desk 2>&1")
        self.assertIn("sudo systemctl enable --now hearth-worker", said)
        self.desk.good("systemctl enable --now hearth-worker")
        swarm.wait_until(lambda: "desk" in self.members(), "the second worker")
        self.assertEqual(self.ask(), self.first)  # the same bits, wherever the layers are

    def step_boot_again(self):
        for machine in self.machines:
            machine.boot_again()
        swarm.wait_until(lambda: "desk" in self.members(), "the worker after the boot")
        self.assertEqual(self.ask(), self.first)

    def main_pid(self):
        return self.desk.good("systemctl show -p MainPID --value hearth-worker")

    def step_watchdog(self):
        """A process that hangs is ended and started again; one that works is left alone."""
        folder = "/run/systemd/system/hearth-worker.service.d"
        self.desk.good(f"mkdir -p {folder} && printf '[Service]\\nWatchdogSec=20s\\n' > "
                       f"{folder}/short.conf && systemctl daemon-reload && "
                       "systemctl restart hearth-worker")
        first = self.main_pid()
        swarm.wait_until(lambda: "desk" in self.members(), "the worker")
        self.desk.good(f"kill -STOP {first}")
        swarm.wait_until(lambda: self.main_pid() not in (first, "0"), "a new worker")
        self.assertIn("Watchdog timeout", self.desk.good("journalctl -u hearth-worker"))
        swarm.wait_until(lambda: "desk" in self.members(), "the worker again")
        self.assertEqual(self.desk.good("systemctl show -p NRestarts --value hearth-worker"), "1")

    def step_wrong_settings(self):
        """What does not pass by itself is not started again and again."""
        path = self.home.root / "etc/hearth/hearth.toml"
        right = path.read_text()
        path.write_text(right + "nonsense = 1\n")
        self.assertNotEqual(self.home.shell("systemctl restart hearth-server")[0], 0)
        self.assertIn("unknown key 'nonsense'", self.home.good("journalctl -u hearth-server"))
        self.assertIn("failed", self.home.shell("systemctl is-active hearth-server")[1])
        self.assertEqual(self.home.good("systemctl show -p NRestarts --value hearth-server"), "0")
        path.write_text(right)
        self.home.good("systemctl restart hearth-server")
        self.assertEqual(self.ask(), self.first)

    def step_remove(self):
        """A removal keeps settings and data; a purge the data alone, for root."""
        for machine in self.machines:
            machine.good("DEBIAN_FRONTEND=noninteractive apt-get remove -qy hearth")
            self.assertFalse((machine.root / "usr/bin/hearth").exists())
            self.assertTrue((machine.root / "etc/hearth/hearth.toml").exists())
            self.assertFalse(list(machine.root.glob("etc/systemd/system/*.wants/hearth*")))
            machine.good("DEBIAN_FRONTEND=noninteractive apt-get purge -qy hearth")
            machine.good("DEBIAN_FRONTEND=noninteractive apt-get autoremove -qy --purge")
        left = files_of(self.home.root) - self.before
        data = {path for path in left if re.match(r"/var/lib/hearth(/|$)", path)}
        self.assertIn("/var/lib/hearth/cluster.key", data)
        self.assertEqual(left - data, set())
        self.assertEqual({path.stat().st_uid for path in
                          (self.home.root / "var/lib/hearth").rglob("*")}, {0})
        self.assertEqual((self.home.root / "etc/passwd").read_text(), self.users)

    def step_install_again(self):
        """A new installation continues with the data that a purge left."""
        self.home.stop()
        folder = self.home.root / "var/lib/hearth"
        self.install()
        [user] = {path.stat().st_uid for path in [folder, *folder.rglob("*")]}
        self.assertNotEqual(user, 0)
        code, out, err = containers.run_in(self.home.root, "hearth-service", "nodes", "--json")
        self.assertEqual(code, 0, err)
        self.assertIn("desk", {node["name"] for node in json.loads(out)["nodes"]})

    def test_life_of_a_package(self):
        for name in ("package", "archive", "install", "units", "settings", "pages", "serve", "join",
                     "boot_again", "watchdog", "wrong_settings", "remove", "install_again"):
            print("--", name, flush=True)
            getattr(self, "step_" + name)()


if __name__ == "__main__":
    containers.need("mmdebstrap", "systemd-nspawn", "nsenter", "dpkg-deb", "cpack")
    if not (BUILD / "CPackConfig.cmake").exists():
        print(f"not run: {BUILD} is not a configured build folder")
        sys.exit(77)
    machines.main()
