"""deploy/install.sh: what it says of a machine, what it refuses, and an archive that it unpacks.
`package_test.py` installs the real packages."""

import hashlib
import http.server
import os
import pathlib
import pty
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "deploy/install.sh"
DEBIAN = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nID=debian\nVERSION_ID="12"\n'
DRIVER = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.144.03  Mon Dec 30 17:44:08 UTC 2024\n"
PROGRAM = "#!/bin/sh\necho hearth {}\n"


class Install(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.deb = self.folder / "hearth_0.1.0~debian12_amd64.deb"
        self.deb.write_text("a package")

    def system(self, **files):
        """A root folder whose files tell what the machine is; "__" in a name stands for "/"."""
        root = self.folder / "system"
        shutil.rmtree(root, ignore_errors=True)
        for name, text in {"etc__os-release": DEBIAN, "proc__sys__kernel__osrelease": "6.1.0-9\n",
                           **files}.items():
            path = root / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return root

    def install(self, *words, system=None, **variables):
        done = subprocess.run(
            [SCRIPT, *map(str, words)], capture_output=True, text=True, stdin=subprocess.DEVNULL,
            timeout=120, env={**os.environ, "HOME": str(self.folder / "owner"),
                              "HEARTH_INSTALL_SYSTEM": str(system or self.system()), **variables})
        return done.returncode, done.stdout, done.stderr

    def good(self, *words, **rest):
        code, out, err = self.install(*words, **rest)
        self.assertEqual(code, 0, out + err)
        return out

    def refused(self, says, *words, **rest):
        code, _, err = self.install(*words, **rest)
        self.assertEqual(code, 1)
        self.assertIn(says, err)

    def archive(self, version="0.1.0", program=PROGRAM):
        tree = self.folder / "tree/hearth-0.1.0-linux-x86_64"
        (tree / "bin").mkdir(parents=True, exist_ok=True)
        (tree / "bin/hearth").write_text(program.format(version))
        (tree / "bin/hearth").chmod(0o755)
        (tree / "hearth-archive").write_text("hearth\n")
        path = self.folder / "hearth-0.1.0-linux-x86_64.tar.zst"
        subprocess.run(["tar", "-C", tree.parent, "--zstd", "-cf", path, tree.name], check=True)
        return path, hashlib.sha256(path.read_bytes()).hexdigest()

    def test_says_what_the_machine_is(self):
        out = self.good("--dry-run", self.deb)
        self.assertIn("Debian GNU/Linux 12 (bookworm), x86_64\n", out)
        self.assertIn("NVIDIA driver: none, so Hearth computes on the CPU", out)
        self.assertIn("apt-get install hearth_0.1.0~debian12_amd64.deb", out)
        self.assertIn("NOT check the file", out)
        self.assertNotIn("WSL2", out)

        out = self.good("--dry-run", self.deb,
                        system=self.system(proc__driver__nvidia__version=DRIVER))
        self.assertIn("NVIDIA driver: 550.144.03\n", out)

        wsl = {"proc__sys__kernel__osrelease": "5.15.167.4-microsoft-standard-WSL2\n",
               "dev__dxg": ""}
        out = self.good("--dry-run", self.deb, system=self.system(**wsl))
        self.assertIn("x86_64, in WSL2\n", out)
        self.assertIn("NVIDIA driver: of Windows\n", out)
        self.assertIn("systemd=true", out)
        out = self.good("--dry-run", self.deb,
                        system=self.system(run__systemd__system__x="", **wsl))
        self.assertNotIn("systemd=true", out)

    def test_refuses_what_cannot_work(self):
        ubuntu = DEBIAN.replace("debian", "ubuntu").replace("12", "24.04")
        self.refused("is for debian12, and this machine is ubuntu24.04", "--dry-run", self.deb,
                     system=self.system(**{"etc__os-release": ubuntu}))
        self.refused("must end with .deb or .tar.zst", self.folder / "system")
        self.refused("there is no file", self.folder / "none.deb")
        self.refused("a URL needs --sha256", "https://example.org/hearth.deb")
        self.refused("64 hexadecimal digits", "--sha256", "12", self.deb)
        self.refused("64 hexadecimal digits", "--sha256", "z" * 64, self.deb)
        self.refused("no FILE or URL", "--yes")
        self.refused("unknown flag --force", "--force", self.deb)
        self.refused("--sha256 needs a value", "--sha256")
        self.refused("--prefix is for .tar.zst", "--dry-run", "--prefix", "/x", self.deb)
        self.refused("stdin is not a terminal", self.deb)
        self.refused("nothing was changed", "--yes", "--sha256", "0" * 64, self.deb)

    def test_unpacks_an_archive(self):
        path, sum_of = self.archive()
        prefix = self.folder / "some where"
        (self.folder / "SHA256SUMS").write_text(f"{sum_of}  {path.name}\n")
        self.assertIn(f"its SHA-256 is {sum_of}",
                      self.good("--yes", "--prefix", prefix, path))
        run = subprocess.run([prefix / "bin/hearth"], capture_output=True, text=True)
        self.assertEqual(run.stdout, "hearth 0.1.0\n")

        with self.subTest("a newer one takes the place of the one there"):
            path, sum_of = self.archive("0.2.0")
            self.refused("nothing was changed", "--yes", "--prefix", prefix, path)  # the old sum
            out = self.good("--yes", "--prefix", prefix, "--sha256", sum_of.upper(), path)
            self.assertIn("in place of the one there", out)
            run = subprocess.run([prefix / "bin/hearth"], capture_output=True, text=True)
            self.assertEqual(run.stdout, "hearth 0.2.0\n")
        with self.subTest("one that does not run here leaves the one there"):
            path, sum_of = self.archive(program="#!/nowhere\n")
            self.refused("does not run here", "--yes", "--prefix", prefix, "--sha256", sum_of, path)
            self.assertTrue((prefix / "bin/hearth").read_text().startswith("#!/bin/sh"))
            self.assertEqual(list(self.folder.glob(".hearth*")), [])
        with self.subTest("a folder of something else is left alone"):
            other = self.folder / "usr"
            (other / "bin").mkdir(parents=True)
            shutil.copy(prefix / "bin/hearth", other / "bin/hearth")
            self.refused("was not unpacked by this script", "--yes", "--prefix", other, path)
            self.assertTrue((other / "bin/hearth").exists())

    def test_fetches_a_url(self):
        path, sum_of = self.archive()
        prefix = self.folder / "fetched"

        class Handler(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *words):
                super().__init__(*words, directory=str(path.parent))

            def log_message(self, *_):
                pass

        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            url = f"http://127.0.0.1:{server.server_port}/{path.name}"
            self.refused("nothing was changed", "--yes", "--prefix", prefix, "--sha256", "0" * 64,
                         url)
            self.assertFalse(prefix.exists())
            self.good("--yes", "--prefix", prefix, "--sha256", sum_of, url)
            self.refused("the download failed", "--yes", "--prefix", prefix, "--sha256", sum_of,
                         url + "/none.tar.zst")
            server.shutdown()
        self.assertTrue((prefix / "bin/hearth").exists())

    def test_asks_on_a_terminal(self):
        path, _ = self.archive()
        for answer, installed in (("n\n", False), ("y\n", True)):
            prefix = self.folder / "asked"
            own, end = pty.openpty()
            os.write(own, answer.encode())
            done = subprocess.run([SCRIPT, "--prefix", prefix, path], stdin=end,
                                  capture_output=True, text=True, timeout=120)
            os.close(own)
            os.close(end)
            self.assertIn("Go on? [y/N]", done.stdout)
            self.assertEqual((done.returncode == 0, prefix.exists()), (installed, installed))

    def test_has_no_fault_that_shellcheck_knows(self):
        if shutil.which("shellcheck") is None:
            self.skipTest("no shellcheck")
        deploy = SCRIPT.parent
        scripts = [deploy / name for name in
                   ("install.sh", "package", "system/hearth-service", "system/postinst",
                    "system/prerm", "system/postrm", "container/entry")]
        done = subprocess.run(["shellcheck", "-x", *scripts], capture_output=True, text=True,
                              cwd=deploy.parent)
        self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    missing = [each for each in ("apt-get", "curl", "zstd") if shutil.which(each) is None]
    if missing:
        print("not run: needs", ", ".join(missing))
        sys.exit(77)
    unittest.main(verbosity=2)
