// One spelling of a block's shared array for both compilers: PENSTOCK_SHARED_ARRAY(float, tile, 256); declares an array
// of 256 floats. On the GPU it is `__shared__`; on the host it lies between red zones and starts as NaN.
#pragma once

#ifdef PENSTOCK_CUDA_SHIM

#include <cstddef>
#include <source_location>
#include <type_traits>

namespace cuda_shim {

/// `bytes` of the running block's shared memory that belong to the declaration at `where`; the same for all its
/// threads.
std::byte* shared_bytes(std::size_t bytes, const std::source_location& where);

template <class T, std::size_t kCount>
auto shared_array(std::source_location where = std::source_location::current()) -> T (&)[kCount] {
  static_assert(std::is_trivially_copyable_v<T>, "shared memory is not constructed");
  return *reinterpret_cast<T(*)[kCount]>(shared_bytes(sizeof(T) * kCount, where));
}

}  // namespace cuda_shim

#define PENSTOCK_SHARED_ARRAY(type, name, count) auto& name = ::cuda_shim::shared_array<type, count>()

#else

#define PENSTOCK_SHARED_ARRAY(type, name, count) __shared__ type name[count]

#endif
