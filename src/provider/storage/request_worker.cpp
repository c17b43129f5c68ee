// A worker of the storage provider.
#include "provider/storage/request_worker.hpp"

#include <cerrno>
#include <string>
#include <utility>

#include "provider/storage/cufile_errors.hpp"

namespace nobounce::provider::storage {

system::Step RequestWorker::step() {
  if (!request_.has_value()) {
    // Before a window is opened: opening the driver starts the statistics. Its answer is asked for
    // again below.
    (void)share_.driver.open();
    RequestQueue::Claim claim = share_.queue.claim(number_, share_.host.clock().now_ns());
    if (claim.completed) share_.bell.ring({true, 0});
    if (!claim.request.has_value()) return system::Step::idle();
    request_ = std::move(claim.request);
    result_ = {};
    done_bytes_ = 0;
  }
  call_once();
  return system::Step::busy();
}

void RequestWorker::call_once() {
  const Job& job = *request_->job;
  const Result<system::Cufile*> cufile = share_.driver.open();
  if (!cufile.ok()) return end(cufile.error());
  const Result<system::cufile::CUfileHandle_t> handle = share_.handles.find(*job.file);
  if (!handle.ok()) return end(handle.error());
  const Result<system::cuda::CUcontext> context = share_.contexts.context(job.memory.gpu);
  if (!context.ok()) return end(context.error());
  const system::ContextGuard guard(share_.contexts.table(), *context);

  const Call call =
      next_call(job, request_->offset_bytes + done_bytes_, request_->length_bytes - done_bytes_);
  void* base = reinterpret_cast<void*>(static_cast<std::uintptr_t>(job.buffer.base));
  const auto file_offset = static_cast<off_t>(job.range.offset.value + call.offset_bytes);
  const auto base_offset = static_cast<off_t>(job.buffer.offset_bytes + call.offset_bytes);
  errno = 0;
  const ssize_t count =
      job.writing ? (*cufile)->write(*handle, base, call.length_bytes, file_offset, base_offset)
                  : (*cufile)->read(*handle, base, call.length_bytes, file_offset, base_offset);
  if (count < 0) {
    // The library answers -1 and errno; its documentation also allows minus the code.
    const int code = count == -1 ? errno : static_cast<int>(-count);
    return end(error_of_call(code, job, call));
  }
  if (count == 0) {
    if (job.writing) {
      return end(os_error(EIO, "write " + job.file->path + " through cuFile (nothing was taken)"));
    }
    return end(Error{.origin = ErrorOrigin::input,
                     .attempted = "read " + job.file->path,
                     .cause = Cause::file_shorter_than_expected,
                     .detail = "the file ends at byte " + std::to_string(file_offset)});
  }
  const auto moved = static_cast<std::uint64_t>(count);
  // A page that was moved in part went through the library's buffer inside the GPU.
  const std::uint64_t whole = call.aligned ? moved - moved % alignment_bytes : 0;
  ++result_.calls;
  result_.bounced_calls += whole < moved ? 1 : 0;
  result_.bytes.aligned += whole;
  result_.bytes.bounced += moved - whole;
  done_bytes_ += moved;
  if (done_bytes_ >= request_->length_bytes) end(std::nullopt);
}

void RequestWorker::end(std::optional<Error> error) {
  result_.error = std::move(error);
  const Request request = std::move(*request_);
  request_.reset();
  share_.bell.ring(share_.queue.finish(request, std::move(result_)));
}

Error RequestWorker::error_of_call(int code, const Job& job, const Call& call) {
  const std::string attempted = (job.writing ? "write " : "read ") + job.file->path +
                                (job.writing ? " from gpu:" : " into gpu:") +
                                std::to_string(job.memory.gpu) + " through cuFile";
  Error error = error_of_code(code, attempted, Cause::storage_cufile_refused);
  if (error.origin == ErrorOrigin::os) error.cause = Cause::none;
  if (share_.driver.module_vanished()) {
    error.cause = Cause::storage_module_vanished;
  } else if (error.origin == ErrorOrigin::os && code == EIO && !job.writing &&
             medium_reads(*job.file, job.range.offset.plus(call.offset_bytes))) {
    error.cause = Cause::storage_p2p_lost;
    error.detail += "; the same page reads well into host memory";
  }
  return error;
}

/// cuFile answers EIO when the medium fails and when the bus loses a request. The medium is asked
/// apart, for one page that goes nowhere.
bool RequestWorker::medium_reads(const system::OpenFile& file, FileOffset offset) {
  const Result<system::HostBuffer> page = share_.host.memory().allocate_plain(alignment_bytes, 0);
  if (!page.ok()) return false;
  const FileOffset start{offset.value - offset.value % alignment_bytes};
  const Result<std::size_t> count =
      share_.host.storage().read(file.direct, page->address, alignment_bytes, start);
  share_.host.memory().free(*page);
  return count.ok() && *count > 0;
}

}  // namespace nobounce::provider::storage
