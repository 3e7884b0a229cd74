#!/usr/bin/env bash
# Builds everything and runs every test: with CUDA where nvcc is found, else for the host device alone.
#   scripts/test.sh [OPTION...]             options are handed to ctest
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/install_packages.sh build data test
export CMAKE_CXX_COMPILER_LAUNCHER=ccache CMAKE_CUDA_COMPILER_LAUNCHER=ccache
preset=host
if command -v nvcc >/dev/null || [ -n "${CUDACXX:-}" ]; then preset=cuda; fi
cmake --preset "$preset"
cmake --build --preset "$preset"
ctest --preset "$preset" --parallel "$(nproc)" "$@"
