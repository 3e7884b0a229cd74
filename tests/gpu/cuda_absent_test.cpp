// A build or a machine without CUDA: `auto` takes the host, `cuda:N` says why not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/gpu/cuda_device.h>
#include <penstock/gpu/device.h>
#include <penstock/gpu/device_error.h>

#include "gpu/devices_under_test.h"

namespace penstock::gpu {
namespace {

TEST(CudaAbsentTest, AutoFallsBackToTheHost) {
  const CudaPresence cuda = find_cuda();
  if (cuda.device_count > 0) GTEST_SKIP() << "this machine has a CUDA device";
  EXPECT_FALSE(cuda.reason.empty());
  EXPECT_EQ(open_device("auto", test::small_runtime())->kind(), DeviceKind::kHost);
}

TEST(CudaAbsentTest, ChoosingCudaSaysWhyThereIsNone) {
  const CudaPresence cuda = find_cuda();
  if (cuda.device_count > 0) GTEST_SKIP() << "this machine has a CUDA device";
  EXPECT_THAT([&] { open_device("cuda:0", test::small_runtime()); },
              testing::ThrowsMessage<InvalidArgument>("device \"cuda:0\": " + cuda.reason));
  EXPECT_THROW(make_cuda_device(0), DeviceError);
}

}  // namespace
}  // namespace penstock::gpu
