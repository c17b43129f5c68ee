// Stream-ordered transfers: the host puts marks on the stream, a worker serves them.
#include "async/streams_state.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

#include "session/prepare.hpp"
#include "session/probe.hpp"
#include "session/probe_buffer.hpp"

namespace nobounce::async {

namespace cuda = system::cuda;
using session::TransferPlan;
using session::TransferState_;
using system::Step;

namespace {

constexpr std::uint64_t words_bytes = 1u << 20;
constexpr int flush_to_all_devices = 200;
constexpr std::uint64_t eager_ns = 200'000;            ///< the worker spins so long after a change
constexpr std::uint64_t look_again_ns = 10'000;        ///< and then looks so often
constexpr std::uint64_t look_for_late_ns = 1'000'000;  ///< what was told to stop is in no hurry
constexpr std::uint64_t stop_patience_ns = 2'000'000'000;  ///< of the watchdog, after a cancel
constexpr std::uint64_t close_patience_ns = 10'000'000'000;
constexpr std::size_t orders_most = 256;  ///< of one stream, not ended
constexpr std::uint64_t warm_bytes_min = 1u << 20;
constexpr std::uint64_t warm_bytes_max = 1u << 29;

std::uint64_t read_word(std::uint64_t* word) {
  return std::atomic_ref<std::uint64_t>(*word).load(std::memory_order_acquire);
}
void write_word(std::uint64_t* word, std::uint64_t value) {
  std::atomic_ref<std::uint64_t>(*word).store(value, std::memory_order_release);
}

std::optional<std::uint32_t> gpu_of(const Place& place) {
  const auto* memory = std::get_if<GpuMemory>(&place);
  return memory == nullptr ? std::nullopt : std::optional(memory->gpu);
}

Error refusal(Cause cause, std::string detail) {
  return Error{.origin = ErrorOrigin::session,
               .attempted = "order a transfer on a stream",
               .cause = cause,
               .detail = std::move(detail)};
}

/// The driver makes smaller copies into GPU memory without a copy engine: beside as many waiting
/// streams as there are hardware queues they wait too (seen with driver 580; copies out of GPU
/// memory pass in all sizes).
constexpr std::uint64_t engine_copy_bytes_min = 32u << 10;
constexpr std::uint64_t piece_bytes = 64u << 20;  ///< of a transfer, as the session cuts it

/// The shortest copy into GPU memory that a segment will be cut into; 0: none.
std::uint64_t shortest_copy_in(const Segment& segment, std::uint64_t slot_bytes) {
  const bool copied = segment.provider == ProviderKind::staged ||
                      (segment.provider == ProviderKind::host &&
                       std::holds_alternative<HostMemory>(segment.source));
  if (!copied || !gpu_of(segment.target).has_value() || segment.length_bytes == 0) return 0;
  const std::uint64_t cut =
      segment.provider == ProviderKind::staged ? std::min(slot_bytes, piece_bytes) : piece_bytes;
  const std::uint64_t rest = segment.length_bytes % cut;
  return rest != 0 ? rest : cut;
}

/// By a device of its own into or out of GPU memory.
bool by_another_device(const Segment& segment) {
  return segment.provider == ProviderKind::storage || segment.provider == ProviderKind::rdma ||
         segment.provider == ProviderKind::nvme;
}

}  // namespace

StreamsState::StreamsState(session::SessionState& of_session) : session_(of_session) {
  ++session_.handles;
}

StreamsState::~StreamsState() {
  if (session_.forked()) return;
  close();
  --session_.handles;
}

Status StreamsState::open() {
  if (session_.contexts == nullptr) {
    return session_.cuda_error.value_or(refusal(Cause::machine_no_gpu, "there is no GPU"));
  }
  for (std::uint32_t gpu = 0; gpu < session_.machine.gpus.size(); ++gpu) {
    Result<GpuAbilities> abilities = read_abilities(*session_.contexts, gpu);
    if (!abilities.ok()) continue;  // hidden from this process
    if (!abilities->wait_and_write_words) {
      return refusal(Cause::async_stream_memory_ops_unavailable,
                     "gpu:" + std::to_string(gpu) + " has no 64-bit stream memory operations");
    }
    abilities_.emplace(gpu, *abilities);
  }
  if (abilities_.empty())
    return refusal(Cause::machine_no_gpu, "no GPU is visible to this process");
  Result<system::HostBuffer> words =
      session_.host.memory().allocate_pinned(words_bytes, 0, system::MemoryUse::user);
  if (!words.ok()) return std::move(words).error();
  words_ = *words;
  Result<cuda::CUcontext> context = session_.contexts->context(abilities_.begin()->first);
  if (!context.ok()) return std::move(context).error();
  cuda::CUdeviceptr address = 0;
  system::Cuda& table = session_.contexts->table();
  {
    const system::ContextGuard guard(table, *context);
    const cuda::CUresult code = table.mem_host_get_device_pointer(&address, words_.address, 0);
    if (code != cuda::success) return cuda_error(table, code, "reach host memory from the GPU");
  }
  words_gpu_ = address;
  // Now, while none of our waits is on a stream: freeing GPU memory, small copies, and what
  // libcufile does at first use wait for streams that wait (seen with driver 580).
  for (const auto& [gpu, abilities] : abilities_) {
    if (Status warm = warm_up(gpu); !warm.ok()) return warm;
  }
  Result<system::WorkerId> worker = session_.host.workers().start(*this, "streams");
  if (!worker.ok()) return std::move(worker).error();
  worker_ = *worker;
  return {};
}

/// The driver says of no stream whose it is, but takes an event only on streams of its context.
bool StreamsState::is_stream_of(StreamHandle stream, std::uint32_t gpu) const {
  system::Cuda& table = session_.contexts->table();
  const Result<cuda::CUcontext> context = session_.contexts->context(gpu);
  if (!context.ok()) return false;
  const system::ContextGuard guard(table, *context);
  return guard.status() == cuda::success &&
         table.event_record(events_.at(gpu), stream) == cuda::success;
}

Visibility StreamsState::visibility_for(const TransferPlan& plan, std::uint32_t gpu,
                                        bool by_owner) const {
  const auto& segments = plan.cut.segments;
  const bool inbound = std::any_of(segments.begin(), segments.end(), [](const Segment& segment) {
    return by_another_device(segment) && std::holds_alternative<GpuMemory>(segment.target);
  });
  return inbound ? visibility_of(abilities_.at(gpu), by_owner) : Visibility::native;
}

std::optional<Error> StreamsState::why_not(const TransferPlan& plan) const {
  if (plan.common->route.refused) {
    const Cause cause = plan.common->route.causes.empty() ? Cause::policy_direct_required
                                                          : plan.common->route.causes.front();
    Error error = refusal(cause, std::string(cause_row(cause).sentence));
    error.origin = ErrorOrigin::policy;
    return error;
  }
  for (const Segment& segment : plan.cut.segments) {
    const auto from = gpu_of(segment.source);
    const bool inside = from.has_value() && from == gpu_of(segment.target);
    if (inside || segment.expected == Carriage::device_bounced) {
      return refusal(Cause::async_kernel_may_deadlock,
                     "a copy inside one GPU's memory may be a kernel");
    }
  }
  for (const Segment& segment : plan.cut.segments) {
    const std::uint64_t shortest = shortest_copy_in(segment, session_.options.slot_bytes);
    if (shortest == 0 || shortest >= engine_copy_bytes_min) continue;
    return refusal(Cause::async_kernel_may_deadlock,
                   "a copy of " + std::to_string(shortest) +
                       " bytes into GPU memory is no copy engine's: from " +
                       std::to_string(engine_copy_bytes_min) + " bytes on it is");
  }
  return std::nullopt;
}

Status StreamsState::warm_up(std::uint32_t gpu) {
  {
    system::Cuda& table = session_.contexts->table();
    const Result<cuda::CUcontext> context = session_.contexts->context(gpu);
    if (!context.ok()) return context.error();
    const system::ContextGuard guard(table, *context);
    cuda::CUevent event = nullptr;
    const cuda::CUresult code = table.event_create(&event, cuda::event_disable_timing);
    if (code != cuda::success) return cuda_error(table, code, "create an event");
    events_.emplace(gpu, event);
  }
  {
    const std::lock_guard probing(session_.probe_mutex);
    Result<GpuMemory> kept = session::probe_memory(session_, gpu);
    if (!kept.ok()) return std::move(kept).error();
  }
  // Twice what the session may pin: each reader gets its share, with slots and streams of its own.
  const std::uint64_t bytes = std::clamp<std::uint64_t>(2 * session_.options.pinned_bytes_max,
                                                        warm_bytes_min, warm_bytes_max);
  Result<GpuMemory> scratch = session::allocate_gpu(session_, gpu, bytes);
  if (!scratch.ok()) return std::move(scratch).error();
  using session::OwnBuffer;
  Result<std::shared_ptr<OwnBuffer>> plain = OwnBuffer::plain(session_.host, bytes);
  Result<std::shared_ptr<OwnBuffer>> pinned = OwnBuffer::pinned(session_.host, warm_bytes_min);
  const auto run = [&](const Place& from, const Place& to, ProviderKind provider,
                       const std::shared_ptr<OwnBuffer>& buffer) {
    const std::uint64_t length = std::min(length_bytes(from), length_bytes(to));
    // Whatever fails here fails again where it is told.
    (void)session::run_operation(session_,
                                 Segment{.offset_bytes = 0,
                                         .length_bytes = length,
                                         .source = part_of(from, 0, length),
                                         .target = part_of(to, 0, length),
                                         .provider = provider,
                                         .expected = Carriage::staged},
                                 buffer);
  };
  const Place own = *scratch;
  if (plain.ok()) {
    const Place host = HostMemory{(*plain)->data(), bytes};
    run(host, own, ProviderKind::staged, *plain);
    run(own, host, ProviderKind::staged, *plain);
  }
  if (pinned.ok()) {
    const Place host = HostMemory{(*pinned)->data(), warm_bytes_min};
    run(host, own, ProviderKind::host, *pinned);
    run(own, host, ProviderKind::host, *pinned);
  }
  session::free_gpu(session_, *scratch);
  if (!plain.ok()) return std::move(plain).error();
  if (!pinned.ok()) return std::move(pinned).error();
  return {};
}

Result<StreamLane*> StreamsState::lane_of(StreamHandle stream) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<StreamLane>& lane = lanes_[stream];
  if (lane == nullptr) {
    if ((words_taken_ + 1) * LaneWords::bytes > words_bytes) {
      lanes_.erase(stream);
      return refusal(Cause::async_too_many_orders,
                     std::to_string(words_taken_) + " streams were used: use those again");
    }
    lane = std::make_unique<StreamLane>();
    lane->stream = stream;
    const std::uint64_t offset = words_taken_++ * LaneWords::bytes;
    lane->words.base = reinterpret_cast<std::uint64_t*>(words_.address + offset);
    lane->words.gpu_base = words_gpu_ + offset;
  }
  return lane.get();
}

/// The marks, in the order in which the stream comes to them.
Status StreamsState::put(StreamLane& lane, const StreamOrder& order) {
  system::Cuda& table = session_.contexts->table();
  const LaneWords& words = lane.words;
  const auto failed = [&](cuda::CUresult code) -> Status {
    return cuda_error(table, code, "order a transfer on a stream",
                      code == cuda::error_not_supported ? Cause::async_stream_memory_ops_unavailable
                                                        : Cause::none);
  };
  const unsigned flush =
      order.visibility == Visibility::flush_by_stream ? cuda::wait_value_flush : 0;
  cuda::CUresult code = table.stream_write_value64(lane.stream, words.address_of(words.reached()),
                                                   order.sequence, cuda::write_value_default);
  if (code != cuda::success) return failed(code);
  code = table.stream_wait_value64(lane.stream, words.address_of(words.done()), order.sequence,
                                   cuda::wait_value_geq | flush);
  if (code != cuda::success) return failed(code);
  code = table.stream_write_value64(lane.stream, words.address_of(words.passed()), order.sequence,
                                    cuda::write_value_default);
  // The stream waits for the transfer all the same; only the end of our memory's use is not told.
  return {};
}

Result<std::shared_ptr<StreamOrder>> StreamsState::enqueue(StreamHandle stream, const Place& source,
                                                           const Place& target,
                                                           const StreamOptions& options) {
  const auto gpu = gpu_of(target).has_value() ? gpu_of(target) : gpu_of(source);
  const auto known = gpu.has_value() ? abilities_.find(*gpu) : abilities_.end();
  if (known == abilities_.end()) {
    return Error{.origin = ErrorOrigin::input,
                 .attempted = "order a transfer on a stream",
                 .detail = "neither place is memory of a GPU that this process sees"};
  }
  if (reinterpret_cast<std::uintptr_t>(stream) <= 2) {
    return Error{.origin = ErrorOrigin::input,
                 .attempted = "order a transfer on a stream",
                 .cause = Cause::async_default_stream,
                 .detail = "a wait on a default stream holds up every stream"};
  }
  system::Cuda& table = session_.contexts->table();
  Result<cuda::CUcontext> context = session_.contexts->context(*gpu);
  if (!context.ok()) return std::move(context).error();
  const system::ContextGuard guard(table, *context);
  int capturing = 0;
  if (const auto code = table.stream_is_capturing(stream, &capturing); code != cuda::success)
    return cuda_error(table, code, "order a transfer on a stream");
  if (capturing != cuda::capture_status_none)
    return refusal(Cause::async_graph_capture, "the stream is being captured");
  Result<TransferPlan> plan = session::prepare_for_later(session_, source, target, options.policy);
  if (!plan.ok()) return std::move(plan).error();
  if (auto error = why_not(*plan)) return std::move(*error);
  // Asked only where it makes a difference.
  const bool by_owner =
      visibility_for(*plan, *gpu, false) != Visibility::native && is_stream_of(stream, *gpu);
  const Visibility visibility = visibility_for(*plan, *gpu, by_owner);
  if (visibility == Visibility::refused) {
    const std::string memory = "gpu:" + std::to_string(*gpu);
    return refusal(Cause::async_ordering_unproven,
                   by_owner ? memory + " neither orders inbound writes nor offers to flush them"
                            : memory +
                                  " orders inbound writes for its own streams at best, and "
                                  "this one is not known to be its own");
  }

  const Result<StreamLane*> lane = lane_of(stream);
  if (!lane.ok()) return lane.error();
  const std::lock_guard putting((*lane)->putting);
  auto order = std::make_shared<StreamOrder>();
  order->host = &session_.host;
  {
    const std::lock_guard lock(mutex_);
    if ((*lane)->orders.size() >= orders_most) {
      return refusal(
          Cause::async_too_many_orders,
          std::to_string(orders_most) + " transfers of this stream have not ended: wait for one");
    }
    order->sequence = ++(*lane)->last_sequence;
  }
  order->deadline_ns = options.deadline_ns == 0 ? StreamOptions{}.deadline_ns : options.deadline_ns;
  order->gpu = *gpu;
  order->by_owner = by_owner;
  order->visibility = visibility;
  order->status_word = DevicePointer{(*lane)->words.address_of((*lane)->words.status())};
  order->transfer = std::make_unique<TransferState_>(session_, std::move(*plan), source, target,
                                                     options.policy, 0);
  // A worker of ours tells the devices, on the stream's behalf.
  order->transfer->ordered_by(Issuer::stream, Poster::cpu_proxy, Cause::async_cpu_proxy);
  const Status marked = put(**lane, *order);
  if (!marked.ok()) {
    // It ends here, as one that never began.
    order->transfer->cancel(Cause::session_cancelled);
    order->transfer->begin();
    order->transfer.reset();
    order->begun_ns = session_.host.clock().now_ns();
    // Some mark may be there, and its wait must not be in vain: but in its turn, because `done`
    // lets all earlier ones go on too.
  }
  {
    const std::lock_guard lock(mutex_);
    (*lane)->orders.push_back(order);
    last_change_ns_ = session_.host.clock().now_ns();
  }
  session_.host.workers().wake(*worker_);
  if (!marked.ok()) return marked.error();
  return order;
}

void StreamsState::start(StreamOrder& order) {
  order.begun_ns = session_.host.clock().now_ns();
  // What was learnt since it was given holds for it too.
  const TransferState_& transfer = *order.transfer;
  if (const std::optional<Cause> why =
          session::disproved(session_, transfer.plan, transfer.source, transfer.target)) {
    order.transfer->cancel(*why);
  }
  order.transfer->begin();
}

/// No wait is without an end.
void StreamsState::watch(StreamOrder& order) {
  const std::uint64_t spent_ns = session_.host.clock().now_ns() - order.begun_ns;
  if (!order.told_to_stop && spent_ns >= order.deadline_ns) {
    order.told_to_stop = true;
    order.transfer->cancel(Cause::async_wait_released_by_watchdog);
  }
}

void StreamsState::release(StreamLane& lane, StreamOrder& order, Outcome outcome) {
  order.outcome = std::move(outcome);
  std::uint16_t code = device::code_ok;
  if (order.outcome.error.has_value()) {
    code = order.told_to_stop ? device::code_deadline : device::code_device;
  }
  write_word(lane.words.status(), device::completion_word(order.sequence, code));
  write_word(lane.words.done(), order.sequence);
  order.released = true;
  order.ended.store(true, std::memory_order_release);
  last_change_ns_ = session_.host.clock().now_ns();
  session_.host.workers().notify();
}

void StreamsState::release_late(StreamLane& lane) {
  const std::shared_ptr<StreamOrder> order = lane.orders.front();
  // Its bytes may still come: nobody may use its places.
  Outcome outcome;
  outcome.receipt.requested_bytes = length_bytes(order->transfer->source);
  outcome.receipt.member = order->transfer->plan.common->route.member;
  outcome.receipt.state = TransferState::failed;
  outcome.receipt.issuer = Issuer::stream;
  outcome.receipt.poster = Poster::cpu_proxy;
  outcome.receipt.software_machine = session_.host.kind() == HostKind::soft;
  outcome.receipt.add_cause(Cause::async_wait_released_by_watchdog);
  outcome.error = refusal(Cause::async_wait_released_by_watchdog,
                          "the transfer could not be stopped and may still write");
  order->told_to_stop = true;
  release(lane, *order, std::move(outcome));
  late_.push_back(order);
  lane.orders.pop_front();
}

bool StreamsState::serve(StreamLane& lane) {
  if (lane.orders.empty()) return false;
  const std::shared_ptr<StreamOrder> order = lane.orders.front();
  if (order->transfer == nullptr) {  // it could not be put on the stream
    write_word(lane.words.done(), order->sequence);
    lane.orders.pop_front();
    return true;
  }
  if (order->begun_ns == 0) {
    if (read_word(lane.words.reached()) < order->sequence) return false;
    start(*order);
    return true;
  }
  session_.dispatcher->dispatch();
  watch(*order);
  if (order->transfer->done) {
    Outcome outcome = *order->transfer->outcome;
    order->transfer.reset();
    if (order->visibility == Visibility::flush_by_host && outcome.receipt.bytes.total() > 0) {
      // Before the stream sees that it is done.
      system::Cuda& table = session_.contexts->table();
      const auto context = session_.contexts->context(order->gpu);
      cuda::CUresult code = cuda::error_invalid_context;
      if (context.ok()) {
        const system::ContextGuard guard(table, *context);
        code = table.flush_gpu_direct_rdma_writes(
            cuda::flush_target_current_context,
            order->by_owner ? cuda::flush_to_owner : flush_to_all_devices);
      }
      if (code != cuda::success && !outcome.error.has_value()) {
        outcome.error = cuda_error(table, code, "flush what devices wrote into GPU memory",
                                   Cause::async_flush_unavailable);
        outcome.receipt.state = TransferState::failed;
        outcome.receipt.add_cause(Cause::async_flush_unavailable);
      }
    }
    release(lane, *order, std::move(outcome));
    lane.orders.pop_front();
    return true;
  }
  const std::uint64_t spent_ns = session_.host.clock().now_ns() - order->begun_ns;
  if (order->told_to_stop && spent_ns >= order->deadline_ns + stop_patience_ns) {
    release_late(lane);
    return true;
  }
  return false;
}

Step StreamsState::step() {
  const std::lock_guard lock(mutex_);
  bool changed = false;
  bool any = false;
  bool stopping = false;  // told to stop, or given up
  for (const auto& [stream, lane] : lanes_) {
    while (serve(*lane)) changed = true;
    if (lane->orders.empty()) continue;
    (lane->orders.front()->told_to_stop ? stopping : any) = true;
  }
  const bool late = !late_.empty();
  if (late) session_.dispatcher->dispatch();
  for (const auto& order : late_) {
    // Whoever has a handle of it may have it for longer than the session lives.
    if (order->transfer->done) order->transfer.reset();
  }
  late_.erase(std::remove_if(late_.begin(), late_.end(),
                             [](const auto& order) { return order->transfer == nullptr; }),
              late_.end());
  if (late && late_.empty()) session_.host.workers().notify();
  stopping = stopping || !late_.empty();
  if (!any && !stopping) return Step::idle();
  const std::uint64_t now_ns = session_.host.clock().now_ns();
  if (changed) last_change_ns_ = now_ns;
  // One that runs beside others may spin for a while; one that runs in their stead may not.
  const bool eager =
      session_.host.workers().concurrency() > 2 && now_ns - last_change_ns_ < eager_ns;
  if (eager && any) return Step::busy();
  return Step::idle_until(now_ns + (any ? look_again_ns : look_for_late_ns));
}

bool StreamsState::all_ended() const {
  const std::lock_guard lock(mutex_);
  return late_.empty() && std::all_of(lanes_.begin(), lanes_.end(),
                                      [](const auto& each) { return each.second->orders.empty(); });
}

void StreamsState::close() {
  if (worker_.has_value()) {
    const std::uint64_t until_ns = session_.host.clock().now_ns() + close_patience_ns;
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
      for (const auto& [stream, lane] : lanes_) {
        for (const auto& order : lane->orders) {
          // Reached or not: it ends as cancelled, and its stream passes by.
          if (order->transfer != nullptr) order->transfer->cancel(Cause::session_cancelled);
          if (order->begun_ns == 0) start(*order);
        }
      }
    }
    session_.host.workers().wake(*worker_);
    (void)session_.host.workers().wait([this] { return all_ended(); }, until_ns);
    session_.host.workers().stop(*worker_);
  }
  for (const auto& [gpu, event] : events_) {
    const Result<cuda::CUcontext> context = session_.contexts->context(gpu);
    if (!context.ok()) continue;
    const system::ContextGuard guard(session_.contexts->table(), *context);
    if (guard.alive()) (void)session_.contexts->table().event_destroy(event);
  }
  events_.clear();
  bool passed = true;
  for (const auto& [stream, lane] : lanes_) {
    while (!lane->orders.empty()) {
      if (!serve(*lane)) release_late(*lane);
    }
    write_word(lane->words.done(), lane->last_sequence);
    passed = passed && read_word(lane->words.passed()) >= lane->last_sequence;
  }
  // They have had their time: what still moves is kept by the session, with what it uses.
  for (const auto& order : late_) session::let_go(std::move(order->transfer), 1);
  late_.clear();
  // A stream that has not come by yet will still read the words: they stay for good then.
  if (words_.address != nullptr && passed) session_.host.memory().free(words_);
}

}  // namespace nobounce::async
