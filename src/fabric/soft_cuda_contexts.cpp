// The soft CUDA driver: primary contexts, the stack of each thread, peer access between contexts.
#include <algorithm>

#include "fabric/soft_cuda_driver.hpp"

namespace nobounce::fabric {

namespace cuda = system::cuda;

/// With mutex_ held.
SoftCuda::Context* SoftCuda::context_of(CUcontext handle) const {
  for (const auto& context : contexts_) {
    if (context.get() == handle) return context.get();
  }
  return nullptr;
}

SoftCuda::Context* SoftCuda::current(CUresult& code) {
  code = cuda::error_not_initialized;
  if (!initialized_) return nullptr;
  const std::lock_guard lock(mutex_);
  code = cuda::error_invalid_context;
  const auto stack = stacks_.find(std::this_thread::get_id());
  if (stack == stacks_.end()) return nullptr;
  Context* context = stack->second.back();
  code = context->references == 0 ? cuda::error_context_is_destroyed : engines_.fault();
  return code == cuda::success ? context : nullptr;
}

/// For calls that need no context current: what speaks against them all the same.
CUresult SoftCuda::refusal_without_context() {
  CUresult code = cuda::success;
  (void)current(code);
  return code == cuda::error_invalid_context ? engines_.fault() : code;
}

CUresult SoftCuda::device_primary_ctx_retain(CUcontext* context, CUdevice device) {
  if (!initialized_) return cuda::error_not_initialized;
  if (context == nullptr) return cuda::error_invalid_value;
  if (gpu_of(device) == nullptr) return cuda::error_invalid_device;
  const std::lock_guard lock(mutex_);
  Context& primary = *contexts_[static_cast<std::size_t>(device)];
  if (primary.references++ == 0) {
    primary.default_stream = engines_.make_stream(primary.gpu, true, true);
  }
  *context = &primary;
  return cuda::success;
}

CUresult SoftCuda::device_primary_ctx_release(CUdevice device) {
  if (!initialized_) return cuda::error_not_initialized;
  if (gpu_of(device) == nullptr) return cuda::error_invalid_device;
  Context& primary = *contexts_[static_cast<std::size_t>(device)];
  {
    const std::lock_guard lock(mutex_);
    if (primary.references == 0) return cuda::error_invalid_context;
    if (--primary.references > 0) return cuda::success;
  }
  // The last reference is gone, and with it all that lived in the context.
  (void)engines_.synchronize_gpu(primary.gpu);
  allocations_.free_all(primary.gpu);
  const std::lock_guard lock(mutex_);
  primary.peers.clear();
  for (const auto& other : contexts_) other->peers.erase(primary.gpu);
  primary.thread_streams.clear();
  for (auto import = imports_.begin(); import != imports_.end();) {
    const DevicePointer base{import->first};
    const auto known = allocations_.find(base);
    if (known && known->gpu != primary.gpu) {
      ++import;
      continue;
    }
    allocations_.remove_mapping(base);
    allocations_.release_addresses(base);
    import = imports_.erase(import);
  }
  std::erase_if(streams_, [&](const auto& entry) { return entry.second.context == &primary; });
  std::erase_if(events_, [&](const auto& entry) { return entry.second.context == &primary; });
  return cuda::success;
}

CUresult SoftCuda::ctx_push_current(CUcontext context) {
  if (!initialized_) return cuda::error_not_initialized;
  if (context == nullptr) return cuda::error_invalid_value;
  const std::lock_guard lock(mutex_);
  // One that was destroyed goes onto the stack too: what is called in it says so.
  Context* known = context_of(context);
  if (known == nullptr) return cuda::error_invalid_context;
  stacks_[std::this_thread::get_id()].push_back(known);
  return cuda::success;
}

CUresult SoftCuda::ctx_pop_current(CUcontext* context) {
  if (!initialized_) return cuda::error_not_initialized;
  const std::lock_guard lock(mutex_);
  const auto stack = stacks_.find(std::this_thread::get_id());
  if (stack == stacks_.end()) return cuda::error_invalid_context;
  if (context != nullptr) *context = stack->second.back();
  stack->second.pop_back();
  if (stack->second.empty()) stacks_.erase(stack);
  return cuda::success;
}

CUresult SoftCuda::ctx_get_current(CUcontext* context) {
  if (!initialized_) return cuda::error_not_initialized;
  if (context == nullptr) return cuda::error_invalid_value;
  const std::lock_guard lock(mutex_);
  const auto stack = stacks_.find(std::this_thread::get_id());
  *context = stack == stacks_.end() ? nullptr : stack->second.back();
  return cuda::success;
}

/// Of a destroyed context, too.
CUresult SoftCuda::ctx_get_device(CUdevice* device) {
  if (!initialized_) return cuda::error_not_initialized;
  const std::lock_guard lock(mutex_);
  const auto stack = stacks_.find(std::this_thread::get_id());
  if (stack == stacks_.end()) return cuda::error_invalid_context;
  if (device == nullptr) return cuda::error_invalid_value;
  *device = stack->second.back()->ordinal;
  return cuda::success;
}

CUresult SoftCuda::ctx_synchronize() {
  CUresult code = cuda::success;
  const Context* context = current(code);
  if (context == nullptr) return code;
  std::vector<std::shared_ptr<GpuStream>> streams;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [handle, entry] : streams_) {
      if (entry.context == context) streams.push_back(entry.stream);
    }
    streams.push_back(context->default_stream);
    for (const auto& [thread, stream] : context->thread_streams) streams.push_back(stream);
  }
  code = engines_.synchronize_gpu(context->gpu);
  for (const auto& stream : streams) {
    if (code != cuda::success) break;
    code = engines_.query(*stream);
    // What another thread has put on the stream since is not what was waited for.
    if (code == cuda::error_not_ready) code = cuda::success;
  }
  return code;
}

CUresult SoftCuda::ctx_enable_peer_access(CUcontext peer_context, unsigned flags) {
  CUresult code = cuda::success;
  Context* context = current(code);
  if (context == nullptr) return code;
  if (flags != 0) return cuda::error_invalid_value;
  const std::lock_guard lock(mutex_);
  const Context* peer = context_of(peer_context);
  if (peer == nullptr) return cuda::error_invalid_context;
  if (peer->references == 0) return cuda::error_context_is_destroyed;
  if (!peers_possible(context->gpu, peer->gpu)) return cuda::error_peer_access_unsupported;
  return context->peers.insert(peer->gpu).second ? cuda::success
                                                 : cuda::error_peer_access_already_enabled;
}

CUresult SoftCuda::ctx_disable_peer_access(CUcontext peer_context) {
  CUresult code = cuda::success;
  Context* context = current(code);
  if (context == nullptr) return code;
  const std::lock_guard lock(mutex_);
  const Context* peer = context_of(peer_context);
  if (peer == nullptr) return cuda::error_invalid_context;
  if (peer->references == 0) return cuda::error_context_is_destroyed;
  return context->peers.erase(peer->gpu) > 0 ? cuda::success : cuda::error_peer_access_not_enabled;
}

}  // namespace nobounce::fabric
