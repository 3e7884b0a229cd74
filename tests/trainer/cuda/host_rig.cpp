// Memory of the host, each piece exactly as large as asked for, so that AddressSanitizer sees every step outside.
#include "host_rig.h"

#include <cstring>

namespace penstock::trainer::test {

void HostRig::Free::operator()(void* memory) const noexcept {
  ::operator delete(memory, std::align_val_t{gpu::kArenaAlignment});
}

void* HostRig::upload(const std::vector<std::byte>& bytes) {
  memory_.emplace_back(::operator new(bytes.size(), std::align_val_t{gpu::kArenaAlignment}));
  if (!bytes.empty()) std::memcpy(memory_.back().get(), bytes.data(), bytes.size());
  return memory_.back().get();
}

std::vector<std::byte> HostRig::download(const void* memory, std::size_t bytes) {
  std::vector<std::byte> result(bytes);
  if (bytes > 0) std::memcpy(result.data(), memory, bytes);
  return result;
}

std::unique_ptr<Rig> make_host_rig() { return std::make_unique<HostRig>(); }

}  // namespace penstock::trainer::test
