// Charged memory: the account first, then the device; the memory goes before its charge does.
#include <utility>

#include <penstock/gpu/memory_accounts.h>

namespace penstock::gpu {
namespace {

// A size too large to be rounded is left as it is: the charge refuses it.
std::uint64_t rounded(std::uint64_t bytes, std::uint64_t multiple) {
  return bytes > kNoCap - multiple ? bytes : round_up(bytes, multiple);
}

}  // namespace

Slab::Slab(std::shared_ptr<Device> device, const MemoryAccount& account, std::uint64_t bytes, std::string_view tag)
    : charge_(account.charge(rounded(bytes, kSlabGranule), tag)) {
  if (charge_.bytes() == 0) return;
  auto* memory = static_cast<std::byte*>(device->allocate(charge_.bytes()));
  data_ = std::shared_ptr<std::byte>(memory, [device = std::move(device)](std::byte* old) { device->free(old); });
}

Slab& Slab::operator=(Slab&& other) noexcept {
  data_ = std::move(other.data_);
  charge_ = std::move(other.charge_);
  return *this;
}

Slab::~Slab() = default;

PinnedSlab::PinnedSlab(std::shared_ptr<Device> device, const MemoryAccount& account, std::uint64_t bytes,
                       std::string_view tag)
    : charge_(account.charge(rounded(bytes, kPinnedGranule), tag)) {
  if (charge_.bytes() == 0) return;
  auto* memory = static_cast<std::byte*>(device->allocate_pinned(charge_.bytes()));
  data_ =
      std::shared_ptr<std::byte>(memory, [device = std::move(device)](std::byte* old) { device->free_pinned(old); });
}

PinnedSlab& PinnedSlab::operator=(PinnedSlab&& other) noexcept {
  data_ = std::move(other.data_);
  charge_ = std::move(other.charge_);
  return *this;
}

PinnedSlab::~PinnedSlab() = default;

}  // namespace penstock::gpu
