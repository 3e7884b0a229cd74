#include "every_operation.h"

#include "stored_tensors.h"

namespace penstock::trainer {

namespace {

template <class T>
std::vector<char> bytes_of(const std::vector<T>& values) {
  const char* begin = reinterpret_cast<const char*>(values.data());
  return {begin, begin + values.size() * sizeof(T)};
}

}  // namespace

std::map<std::string, std::vector<char>> every_operation(Backend& backend, std::uint32_t seed, bool in_place) {
  std::map<std::string, std::vector<char>> all;
  const auto size = [](std::int64_t count) { return static_cast<std::size_t>(count); };

  for (const ConvShape& shape : {ConvShape{20, 24, 24, 16, 20, 3, 3, 1, 1}, ConvShape{5, 30, 31, 1, 8, 3, 3, 2, 1},
                                 ConvShape{3, 9, 9, 24, 17, 1, 1, 1, 0}}) {
    const std::string name = "conv" + std::to_string(shape.c);
    const std::int64_t inputs = shape.n * shape.h * shape.w * shape.c;
    const std::int64_t outputs = shape.n * shape.out_h() * shape.out_w() * shape.k;
    const auto x = random_values(size(inputs), seed);
    const auto w = random_values(size(shape.k * shape.r * shape.s * shape.c), seed + 1);
    const auto dy = random_values(size(outputs), seed + 2);
    auto y = unwritten(size(outputs));
    auto dx = unwritten(x.size());
    auto dw = unwritten(w.size());
    GuardedScratch forward(backend.conv_forward_scratch(shape));
    GuardedScratch data(backend.conv_backward_data_scratch(shape));
    GuardedScratch weight(backend.conv_backward_weight_scratch(shape));
    backend.conv_forward(nullptr, shape, x.data(), w.data(), y.data(), forward.data());
    backend.conv_backward_data(nullptr, shape, dy.data(), w.data(), dx.data(), data.data());
    backend.conv_backward_weight(nullptr, shape, x.data(), dy.data(), dw.data(), weight.data());
    all[name + "/y"] = bytes_of(y);
    all[name + "/dx"] = bytes_of(dx);
    all[name + "/dw"] = bytes_of(dw);
  }
  {
    const std::int64_t n = 130;
    const std::int64_t in = 200;
    const std::int64_t out = 150;
    const auto x = random_values(size(n * in), seed);
    const auto w = random_values(size(out * in), seed + 1);
    const auto bias = random_values(size(out), seed + 2);
    const auto dy = random_values(size(n * out), seed + 3);
    auto y = unwritten(size(n * out));
    auto dx = unwritten(x.size());
    auto dw = unwritten(w.size());
    auto dbias = unwritten(bias.size());
    GuardedScratch scratch(backend.linear_scratch(n, in, out));
    backend.linear_forward(nullptr, n, in, out, x.data(), w.data(), bias.data(), y.data(), scratch.data());
    backend.linear_backward_data(nullptr, n, in, out, dy.data(), w.data(), dx.data(), scratch.data());
    backend.linear_backward_weight(nullptr, n, in, out, x.data(), dy.data(), dw.data(), dbias.data(), scratch.data());
    all["linear/y"] = bytes_of(y);
    all["linear/dx"] = bytes_of(dx);
    all["linear/dw"] = bytes_of(dw);
    all["linear/dbias"] = bytes_of(dbias);
  }
  {
    const std::int64_t rows = 5000;
    const std::int64_t c = 21;
    const auto x = random_values(size(rows * c), seed);
    const auto gamma = random_values(size(c), seed + 1);
    const auto beta = random_values(size(c), seed + 2);
    auto y = unwritten(x.size());
    auto evaluated = unwritten(x.size());
    auto mean = unwritten(size(c));
    auto inverse = unwritten(size(c));
    auto running_mean = random_values(size(c), seed + 3);
    std::vector<float> running_variance(size(c), 0.5F);
    auto dgamma = unwritten(size(c));
    auto dbeta = unwritten(size(c));
    auto dy = random_values(x.size(), seed + 4);
    auto other = unwritten(x.size());
    float* const dx = in_place ? dy.data() : other.data();
    GuardedScratch scratch(backend.batch_norm_scratch(rows, c));
    backend.batch_norm_forward_eval(nullptr, rows, c, x.data(), gamma.data(), beta.data(), evaluated.data(),
                                    running_mean.data(), running_variance.data(), 1e-5F);
    backend.batch_norm_forward_train(nullptr, rows, c, x.data(), gamma.data(), beta.data(), y.data(), mean.data(),
                                     inverse.data(), running_mean.data(), running_variance.data(), 0.1F, 1e-5F,
                                     scratch.data());
    backend.batch_norm_backward(nullptr, rows, c, x.data(), gamma.data(), mean.data(), inverse.data(), dy.data(), dx,
                                dgamma.data(), dbeta.data(), scratch.data());
    all["norm/y"] = bytes_of(y);
    all["norm/evaluated"] = bytes_of(evaluated);
    all["norm/mean"] = bytes_of(mean);
    all["norm/inverse"] = bytes_of(inverse);
    all["norm/running_mean"] = bytes_of(running_mean);
    all["norm/running_variance"] = bytes_of(running_variance);
    all["norm/dx"] = bytes_of(in_place ? dy : other);
    all["norm/dgamma"] = bytes_of(dgamma);
    all["norm/dbeta"] = bytes_of(dbeta);
  }
  const std::int64_t count = 100'003;
  const auto plain = random_values(size(count), seed);
  const auto second = random_values(size(count), seed + 1);
  const auto elementwise = [&](const std::string& name, const std::vector<float>& input, const auto& operation) {
    auto from = input;
    auto other = unwritten(input.size());
    auto& to = in_place ? from : other;
    operation(from.data(), to.data());
    all[name] = bytes_of(to);
  };
  elementwise("relu/y", plain, [&](const float* x, float* y) { backend.relu_forward(nullptr, count, x, y); });
  elementwise("relu/dx", second,
              [&](const float* dy, float* dx) { backend.relu_backward(nullptr, count, plain.data(), dy, dx); });
  elementwise("add/first", plain, [&](const float* a, float* y) { backend.add(nullptr, count, a, second.data(), y); });
  elementwise("add/second", second, [&](const float* b, float* y) { backend.add(nullptr, count, plain.data(), b, y); });
  elementwise("scale", plain, [&](const float* x, float* y) { backend.scale(nullptr, count, 0.125F, x, y); });
  {
    auto copied = unwritten(plain.size());
    backend.copy(nullptr, count, plain.data(), copied.data());
    all["copy"] = bytes_of(copied);
    auto w = plain;
    auto m = second;
    StepScalars scalars;
    backend.set_scalars(nullptr, &scalars, StepScalars{0.25F, 7});
    backend.sgd_update(nullptr, count, w.data(), second.data(), m.data(), &scalars, 0.9F, 0.01F);
    all["scalars"] = bytes_of(std::vector<StepScalars>{scalars});
    all["sgd/w"] = bytes_of(w);
    all["sgd/m"] = bytes_of(m);
  }
  {
    const PoolShape shape{9, 21, 23, 21, 2};
    const auto x = random_values(size(shape.n * shape.h * shape.w * shape.c), seed);
    const std::size_t outputs = size(shape.n * (shape.h / 2) * (shape.w / 2) * shape.c);
    const auto dy = random_values(outputs, seed + 1);
    auto y = unwritten(outputs);
    auto dx = unwritten(x.size());
    std::vector<std::uint8_t> index(outputs, 99);
    backend.max_pool_forward(nullptr, shape, x.data(), y.data(), index.data());
    backend.max_pool_backward(nullptr, shape, dy.data(), index.data(), dx.data());
    all["pool/y"] = bytes_of(y);
    all["pool/index"] = bytes_of(index);
    all["pool/dx"] = bytes_of(dx);
  }
  {
    const std::int64_t n = 150;
    const std::int64_t pixels = 30;
    const std::int64_t c = 21;
    const auto x = random_values(size(n * pixels * c), seed);
    const auto dy = random_values(size(n * c), seed + 1);
    auto y = unwritten(dy.size());
    auto average = unwritten(dy.size());
    auto dx = unwritten(x.size());
    auto average_dx = unwritten(x.size());
    std::vector<std::int32_t> index(dy.size(), -9);
    backend.global_max_pool_forward(nullptr, n, pixels, c, x.data(), y.data(), index.data());
    backend.global_max_pool_backward(nullptr, n, pixels, c, dy.data(), index.data(), dx.data());
    backend.global_average_pool_forward(nullptr, n, pixels, c, x.data(), average.data());
    backend.global_average_pool_backward(nullptr, n, pixels, c, dy.data(), average_dx.data());
    all["global/y"] = bytes_of(y);
    all["global/index"] = bytes_of(index);
    all["global/dx"] = bytes_of(dx);
    all["global/average"] = bytes_of(average);
    all["global/average_dx"] = bytes_of(average_dx);
  }
  {
    const std::int64_t n = 300;
    const std::int64_t classes = 11;
    std::vector<std::int64_t> wide(size(n));
    for (std::int64_t i = 0; i < n; ++i) wide[size(i)] = i * 7 % classes;
    std::vector<std::int32_t> labels(size(n), -7);
    backend.copy_labels(nullptr, wide.data(), labels.data(), n, n - 5);
    auto logits = random_values(size(n * classes), seed);
    auto other = unwritten(logits.size());
    float* const dlogits = in_place ? logits.data() : other.data();
    std::vector<MetricSums> sums(1);
    GuardedScratch scratch(backend.softmax_cross_entropy_scratch(n, classes));
    backend.softmax_cross_entropy(nullptr, n, classes, logits.data(), labels.data(), 0.1F, dlogits, sums.data(),
                                  scratch.data());
    all["entropy/labels"] = bytes_of(labels);
    all["entropy/dlogits"] = bytes_of(in_place ? logits : other);
    all["entropy/sums"] = bytes_of(sums);
  }
  {
    const std::int64_t n = 40;
    const std::int64_t pixels = 500;
    std::vector<std::uint8_t> bytes(size(n * pixels * 3));
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * 31 + seed);
    auto out = unwritten(bytes.size());
    Normalisation normalisation;
    for (int channel = 0; channel < 3; ++channel)
      normalisation.mean[channel] = 0.3F + 0.1F * static_cast<float>(channel);
    backend.cast_normalise(nullptr, bytes.data(), out.data(), n, pixels, 3, normalisation, n - 1);
    all["cast"] = bytes_of(out);
  }
  return all;
}

}  // namespace penstock::trainer
