// Who holds device memory, and up to which limit. Two ledgers: accounts are physical bytes, and children add up to
// their parent; phases (training, validation) say what a phase may use: the accounts that belong to it, and its lease
// of memory that phases share because they exclude each other.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/gpu/device.h>
#include <penstock/gpu/device_error.h>

namespace penstock::gpu {

/// A cap that nothing reaches.
inline constexpr std::uint64_t kNoCap = ~std::uint64_t{0};

class MemoryAccount;
class Phase;

/// Bytes reserved in an account (and all its parents and its phase), or leased by a phase; given back when it goes out
/// of scope. Moved-from is empty; move-assignment gives back what was held.
class Charge {
 public:
  Charge() = default;
  Charge(Charge&& other) noexcept;
  Charge& operator=(Charge&& other) noexcept;
  ~Charge();
  std::uint64_t bytes() const noexcept { return bytes_; }
  explicit operator bool() const noexcept { return bytes_ != 0; }

 private:
  friend class MemoryAccount;
  friend class Phase;
  Charge(std::shared_ptr<void> ledger, void* entry, std::uint64_t bytes) noexcept;
  std::shared_ptr<void> ledger_;
  void* entry_ = nullptr;
  std::uint64_t bytes_ = 0;
};

/// What one row of the ledger says.
struct AccountFigures {
  std::string path;  ///< `device/train/ring`, or a phase's name: `train`
  std::uint64_t current_bytes = 0;
  std::uint64_t peak_bytes = 0;
  std::uint64_t cap_bytes = kNoCap;
};

/// An account, by path. A cheap handle; safe for concurrent use.
class MemoryAccount {
 public:
  /// Reserves `bytes` here and in every parent and the phase by compare-exchange, all or nothing, before anybody asks
  /// the driver. Throws DeviceMemoryLimit that names the cap that was hit. `tag` says what for.
  [[nodiscard]] Charge charge(std::uint64_t bytes, std::string_view tag) const;
  AccountFigures figures() const;

 private:
  friend class MemoryAccounts;
  std::shared_ptr<void> ledger_;
  void* entry_ = nullptr;
};

/// A phase: `train` or `val`. A cheap handle; safe for concurrent use.
class Phase {
 public:
  /// Says that the phase uses `bytes` of shared memory; counts against the phase's cap only.
  [[nodiscard]] Charge lease(std::uint64_t bytes, std::string_view tag) const;
  AccountFigures figures() const;

 private:
  friend class MemoryAccounts;
  std::shared_ptr<void> ledger_;
  void* entry_ = nullptr;
};

/// The ledger of one device and its pinned host memory. A shared handle. Accounts and phases are made before use, from
/// one thread; charging is then free of locks.
class MemoryAccounts {
 public:
  MemoryAccounts();
  /// The account of `path`, made with its parents if need be; `device/...` for device memory, `host/...` for pinned
  /// memory. `phase`: charges here also count for that phase (made if need be). A cap given later replaces an earlier
  /// one. Throws InvalidArgument for an empty part of a path.
  MemoryAccount account(const std::string& path, std::string_view phase = {});
  Phase phase(const std::string& name);
  /// Sets the cap of an account or phase. Throws InvalidArgument when its current bytes are above.
  void set_cap(const std::string& path_or_phase, std::uint64_t cap_bytes);
  /// All rows: phases first, then accounts in order of path. Consistent when nothing is charged meanwhile.
  std::vector<AccountFigures> figures() const;
  /// Peaks become the current bytes.
  void reset_peaks();
  /// A table for people, one row an account: current, peak, cap.
  std::string table() const;

 private:
  std::shared_ptr<void> ledger_;
};

/// Device memory charged to an account: a slab of whole granules. Move-only; freed and given back when it goes.
class Slab {
 public:
  Slab() = default;
  /// Charges round_up(bytes, kSlabGranule), then asks the device; undone if it refuses.
  Slab(std::shared_ptr<Device> device, const MemoryAccount& account, std::uint64_t bytes, std::string_view tag);
  Slab(Slab&&) noexcept = default;
  Slab& operator=(Slab&&) noexcept;
  ~Slab();
  std::byte* data() const noexcept { return data_.get(); }
  /// Bytes that may be used: those charged.
  std::uint64_t size_bytes() const noexcept { return charge_.bytes(); }

 private:
  Charge charge_;  // after the memory has gone (members end in reverse order)
  std::shared_ptr<std::byte> data_;
};

/// Page-locked host memory charged to an account, exact size rounded to 4096. Otherwise like Slab.
class PinnedSlab {
 public:
  PinnedSlab() = default;
  PinnedSlab(std::shared_ptr<Device> device, const MemoryAccount& account, std::uint64_t bytes, std::string_view tag);
  PinnedSlab(PinnedSlab&&) noexcept = default;
  PinnedSlab& operator=(PinnedSlab&&) noexcept;
  ~PinnedSlab();
  std::byte* data() const noexcept { return data_.get(); }
  std::uint64_t size_bytes() const noexcept { return charge_.bytes(); }

 private:
  Charge charge_;
  std::shared_ptr<std::byte> data_;
};

}  // namespace penstock::gpu
