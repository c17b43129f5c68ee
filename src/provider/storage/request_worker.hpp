// A worker of the storage provider: one cuFile call a step.
#pragma once

#include <cstdint>
#include <optional>

#include "provider/storage/file_handles.hpp"
#include "provider/storage/request_queue.hpp"
#include "system/cuda_contexts.hpp"
#include "system/host.hpp"

namespace nobounce::provider::storage {

class RequestWorker;

/// Wakes workers and waiters after the queue changed.
class Bell {
 public:
  virtual ~Bell() = default;
  virtual void ring(const RequestQueue::Ready& ready) = 0;
};

/// What the workers of one provider share.
struct WorkerShare {
  system::Host& host;
  system::CudaContexts& contexts;
  CufileDriver& driver;
  FileHandles& handles;
  RequestQueue& queue;
  Bell& bell;
};

class RequestWorker final : public system::Worker {
 public:
  RequestWorker(const WorkerShare& share, unsigned number) : share_(share), number_(number) {}
  [[nodiscard]] system::Step step() override;

 private:
  void call_once();
  void end(std::optional<Error> error);
  [[nodiscard]] Error error_of_call(int code, const Job& job, const Call& call);
  [[nodiscard]] bool medium_reads(const system::OpenFile& file, FileOffset offset);

  WorkerShare share_;
  unsigned number_;
  std::optional<Request> request_;
  RequestResult result_;
  std::uint64_t done_bytes_ = 0;  ///< of the request
};

}  // namespace nobounce::provider::storage
