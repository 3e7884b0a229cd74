// The operations as loops: the one file of them that is compiled for the host.
#include <penstock/trainer/host_backend.h>

#include <penstock/trainer/backend_of.h>
#include <penstock/trainer/host_launch.h>

namespace penstock::trainer {

std::unique_ptr<Backend> make_host_backend(const Runtime& runtime) {
  return std::make_unique<BackendOf<HostLaunch>>(HostLaunch(runtime));
}

}  // namespace penstock::trainer
