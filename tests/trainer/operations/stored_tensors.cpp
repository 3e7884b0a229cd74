#include "stored_tensors.h"

#include <cmath>
#include <fstream>
#include <stdexcept>

#include <penstock/gpu/device.h>
#include <penstock/trainer/host_backend.h>

namespace penstock::trainer {

namespace {

template <class T>
T take(std::istream& in) {
  T value{};
  if (!in.read(reinterpret_cast<char*>(&value), sizeof(T))) throw std::runtime_error("operations.bin ends too early");
  return value;
}

template <class T>
std::vector<T> take_many(std::istream& in, std::size_t count) {
  std::vector<T> values(count);
  if (count > 0 && !in.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(count * sizeof(T)))) {
    throw std::runtime_error("operations.bin ends too early");
  }
  return values;
}

StoredTensors read_tensors() {
  std::ifstream in(PENSTOCK_OPERATIONS_DATA, std::ios::binary);
  if (!in) throw std::runtime_error(std::string("cannot open ") + PENSTOCK_OPERATIONS_DATA);
  StoredTensors tensors;
  while (in.peek() != std::char_traits<char>::eof()) {
    std::string name(take<std::uint16_t>(in), ' ');
    in.read(name.data(), static_cast<std::streamsize>(name.size()));
    const auto type = take<std::uint8_t>(in);
    const auto dimensions = take<std::uint8_t>(in);
    std::size_t count = 1;
    for (int i = 0; i < dimensions; ++i) count *= take<std::uint32_t>(in);
    if (type == 0) tensors.f32[name] = take_many<float>(in, count);
    if (type == 1) tensors.i32[name] = take_many<std::int32_t>(in, count);
    if (type == 2) tensors.u8[name] = take_many<std::uint8_t>(in, count);
    if (type == 3) tensors.f64[name] = take_many<double>(in, count);
    if (type == 4) {
      for (const std::int8_t value : take_many<std::int8_t>(in, count)) {
        tensors.f32[name].push_back(static_cast<float>(value) / 64.0F);
      }
    }
  }
  return tensors;
}

}  // namespace

const StoredTensors& stored_tensors() {
  static const StoredTensors tensors = read_tensors();
  return tensors;
}

std::vector<std::pair<std::string, std::vector<std::int32_t>>> StoredTensors::cases(const std::string& kind) const {
  std::vector<std::pair<std::string, std::vector<std::int32_t>>> found;
  for (int number = 0;; ++number) {
    const std::string name = kind + std::to_string(number);
    const auto shape = i32.find(name + "/shape");
    if (shape == i32.end()) break;
    found.emplace_back(name, shape->second);
  }
  if (found.empty()) throw std::runtime_error("operations.bin has no case of " + kind);
  return found;
}

std::shared_ptr<Backend> host_backend(std::size_t threads) {
  return make_host_backend(Runtime(RuntimeOptions{.threads = threads}));
}

std::vector<float> random_values(std::size_t count, std::uint32_t seed) {
  std::vector<float> values(count);
  std::uint32_t state = seed * 2654435761U + 1;
  for (float& value : values) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(state >> 8) / static_cast<float>(1U << 23) - 1.0F;
  }
  return values;
}

void expect_near(const std::vector<float>& got, const std::vector<float>& want, double tolerance,
                 const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double expected = static_cast<double>(want[i]);
    const double distance = std::abs(static_cast<double>(got[i]) - expected);
    ASSERT_LE(distance, tolerance * (1 + std::abs(expected)))
        << what << " at " << i << ": " << got[i] << ", expected " << want[i];
  }
}

}  // namespace penstock::trainer
