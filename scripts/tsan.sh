#!/usr/bin/env bash
# Runs the tests under the thread sanitizer, with a oneTBB that is built for it.
#   scripts/tsan.sh [OPTION...]             options are handed to ctest
# A race is an error of its test. The sanitizer must see inside oneTBB, or it reports races that are not there, so the
# first run fetches the source of Debian's oneTBB and builds it into build/tsan_tbb/prefix; later runs reuse it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/install_packages.sh build test tsan
export CMAKE_CXX_COMPILER_LAUNCHER=ccache

# Fetches oneTBB's source as this Debian release has it, with lists of its own: the system's are left alone. apt checks
# the signature of the lists and the sums of the files.
fetch_tbb_source() {
  local folder=$1 release
  release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial"
  echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $release main" \
    >"$folder/sources.list"
  local apt=(apt-get -q -o Dir::Etc::sourcelist="$folder/sources.list" -o Dir::Etc::sourceparts=-
    -o Dir::State::lists="$folder/lists" -o Dir::Cache="$folder/cache" -o APT::Sandbox::User=root)
  "${apt[@]}" update
  (cd "$folder" && "${apt[@]}" source --download-only onetbb)
  dpkg-source -x "$folder"/onetbb_*.dsc "$folder/source"
}

# Built and installed aside and then moved, so that a stopped run leaves no half of it behind.
build_tbb() {
  local prefix=$1 work=$1.work
  rm -rf "$work"
  mkdir -p "$work"
  fetch_tbb_source "$work"
  # GCC warns that the sanitizer does not model fences, and TBB_STRICT would make that an error; on x86 oneTBB's fences
  # are instructions of its own, and its data is handed over by atomics.
  cmake -S "$work/source" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_FLAGS=-Wno-tsan \
    -DCMAKE_INSTALL_PREFIX="$work/prefix" -DCMAKE_INSTALL_LIBDIR=lib \
    -DTBB_SANITIZE=thread -DTBB_TEST=OFF -DTBB_STRICT=OFF -DTBBMALLOC_BUILD=OFF
  cmake --build "$work/build"
  cmake --install "$work/build" >/dev/null
  mv "$work/prefix" "$prefix"
  rm -rf "$work"
}

tbb=$PWD/build/tsan_tbb/prefix
[ -d "$tbb" ] || build_tbb "$tbb"

cmake --preset tsan -DTBB_DIR="$tbb/lib/cmake/TBB"
cmake --build --preset tsan

# GCC 12's sanitizer refuses the address layouts of kernels that randomise more than 28 bits ("unexpected memory
# mapping"), so layouts are fixed where the system lets us.
fixed_layout=()
if setarch -R true 2>/dev/null; then fixed_layout=(setarch -R); fi
export TSAN_OPTIONS="halt_on_error=1:second_deadlock_stack=1:suppressions='$PWD/scripts/tsan.suppressions'${TSAN_OPTIONS:+:$TSAN_OPTIONS}"
"${fixed_layout[@]}" ctest --preset tsan --label-exclude long --parallel "$(nproc)" "$@"
