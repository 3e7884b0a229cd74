#!/usr/bin/env bash
# clang-format and clang-tidy over our sources.
#   scripts/tidy.sh             files that differ from HEAD, and new ones
#   scripts/tidy.sh --all       every file
#   scripts/tidy.sh FILE...     these
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/install_packages.sh tidy
if [ "${1:-}" = --all ]; then
  mapfile -t files < <(git ls-files --cached --others --exclude-standard)
elif [ $# -gt 0 ]; then
  files=("$@")
else
  mapfile -t files < <(git diff --name-only --diff-filter=d HEAD; git ls-files --others --exclude-standard)
fi
sources=()
units=()
for file in "${files[@]}"; do
  case "$file" in *.h | *.cpp | *.cu | *.cuh) sources+=("$file") ;; esac
  case "$file" in tests/package/*) ;; *.cpp) units+=("$file") ;; esac
done
[ ${#sources[@]} -eq 0 ] || clang-format-19 --dry-run -Werror "${sources[@]}"
if [ ${#units[@]} -gt 0 ]; then
  [ -f build/host/compile_commands.json ] || cmake --preset host
  printf '%s\0' "${units[@]}" | xargs -0 -n 1 -P "$(nproc)" clang-tidy-19 -p build/host --quiet
fi
echo "tidy: ${#sources[@]} files formatted, ${#units[@]} units checked"
