// Registering memory with adapters, each attempt with its finding.
#include "provider/rdma/registration.hpp"

#include <cerrno>
#include <utility>

#include "provider/rdma/statuses.hpp"

namespace nobounce::provider::rdma {

namespace cuda = system::cuda;
namespace verbs = system::verbs;

namespace {

constexpr std::uint64_t page_bytes = 4096;

Finding finding(Cause cause, std::string subject, FindingState state, std::string observed,
                std::string needed, std::string source) {
  Finding made{.cause = cause,
               .subject = std::move(subject),
               .state = state,
               .observed = std::move(observed),
               .needed = std::move(needed),
               .remedy = {},
               .source = std::move(source)};
  if (state != FindingState::met) made.remedy = cause_row(cause).remedy;
  return made;
}

std::string pair_of(const GpuMemory& memory, const Enrolment& where) {
  return "gpu:" + std::to_string(memory.gpu) + " - nic:" + where.adapter;
}

std::string errno_text(int code) {
  const Error error = call_error(code, "");
  return error.detail + " (errno " + std::to_string(code) + ")";
}

std::string code_text(system::Cuda& table, cuda::CUresult code) {
  return cuda_error(table, code, "").detail + " (cuda " + std::to_string(code) + ")";
}

/// What to blame where the driver does not export a kind of memory.
Cause export_cause(AllocationKind kind) {
  switch (kind) {
    case AllocationKind::pool:
      return Cause::memory_kind_pool;
    case AllocationKind::managed:
      return Cause::memory_kind_managed;
    case AllocationKind::ipc_import:
      return Cause::memory_kind_ipc_import;
    default:
      return Cause::rdma_export_failed;
  }
}

/// The page-aligned range that is exported, and where the memory begins in it.
struct Pages {
  std::uint64_t begin = 0;
  std::uint64_t length_bytes = 0;
  std::uint64_t offset = 0;
};

Pages pages_of(const GpuMemory& memory) {
  const std::uint64_t begin = memory.address.value / page_bytes * page_bytes;
  const std::uint64_t end = memory.address.value + memory.length_bytes;
  const std::uint64_t whole_end = (end + page_bytes - 1) / page_bytes * page_bytes;
  return {begin, whole_end - begin, memory.address.value - begin};
}

}  // namespace

std::string_view to_string(Method method) {
  switch (method) {
    case Method::plain:
      return "plain";
    case Method::dmabuf:
      return "dma-buf";
    case Method::peermem:
      return "nvidia_peermem";
  }
  return "unknown";
}

Registration::Registration(system::Verbs& table, verbs::ibv_mr* handle, std::uint64_t address,
                           Method method)
    : table_(table), handle_(handle), address_(address), method_(method) {
  (void)table_.get_keys(&local_key_, &remote_key_, handle_);
}

Registration::~Registration() {
  (void)release();
}

int Registration::release() {
  if (handle_ == nullptr) return verbs::success;
  const int code = table_.dereg_mr(handle_);
  if (code == verbs::success) handle_ = nullptr;
  return code;
}

std::shared_ptr<Registration> Registrar::enroll_host(const HostMemory& memory,
                                                     const Enrolment& where,
                                                     std::vector<Finding>& findings) {
  verbs::ibv_mr* handle = nullptr;
  const int code =
      table_.reg_mr(&handle, where.domain, memory.address, memory.length_bytes, where.access);
  const std::string subject = "host - nic:" + where.adapter;
  if (code == verbs::success) {
    return std::make_shared<Registration>(
        table_, handle, reinterpret_cast<std::uintptr_t>(memory.address), Method::plain);
  }
  // Locked memory is the usual thing to lack; both answers stand for it.
  const bool limit = code == ENOMEM || code == EAGAIN;
  findings.push_back(finding(limit ? Cause::rdma_memlock_limit : Cause::rdma_registration_failed,
                             subject, FindingState::unmet,
                             std::to_string(memory.length_bytes) +
                                 " bytes of host memory were not registered: " + errno_text(code),
                             "host memory that the adapter may lock", "ibv_reg_mr"));
  return nullptr;
}

std::shared_ptr<Registration> Registrar::enroll_gpu(const core::RegionView& region, Method method,
                                                    const Enrolment& where,
                                                    std::vector<Finding>& findings) {
  const auto& memory = std::get<GpuMemory>(region.place);
  return method == Method::dmabuf ? by_dmabuf(memory, region.kind, where, findings)
                                  : by_peermem(memory, where, findings);
}

std::shared_ptr<Registration> Registrar::by_dmabuf(const GpuMemory& memory, AllocationKind kind,
                                                   const Enrolment& where,
                                                   std::vector<Finding>& findings) {
  const std::string subject = pair_of(memory, where);
  const auto fail = [&](Cause cause, std::string observed, std::string needed,
                        std::string source) -> std::shared_ptr<Registration> {
    findings.push_back(finding(cause, subject, FindingState::unmet, std::move(observed),
                               std::move(needed), std::move(source)));
    return nullptr;
  };
  const Result<cuda::CUcontext> context = contexts_->context(memory.gpu);
  if (!context.ok()) {
    return fail(Cause::rdma_export_failed, to_string(context.error()), "a context of the GPU",
                "cuDevicePrimaryCtxRetain");
  }
  system::Cuda& driver = contexts_->table();
  const system::ContextGuard guard(driver, *context);
  int supported = 0;
  const Result<cuda::CUdevice> device = contexts_->device(memory.gpu);
  if (device.ok()) {
    (void)driver.device_get_attribute(&supported, cuda::attribute_dma_buf_supported, *device);
  }
  if (supported == 0) {
    return fail(Cause::rdma_dmabuf_not_supported, "CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED is 0",
                "dma-buf support of the driver", "cuDeviceGetAttribute");
  }
  const unsigned on = 1;
  // Memory of cuMemAlloc alone has this switch; the driver orders copies of other kinds itself.
  (void)driver.pointer_set_attribute(&on, cuda::pointer_sync_memops, memory.address.value);
  const Pages pages = pages_of(memory);
  int descriptor = -1;
  const cuda::CUresult exported = driver.mem_get_handle_for_address_range(
      &descriptor, pages.begin, pages.length_bytes, cuda::range_handle_dma_buf, 0);
  if (exported != cuda::success) {
    return fail(export_cause(kind),
                "the driver did not export " + std::to_string(pages.length_bytes) +
                    " bytes as a dma-buf: " + code_text(driver, exported),
                "GPU memory that the driver exports", "cuMemGetHandleForAddressRange");
  }
  verbs::ibv_mr* handle = nullptr;
  const int code = table_.reg_dmabuf_mr(&handle, where.domain, pages.offset, memory.length_bytes,
                                        memory.address.value, descriptor, where.access);
  (void)table_.close_dmabuf(descriptor);
  if (code != verbs::success) {
    const bool absent = code == EOPNOTSUPP || code == ENOSYS || code == EPROTONOSUPPORT;
    const bool window = code == ENOMEM || code == ENOSPC;
    return fail(absent   ? Cause::rdma_dmabuf_not_supported
                : window ? Cause::machine_bar1_too_small
                         : Cause::rdma_registration_failed,
                "the adapter did not take the dma-buf: " + errno_text(code),
                "an adapter and kernel that import dma-bufs", "ibv_reg_dmabuf_mr");
  }
  return std::make_shared<Registration>(table_, handle, memory.address.value, Method::dmabuf);
}

std::shared_ptr<Registration> Registrar::by_peermem(const GpuMemory& memory, const Enrolment& where,
                                                    std::vector<Finding>& findings) {
  verbs::ibv_mr* handle = nullptr;
  const int code =
      table_.reg_mr(&handle, where.domain, reinterpret_cast<void*>(memory.address.value),
                    memory.length_bytes, where.access);
  if (code == verbs::success) {
    return std::make_shared<Registration>(table_, handle, memory.address.value, Method::peermem);
  }
  const bool absent = code == EFAULT && !machine_.modules.nvidia_peermem;
  const bool window = code == ENOMEM || code == ENOSPC;
  findings.push_back(finding(
      absent   ? Cause::rdma_peermem_not_loaded
      : window ? Cause::machine_bar1_too_small
               : Cause::rdma_registration_failed,
      pair_of(memory, where), FindingState::unmet,
      (absent ? "nvidia_peermem is not loaded; " : "") +
          std::string("the adapter did not take GPU memory by its address: ") + errno_text(code),
      "nvidia_peermem loaded, and GPU memory that it can pin", "ibv_reg_mr"));
  return nullptr;
}

std::uint64_t Registrar::buffer_of(const GpuMemory& memory) {
  if (contexts_ == nullptr) return 0;
  unsigned long long number = 0;
  const cuda::CUresult code = contexts_->table().pointer_get_attribute(
      &number, cuda::pointer_buffer_id, memory.address.value);
  return code == cuda::success ? number : 0;
}

}  // namespace nobounce::provider::rdma
