// The CUDA driver as other users of a process call it: loaded by dlopen, with what nobounce itself
// never calls (contexts reset, kernels, pools, mappings), to set up what a session then meets.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "system/cuda_types.hpp"

namespace nobounce::test {

namespace cuda = system::cuda;

struct MemoryLocation {
  int type;
  int id;
};
struct MemoryProperties {  // CUmemAllocationProp
  int type;
  int handle_types;
  MemoryLocation location;
  void* win32;
  unsigned char flags[8];
};
struct MemoryAccess {  // CUmemAccessDesc
  MemoryLocation location;
  int flags;
};
struct IpcMemory {  // CUipcMemHandle
  char bytes[64];
};

/// CUresult.
using Code = cuda::CUresult;
using Pointer = cuda::CUdeviceptr;
using Handle = unsigned long long;

#define NOBOUNCE_DRIVER_FUNCTIONS(X)                                                             \
  X(init, "cuInit", (unsigned))                                                                  \
  X(device_count, "cuDeviceGetCount", (int*))                                                    \
  X(device_attribute, "cuDeviceGetAttribute", (int*, int, int))                                  \
  X(device_name, "cuDeviceGetName", (char*, int, int))                                           \
  X(can_access_peer, "cuDeviceCanAccessPeer", (int*, int, int))                                  \
  X(retain, "cuDevicePrimaryCtxRetain", (void**, int))                                           \
  X(release, "cuDevicePrimaryCtxRelease_v2", (int))                                              \
  X(reset, "cuDevicePrimaryCtxReset_v2", (int))                                                  \
  X(push, "cuCtxPushCurrent_v2", (void*))                                                        \
  X(pop, "cuCtxPopCurrent_v2", (void**))                                                         \
  X(context_synchronize, "cuCtxSynchronize", ())                                                 \
  X(enable_peer, "cuCtxEnablePeerAccess", (void*, unsigned))                                     \
  X(disable_peer, "cuCtxDisablePeerAccess", (void*))                                             \
  X(allocate, "cuMemAlloc_v2", (Pointer*, std::size_t))                                          \
  X(free, "cuMemFree_v2", (Pointer))                                                             \
  X(allocate_managed, "cuMemAllocManaged", (Pointer*, std::size_t, unsigned))                    \
  X(allocate_host, "cuMemHostAlloc", (void**, std::size_t, unsigned))                            \
  X(free_host, "cuMemFreeHost", (void*))                                                         \
  X(memory_info, "cuMemGetInfo_v2", (std::size_t*, std::size_t*))                                \
  X(to_device, "cuMemcpyHtoDAsync_v2", (Pointer, const void*, std::size_t, void*))               \
  X(to_host, "cuMemcpyDtoHAsync_v2", (void*, Pointer, std::size_t, void*))                       \
  X(peer_copy, "cuMemcpyPeerAsync", (Pointer, void*, Pointer, void*, std::size_t, void*))        \
  X(fill, "cuMemsetD8Async", (Pointer, unsigned char, std::size_t, void*))                       \
  X(create_stream, "cuStreamCreate", (void**, unsigned))                                         \
  X(destroy_stream, "cuStreamDestroy_v2", (void*))                                               \
  X(synchronize, "cuStreamSynchronize", (void*))                                                 \
  X(create_event, "cuEventCreate", (void**, unsigned))                                           \
  X(destroy_event, "cuEventDestroy_v2", (void*))                                                 \
  X(record, "cuEventRecord", (void*, void*))                                                     \
  X(synchronize_event, "cuEventSynchronize", (void*))                                            \
  X(elapsed_ms, "cuEventElapsedTime", (float*, void*, void*))                                    \
  X(granularity, "cuMemGetAllocationGranularity", (std::size_t*, const MemoryProperties*, int))  \
  X(create_memory, "cuMemCreate", (Handle*, std::size_t, const MemoryProperties*, Handle))       \
  X(release_memory, "cuMemRelease", (Handle))                                                    \
  X(reserve, "cuMemAddressReserve", (Pointer*, std::size_t, std::size_t, Pointer, Handle))       \
  X(unreserve, "cuMemAddressFree", (Pointer, std::size_t))                                       \
  X(map, "cuMemMap", (Pointer, std::size_t, std::size_t, Handle, Handle))                        \
  X(unmap, "cuMemUnmap", (Pointer, std::size_t))                                                 \
  X(set_access, "cuMemSetAccess", (Pointer, std::size_t, const MemoryAccess*, std::size_t))      \
  X(allocate_async, "cuMemAllocAsync", (Pointer*, std::size_t, void*))                           \
  X(free_async, "cuMemFreeAsync", (Pointer, void*))                                              \
  X(ipc_handle, "cuIpcGetMemHandle", (IpcMemory*, Pointer))                                      \
  X(ipc_open, "cuIpcOpenMemHandle_v2", (Pointer*, IpcMemory, unsigned))                          \
  X(ipc_close, "cuIpcCloseMemHandle", (Pointer))                                                 \
  X(pointer_attributes, "cuPointerGetAttributes", (unsigned, int*, void**, Pointer))             \
  X(load_module, "cuModuleLoadData", (void**, const void*))                                      \
  X(unload_module, "cuModuleUnload", (void*))                                                    \
  X(get_function, "cuModuleGetFunction", (void**, void*, const char*))                           \
  X(launch, "cuLaunchKernel",                                                                    \
    (void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, \
     void**))

/// Every function of the list, or `missing` says what was not found. Never unloaded.
class CudaDriver {
 public:
  CudaDriver() {
    void* library = ::dlopen("libcuda.so.1", RTLD_NOW);
    if (library == nullptr) {
      missing = "libcuda.so.1";
      return;
    }
#define NOBOUNCE_LOAD(name, symbol, parameters)                          \
  name = reinterpret_cast<Code(*) parameters>(::dlsym(library, symbol)); \
  if (name == nullptr) missing = symbol;
    NOBOUNCE_DRIVER_FUNCTIONS(NOBOUNCE_LOAD)
#undef NOBOUNCE_LOAD
  }
#define NOBOUNCE_MEMBER(name, symbol, parameters) Code(*name) parameters = nullptr;
  NOBOUNCE_DRIVER_FUNCTIONS(NOBOUNCE_MEMBER)
#undef NOBOUNCE_MEMBER

  /// GPUs that can be used; 0 also where there is no driver. Initialises CUDA.
  [[nodiscard]] int gpus() const {
    int count = 0;
    if (!missing.empty() || init(0) != cuda::success) return 0;
    return device_count(&count) == cuda::success ? count : 0;
  }

  std::string missing;
};

/// A retained primary context, current on this thread for its lifetime.
class Primary {
 public:
  Primary(const CudaDriver& driver, int device) : driver_(driver), device_(device) {
    (void)driver_.init(0);
    if (driver_.retain(&context_, device) == cuda::success) (void)driver_.push(context_);
  }
  ~Primary() {
    void* popped = nullptr;
    (void)driver_.pop(&popped);
    if (!given_up_) (void)driver_.release(device_);
  }
  Primary(const Primary&) = delete;
  Primary& operator=(const Primary&) = delete;
  [[nodiscard]] void* context() const { return context_; }
  /// The context is gone or broken: no release at the end.
  void give_up() { given_up_ = true; }

 private:
  const CudaDriver& driver_;
  int device_;
  void* context_ = nullptr;
  bool given_up_ = false;
};

/// Kernels as PTX that every GPU from compute capability 7.5 on takes: one that traps, one that
/// stores a counting pattern, one that copies words, one that adds to a word atomically.
inline constexpr const char* test_kernels = R"(
.version 7.0
.target sm_75
.address_size 64

.visible .entry trap_now() {
  trap;
}

.visible .entry store_words(.param .u64 target, .param .u32 count, .param .u32 first) {
  .reg .pred %p<2>;
  .reg .b32 %r<9>;
  .reg .b64 %d<4>;
  ld.param.u64 %d1, [target];
  cvta.to.global.u64 %d1, %d1;
  ld.param.u32 %r1, [count];
  ld.param.u32 %r2, [first];
  mov.u32 %r3, %ctaid.x;
  mov.u32 %r4, %ntid.x;
  mov.u32 %r5, %tid.x;
  mad.lo.s32 %r6, %r3, %r4, %r5;
  setp.ge.u32 %p1, %r6, %r1;
  @%p1 bra done;
  mul.wide.u32 %d2, %r6, 4;
  add.s64 %d3, %d1, %d2;
  add.s32 %r7, %r6, %r2;
  st.global.u32 [%d3], %r7;
  membar.sys;
done:
  ret;
}

.visible .entry copy_words(.param .u64 target, .param .u64 source, .param .u32 count) {
  .reg .pred %p<2>;
  .reg .b32 %r<9>;
  .reg .b64 %d<7>;
  ld.param.u64 %d1, [target];
  cvta.to.global.u64 %d1, %d1;
  ld.param.u64 %d4, [source];
  cvta.to.global.u64 %d4, %d4;
  ld.param.u32 %r1, [count];
  mov.u32 %r3, %ctaid.x;
  mov.u32 %r4, %ntid.x;
  mov.u32 %r5, %tid.x;
  mad.lo.s32 %r6, %r3, %r4, %r5;
  setp.ge.u32 %p1, %r6, %r1;
  @%p1 bra done;
  mul.wide.u32 %d2, %r6, 4;
  add.s64 %d3, %d1, %d2;
  add.s64 %d5, %d4, %d2;
  ld.volatile.global.u32 %r7, [%d5];
  st.global.u32 [%d3], %r7;
done:
  ret;
}

.visible .entry add_one(.param .u64 target) {
  .reg .b64 %d<2>;
  .reg .b32 %r<3>;
  ld.param.u64 %d1, [target];
  cvta.to.global.u64 %d1, %d1;
  atom.sys.global.add.u32 %r1, [%d1], 1;
  ret;
}
)";

/// The kernels above in the current context.
class Kernels {
 public:
  explicit Kernels(const CudaDriver& driver) : driver_(driver) {
    code_ = driver_.load_module(&module_, test_kernels);
  }
  [[nodiscard]] Code code() const { return code_; }
  /// Launches with `blocks` of 256 threads in `stream`; the arguments are pointers to values.
  [[nodiscard]] Code launch(const char* name, unsigned blocks, std::vector<void*> arguments,
                            void* stream) const {
    void* function = nullptr;
    if (code_ != cuda::success) return code_;
    const Code found = driver_.get_function(&function, module_, name);
    if (found != cuda::success) return found;
    return driver_.launch(function, blocks, 1, 1, 256, 1, 1, 0, stream, arguments.data(), nullptr);
  }

 private:
  const CudaDriver& driver_;
  void* module_ = nullptr;
  Code code_ = cuda::success;
};

}  // namespace nobounce::test
