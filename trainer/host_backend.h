// The back end for the host's own memory.
#pragma once

#include <memory>

#include <penstock/pipeline/runtime.h>
#include <penstock/trainer/backend.h>

namespace penstock::trainer {

/// Operations are loops on `runtime`'s threads at high priority; products are OpenBLAS's. A call returns when it is
/// done. Throws Error when OpenBLAS is a build that cannot be called from several threads.
std::unique_ptr<Backend> make_host_backend(const Runtime& runtime);

}  // namespace penstock::trainer
