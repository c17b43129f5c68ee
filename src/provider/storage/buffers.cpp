// GPU memory registered with cuFile.
#include "provider/storage/buffers.hpp"

#include <iterator>
#include <string>
#include <utility>

#include "provider/storage/cufile_errors.hpp"

namespace nobounce::provider::storage {

namespace {

// cuFile takes a device pointer as a pointer; it is never dereferenced here.
void* as_pointer(std::uint64_t address) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
}

}  // namespace

void Buffers::attach(const GpuMemory& memory, AllocationKind kind) {
  const std::lock_guard lock(mutex_);
  const auto at = registrations_.find(memory.address.value);
  if (at != registrations_.end() && at->second.length_bytes >= memory.length_bytes) {
    ++at->second.count;
    return;
  }
  if (at != registrations_.end()) {
    // The same base, but longer: the old registration cannot serve it.
    undo(at->first, at->second);
    const std::uint32_t count = at->second.count;
    at->second = register_now(memory, kind);
    at->second.count = count + 1;
    return;
  }
  Registration registration = register_now(memory, kind);
  registration.count = 1;
  registrations_.emplace(memory.address.value, std::move(registration));
}

Buffers::Registration Buffers::register_now(const GpuMemory& memory, AllocationKind kind) {
  Registration registration;
  registration.length_bytes = memory.length_bytes;
  registration.gpu = memory.gpu;
  if (kind == AllocationKind::managed) {
    registration.refusal = Error{.origin = ErrorOrigin::input,
                                 .attempted = "register GPU memory with cuFile",
                                 .cause = Cause::memory_kind_managed};
    return registration;
  }
  const Result<system::Cufile*> cufile = driver_.open();
  if (!cufile.ok()) {
    registration.refusal = cufile.error();
    return registration;
  }
  const Result<system::cuda::CUcontext> context = contexts_.context(memory.gpu);
  if (!context.ok()) {
    registration.refusal = context.error();
    return registration;
  }
  const system::ContextGuard guard(contexts_.table(), *context);
  const int code =
      (*cufile)->buf_register(as_pointer(memory.address.value), memory.length_bytes, 0).err;
  if (code == system::cufile::success) {
    registration.ours = true;
  } else if (code != system::cufile::error_memory_already_registered) {
    // (Already registered: by somebody else in this process. It serves us and stays theirs.)
    registration.refusal = error_of_code(code,
                                         "register " + std::to_string(memory.length_bytes) +
                                             " bytes of gpu:" + std::to_string(memory.gpu) +
                                             " with cuFile (cuFileBufRegister)",
                                         Cause::storage_not_attached);
  }
  return registration;
}

void Buffers::undo(std::uint64_t base, const Registration& registration) {
  if (!registration.ours) return;
  const Result<system::Cufile*> cufile = driver_.open();
  if (!cufile.ok()) return;
  const Result<system::cuda::CUcontext> context = contexts_.context(registration.gpu);
  if (!context.ok()) return;
  const system::ContextGuard guard(contexts_.table(), *context);
  (void)(*cufile)->buf_deregister(as_pointer(base));
}

void Buffers::detach(const GpuMemory& memory) {
  const std::lock_guard lock(mutex_);
  const auto at = registrations_.find(memory.address.value);
  if (at == registrations_.end() || --at->second.count > 0) return;
  undo(at->first, at->second);
  registrations_.erase(at);
}

const std::pair<const std::uint64_t, Buffers::Registration>* Buffers::holder(
    const GpuMemory& memory) const {
  // The nearest base below it holds it, unless regions overlap.
  for (auto at = registrations_.upper_bound(memory.address.value); at != registrations_.begin();) {
    --at;
    const std::uint64_t offset = memory.address.value - at->first;
    if (at->second.gpu == memory.gpu && offset <= at->second.length_bytes &&
        memory.length_bytes <= at->second.length_bytes - offset) {
      return &*at;
    }
  }
  return nullptr;
}

BufferView Buffers::find(const GpuMemory& memory) const {
  const std::lock_guard lock(mutex_);
  const auto* held = holder(memory);
  if (held == nullptr) {
    return {memory.address.value, 0, false, Cause::storage_not_attached};
  }
  if (held->second.refusal.has_value()) {
    const Cause cause = held->second.refusal->cause;
    return {memory.address.value, 0, false,
            cause == Cause::none ? Cause::storage_not_attached : cause};
  }
  return {held->first, memory.address.value - held->first, true, Cause::none};
}

std::optional<Error> Buffers::refusal(const GpuMemory& memory) const {
  const std::lock_guard lock(mutex_);
  const auto* held = holder(memory);
  if (held == nullptr) return std::nullopt;
  return held->second.refusal;
}

bool Buffers::is_refused(const GpuMemory& memory) const {
  const std::lock_guard lock(mutex_);
  const auto* held = holder(memory);
  return held != nullptr && held->second.refusal.has_value();
}

void Buffers::release() {
  const std::lock_guard lock(mutex_);
  for (const auto& [base, registration] : registrations_) undo(base, registration);
  registrations_.clear();
}

}  // namespace nobounce::provider::storage
