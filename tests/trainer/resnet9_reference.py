"""Prints resnet9_reference.h: two training steps of a small ResNet-9 as PyTorch does them (python3-torch 1.13).

    python3 resnet9_reference.py > resnet9_reference.h
"""
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

torch.set_num_threads(1)
WIDTH, SIDE, CLASSES, BATCH = 2, 8, 5, 6


def block(c, k):
    return [nn.Conv2d(c, k, 3, padding=1, bias=False), nn.BatchNorm2d(k), nn.ReLU()]


class ResNet9(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.prep = nn.Sequential(*block(1, w))
        self.layer1 = nn.Sequential(*block(w, 2 * w), nn.MaxPool2d(2))
        self.residual1 = nn.Sequential(*block(2 * w, 2 * w), *block(2 * w, 2 * w))
        self.layer2 = nn.Sequential(*block(2 * w, 4 * w), nn.MaxPool2d(2))
        self.layer3 = nn.Sequential(*block(4 * w, 8 * w), nn.MaxPool2d(2))
        self.residual3 = nn.Sequential(*block(8 * w, 8 * w), *block(8 * w, 8 * w))
        self.linear = nn.Linear(8 * w, CLASSES)

    def forward(self, x):
        x = self.layer1(self.prep(x))
        x = self.layer3(self.layer2(x + self.residual1(x)))
        x = (x + self.residual3(x)).amax((2, 3))
        return 0.125 * self.linear(x)


def pattern(count, p):
    return 0.4 * np.sin(0.7 * np.arange(count) + 1.3 * p)


model = ResNet9(WIDTH).double()
trained = [(n, v) for n, v in model.named_parameters()]
with torch.no_grad():
    for p, (name, value) in enumerate(trained):
        start = torch.from_numpy(pattern(value.numel(), p)).reshape(value.shape)
        value.copy_(1 + start if value.dim() == 1 and name.endswith("weight") else start)
decayed = [v for n, v in trained if v.dim() > 1]
free = [v for n, v in trained if v.dim() == 1]
optimiser = torch.optim.SGD([{"params": decayed, "weight_decay": 0.01}, {"params": free, "weight_decay": 0}],
                            lr=0.05, momentum=0.9, nesterov=True)
pixels = (np.arange(BATCH * SIDE * SIDE) * 37 + (np.arange(BATCH * SIDE * SIDE) // 64) * 11) % 256
x = (torch.from_numpy(pixels.reshape(BATCH, 1, SIDE, SIDE)).double() / 255 - 0.5) / 0.25
labels = torch.arange(BATCH) % CLASSES

print("// Made by resnet9_reference.py: two training steps of a small ResNet-9 in PyTorch, in double precision.\n"
      "#pragma once\n\nnamespace penstock::test {\n")
losses = []
for step in range(2):
    loss = F.cross_entropy(model(x), labels, label_smoothing=0.1)
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    losses.append(loss.item())
model.eval()
losses.append(F.cross_entropy(model(x), labels).item())
print("/// Losses of the two steps, with label smoothing; then the loss in evaluation, without.")
print("inline constexpr double kReferenceLosses[] = {%s};\n" % ", ".join("%.9g" % v for v in losses))
print("/// Parameters after the two steps: name, sum, sum of values times sin(index), index in PyTorch's layout.")
print("struct ReferenceParameter {\n  const char* name;\n  double sum;\n  double weighted;\n};")
print("inline constexpr ReferenceParameter kReferenceParameters[] = {")
for name, value in list(trained) + [(n, v) for n, v in model.named_buffers() if "running" in n]:
    flat = value.detach().numpy().ravel()
    print('    {"%s", %.9g, %.9g},' % (name, flat.sum(), (flat * np.sin(np.arange(flat.size))).sum()))
print("};\n\n}  // namespace penstock::test")
