// A build without CUDA.
#include <penstock/trainer/cuda_backend.h>

#include <penstock/pipeline/error.h>

namespace penstock::trainer {

std::unique_ptr<Backend> make_cuda_backend() {
  throw InvalidArgument("cuda: this build has no CUDA, so nothing can be trained on a CUDA device");
}

}  // namespace penstock::trainer
