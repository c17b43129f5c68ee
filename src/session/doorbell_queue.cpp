// A doorbell queue's life: everything that the kernel and the drive need, made before either of
// them starts, and the receipt of what the kernel saw.
#include "session/doorbell_queue.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <utility>

#include "judge/async.hpp"
#include "preconditions/read_async_facts.hpp"
#include "session/links.hpp"
#include "session/owned_drive.hpp"
#include "session/pairs.hpp"
#include "session/planner.hpp"
#include "session/prepare.hpp"
#include "session/probe_buffer.hpp"
#include "session/session_access.hpp"
#include "session/transfer_state.hpp"

namespace nobounce {

using session::DoorbellQueueState;

namespace session {

namespace cuda = system::cuda;
using device::NvmeQueueSet;

namespace {

constexpr std::uint64_t page_bytes = 4096;
constexpr std::uint32_t tokens_max = 1024;
constexpr unsigned host_register_io_memory = 4;
constexpr unsigned host_register_device_map = 2;

std::uint64_t rounded(std::uint64_t bytes) {
  return (bytes + page_bytes - 1) / page_bytes * page_bytes;
}

std::uint32_t log2_of(std::uint32_t power) {
  std::uint32_t log2 = 0;
  while ((1u << log2) < power) ++log2;
  return log2;
}

/// What failed stays so.
void write_state(std::uint32_t* word, device::State state, std::uint16_t code) {
  const std::atomic_ref<std::uint32_t> shared(*word);
  std::uint32_t before = shared.load(std::memory_order_acquire);
  while (device::state_of(before) != device::State::failed &&
         !shared.compare_exchange_weak(before, device::state_word(state, code),
                                       std::memory_order_acq_rel)) {
  }
}

Error input_error(std::string detail, Cause cause = Cause::none) {
  return Error{.origin = ErrorOrigin::input,
               .attempted = "open a doorbell queue",
               .cause = cause,
               .detail = std::move(detail)};
}

}  // namespace

DoorbellQueueState::DoorbellQueueState(SessionState& owner) : session(owner) {
  ++session.handles;
}

DoorbellQueueState::~DoorbellQueueState() {
  if (session.forked()) return;
  if (opened) (void)close();
  give_back();
  --session.handles;
}

Status DoorbellQueueState::lay_out(const DoorbellOptions& options) {
  const auto facts = owned_drive(session, drive.drive);
  if (!facts.has_value()) return input_error("the drive is not ours", Cause::nvme_take_needed);
  if (options.tokens == 0 || options.tokens > tokens_max) return input_error("tokens: 1 to 1024");
  if (options.entries < 2 || options.entries > 1024 ||
      (options.entries & (options.entries - 1)) != 0) {
    return input_error("entries: a power of two, 2 to 1024");
  }
  set.tokens = options.tokens;
  set.submission_log2 = log2_of(options.entries);
  // More than what can be under way: tokens, and slots that were not needed.
  set.completion_log2 = log2_of(2 * (options.tokens + options.entries));
  set.name_space = facts->name_space;
  set.block_shift = log2_of(facts->block_bytes);
  set.transfer_bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(
      facts->transfer_bytes_max, NvmeQueueSet::list_bytes / 8 * page_bytes));
  set.first_byte = drive.offset.value;
  set.drive_bytes = drive.length_bytes;
  set.data_bytes = data.length_bytes;

  // GPU memory: queues and lists at page boundaries, then words.
  const std::uint64_t submission = rounded(std::uint64_t{64} << set.submission_log2);
  const std::uint64_t completion = rounded(std::uint64_t{16} << set.completion_log2);
  const std::uint64_t lists = std::uint64_t{set.tokens} * NvmeQueueSet::list_bytes;
  const std::uint64_t words = NvmeQueueSet::words_lines * NvmeQueueSet::line_bytes;
  const std::uint64_t by_token = std::uint64_t{set.tokens} * 8;
  const std::uint64_t by_slot = std::uint64_t{8} << set.submission_log2;
  Result<GpuMemory> memory = allocate_gpu(
      session, data.gpu, rounded(submission + completion + lists + words + 2 * by_token + by_slot));
  if (!memory.ok()) return std::move(memory).error();
  words_ = *memory;
  set.submission = memory->address.value;
  set.completion = set.submission + submission;
  set.lists = set.completion + completion;
  set.words = set.lists + lists;
  set.completions = set.words + words;
  set.sequences = set.completions + by_token;

  // All zero, but for the tail and what was seen of it.
  Result<std::shared_ptr<OwnBuffer>> start = OwnBuffer::plain(session.host, memory->length_bytes);
  if (!start.ok()) return std::move(start).error();
  const std::uint64_t last = ~std::uint64_t{0};
  for (const std::uint32_t line : {1u, 2u}) {
    std::memcpy((*start)->data() + (set.words - set.submission) + line * NvmeQueueSet::line_bytes,
                &last, sizeof last);
  }
  const core::Completion zeroed =
      run_operation(session,
                    Segment{.offset_bytes = 0,
                            .length_bytes = memory->length_bytes,
                            .source = HostMemory{(*start)->data(), memory->length_bytes},
                            .target = *memory,
                            .provider = ProviderKind::staged,
                            .expected = Carriage::staged},
                    *start);
  if (zeroed.error.has_value()) return *zeroed.error;

  Result<system::HostBuffer> host_words = session.host.memory().allocate_pinned(
      rounded(64 + (device::count_words + set.tokens) * std::uint64_t{8}), 0,
      system::MemoryUse::user);
  if (!host_words.ok()) return std::move(host_words).error();
  host_words_ = *host_words;
  return {};
}

Status DoorbellQueueState::map_registers(const provider::nvme::GuestDoorbells& doorbells) {
  Result<cuda::CUcontext> context = session.contexts->context(data.gpu);
  if (!context.ok()) return std::move(context).error();
  system::Cuda& table = session.contexts->table();
  const system::ContextGuard guard(table, *context);
  const auto unmapped = [&](cuda::CUresult code, const char* attempted) {
    return cuda_error(table, code, attempted, Cause::async_doorbell_unmapped);
  };
  cuda::CUdeviceptr host_words = 0;
  cuda::CUresult code = table.mem_host_get_device_pointer(&host_words, host_words_.address, 0);
  if (code != cuda::success) return unmapped(code, "reach host memory from the GPU");
  set.state = host_words;
  set.counts = host_words + 64;
  if (doorbells.registers.empty()) {
    return input_error("the drive's registers have no mapping", Cause::async_doorbell_unmapped);
  }
  code = table.mem_host_register(doorbells.registers.data(), doorbells.registers.size(),
                                 host_register_io_memory | host_register_device_map);
  if (code != cuda::success) return unmapped(code, "map the drive's registers for the GPU");
  registered_ = doorbells.registers.data();
  cuda::CUdeviceptr registers = 0;
  code = table.mem_host_get_device_pointer(&registers, registered_, 0);
  if (code != cuda::success) return unmapped(code, "reach the drive's registers from the GPU");
  set.submission_doorbell = registers + doorbells.submission_offset;
  set.completion_doorbell = registers + doorbells.completion_offset;
  return {};
}

/// A kernel looks at the bytes as soon as it sees the drive's completion: what is not known to hold
/// is no ground to stand on.
Status DoorbellQueueState::judge_order() const {
  if (data.gpu >= session.machine.gpus.size()) return {};  // who plans says that there is none
  for (const Finding& finding : judge::judge_doorbell_order(preconditions::read_async_facts(
           session.host, session.machine, data.gpu, session.contexts != nullptr))) {
    if (finding.state == FindingState::met) continue;
    return Error{.origin = ErrorOrigin::session,
                 .attempted = "open a doorbell queue on " + finding.subject,
                 .cause = finding.cause,
                 .detail = "it needs " + finding.needed + ": " + finding.observed + " (" +
                           finding.source + ")",
                 .remedy = finding.remedy};
  }
  return {};
}

Status DoorbellQueueState::open(const BlockRange& range, const GpuMemory& memory,
                                const DoorbellOptions& options) {
  drive = range;
  data = memory;
  if (session.contexts == nullptr) return *session.cuda_error;
  if (Status ordered = judge_order(); !ordered.ok()) return ordered;
  // The pair is judged in both directions as every transfer is, and probed by a read: a probe of
  // writing would leave bytes of its own on the drive.
  const std::uint64_t probed =
      std::min({page_bytes, drive.length_bytes, data.length_bytes}) / page_bytes * page_bytes;
  for (const bool reading : {true, false}) {
    const std::uint64_t length = reading ? probed : 0;
    const Place on_drive = part_of(drive, 0, length);
    const Place in_gpu = part_of(data, 0, length);
    Result<TransferPlan> plan =
        reading ? prepare_transfer(session, on_drive, in_gpu, Policy::direct_required)
                : plan_transfer(session, in_gpu, on_drive, Policy::direct_required);
    if (!plan.ok()) return std::move(plan).error();
    if (!plan->common->route.refused) continue;
    const Cause cause =
        plan->common->route.causes.empty() ? Cause::none : plan->common->route.causes.front();
    return Error{.origin = ErrorOrigin::policy,
                 .attempted = "open a doorbell queue between " + place_text(session, drive) +
                              " and " + place_text(session, data),
                 .cause = cause,
                 .detail = std::string(cause_row(cause).sentence)};
  }
  const std::optional<PairKey> pair = pair_of(session, drive, data);
  if (!pair.has_value() || !belief_in(session, *pair).has_value()) {
    return input_error(
        "a path is proved by a read of 4096 bytes, and here there are fewer, or the "
        "GPU has no room for it");
  }
  if (Status laid = lay_out(options); !laid.ok()) return laid;
  provider::NvmeProvider& drives = *session.providers.nvme;
  core::RegionView view{*words_, AllocationKind::device};
  if (Status mapped = drives.map(drive.drive, view); !mapped.ok()) return mapped;
  {
    const std::scoped_lock lock(session.regions_mutex);
    const RegionEntry* region = find_region(session, data);
    if (region == nullptr) return input_error("the memory lies in no region of the session");
    view = core::RegionView{region->memory, region->kind};
  }
  if (Status mapped = drives.map(drive.drive, view); !mapped.ok()) return mapped;
  const Result<Iova> words = drives.mapped_at(drive.drive, *words_);
  if (!words.ok()) return words.error();
  const Result<Iova> bytes = drives.mapped_at(drive.drive, data);
  if (!bytes.ok()) return bytes.error();
  set.data_iova = bytes->value;
  set.lists_iova = words->value + (set.lists - set.submission);
  provider::nvme::Controller::GuestQueue queue;
  queue.submission = *words;
  queue.submission_entries = 1u << set.submission_log2;
  queue.completion = Iova{words->value + (set.completion - set.submission)};
  queue.completion_entries = 1u << set.completion_log2;
  // By value: where the queue does not end, its memory stays, and so does this word.
  auto* state_word = reinterpret_cast<std::uint32_t*>(host_words_.address);
  const Result<provider::nvme::GuestDoorbells> doorbells = drives.create_queue(
      drive.drive, queue,
      [state_word] { write_state(state_word, device::State::failed, device::code_device); });
  if (!doorbells.ok()) return doorbells.error();
  queue_ = doorbells->id;
  if (Status reachable = map_registers(*doorbells); !reachable.ok()) return reachable;
  started_ns_ = session.host.clock().now_ns();
  opened = true;
  const std::scoped_lock lock(session.dispatcher->mutex());
  session.used_by_kernels[this] = {drive, data};
  return {};
}

void DoorbellQueueState::set_state(device::State state) {
  write_state(reinterpret_cast<std::uint32_t*>(host_words_.address), state, device::code_ok);
}

std::uint64_t DoorbellQueueState::count(device::NvmeCount which) const {
  auto* words = reinterpret_cast<std::uint64_t*>(host_words_.address + 64);
  return std::atomic_ref<std::uint64_t>(words[which]).load(std::memory_order_acquire);
}

void DoorbellQueueState::give_back() {
  // The drive first: while it has the queue it may write there.
  if (queue_.has_value()) (void)end_queue();
  if (registered_ != nullptr) {
    if (Result<cuda::CUcontext> context = session.contexts->context(data.gpu); context.ok()) {
      const system::ContextGuard guard(session.contexts->table(), *context);
      (void)session.contexts->table().mem_host_unregister(registered_);
    }
    registered_ = nullptr;
  }
  {
    const std::scoped_lock lock(session.dispatcher->mutex());
    session.used_by_kernels.erase(this);
  }
  if (!let_go_) return;  // the queue's memory stays for good
  if (words_.has_value()) {
    session.providers.nvme->detach({*words_, AllocationKind::device});
    free_gpu(session, *words_);
    words_.reset();
  }
  if (host_words_.address != nullptr) free_host(session, host_words_);
  host_words_ = {};
}

Status DoorbellQueueState::end_queue() {
  provider::nvme::GuestEnd end = session.providers.nvme->delete_queue(drive.drive, *queue_);
  queue_.reset();
  let_go_ = end.let_go;
  return std::move(end.status);
}

/// A token's word in GPU memory is odd until the kernel saw its command's end.
Status DoorbellQueueState::read_under_way(UnderWay& reads, UnderWay& writes) {
  const std::uint64_t bytes = std::uint64_t{set.tokens} * 8;
  Result<std::shared_ptr<OwnBuffer>> copy = OwnBuffer::plain(session.host, bytes);
  if (!copy.ok()) return std::move(copy).error();
  const core::Completion read =
      run_operation(session,
                    Segment{.offset_bytes = 0,
                            .length_bytes = bytes,
                            .source = GpuMemory{data.gpu, DevicePointer{set.sequences}, bytes},
                            .target = HostMemory{(*copy)->data(), bytes},
                            .provider = ProviderKind::staged,
                            .expected = Carriage::staged},
                    *copy);
  const auto* asked =
      reinterpret_cast<const std::uint64_t*>(host_words_.address + 64) + device::count_words;
  for (std::uint32_t token = 0; token < set.tokens && !read.error.has_value(); ++token) {
    std::uint64_t sequence = 0;
    std::memcpy(&sequence, (*copy)->data() + token * sizeof sequence, sizeof sequence);
    if ((sequence & 1) == 0) continue;
    UnderWay& left = (asked[token] & device::count_is_write) != 0 ? writes : reads;
    ++left.commands;
    left.bytes += asked[token] & ~device::count_is_write;
  }
  return read.error.has_value() ? Status(*read.error) : Status{};
}

Outcome DoorbellQueueState::outcome_of(bool writing, const Status& ended, const UnderWay& left) {
  const Place on_drive = drive;
  const Place in_gpu = data;
  const Place& source = writing ? in_gpu : on_drive;
  const Place& target = writing ? on_drive : in_gpu;
  const DeviceRef drive_ref{DeviceRef::Kind::drive, static_cast<std::uint16_t>(drive.drive)};
  const DeviceRef gpu_ref{DeviceRef::Kind::gpu, static_cast<std::uint16_t>(data.gpu)};
  Outcome outcome;
  Receipt& receipt = outcome.receipt;
  receipt.transfer_id = session.next_transfer++;
  receipt.bytes[Carriage::direct] =
      count(writing ? device::count_bytes_written : device::count_bytes);
  receipt.requested_bytes = receipt.bytes.total() + left.bytes;
  receipt.started_ns = started_ns_;
  receipt.elapsed_ns = session.host.clock().now_ns() - started_ns_;
  receipt.member = member_of(source, target);
  receipt.issuer = Issuer::kernel;
  receipt.poster = Poster::gpu;
  receipt.policy = Policy::direct_required;
  receipt.link = receipt.bytes.total() > 0 ? straight_link(session, source, target) : Link::none;
  receipt.software_machine = session.host.kind() == HostKind::soft;
  receipt.segments = 1;
  receipt.source = writing ? gpu_ref : drive_ref;
  receipt.target = writing ? drive_ref : gpu_ref;
  const std::uint64_t failed_writes = count(device::count_failed_writes);
  const std::uint64_t failed =
      writing ? failed_writes : count(device::count_failed) - failed_writes;
  if (!ended.ok()) {
    outcome.error = ended.error();
  } else if (failed > 0) {
    outcome.error = Error{.origin = ErrorOrigin::nvme,
                          .attempted = "carry out requests of a kernel",
                          .cause = Cause::nvme_command_failed,
                          .detail = "the drive answered " + std::to_string(failed) +
                                    " of them with an error, which the kernel was told"};
  } else if (left.commands > 0) {
    outcome.error = Error{.origin = ErrorOrigin::session,
                          .attempted = "carry out requests of a kernel",
                          .cause = Cause::async_queue_stopped,
                          .detail = std::to_string(left.commands) +
                                    " of them were under way when the queue was closed, and no "
                                    "kernel saw their end"};
  }
  if (outcome.error.has_value()) {
    receipt.state = TransferState::failed;
    receipt.add_cause(outcome.error->cause);
  }
  const std::scoped_lock lock(session.dispatcher->mutex());
  session.ledger->enter_whole(receipt, false);
  return outcome;
}

Outcome DoorbellQueueState::close() {
  if (closed_.has_value()) return *closed_;
  opened = false;
  set_state(device::State::stopping);
  Status ended = end_queue();
  UnderWay reads;
  UnderWay writes;
  if (Status told = read_under_way(reads, writes); !told.ok() && ended.ok()) ended = told;
  closed_ = outcome_of(false, ended, reads);
  const std::uint64_t seen =
      count(device::count_bytes_written) + count(device::count_failed_writes) + writes.commands;
  if (seen > 0) written = outcome_of(true, ended, writes);
  give_back();
  return *closed_;
}

}  // namespace session

Result<DoorbellQueue> DoorbellQueue::open(Session& session, const Place& drive, const Place& memory,
                                          const DoorbellOptions& options) {
  session::SessionState& state = session::SessionAccess::state(session);
  if (state.forked()) return session::forked_error("open a doorbell queue");
  const auto* range = std::get_if<BlockRange>(&drive);
  const auto* gpu = std::get_if<GpuMemory>(&memory);
  if (range == nullptr || gpu == nullptr) {
    return session::input_error("it joins a drive of the session and GPU memory");
  }
  auto queue = std::make_unique<DoorbellQueueState>(state);
  if (Status opened = queue->open(*range, *gpu, options); !opened.ok()) return opened.error();
  return DoorbellQueue(std::move(queue));
}

DoorbellQueue::DoorbellQueue(std::unique_ptr<DoorbellQueueState> state)
    : state_(std::move(state)) {}
DoorbellQueue::DoorbellQueue(DoorbellQueue&&) noexcept = default;
DoorbellQueue& DoorbellQueue::operator=(DoorbellQueue&&) noexcept = default;
DoorbellQueue::~DoorbellQueue() = default;

const device::NvmeQueueSet& DoorbellQueue::queue() const {
  return state_->set;
}

void DoorbellQueue::stop() {
  state_->set_state(device::State::stopping);
}

Outcome DoorbellQueue::close() {
  return state_->close();
}

const std::optional<Outcome>& DoorbellQueue::written() const {
  return state_->written;
}

}  // namespace nobounce
