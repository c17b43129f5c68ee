// Bringing a controller up and down, and single commands with their timeouts.
#include "provider/nvme/controller.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "provider/nvme/status.hpp"

namespace nobounce::provider::nvme {

namespace wire = system::nvme;
namespace reg = system::nvme::reg;

namespace {

constexpr std::uint32_t admin_entries = 32;
constexpr std::uint16_t io_queue = 1;
constexpr std::uint32_t guests_wanted = 8;
constexpr std::uint64_t looks_between_health = 64;  // a register costs a round trip over the bus
constexpr std::uint64_t shortest_ready_timeout_ns = 1'000'000'000;

/// The highest power of two that is not above it.
std::uint32_t power_below(std::uint32_t value) {
  std::uint32_t power = 1;
  while (power <= value / 2) power *= 2;
  return power;
}

std::string text_in(const std::byte* page, std::size_t offset, std::size_t length) {
  std::string text(reinterpret_cast<const char*>(page + offset), length);
  text.resize(text.find_last_not_of(std::string_view(" \0", 2)) + 1);
  return text;
}

template <typename T>
T value_in(const std::byte* page, std::size_t offset) {
  T value{};
  std::memcpy(&value, page + offset, sizeof value);
  return value;
}

Command admin_command(wire::AdminOpcode opcode) {
  Command command;
  command.opcode = static_cast<std::uint8_t>(opcode);
  return command;
}

}  // namespace

Controller::Controller(system::Host& host, system::PciFunction& function,
                       const ControllerOptions& options)
    : host_(host), function_(function), options_(options) {}

Result<std::unique_ptr<Controller>> Controller::open(system::Host& host,
                                                     system::PciFunction& function,
                                                     const ControllerOptions& options) {
  std::unique_ptr<Controller> controller(new Controller(host, function, options));
  if (Status up = controller->bring_up(); !up.ok()) return up.error();
  return controller;
}

Controller::~Controller() {
  if (enabled_) (void)shut_down();
  // Whatever the drive answered: without bus mastering it can reach none of this memory any more.
  (void)function_.set_bus_mastering(system::BusMastering::off);
  for (const system::DmaBuffer& buffer : buffers_) function_.free_dma(buffer);
}

Error Controller::failed(const char* attempted, Cause cause, std::string detail) const {
  return Error{.origin = ErrorOrigin::nvme,
               .attempted = std::string(attempted) + " of nvme:" + function_.bdf(),
               .cause = cause,
               .detail = std::move(detail)};
}

Status Controller::health() {
  const std::uint32_t status = function_.read32(0, reg::status);
  if (status == ~std::uint32_t{0}) {
    return failed("ask the status", Cause::nvme_controller_fatal,
                  "its registers answer all ones: it is gone, or its memory decoding is off");
  }
  if ((status & wire::csts::fatal) != 0) {
    return failed("ask the status", Cause::nvme_controller_fatal,
                  "the controller reports a fatal status (CSTS.CFS)");
  }
  return {};
}

Status Controller::wait_ready(bool wanted, const char* attempted) {
  const std::uint64_t timeout_ns = std::max(capabilities_.timeout_ns(), shortest_ready_timeout_ns);
  std::uint32_t status = 0;
  const auto settled = [&] {
    status = function_.read32(0, reg::status);
    // While it is being disabled a fatal status may stay.
    const bool fatal = wanted && (status & wire::csts::fatal) != 0;
    return status == ~std::uint32_t{0} || fatal || ((status & wire::csts::ready) != 0) == wanted;
  };
  if (host_.workers().wait(settled, host_.clock().now_ns() + timeout_ns)) {
    return wanted || status == ~std::uint32_t{0} ? health() : Status{};
  }
  return failed(attempted, Cause::nvme_timeout,
                std::string("it does not become ") + (wanted ? "ready" : "idle") + " within " +
                    std::to_string(timeout_ns / 1'000'000) + " ms, as it says that it would");
}

Status Controller::disable() {
  enabled_ = false;
  const std::uint32_t configuration = function_.read32(0, reg::configuration);
  function_.write32(0, reg::configuration, configuration & ~std::uint32_t{wire::cc::enable});
  return wait_ready(false, "disable the controller");
}

Status Controller::enable() {
  admin_->restart();
  const std::uint32_t last = admin_entries - 1;
  function_.write32(0, reg::admin_queue_attributes, last | last << 16);
  const QueueLayout& layout = admin_->layout();
  function_.write64(0, reg::admin_submission_queue, layout.submission.iova.value);
  function_.write64(0, reg::admin_completion_queue, layout.completion.iova.value);
  std::uint32_t configuration =
      wire::cc::submission_entry_64 | wire::cc::completion_entry_16 | wire::cc::enable;
  if (capabilities_.all_command_sets()) configuration |= wire::cc::all_command_sets;
  function_.write32(0, reg::configuration, configuration);
  if (Status ready = wait_ready(true, "enable the controller"); !ready.ok()) return ready;
  enabled_ = true;
  return {};
}

Result<system::DmaBuffer> Controller::dma(std::uint64_t length_bytes) {
  Result<system::DmaBuffer> buffer = function_.allocate_dma(length_bytes);
  if (buffer.ok()) buffers_.push_back(*buffer);
  return buffer;
}

Status Controller::allocate() {
  Result<system::DmaBuffer> submission = dma(page_bytes_);
  if (!submission.ok()) return submission.error();
  Result<system::DmaBuffer> completion = dma(page_bytes_);
  if (!completion.ok()) return completion.error();
  Result<system::DmaBuffer> scratch = dma(page_bytes_);
  if (!scratch.ok()) return scratch.error();
  scratch_ = *scratch;
  admin_.emplace(function_, QueueLayout{0, admin_entries, capabilities_.doorbell_stride_bytes(),
                                        *submission, *completion});

  const std::uint32_t entries =
      power_below(std::min(options_.queue_entries, capabilities_.entries_max()));
  if (entries < 2)
    return failed("set up queues", Cause::nvme_command_failed, "no queue is that short");
  Result<system::DmaBuffer> io_submission = options_.submission_memory.has_value()
                                                ? Result(*options_.submission_memory)
                                                : dma(entries * sizeof(Command));
  if (!io_submission.ok()) return io_submission.error();
  Result<system::DmaBuffer> io_completion = options_.completion_memory.has_value()
                                                ? Result(*options_.completion_memory)
                                                : dma(entries * sizeof(Completion));
  if (!io_completion.ok()) return io_completion.error();
  list_bytes_ = prp_list_bytes(options_.transfer_bytes_most, page_bytes_);
  Result<system::DmaBuffer> lists = dma(entries * list_bytes_);
  if (!lists.ok()) return lists.error();
  lists_ = *lists;
  io_.emplace(function_, QueueLayout{io_queue, entries, capabilities_.doorbell_stride_bytes(),
                                     *io_submission, *io_completion});
  return {};
}

Status Controller::bring_up() {
  capabilities_.value = function_.read64(0, reg::capabilities);
  if (capabilities_.value == ~std::uint64_t{0}) {
    return failed("read the capabilities", Cause::nvme_controller_fatal,
                  "its registers answer all ones: it is gone, or its memory decoding is off");
  }
  if (capabilities_.page_bytes_min() > page_bytes_) {
    return failed("read the capabilities", Cause::nvme_command_failed,
                  "it knows no pages of 4096 bytes");
  }
  // Before it may reach memory: what an earlier owner left running would write there.
  if (Status off = disable(); !off.ok()) return off;
  if (Status on = function_.set_bus_mastering(system::BusMastering::on); !on.ok()) return on;
  if (Status allocated = allocate(); !allocated.ok()) return allocated;
  if (Status enabled = enable(); !enabled.ok()) return enabled;
  if (Status known = identify(); !known.ok()) return known;
  return create_io_queues();
}

Status Controller::identify() {
  Command ask = admin_command(wire::AdminOpcode::identify);
  ask.prp1 = scratch_.iova.value;
  ask.dword10 = wire::identify_controller::structure;
  Result<Completion> told = admin(ask, "identify the controller");
  if (!told.ok()) return told.error();
  const std::byte* page = scratch_.address;
  identity_.serial = text_in(page, wire::identify_controller::serial, 20);
  identity_.model = text_in(page, wire::identify_controller::model, 40);
  identity_.volatile_cache =
      (value_in<std::uint8_t>(page, wire::identify_controller::volatile_cache) & 1) != 0;
  const auto shift = value_in<std::uint8_t>(page, wire::identify_controller::transfer_max);
  identity_.transfer_bytes_max = options_.transfer_bytes_most;
  if (shift != 0 && shift < 32) {
    identity_.transfer_bytes_max =
        std::min(identity_.transfer_bytes_max, capabilities_.page_bytes_min() << shift);
  }
  ask.dword10 = wire::identify_namespace::active_list;
  told = admin(ask, "list the namespaces");
  if (!told.ok()) return told.error();
  identity_.name_space = value_in<std::uint32_t>(page, 0);
  if (identity_.name_space == 0) {
    return failed("list the namespaces", Cause::nvme_command_failed, "it has no active namespace");
  }
  return identify_name_space();
}

Status Controller::identify_name_space() {
  Command ask = admin_command(wire::AdminOpcode::identify);
  ask.prp1 = scratch_.iova.value;
  ask.name_space = identity_.name_space;
  ask.dword10 = wire::identify_namespace::structure;
  Result<Completion> told = admin(ask, "identify the namespace");
  if (!told.ok()) return told.error();
  const std::byte* page = scratch_.address;
  identity_.blocks = value_in<std::uint64_t>(page, wire::identify_namespace::blocks);
  const auto used = value_in<std::uint8_t>(page, wire::identify_namespace::format_used);
  const std::uint32_t index = (used & 15u) | ((used >> 5 & 3u) << 4);
  const auto format = value_in<std::uint32_t>(page, wire::identify_namespace::formats + index * 4);
  const std::uint32_t shift = format >> 16 & 0xff;
  if (shift < 9 || shift > 12 || (format & 0xffff) != 0) {
    return failed("identify the namespace", Cause::nvme_command_failed,
                  "its format has blocks of 2^" + std::to_string(shift) + " bytes and " +
                      std::to_string(format & 0xffff) +
                      " bytes of metadata; 512 to 4096 bytes without metadata are needed");
  }
  identity_.block_bytes = 1u << shift;
  return {};
}

Status Controller::create_io_queues() {
  io_->restart();
  Command features = admin_command(wire::AdminOpcode::set_features);
  features.dword10 = wire::feature_number_of_queues;
  features.dword11 = guests_wanted | guests_wanted << 16;  // beside our own: both count from zero
  const Result<Completion> granted = admin(features, "ask for queues");
  if (!granted.ok()) return granted.error();
  guests_max_ = std::min({guests_wanted, granted->result & 0xffff, granted->result >> 16});
  const std::uint32_t shape = io_queue | (io_->entries() - 1) << 16;
  Command completion = admin_command(wire::AdminOpcode::create_completion_queue);
  completion.prp1 = io_->layout().completion.iova.value;
  completion.dword10 = shape;
  completion.dword11 = 1;  // contiguous, no interrupts
  if (Result<Completion> made = admin(completion, "create the completion queue"); !made.ok())
    return made.error();
  Command submission = admin_command(wire::AdminOpcode::create_submission_queue);
  submission.prp1 = io_->layout().submission.iova.value;
  submission.dword10 = shape;
  submission.dword11 = 1 | std::uint32_t{io_queue} << 16;
  if (Result<Completion> made = admin(submission, "create the submission queue"); !made.ok())
    return made.error();
  return {};
}

Status Controller::create_guest(const GuestQueue& queue) {
  Command completion = admin_command(wire::AdminOpcode::create_completion_queue);
  completion.prp1 = queue.completion.value;
  completion.dword10 = queue.id | (queue.completion_entries - 1) << 16;
  completion.dword11 = 1;
  if (Result<Completion> made = admin(completion, "create a completion queue for others");
      !made.ok())
    return made.error();
  Command submission = admin_command(wire::AdminOpcode::create_submission_queue);
  submission.prp1 = queue.submission.value;
  submission.dword10 = queue.id | (queue.submission_entries - 1) << 16;
  submission.dword11 = 1 | std::uint32_t{queue.id} << 16;
  if (Result<Completion> made = admin(submission, "create a submission queue for others");
      !made.ok()) {
    (void)delete_guest(queue.id);
    return made.error();
  }
  return {};
}

Status Controller::delete_guest(std::uint16_t id) {
  Status ended;
  for (const wire::AdminOpcode opcode :
       {wire::AdminOpcode::delete_submission_queue, wire::AdminOpcode::delete_completion_queue}) {
    Command command = admin_command(opcode);
    command.dword10 = id;
    Result<Completion> deleted = admin(command, "delete a queue of others");
    if (!deleted.ok() && ended.ok()) ended = deleted.error();
  }
  return ended;
}

std::uint64_t Controller::submission_doorbell(std::uint16_t id) const {
  return reg::doorbells + 2ull * id * capabilities_.doorbell_stride_bytes();
}

std::uint64_t Controller::completion_doorbell(std::uint16_t id) const {
  return reg::doorbells + (2ull * id + 1) * capabilities_.doorbell_stride_bytes();
}

Result<Completion> Controller::run(QueuePair& queue, Command command, const char* attempted) {
  if (!queue.has_room()) {
    return failed(attempted, Cause::nvme_command_failed, "the queue is full");
  }
  const std::uint16_t id = queue.submit(command);
  queue.ring();
  QueuePair::Polled polled;
  std::uint64_t looks = 0;
  const auto arrived = [&] {
    polled = queue.poll();
    if (polled.kind != QueuePair::Polled::Kind::nothing) return true;
    return ++looks % looks_between_health == 0 && !health().ok();
  };
  const std::uint64_t deadline_ns = host_.clock().now_ns() + options_.command_timeout_ns;
  (void)host_.workers().wait(arrived, deadline_ns);
  if (polled.kind == QueuePair::Polled::Kind::nothing) {
    if (Status healthy = health(); !healthy.ok()) return healthy.error();
    return failed(
        attempted, Cause::nvme_timeout,
        "no completion within " + std::to_string(options_.command_timeout_ns / 1'000'000) + " ms");
  }
  if (polled.kind == QueuePair::Polled::Kind::nonsense || polled.completion.id != id) {
    return failed(attempted, Cause::nvme_controller_fatal,
                  "it completed command " + std::to_string(polled.completion.id) +
                      ", which is not in flight");
  }
  return polled.completion;
}

Result<Completion> Controller::admin(Command command, const char* attempted) {
  Result<Completion> done = run(*admin_, command, attempted);
  if (!done.ok()) return done;
  if (done->code() != wire::code::success) {
    return command_error(std::string(attempted) + " of nvme:" + function_.bdf(), *done);
  }
  return done;
}

PrpList Controller::list_of(std::uint16_t id) const {
  const std::uint64_t at = id * list_bytes_;
  return {lists_.address + at, Iova{lists_.iova.value + at}, list_bytes_};
}

Result<Command> Controller::io_command(wire::Opcode opcode, std::uint64_t block,
                                       std::uint64_t blocks, Iova memory) const {
  const std::uint64_t length_bytes = blocks * identity_.block_bytes;
  const auto prps = write_prps(memory, length_bytes, page_bytes_, list_of(io_->next_id()));
  if (!prps.has_value() || blocks > 65536) {
    return failed(
        "name the memory of a command", Cause::nvme_unaligned,
        "address " + std::to_string(memory.value) + ", " + std::to_string(length_bytes) +
            " bytes: the address must be a multiple of 4, and the length fit one command");
  }
  Command command;
  command.opcode = static_cast<std::uint8_t>(opcode);
  command.name_space = identity_.name_space;
  command.prp1 = prps->first;
  command.prp2 = prps->second;
  command.dword10 = static_cast<std::uint32_t>(block);
  command.dword11 = static_cast<std::uint32_t>(block >> 32);
  command.dword12 = static_cast<std::uint32_t>(blocks - 1);
  return command;
}

Result<std::uint16_t> Controller::submit(wire::Opcode opcode, std::uint64_t block,
                                         std::uint64_t blocks, Iova memory) {
  const Result<Command> command = io_command(opcode, block, blocks, memory);
  if (!command.ok()) return command.error();
  return io_->submit(*command);
}

Result<Completion> Controller::execute(Command command) {
  // An earlier restart may have failed: then this is the next try.
  if (!usable_) {
    if (Status again = restart(); !again.ok()) return again.error();
  }
  Result<Completion> done = run(*io_, command, "run a command");
  if (done.ok()) return done;
  // The drive may still move its bytes: only a reset makes sure that it does not.
  (void)restart();
  return done;
}

Status Controller::transfer(wire::Opcode opcode, std::uint64_t block, std::uint64_t blocks,
                            Iova memory) {
  const std::uint64_t most = identity_.transfer_bytes_max / identity_.block_bytes;
  for (std::uint64_t done = 0; done < blocks;) {
    const std::uint64_t count = std::min(most, blocks - done);
    const Result<Command> command =
        io_command(opcode, block + done, count, Iova{memory.value + done * identity_.block_bytes});
    if (!command.ok()) return command.error();
    Result<Completion> completion = execute(*command);
    if (!completion.ok()) return completion.error();
    if (completion->code() != wire::code::success) {
      return command_error(std::string(opcode == wire::Opcode::read ? "read" : "write") +
                               " blocks of nvme:" + function_.bdf(),
                           *completion);
    }
    done += count;
  }
  return {};
}

Status Controller::flush() {
  Command command;
  command.opcode = static_cast<std::uint8_t>(wire::Opcode::flush);
  command.name_space = identity_.name_space;
  Result<Completion> completion = execute(command);
  if (!completion.ok()) return completion.error();
  if (completion->code() == wire::code::success) return {};
  return command_error("flush nvme:" + function_.bdf(), *completion);
}

Status Controller::abort(std::uint16_t id) {
  Command command = admin_command(wire::AdminOpcode::abort);
  command.dword10 = io_queue | std::uint32_t{id} << 16;
  Result<Completion> done = admin(command, "abort a command");
  return done.ok() ? Status{} : Status(done.error());
}

Status Controller::restart() {
  ++restarts_;
  usable_ = false;
  if (Status off = disable(); !off.ok()) {
    // It does not even stop: take its way to memory, so that nothing of it arrives later.
    (void)function_.set_bus_mastering(system::BusMastering::off);
    if (Status reset = function_.reset(); !reset.ok()) return off;
    if (Status idle = disable(); !idle.ok()) return idle;
    if (Status on = function_.set_bus_mastering(system::BusMastering::on); !on.ok()) return on;
  }
  if (Status on = enable(); !on.ok()) return on;
  if (Status made = create_io_queues(); !made.ok()) return made;
  usable_ = true;
  return {};
}

Status Controller::shut_down() {
  if (!enabled_) return {};
  if (Status healthy = health(); !healthy.ok()) {
    (void)disable();
    return healthy;
  }
  // Somebody reset it meanwhile: there is nothing left to end, and nobody who would answer.
  if ((function_.read32(0, reg::status) & wire::csts::ready) == 0) return disable();
  Status ended;
  for (const wire::AdminOpcode opcode :
       {wire::AdminOpcode::delete_submission_queue, wire::AdminOpcode::delete_completion_queue}) {
    Command command = admin_command(opcode);
    command.dword10 = io_queue;
    Result<Completion> deleted = admin(command, "delete a queue");
    if (!deleted.ok() && ended.ok()) ended = deleted.error();
  }
  const std::uint32_t configuration = function_.read32(0, reg::configuration);
  function_.write32(0, reg::configuration, configuration | wire::cc::shutdown_normal);
  const auto complete = [&] {
    return (function_.read32(0, reg::status) & wire::csts::shutdown_mask) ==
           wire::csts::shutdown_complete;
  };
  if (!host_.workers().wait(complete, host_.clock().now_ns() + options_.shutdown_timeout_ns) &&
      ended.ok()) {
    ended = failed("shut down", Cause::nvme_timeout, "it does not say that it has");
  }
  if (Status off = disable(); !off.ok() && ended.ok()) ended = off;
  return ended;
}

}  // namespace nobounce::provider::nvme
