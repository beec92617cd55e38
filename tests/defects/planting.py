#!/usr/bin/env python3
"""Plants mistakes: applies the patches of this folder to copies of the sources that they change.

usage: planting.py FOLDER PATCH ...   copies these sources to FOLDER and changes them there
       planting.py --check            whether all patches still apply
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ARITHMETIC = ("arithmetic.patch",)
SWARM = ("liar.patch", "swarm.patch")  # the second changes what the first has changed


def apply(folder, patches):
    # Inside a work tree git would apply them to that.
    alone = {**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent)}
    for patch in patches:
        done = subprocess.run(["git", "apply", HERE / patch], cwd=folder, env=alone)
        if done.returncode != 0:
            sys.exit(f"tests/defects/{patch} does not apply: a source that it changes has changed "
                     "there; change the patch in the same way")


def plant_sources(folder, patches):
    for patch in patches:
        for name in re.findall(r"^--- a/(\S+)$", (HERE / patch).read_text(), re.M):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
        for name in re.findall(r"^--- /dev/null\n\+\+\+ b/(\S+)$", (HERE / patch).read_text(), re.M):
            (folder / name).unlink(missing_ok=True)
    apply(folder, patches)


def plant_tree(build, patches):
    """A copy of the whole tree with the patches, in the folder `tree` of `build`."""
    def left_out(path, names):
        return [name for name in names
                if path == str(ROOT) and (name == ".git" or name.startswith("build"))]

    tree = build.resolve() / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(ROOT, tree, symlinks=True, ignore=left_out)
    apply(tree, patches)
    return tree


def main():
    if sys.argv[1:] == ["--check"]:
        for patches in (ARITHMETIC, SWARM):
            with tempfile.TemporaryDirectory() as folder:
                plant_sources(pathlib.Path(folder).resolve() / "sources", patches)
    elif len(sys.argv) > 2 and not sys.argv[1].startswith("-"):
        plant_sources(pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
