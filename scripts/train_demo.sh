#!/usr/bin/env bash
# Trains a ResNet-9 of width 8 on Fashion-MNIST for 3 epochs, with a training and a validation pipeline under their own
# caps. Installs what is missing, builds the program, runs it; what is done already is skipped.
#   scripts/train_demo.sh [OPTION...]       options are handed to `penstock train`
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/install_packages.sh build data
cmake --preset program
cmake --build --preset program --target penstock_program

data=/usr/share/datasets/fashion-mnist
out=runs/demo
number=1
while [ -e "$out" ]; do
  number=$((number + 1))
  out=runs/demo-$number
done
exec build/program/penstock train \
  --train "idx:$data/train-images-idx3-ubyte.gz,$data/train-labels-idx1-ubyte.gz" \
  --val "idx:$data/t10k-images-idx3-ubyte.gz,$data/t10k-labels-idx1-ubyte.gz" \
  --model resnet9 --width 8 --epochs 3 --batch 128 --val-batch 256 \
  --train-cap 64MiB --val-cap 40MiB --recipe fashion --out "$out" "$@"
