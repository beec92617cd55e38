#!/bin/sh
# Installs Hearth from a package that deploy/package made. It says what it will do, and asks first.
#
#   install.sh [--yes] [--dry-run] [--prefix FOLDER] [--sha256 SUM] FILE|URL
#
# FILE.deb      for the release of Debian or Ubuntu in its name; also installs the services
# FILE.tar.zst  for any Linux with a glibc that is new enough; program only, into FOLDER (default:
#               /opt/hearth as root, otherwise ~/.local/opt/hearth) with a link in the bin folder
# A URL needs --sha256. For a file, the sum is also read from SHA256SUMS beside it.
set -eu

usage="usage: install.sh [--yes] [--dry-run] [--prefix FOLDER] [--sha256 SUM] FILE|URL"
say() { printf '%s\n' "$*"; }
stop() { printf 'install.sh: %s\n' "$*" >&2; exit 1; }

yes=no dry=no prefix='' sum='' source=''
while [ $# -gt 0 ]; do
  case "$1" in
    -y | --yes) yes=yes ;;
    --dry-run) dry=yes ;;
    --prefix | --sha256)
      [ $# -ge 2 ] || stop "$1 needs a value; $usage"
      if [ "$1" = --prefix ]; then prefix=$2; else sum=$2; fi
      shift ;;
    -h | --help) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*) stop "unknown flag $1; $usage" ;;
    *) [ -z "$source" ] || stop "one FILE or URL at a time; $usage"
       source=$1 ;;
  esac
  shift
done
[ -n "$source" ] || stop "no FILE or URL given; $usage"
case "$sum" in
  *[!0-9a-fA-F]*) stop "--sha256 must be 64 hexadecimal digits, got '$sum'" ;;
esac
[ -z "$sum" ] || [ ${#sum} = 64 ] || stop "--sha256 must be 64 hexadecimal digits, got ${#sum}"

# --- What this machine is. HEARTH_INSTALL_SYSTEM: another root folder to read it from, for tests.
at="${HEARTH_INSTALL_SYSTEM:-}"
field() { sed -n "s/^$1=\"\{0,1\}\([^\"]*\)\"\{0,1\}\$/\1/p" "$at/etc/os-release" 2>/dev/null; }
id=$(field ID)
release=$id$(field VERSION_ID)
name=$(field PRETTY_NAME)
kernel=$(cat "$at/proc/sys/kernel/osrelease" 2>/dev/null || uname -r)
wsl=no
case "$kernel" in *[Mm]icrosoft* | *WSL*) wsl=yes ;; esac
driver=$(sed -n 's/^NVRM version:.*  \([0-9][0-9.]*\)  .*/\1/p' "$at/proc/driver/nvidia/version" \
  2>/dev/null || true)
if [ -z "$driver" ] && [ -e "$at/dev/dxg" ]; then driver="of Windows"; fi
services=no
if [ -d "$at/run/systemd/system" ]; then services=yes; fi
[ "$(uname -m)" = x86_64 ] || stop "the packages are for x86_64, and this machine is $(uname -m)"

say "This machine: ${name:-an unknown Linux}, $(uname -m)$([ $wsl = no ] || echo ', in WSL2')"
if [ -n "$driver" ]; then
  say "NVIDIA driver: $driver"
else
  say "NVIDIA driver: none, so Hearth computes on the CPU here"
fi
if [ $wsl = yes ]; then
  say "WSL2: the driver of Windows gives the GPU; do not install a Linux driver."
  say "WSL2: other machines reach this one only with networkingMode=mirrored in .wslconfig."
  if [ $services = no ]; then
    say "WSL2: services need systemd: write [boot] and systemd=true to /etc/wsl.conf, then run in"
    say "      Windows: wsl --shutdown"
  fi
fi

# --- What is to be done.
case "$source" in
  *.deb) kind=deb ;;
  *.tar.zst) kind=archive ;;
  *) stop "'$source' must end with .deb or .tar.zst" ;;
esac
file=$source
case "$source" in
  http://* | https://*)
    [ -n "$sum" ] || stop "a URL needs --sha256 SUM; the sum stands in SHA256SUMS beside the file"
    command -v curl >/dev/null || stop "curl is missing; install it, or download the file yourself"
    file= ;;
  *)
    [ -f "$source" ] || stop "there is no file $source"
    sums=$(dirname "$source")/SHA256SUMS
    if [ -z "$sum" ] && [ -f "$sums" ]; then
      sum=$(awk -v name="$(basename "$source")" '$2 == name {print $1}' "$sums")
    fi ;;
esac

root=
if [ "$(id -u)" != 0 ]; then root=sudo; fi
say
say "This will:"
[ -n "$file" ] || say "  - download $source"
if [ -n "$sum" ]; then
  say "  - check that its SHA-256 is $sum"
else
  say "  - NOT check the file: neither --sha256 nor SHA256SUMS gives its sum"
fi
if [ $kind = deb ]; then
  [ -z "$prefix" ] || stop "--prefix is for .tar.zst; a Debian package has its fixed places"
  command -v apt-get >/dev/null ||
    stop "this machine has no apt-get, so use the .tar.zst instead of the .deb"
  made_for=$(basename "$source" | sed -n 's/^[^_]*_[^_~]*~\([^_]*\)_.*/\1/p')
  [ "$made_for" = "$release" ] ||
    stop "the package is for ${made_for:-an unknown release}, and this machine is ${release:-unknown};" \
      "use the package for $release, or the .tar.zst"
  [ -z "$root" ] || command -v sudo >/dev/null || stop "run this as root: sudo is not installed"
  say "  - run: ${root:+sudo }apt-get install ${source##*/}"
  say "    which adds the program, the user hearth, the folders /etc/hearth and /var/lib/hearth,"
  say "    and the services hearth-server and hearth-worker, which do not start by themselves"
else
  for tool in tar zstd; do
    command -v $tool >/dev/null || stop "$tool is missing; install it with the package $tool"
  done
  link=
  if [ -z "$prefix" ] && [ -z "$root" ]; then
    prefix=/opt/hearth link=/usr/local/bin/hearth
  elif [ -z "$prefix" ]; then
    prefix=$HOME/.local/opt/hearth link=$HOME/.local/bin/hearth
  fi
  case "$prefix" in /*) ;; *) prefix=$PWD/$prefix ;; esac
  if [ -e "$prefix" ] && ! [ -f "$prefix/hearth-archive" ]; then
    stop "$prefix exists and was not unpacked by this script; choose another folder with --prefix"
  fi
  say "  - unpack the program to $prefix$([ ! -e "$prefix" ] || echo ', in place of the one there')"
  [ -z "$link" ] || say "  - make the link $link"
fi
if [ $dry = yes ]; then exit 0; fi
if [ $yes = no ]; then
  [ -t 0 ] || stop "stdin is not a terminal: pass --yes to do this without a question"
  printf 'Go on? [y/N] '
  read -r answer
  case "$answer" in y | Y | yes) ;; *) stop "nothing was changed" ;; esac
fi

# --- Do it.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -z "$file" ]; then
  file=$work/${source##*/}
  curl -fL --proto '=http,https' --retry 3 -o "$file" "$source" || stop "the download failed"
fi
if [ -n "$sum" ]; then
  sum=$(printf %s "$sum" | tr A-F a-f)
  got=$(sha256sum <"$file" | cut -d ' ' -f 1)
  [ "$got" = "$sum" ] || stop "the SHA-256 of $source is $got; nothing was changed"
fi
if [ $kind = deb ]; then
  cp "$file" "$work/" 2>/dev/null || true
  chmod 755 "$work"  # apt reads it as a user of its own
  chmod 644 "$work"/*.deb
  $root apt-get install -y "$work/${source##*/}" || stop "apt-get failed; see above"
  program=hearth
else
  mkdir -p "$(dirname "$prefix")"
  new=$(mktemp -d "$(dirname "$prefix")/.hearth.XXXXXX")  # the same disk, for mv
  trap 'rm -rf "$work" "$new"' EXIT
  chmod 755 "$new"
  zstd -dc "$file" | tar -C "$new" --strip-components=1 --no-same-owner -xf -
  [ -f "$new/hearth-archive" ] || stop "$source is not an archive that deploy/package made; nothing was changed"
  "$new/bin/hearth" --version >/dev/null ||
    stop "the program does not run here; is glibc too old? Nothing was changed"
  rm -rf "$prefix"
  mv "$new" "$prefix"
  program=$prefix/bin/hearth
  if [ -n "$link" ]; then
    mkdir -p "$(dirname "$link")"
    ln -sfn "$program" "$link"
    case ":$PATH:" in *":$(dirname "$link"):"*) program=hearth ;; *) program=$link ;; esac
  fi
fi

say
say "Installed. Next, on the first machine:"
if [ $kind = deb ] && [ $services = yes ]; then
  say "  sudo hearth-service init NAME"
  say "  sudo hearth-service pull MODEL"
  say "  sudo systemctl enable --now hearth-server"
  say "on each other machine:"
  say "  sudo hearth-service join TOKEN"
  say "  sudo systemctl enable --now hearth-worker"
else
  say "  $program serve --model MODEL"
  say "on each other machine:"
  say "  $program join TOKEN"
fi
