// A kernel queue's life: memory, proxies, the watch, and the receipt at its end.
#include "async/kernel_queue_state.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "session/file_consumer.hpp"
#include "session/file_state.hpp"
#include "session/links.hpp"
#include "session/prepare.hpp"
#include "session/probe_buffer.hpp"
#include "session/transfer_state.hpp"

namespace nobounce::async {

namespace cuda = system::cuda;
using device::QueueSet;
using system::Step;

namespace {

constexpr std::uint32_t page_bytes = 4096;
constexpr std::uint32_t queues_max = 64;
constexpr std::uint64_t back_patience_ns = 1'000'000'000;  ///< of close, for a system call

Error input_error(std::string detail) {
  return Error{.origin = ErrorOrigin::input,
               .attempted = "open a queue for kernels",
               .detail = std::move(detail)};
}

std::uint32_t log2_at_least(std::uint32_t count) {
  std::uint32_t log2 = 1;
  while ((1U << log2) < count) ++log2;
  return log2;
}

std::uint64_t rounded(std::uint64_t bytes) {
  return (bytes + page_bytes - 1) / page_bytes * page_bytes;
}

}  // namespace

void QueueWatch::add(const Proxy& proxy, std::uint32_t* state_word) {
  watched_.push_back({&proxy, state_word, 0, 0});
}

Step QueueWatch::step() {
  const std::uint64_t now_ns = host_.clock().now_ns();
  for (Watched& one : watched_) {
    const std::uint64_t turns = one.proxy->counts().turns.load(std::memory_order_relaxed);
    if (turns % 2 == 0 || turns != one.turns) {
      one.turns = turns;
      one.since_ns = now_ns;
    } else if (now_ns - one.since_ns >= stall_ns_) {
      device::NativePlatform{}.store<device::Order::release, device::Scope::system>(
          one.state_word, device::state_word(device::State::failed, device::code_deadline));
      stalled_.store(true, std::memory_order_release);
    }
  }
  return Step::idle_until(now_ns + std::max<std::uint64_t>(stall_ns_ / 8, 1));
}

KernelQueueState::KernelQueueState(session::SessionState& of_session) : session_(of_session) {
  ++session_.handles;
}

KernelQueueState::~KernelQueueState() {
  if (session_.forked()) return;
  if (!closed) (void)close(0);
  (void)stop_workers(0);  // what is still in a system call uses all of this
  let_go_of_file();
  --session_.handles;
}

Status KernelQueueState::open(const Place& file, const KernelQueueOptions& chosen) {
  options_ = chosen;
  closed = true;  // nothing to close yet
  const auto* range = std::get_if<FileRange>(&file);
  if (range == nullptr) return input_error("only files can be read by kernels");
  file_ = *range;
  if (options_.policy == Policy::direct_required) {
    return Error{.origin = ErrorOrigin::policy,
                 .attempted = "open a queue for kernels under direct_required",
                 .cause = Cause::async_cpu_proxy,
                 .detail = "its proxies read into host memory",
                 .remedy =
                     "open it under direct_preferred, or a DoorbellQueue on a drive of the "
                     "session's own, which the GPU asks itself"};
  }
  if (options_.tokens == 0 || options_.tokens >= device::token_limit)
    return input_error("tokens: from 1 to 2^24 - 1");
  if (options_.buffer_bytes == 0 || options_.buffer_bytes % page_bytes != 0)
    return input_error("buffer_bytes: a multiple of 4096");
  if (session_.contexts == nullptr) return *session_.cuda_error;
  auto consumer = session::make_file_consumer(session_, file_);
  if (!consumer.ok()) return std::move(consumer).error();
  consumer_ = std::move(*consumer);
  const unsigned cpus = session_.host.workers().concurrency();
  std::uint32_t queues = options_.proxies > 0 ? options_.proxies : std::max(cpus, 2U) - 1;
  queues = std::min({queues, options_.tokens, queues_max});
  local_.queues = queues;
  local_.tokens = options_.tokens;
  // As many slots as tokens: then no producer ever waits for one, whatever the others do.
  local_.size_log2 = log2_at_least((options_.tokens + queues - 1) / queues);
  local_.buffer_bytes = options_.buffer_bytes;
  hold_file();
  closed = false;
  started_ns_ = session_.host.clock().now_ns();
  Status status = allocate();
  if (status.ok()) status = start();
  if (!status.ok()) {
    closed = true;          // no kernel has seen it
    (void)stop_workers(0);  // nobody has asked them for anything
    free_memory();
    let_go_of_file();
  }
  return status;
}

Status KernelQueueState::allocate() {
  const std::uint64_t slot_bytes = rounded(local_.queues * local_.slot_bytes());
  const std::uint64_t host_bytes = rounded(local_.queues * QueueSet::host_stride_bytes);
  const std::uint64_t completion_bytes =
      rounded(std::uint64_t{local_.tokens} * QueueSet::completion_bytes);
  system::Memory& memory = session_.host.memory();
  const DeviceRef gpu{DeviceRef::Kind::gpu, static_cast<std::uint16_t>(options_.gpu)};
  if (options_.gpu >= session_.machine.gpus.size()) return input_error("there is no such GPU");
  const std::uint32_t numa = numa_of(session_.machine, gpu);
  Result<GpuMemory> gpu_words = session::allocate_gpu(
      session_, options_.gpu, std::uint64_t{local_.queues} * QueueSet::gpu_stride_bytes);
  if (!gpu_words.ok()) return std::move(gpu_words).error();
  gpu_words_ = *gpu_words;
  Result<system::HostBuffer> words = memory.allocate_pinned(
      slot_bytes + host_bytes + completion_bytes, numa, system::MemoryUse::user);
  if (!words.ok()) return std::move(words).error();
  words_ = *words;
  Result<system::HostBuffer> buffers = memory.allocate_pinned(
      std::uint64_t{local_.tokens} * local_.buffer_bytes, numa, system::MemoryUse::bounce);
  if (!buffers.ok()) return std::move(buffers).error();
  buffers_ = *buffers;
  const auto place = [&](QueueSet& set, std::uint64_t words_at, std::uint64_t buffers_at) {
    set = local_;
    set.gpu_words = gpu_words_->address.value;
    set.slots = words_at;
    set.host_words = words_at + slot_bytes;
    set.completions = words_at + slot_bytes + host_bytes;
    set.buffers = buffers_at;
  };
  place(local_, reinterpret_cast<std::uint64_t>(words_.address),
        reinterpret_cast<std::uint64_t>(buffers_.address));
  Result<cuda::CUcontext> context = session_.contexts->context(options_.gpu);
  if (!context.ok()) return std::move(context).error();
  system::Cuda& table = session_.contexts->table();
  const system::ContextGuard guard(table, *context);
  cuda::CUdeviceptr words_at = 0;
  cuda::CUdeviceptr buffers_at = 0;
  cuda::CUresult code = table.mem_host_get_device_pointer(&words_at, words_.address, 0);
  if (code == cuda::success)
    code = table.mem_host_get_device_pointer(&buffers_at, buffers_.address, 0);
  if (code != cuda::success) return cuda_error(table, code, "reach host memory from the GPU");
  place(for_kernels, words_at, buffers_at);
  return zero_gpu_words();
}

Status KernelQueueState::zero_gpu_words() {
  Result<std::shared_ptr<session::OwnBuffer>> zeros =
      session::OwnBuffer::plain(session_.host, gpu_words_->length_bytes);
  if (!zeros.ok()) return std::move(zeros).error();
  const core::Completion done = session::run_operation(
      session_,
      Segment{.offset_bytes = 0,
              .length_bytes = gpu_words_->length_bytes,
              .source = HostMemory{(*zeros)->data(), gpu_words_->length_bytes},
              .target = *gpu_words_,
              .provider = ProviderKind::staged,
              .expected = Carriage::staged},
      *zeros);
  if (done.error.has_value()) return *done.error;
  return {};
}

Status KernelQueueState::start() {
  watch_ = std::make_unique<QueueWatch>(session_.host, options_.stall_ns);
  for (std::uint32_t i = 0; i < local_.queues; ++i) {
    proxies_.push_back(std::make_unique<Proxy>(session_.host, *consumer_, local_, i, stopping_));
    watch_->add(*proxies_.back(), local_.queue<device::NativePlatform>(i).state);
  }
  system::Workers& workers = session_.host.workers();
  for (const auto& proxy : proxies_) {
    Result<system::WorkerId> id = workers.start(*proxy, "proxy");
    if (!id.ok()) return std::move(id).error();
    workers_.push_back(*id);
  }
  Result<system::WorkerId> id = workers.start(*watch_, "queue watch");
  if (!id.ok()) return std::move(id).error();
  workers_.push_back(*id);
  return {};
}

void KernelQueueState::set_state(device::State state, std::uint16_t code) {
  for (std::uint32_t i = 0; i < local_.queues; ++i) {
    device::NativePlatform{}.store<device::Order::release, device::Scope::system>(
        local_.queue<device::NativePlatform>(i).state, device::state_word(state, code));
  }
}

Result<std::vector<std::uint64_t>> KernelQueueState::read_heads() {
  Result<std::shared_ptr<session::OwnBuffer>> copy =
      session::OwnBuffer::plain(session_.host, gpu_words_->length_bytes);
  if (!copy.ok()) return std::move(copy).error();
  const core::Completion done = session::run_operation(
      session_,
      Segment{.offset_bytes = 0,
              .length_bytes = gpu_words_->length_bytes,
              .source = *gpu_words_,
              .target = HostMemory{(*copy)->data(), gpu_words_->length_bytes},
              .provider = ProviderKind::staged,
              .expected = Carriage::staged},
      *copy);
  if (done.error.has_value()) return *done.error;
  std::vector<std::uint64_t> heads(local_.queues);
  for (std::uint32_t i = 0; i < local_.queues; ++i) {
    std::memcpy(&heads[i], (*copy)->data() + std::uint64_t{i} * QueueSet::gpu_stride_bytes,
                sizeof heads[i]);
  }
  return heads;
}

bool KernelQueueState::drained(const std::vector<std::uint64_t>& heads) const {
  for (std::uint32_t i = 0; i < local_.queues; ++i) {
    if (proxies_[i]->counts().tail.load(std::memory_order_acquire) != heads[i]) return false;
  }
  return true;
}

/// Every queue, not only the first: each has its own proxy.
Status KernelQueueState::drain(std::uint64_t deadline_ns) {
  const Result<std::vector<std::uint64_t>> heads = read_heads();
  if (!heads.ok()) return heads.error();
  const bool all = session_.host.workers().wait([&] { return drained(*heads); }, deadline_ns);
  if (all) return {};
  return Error{.origin = ErrorOrigin::session,
               .attempted = "close a queue of kernels",
               .cause = Cause::async_queue_failed,
               .detail = watch_->stalled() ? "a request took too long"
                                           : "a slot that a kernel claimed was not filled"};
}

bool KernelQueueState::is_back(std::size_t worker) const {
  return worker >= proxies_.size() || proxies_[worker]->counts().turns.load() % 2 == 0;
}

bool KernelQueueState::all_back() const {
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    if (workers_[i] != 0 && !is_back(i)) return false;
  }
  return true;
}

bool KernelQueueState::end(std::uint64_t patience_ns) {
  if (!closed) (void)close(0);
  return stop_workers(session::time_ahead(session_, patience_ns));
}

bool KernelQueueState::stop_workers(std::uint64_t deadline_ns) {
  stopping_.store(true);
  system::Workers& workers = session_.host.workers();
  (void)workers.wait([this] { return all_back(); }, deadline_ns);
  bool all = true;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    if (workers_[i] == 0) continue;
    if (deadline_ns != 0 && !is_back(i)) {
      all = false;
      continue;
    }
    workers.stop(std::exchange(workers_[i], 0));
  }
  return all;
}

void KernelQueueState::free_memory() {
  if (words_.address != nullptr) session::free_host(session_, words_);
  if (buffers_.address != nullptr) session::free_host(session_, buffers_);
  if (gpu_words_.has_value()) session::free_gpu(session_, *gpu_words_);
  words_ = {};
  buffers_ = {};
  gpu_words_.reset();
}

void KernelQueueState::hold_file() {
  const std::scoped_lock lock(session_.dispatcher->mutex());
  session_.used_by_kernels[this] = {file_};
}

void KernelQueueState::let_go_of_file() {
  const std::scoped_lock lock(session_.dispatcher->mutex());
  session_.used_by_kernels.erase(this);
}

KernelQueueCounts KernelQueueState::counts() const {
  KernelQueueCounts sum;
  for (const auto& proxy : proxies_) {
    const ProxyCounts& one = proxy->counts();
    sum.requests += one.requests.load(std::memory_order_relaxed);
    sum.failed += one.failed.load(std::memory_order_relaxed);
    sum.arrived_bytes += one.arrived_bytes.load(std::memory_order_relaxed);
    sum.system_calls += one.system_calls.load(std::memory_order_relaxed);
    sum.wake_ups += one.wake_ups.load(std::memory_order_relaxed);
    const std::uint64_t code = one.last_code.load(std::memory_order_relaxed);
    if (code != 0) sum.last_code = static_cast<std::uint16_t>(code);
  }
  return sum;
}

std::uint64_t KernelQueueState::asked_bytes() const {
  std::uint64_t sum = 0;
  for (const auto& proxy : proxies_)
    sum += proxy->counts().asked_bytes.load(std::memory_order_relaxed);
  return sum;
}

std::optional<Error> KernelQueueState::failure(const KernelQueueCounts& sum) const {
  Error error{.origin = ErrorOrigin::session, .attempted = "carry out requests of a kernel"};
  if (watch_ != nullptr && watch_->stalled()) {
    error.cause = Cause::async_queue_failed;
    error.detail = "a request took longer than stall_ns, and the queue was failed for all";
    return error;
  }
  if (sum.failed == 0) return std::nullopt;
  error.detail = std::to_string(sum.failed) + " of " + std::to_string(sum.requests) +
                 " failed, one of them with code " + std::to_string(sum.last_code);
  switch (sum.last_code) {
    case device::code_bad_operation:
    case device::code_bad_token:
    case device::code_bad_range:
      error.cause = Cause::async_bad_request;
      break;
    case device::code_stopped:
      error.cause = Cause::async_queue_stopped;
      break;
    case device::code_short:
      error.cause = Cause::file_shorter_than_expected;
      break;
    default:
      if ((sum.last_code & device::code_os) != 0) {
        error.origin = ErrorOrigin::os;
        error.code = sum.last_code & (device::code_os - 1);
      } else {
        error.cause = Cause::async_queue_failed;
      }
  }
  return error;
}

Outcome KernelQueueState::outcome(const Status& drained) {
  const KernelQueueCounts sum = counts();
  Outcome result;
  Receipt& receipt = result.receipt;
  receipt.transfer_id = session_.next_transfer++;
  receipt.requested_bytes = asked_bytes();
  receipt.bytes[Carriage::staged] = sum.arrived_bytes;
  receipt.started_ns = started_ns_;
  receipt.elapsed_ns = session_.host.clock().now_ns() - started_ns_;
  receipt.pinned_bytes = buffers_.length_bytes;
  const GpuMemory near{options_.gpu, gpu_words_.has_value() ? gpu_words_->address : DevicePointer{},
                       local_.buffer_bytes};
  receipt.member = member_of(file_, near);
  receipt.link = sum.arrived_bytes > 0 ? session::staged_link(session_, file_, near) : Link::none;
  receipt.issuer = Issuer::kernel;
  receipt.poster = Poster::cpu_proxy;
  receipt.policy = options_.policy;
  receipt.software_machine = session_.host.kind() == HostKind::soft;
  receipt.segments = 1;
  receipt.source = {DeviceRef::Kind::file, static_cast<std::uint16_t>(file_.file)};
  receipt.target = {DeviceRef::Kind::gpu, static_cast<std::uint16_t>(options_.gpu)};
  receipt.add_cause(Cause::async_cpu_proxy);
  if (!drained.ok()) {
    result.error = drained.error();
  } else {
    result.error = failure(sum);
  }
  if (sum.arrived_bytes > 0 && session::changed_since_opening(session_, file_.file))
    receipt.add_cause(Cause::file_changed);
  if (result.error.has_value()) {
    receipt.state = TransferState::failed;
    receipt.add_cause(result.error->cause);
  }
  const std::scoped_lock lock(session_.dispatcher->mutex());
  session_.ledger->enter_whole(receipt, false);  // the mode was asked for by name
  return result;
}

Outcome KernelQueueState::close(std::uint64_t timeout_ns) {
  if (ended_.has_value()) return *ended_;
  closed = true;
  stopping_.store(true);
  if (words_.address != nullptr && !(watch_ != nullptr && watch_->stalled()))
    set_state(device::State::stopping, device::code_stopped);
  Status empty;
  const bool running = !workers_.empty() && workers_.size() == proxies_.size() + 1;
  if (running)
    empty = drain(session_.host.clock().now_ns() + std::max<std::uint64_t>(timeout_ns, 1));
  if (!empty.ok()) set_state(device::State::failed, device::code_stopped);
  const bool all_back = stop_workers(session_.host.clock().now_ns() + back_patience_ns);
  ended_ = outcome(empty);
  if (all_back) let_go_of_file();
  // Where a claimed slot is still open, a kernel may be about to fill it: the memory stays then.
  if (empty.ok() && all_back) free_memory();
  return *ended_;
}

}  // namespace nobounce::async
