#!/usr/bin/env bash
# Installs the Debian packages that a job needs and that are not there yet. The one list of packages of this project.
#   scripts/install_packages.sh JOB...      JOB: build | data | test | tsan | bench | tidy
# Does nothing, and asks for no rights, when all are there. Other systems: install what the list names, and go on.
set -euo pipefail

declare -A packages=(
  [build]="g++ cmake ninja-build pkg-config libtbb-dev libboost1.81-dev libjpeg62-turbo-dev libspng-dev zlib1g-dev
    libhwy-dev librandom123-dev libxxhash-dev libopenblas-pthread-dev libcli11-dev nlohmann-json3-dev"
  [data]="dataset-fashion-mnist"
  [test]="ccache libboost-context1.81-dev libgtest-dev libgmock-dev libjpeg-turbo-progs
    python3-numpy python3-pil"
  [tsan]="dpkg-dev"
  [bench]="libbenchmark-dev"
  [tidy]="clang-19 clang-tidy-19 clang-format-19"
)

if [ $# -eq 0 ]; then
  echo "usage: $0 JOB...    JOB: ${!packages[*]}" >&2
  exit 2
fi
wanted=()
for job in "$@"; do
  if [ -z "${packages[$job]:-}" ]; then
    echo "$0: unknown job '$job'; there are: ${!packages[*]}" >&2
    exit 2
  fi
  read -r -d '' -a names <<<"${packages[$job]}" || true
  wanted+=("${names[@]}")
done

if ! command -v dpkg-query >/dev/null; then
  echo "This is no Debian system: nothing is installed. Needed, by Debian's names: ${wanted[*]}" >&2
  exit 0
fi
missing=()
for name in "${wanted[@]}"; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null || true)
  [ "$status" = installed ] || missing+=("$name")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "Packages are missing, and there is no sudo. As root, run: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
if ! command -v apt-get >/dev/null; then
  echo "Packages are missing, and there is no apt-get: ${missing[*]}" >&2
  exit 1
fi
echo "Installing ${missing[*]}"
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -q
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
