// The copier: takes operations of a provider, has the GPUs' copy engines do them, hands completions
// out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "core/provider.hpp"
#include "system/copy_list.hpp"
#include "system/host.hpp"
#include "system/workers.hpp"

namespace nobounce::system {

/// Thread-safe. Host and contexts must outlive it.
class Copier {
 public:
  Copier(Host& host, CudaContexts& contexts, std::string name);
  ~Copier();
  Copier(const Copier&) = delete;
  Copier& operator=(const Copier&) = delete;

  void copy(const core::Operation& operation, const CopyOrder& order);
  /// The operation completes with this error, no byte moved.
  void refuse(core::OperationId operation, Error error);
  /// After a batch of copy and refuse: waiters look again.
  void submitted();
  [[nodiscard]] std::size_t poll(std::uint64_t now_ns, std::span<core::Completion> completions) {
    const std::size_t count = copies_.poll(now_ns, completions);
    if (count > 0 && copies_.new_strays()) watch_strays();
    return count;
  }
  void cancel(core::OperationId operation);
  /// As Provider::rest.
  void rest(core::OperationId operation) { copies_.rest(operation); }
  /// As Provider::close.
  bool close(std::uint64_t deadline_ns);

 private:
  /// Looks at running copies when nobody polls, and tells waiters.
  class Watch final : public Worker {
   public:
    Watch(Host& host, CopyList& copies) : host_(host), copies_(copies) {}
    [[nodiscard]] Step step() override;

   private:
    Host& host_;
    CopyList& copies_;
  };

  [[nodiscard]] Status wake_watch();
  /// Somebody has to look at what nobody waits for.
  void watch_strays();

  Host& host_;
  std::string name_;
  CopyList copies_;
  Watch watch_;
  std::mutex watch_mutex_;  ///< of watch_id_
  std::optional<WorkerId> watch_id_;
  bool closed_ = false;
};

}  // namespace nobounce::system
