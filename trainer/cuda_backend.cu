// The operations as kernels: the one file of them that is compiled for the GPU.
#include <penstock/trainer/cuda_backend.h>

#include <penstock/trainer/backend_of.h>
#include <penstock/trainer/cuda_launcher.cuh>

namespace penstock::trainer {

std::unique_ptr<Backend> make_cuda_backend() { return std::make_unique<BackendOf<CudaLaunch>>(CudaLaunch()); }

}  // namespace penstock::trainer
