// A rig whose memory is the host's.
#pragma once

#include "trainer/cuda/rig.h"

namespace penstock::trainer::test {

class HostRig : public Rig {
 public:
  std::string name() const override { return "host"; }
  void* upload(const std::vector<std::byte>& bytes) override;
  void run(const std::function<void(NativeStream)>& body) override { body(nullptr); }
  std::vector<std::byte> download(const void* memory, std::size_t bytes) override;
  bool has_host_arithmetic() const override { return true; }

 private:
  struct Free {
    void operator()(void* memory) const noexcept;
  };
  std::vector<std::unique_ptr<void, Free>> memory_;
};

}  // namespace penstock::trainer::test
