// Errors of devices and of device memory.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include <penstock/pipeline/error.h>

namespace penstock::gpu {

/// An operation of a device failed; `what()` has the call, the status and the place.
class DeviceError : public Error {
 public:
  using Error::Error;
};

/// Device or pinned memory would pass a limit, or the driver refused it. One failure, one error.
class DeviceMemoryLimit : public DeviceError {
 public:
  DeviceMemoryLimit(const std::string& text, std::string account, std::string tag, std::uint64_t requested_bytes,
                    std::uint64_t current_bytes, std::uint64_t cap_bytes)
      : DeviceError(text),
        account_(std::move(account)),
        tag_(std::move(tag)),
        requested_bytes_(requested_bytes),
        current_bytes_(current_bytes),
        cap_bytes_(cap_bytes) {}
  /// Account or phase whose cap was hit (`device/train/ring`, `val`), or `device` when the driver refused.
  const std::string& account() const noexcept { return account_; }
  /// What the bytes were for.
  const std::string& tag() const noexcept { return tag_; }
  std::uint64_t requested_bytes() const noexcept { return requested_bytes_; }
  std::uint64_t current_bytes() const noexcept { return current_bytes_; }
  std::uint64_t cap_bytes() const noexcept { return cap_bytes_; }

 private:
  std::string account_;
  std::string tag_;
  std::uint64_t requested_bytes_;
  std::uint64_t current_bytes_;
  std::uint64_t cap_bytes_;
};

}  // namespace penstock::gpu
