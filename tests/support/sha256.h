// SHA-256 (FIPS 180-4), for comparing with answers that are stored as hashes.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace penstock::test {

namespace sha256_detail {

// The first 32 bits of the fraction of a root; a long double has enough of them for the small primes here.
inline std::uint32_t fraction_bits(long double root) {
  return static_cast<std::uint32_t>((root - std::floor(root)) * 4294967296.0L);
}

// 64 round constants, from the cube roots of the primes, and 8 initial values, from the square roots.
inline const std::array<std::uint32_t, 72>& constants() {
  static const std::array<std::uint32_t, 72> all = [] {
    std::array<std::uint32_t, 72> result{};
    std::size_t found = 0;
    for (std::uint64_t n = 2; found < 64; ++n) {
      bool prime = true;
      for (std::uint64_t d = 2; d * d <= n; ++d) prime = prime && n % d != 0;
      if (!prime) continue;
      result[found] = fraction_bits(std::cbrt(static_cast<long double>(n)));
      if (found < 8) result[64 + found] = fraction_bits(std::sqrt(static_cast<long double>(n)));
      ++found;
    }
    return result;
  }();
  return all;
}

}  // namespace sha256_detail

/// Lower-case hexadecimal.
inline std::string sha256_hex(std::span<const std::byte> bytes) {
  const auto& k = sha256_detail::constants();
  std::vector<std::uint8_t> message(bytes.size());
  for (std::size_t i = 0; i < bytes.size(); ++i) message[i] = std::to_integer<std::uint8_t>(bytes[i]);
  message.push_back(0x80);
  while (message.size() % 64 != 56) message.push_back(0);
  for (int shift = 56; shift >= 0; shift -= 8) {
    message.push_back(static_cast<std::uint8_t>((std::uint64_t{bytes.size()} * 8) >> shift));
  }
  std::array<std::uint32_t, 8> hash{};
  for (std::size_t i = 0; i < 8; ++i) hash[i] = k[64 + i];
  for (std::size_t at = 0; at < message.size(); at += 64) {
    std::array<std::uint32_t, 64> w{};
    for (std::size_t i = 0; i < 16; ++i) {
      for (std::size_t b = 0; b < 4; ++b) w[i] = w[i] << 8 | message[at + 4 * i + b];
    }
    for (std::size_t i = 16; i < 64; ++i) {
      const std::uint32_t a = w[i - 15], b = w[i - 2];
      w[i] = w[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) + w[i - 7] +
             (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
    }
    std::array<std::uint32_t, 8> s = hash;
    for (std::size_t i = 0; i < 64; ++i) {
      const std::uint32_t one = s[7] + (std::rotr(s[4], 6) ^ std::rotr(s[4], 11) ^ std::rotr(s[4], 25)) +
                                ((s[4] & s[5]) ^ (~s[4] & s[6])) + k[i] + w[i];
      const std::uint32_t two = (std::rotr(s[0], 2) ^ std::rotr(s[0], 13) ^ std::rotr(s[0], 22)) +
                                ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
      s = {one + two, s[0], s[1], s[2], s[3] + one, s[4], s[5], s[6]};
    }
    for (std::size_t i = 0; i < 8; ++i) hash[i] += s[i];
  }
  std::string text;
  for (const std::uint32_t word : hash) {
    for (int shift = 28; shift >= 0; shift -= 4) text += "0123456789abcdef"[word >> shift & 15];
  }
  return text;
}

}  // namespace penstock::test
