"""Writes operations.bin: inputs of the trainer's operations and what PyTorch makes of them in double precision.

Usage: python3 make_operations.py operations.bin      (PyTorch 1.10 or later, for label smoothing)

Records until the end of the file: u16 length and bytes of the name, u8 type (0 f32, 1 i32, 2 u8, 3 f64, 4 f32 as i8 in
units of 1/64), u8 dimensions, u32 for each dimension, then the values, all little-endian. Names are `case/tensor`; `case/shape` are the case's integers.
Images are NHWC and filters KRSC; PyTorch computes on its own layout and results are moved back.
"""
import struct
import sys

import numpy as np
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
random = np.random.default_rng(7)
TYPES = {"float32": 0, "int32": 1, "uint8": 2, "float64": 3}
out = open(sys.argv[1], "wb")


def put(name, values, dtype="float32"):
    values = np.ascontiguousarray(values.detach().numpy() if torch.is_tensor(values) else values, dtype=dtype)
    kind = TYPES[dtype]
    if dtype == "float32" and np.array_equal((values * 64).astype("int8") / np.float32(64), values):
        kind, values = 4, (values * 64).astype("int8")
    out.write(struct.pack("<H", len(name)) + name.encode())
    out.write(struct.pack("<BB", kind, values.ndim) + struct.pack(f"<{values.ndim}I", *values.shape))
    out.write(values.tobytes())


def ints(name, *values):
    put(name + "/shape", np.array(values), "int32")


def uniform(*shape):
    """Values that are exact in f32, so that both sides begin with the same numbers."""
    return torch.tensor(random.integers(-64, 65, shape) / 64.0)


def quantised(*shape):
    """Few different values: many ties."""
    return torch.tensor(random.integers(-3, 4, shape) / 4.0)


def nchw(x):
    return x.permute(0, 3, 1, 2)


def nhwc(x):
    return x.permute(0, 2, 3, 1)


CONVOLUTIONS = [  # n h w c k r s stride pad
    (2, 5, 7, 3, 4, 3, 3, 1, 1),
    (1, 1, 1, 5, 3, 3, 3, 1, 1),
    (3, 6, 6, 1, 8, 3, 3, 1, 1),
    (3, 7, 5, 4, 6, 3, 3, 2, 1),
    (2, 4, 4, 3, 5, 1, 1, 1, 0),
    (2, 5, 5, 4, 3, 1, 1, 2, 0),
    (1, 9, 8, 2, 3, 5, 3, 2, 2),
    (2, 4, 5, 18, 9, 3, 3, 1, 1),
    (1, 8, 8, 3, 4, 7, 7, 2, 3),
    (1, 6, 6, 2, 2, 3, 3, 2, 0),
    (9, 3, 3, 2, 3, 2, 2, 1, 1),
    (1, 1, 1, 1, 1, 1, 1, 1, 0),
]
for number, (n, h, w, c, k, r, s, stride, pad) in enumerate(CONVOLUTIONS):
    case = f"conv{number}"
    ints(case, n, h, w, c, k, r, s, stride, pad)
    x = uniform(n, h, w, c).requires_grad_()
    weight = uniform(k, r, s, c).requires_grad_()
    y = nhwc(F.conv2d(nchw(x), nchw(weight), stride=stride, padding=pad))
    dy = uniform(*y.shape)
    y.backward(dy)
    for name, value in dict(x=x, w=weight, y=y, dy=dy, dx=x.grad, dw=weight.grad).items():
        put(f"{case}/{name}", value)

for number, (n, inputs, outputs) in enumerate([(3, 7, 5), (1, 1, 1), (67, 9, 17)]):
    case = f"linear{number}"
    ints(case, n, inputs, outputs)
    x = uniform(n, inputs).requires_grad_()
    weight = uniform(outputs, inputs).requires_grad_()
    bias = uniform(outputs).requires_grad_()
    y = F.linear(x, weight, bias)
    dy = uniform(*y.shape)
    y.backward(dy)
    for name, value in dict(x=x, w=weight, bias=bias, y=y, dy=dy, dx=x.grad, dw=weight.grad, dbias=bias.grad).items():
        put(f"{case}/{name}", value)

for number, (rows, c) in enumerate([(2, 3), (105, 5), (65, 17), (64, 1)]):
    case = f"norm{number}"
    ints(case, rows, c)
    x = (uniform(rows, c) + uniform(c) / 2).requires_grad_()
    gamma = uniform(c).requires_grad_()
    beta = uniform(c).requires_grad_()
    running_mean = uniform(c)
    running_variance = uniform(c).abs() + 0.5
    put(f"{case}/old_mean", running_mean)
    put(f"{case}/old_variance", running_variance)
    running_variance = running_variance.to(torch.float32).to(torch.float64)
    evaluated = F.batch_norm(x, running_mean, running_variance, gamma, beta, False, 0.1, 1e-5)
    y = F.batch_norm(x, running_mean, running_variance, gamma, beta, True, 0.1, 1e-5)
    dy = uniform(*y.shape)
    y.backward(dy)
    for name, value in dict(x=x, gamma=gamma, beta=beta, y=y, evaluated=evaluated, new_mean=running_mean,
                            new_variance=running_variance, dy=dy, dx=x.grad, dgamma=gamma.grad, dbeta=beta.grad).items():
        put(f"{case}/{name}", value)

for number, (n, h, w, c, size) in enumerate([(2, 5, 7, 3, 2), (1, 6, 7, 18, 3), (2, 4, 4, 1, 2), (1, 1, 1, 4, 1)]):
    case = f"pool{number}"
    ints(case, n, h, w, c, size)
    x = quantised(n, h, w, c).requires_grad_()
    y, flat = F.max_pool2d(nchw(x), size, return_indices=True)
    y, flat = nhwc(y), nhwc(flat)
    dy = uniform(*y.shape)
    y.backward(dy)
    for name, value in dict(x=x, y=y, dy=dy, dx=x.grad).items():
        put(f"{case}/{name}", value)
    put(f"{case}/index", (flat // w) % size * size + (flat % w) % size, "uint8")

for number, (n, pixels, c) in enumerate([(2, 6, 3), (1, 1, 1), (2, 25, 18)]):
    case = f"global{number}"
    ints(case, n, pixels, c)
    x = quantised(n, pixels, c).requires_grad_()
    highest, index = F.max_pool1d(x.permute(0, 2, 1), pixels, return_indices=True)
    dy = uniform(n, c)
    highest.squeeze(2).backward(dy)
    for name, value in dict(x=x, highest=highest.squeeze(2), dy=dy, highest_dx=x.grad).items():
        put(f"{case}/{name}", value)
    put(f"{case}/index", index.squeeze(2), "int32")
    x.grad = None
    average = x.mean(1)
    average.backward(dy)
    put(f"{case}/average", average)
    put(f"{case}/average_dx", x.grad)

for number, (n, classes, smoothing) in enumerate([(7, 10, 0.0), (66, 10, 0.125), (5, 3, 0.25), (1, 1, 0.0), (9, 6, 0.0)]):
    case = f"entropy{number}"
    ints(case, n, classes)
    logits = (quantised(n, classes) * 4).requires_grad_()
    labels = torch.tensor(random.integers(0, classes, n))
    labels[2::3] = -1
    each = F.cross_entropy(logits, labels, ignore_index=-1, reduction="none", label_smoothing=smoothing)
    (each.sum() / (labels >= 0).sum()).backward()
    rank = [sum(1 for k in range(classes) if row[k] > row[label] or (row[k] == row[label] and k < label))
            for row, label in zip(logits.tolist(), labels.tolist()) if label >= 0]
    put(f"{case}/logits", logits)
    put(f"{case}/labels", labels, "int32")
    put(f"{case}/smoothing", np.array([smoothing]))
    put(f"{case}/loss", each.sum().reshape(1), "float64")
    put(f"{case}/counts", np.array([len(rank), sum(r < 1 for r in rank), sum(r < 5 for r in rank)]), "int32")
    put(f"{case}/dlogits", logits.grad)

weight = uniform(37).requires_grad_()
put("sgd/start", weight)
optimiser = torch.optim.SGD([weight], lr=0.125, momentum=0.875, weight_decay=0.0625, nesterov=True)
for step in range(3):
    weight.grad = uniform(37)
    put(f"sgd/gradient{step}", weight.grad)
    optimiser.step()
    put(f"sgd/weight{step}", weight)
put("sgd/momentum", optimiser.state[weight]["momentum_buffer"])
