// Memory registered with an adapter: host memory plainly, GPU memory as a dma-buf or through
// nvidia_peermem.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <nobounce/finding.hpp>
#include <nobounce/machine.hpp>
#include <nobounce/place.hpp>
#include "core/provider.hpp"
#include "system/cuda_contexts.hpp"
#include "system/verbs.hpp"

namespace nobounce::provider::rdma {

/// How GPU memory came to be registered. Host memory: plain.
enum class Method : std::uint8_t { plain, dmabuf, peermem };

[[nodiscard]] std::string_view to_string(Method method);

/// One memory region of one protection domain, given back when it goes.
class Registration {
 public:
  Registration(system::Verbs& table, system::verbs::ibv_mr* handle, std::uint64_t address,
               Method method);
  ~Registration();
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

  /// Gives it back now; 0, or the errno with which the adapter keeps it.
  [[nodiscard]] int release();

  [[nodiscard]] std::uint64_t address() const { return address_; }  ///< as requests name its start
  [[nodiscard]] std::uint32_t local_key() const { return local_key_; }
  [[nodiscard]] std::uint32_t remote_key() const { return remote_key_; }
  [[nodiscard]] Method method() const { return method_; }

 private:
  system::Verbs& table_;
  system::verbs::ibv_mr* handle_;
  std::uint64_t address_;
  std::uint32_t local_key_ = 0;
  std::uint32_t remote_key_ = 0;
  Method method_;
};

/// Where memory is to be registered, for whom.
struct Enrolment {
  system::verbs::ibv_pd* domain = nullptr;
  std::string adapter;  ///< its name
  int access = 0;
};

/// Registers memory and says of each attempt how it went. Thread-safe.
class Registrar {
 public:
  /// `contexts` may be null on a machine without GPU.
  Registrar(system::Verbs& table, system::CudaContexts* contexts, const Machine& machine)
      : table_(table), contexts_(contexts), machine_(machine) {}

  [[nodiscard]] std::shared_ptr<Registration> enroll_host(const HostMemory& memory,
                                                          const Enrolment& where,
                                                          std::vector<Finding>& findings);
  /// One method, to be tried by its name; success proves nothing.
  [[nodiscard]] std::shared_ptr<Registration> enroll_gpu(const core::RegionView& region,
                                                         Method method, const Enrolment& where,
                                                         std::vector<Finding>& findings);
  /// The driver's number of the allocation behind a pointer; 0 where it tells none. Another number
  /// means that other memory lies behind the same address.
  [[nodiscard]] std::uint64_t buffer_of(const GpuMemory& memory);

 private:
  [[nodiscard]] std::shared_ptr<Registration> by_dmabuf(const GpuMemory& memory,
                                                        AllocationKind kind, const Enrolment& where,
                                                        std::vector<Finding>& findings);
  [[nodiscard]] std::shared_ptr<Registration> by_peermem(const GpuMemory& memory,
                                                         const Enrolment& where,
                                                         std::vector<Finding>& findings);

  system::Verbs& table_;
  system::CudaContexts* contexts_;
  const Machine& machine_;
};

}  // namespace nobounce::provider::rdma
