// An NVMe queue pair that running kernels use by themselves: they write commands, ring the drive's
// doorbell and consume its completions. One header for CUDA and for host compilers.
//
// Claim a ticket, wait for its slot, write the command, publish in the order of tickets. The same
// tickets, tokens and completions as in queue.hpp; what differs is that the drive, not a CPU,
// reads the slots:
//
//   - slots are freed by the SQHD of completions alone, and one of them is never used;
//   - a command's id is its token, so an id is free when its own completion was consumed, and not
//     before: at most one command of a token is under way;
//   - the doorbell is rung by whoever has the turn, so that its values never go back;
//   - whoever waits reaps, one at a time, and holds nothing while it waits for the drive.
#pragma once

#include <cstdint>

#include <nobounce/device/queue.hpp>

namespace nobounce::device {

/// Completions carry an NVMe status as `code_nvme` plus type << 8 | code.
inline constexpr std::uint16_t code_nvme = 0x2000;
/// Ids from here on are of commands that nobody waits for: claimed slots that were not needed.
inline constexpr std::uint16_t nvme_id_of_nothing = 0x8000;

/// Where a queue pair lies. `tickets.tail`, `tickets.tail_seen` begin with the value minus one (all
/// bits set), because of the slot that stays empty; `completions` hold one word per token; all
/// other words begin with zero. `tickets.slots` is not used.
template <typename Platform, typename Ticket = std::uint64_t>
struct NvmeQueueMemory {
  template <typename T>
  using Pointer = typename Platform::template Pointer<T>;

  QueueMemory<Platform, Ticket> tickets;  ///< size: entries of the submission queue
  Pointer<std::uint64_t> submission{};    ///< 8 words an entry
  Pointer<std::uint64_t> completion{};    ///< 2 words an entry
  std::uint32_t completion_log2 = 0;      ///< entries: more than tokens and slots together
  Pointer<std::uint32_t> submission_doorbell{};
  Pointer<std::uint32_t> completion_doorbell{};
  Pointer<Ticket> published{};       ///< whose turn it is to ring
  Pointer<Ticket> reaped{};          ///< completions consumed
  Pointer<Ticket> consumed{};        ///< slots that the drive has read
  Pointer<std::uint32_t> reaping{};  ///< somebody does
  /// Of the command under way, by token; then, by slot, one while a command of nothing is.
  Pointer<std::uint64_t> sequences{};
  Pointer<std::uint64_t> lists{};  ///< a page of PRP entries by token, 512 words
  std::uint64_t lists_iova = 0;
  Pointer<std::uint64_t> counts{};  ///< see NvmeCount
  std::uint32_t tokens = 0;
  std::uint32_t name_space = 1;
  std::uint32_t block_shift = 9;
  std::uint64_t data_iova = 0;  ///< what Request::place counts from
  std::uint64_t data_bytes = 0;
  std::uint64_t first_byte = 0;      ///< of the drive: what Request::offset_bytes counts from
  std::uint64_t drive_bytes = 0;     ///< from there on
  std::uint32_t transfer_bytes = 0;  ///< of one command at most
};

/// A queue pair as a kernel is handed it: plain addresses, so that it can be passed by value.
struct NvmeQueueSet {
  static constexpr std::uint32_t line_bytes = 128;
  static constexpr std::uint32_t words_lines = 8;  ///< of the words in GPU memory
  static constexpr std::uint32_t list_bytes = 4096;

  std::uint64_t words = 0;        ///< in GPU memory, a line apart
  std::uint64_t completions = 0;  ///< in GPU memory, one word per token
  std::uint64_t sequences = 0;    ///< in GPU memory, one word per token and one per slot
  std::uint64_t submission = 0;   ///< in GPU memory, as what follows
  std::uint64_t completion = 0;
  std::uint64_t lists = 0;
  std::uint64_t state = 0;   ///< in host memory: written by the owner
  std::uint64_t counts = 0;  ///< in host memory: count_words, then one word per token
  std::uint64_t submission_doorbell = 0;
  std::uint64_t completion_doorbell = 0;
  std::uint64_t lists_iova = 0;
  std::uint64_t data_iova = 0;
  std::uint64_t data_bytes = 0;
  std::uint64_t first_byte = 0;
  std::uint64_t drive_bytes = 0;
  std::uint32_t submission_log2 = 0;
  std::uint32_t completion_log2 = 0;
  std::uint32_t tokens = 0;
  std::uint32_t name_space = 1;
  std::uint32_t block_shift = 9;
  std::uint32_t transfer_bytes = 0;

  template <typename Platform>
  [[nodiscard]] NOBOUNCE_DEVICE NvmeQueueMemory<Platform> queue() const {
    const auto line = [this](std::uint32_t index) {
      return words + std::uint64_t{index} * line_bytes;
    };
    NvmeQueueMemory<Platform> memory;
    memory.tickets.head = Platform::template at<std::uint64_t>(line(0));
    memory.tickets.tail_seen = Platform::template at<std::uint64_t>(line(1));
    memory.tickets.tail = Platform::template at<std::uint64_t>(line(2));
    memory.tickets.abandoned = Platform::template at<std::uint32_t>(line(3));
    memory.published = Platform::template at<std::uint64_t>(line(4));
    memory.reaped = Platform::template at<std::uint64_t>(line(5));
    memory.consumed = Platform::template at<std::uint64_t>(line(6));
    memory.reaping = Platform::template at<std::uint32_t>(line(7));
    memory.tickets.state = Platform::template at<std::uint32_t>(state);
    memory.tickets.completions = Platform::template at<std::uint64_t>(completions);
    memory.tickets.completion_stride = 1;
    memory.tickets.size_log2 = submission_log2;
    memory.submission = Platform::template at<std::uint64_t>(submission);
    memory.completion = Platform::template at<std::uint64_t>(completion);
    memory.completion_log2 = completion_log2;
    memory.submission_doorbell = Platform::template at<std::uint32_t>(submission_doorbell);
    memory.completion_doorbell = Platform::template at<std::uint32_t>(completion_doorbell);
    memory.sequences = Platform::template at<std::uint64_t>(sequences);
    memory.lists = Platform::template at<std::uint64_t>(lists);
    memory.lists_iova = lists_iova;
    memory.counts = Platform::template at<std::uint64_t>(counts);
    memory.tokens = tokens;
    memory.name_space = name_space;
    memory.block_shift = block_shift;
    memory.data_iova = data_iova;
    memory.data_bytes = data_bytes;
    memory.first_byte = first_byte;
    memory.drive_bytes = drive_bytes;
    memory.transfer_bytes = transfer_bytes;
    return memory;
  }
};

/// What the reaper counts, for the owner's receipt.
enum NvmeCount : std::uint32_t {
  count_done,
  count_failed,
  count_bytes,          ///< that reads brought
  count_bytes_written,  ///< of writes
  count_failed_writes,  ///< of count_failed
  count_words
};
/// In a token's word beside its length: it writes.
inline constexpr std::uint64_t count_is_write = std::uint64_t{1} << 63;

template <typename Platform, typename Ticket = std::uint64_t>
class NvmeProducer {
 public:
  using Memory = NvmeQueueMemory<Platform, Ticket>;
  static constexpr std::uint32_t words_per_command = 8;
  static constexpr std::uint32_t words_per_list = 512;
  static constexpr std::uint64_t page_bytes = 4096;

  NOBOUNCE_DEVICE NvmeProducer(const Platform& platform, const Memory& memory)
      : tickets_(platform, memory.tickets), memory_(memory) {}

  /// What can be asked at all: whole blocks inside the drive and the buffer, in one command.
  [[nodiscard]] NOBOUNCE_DEVICE bool is_sound(const Request& request) const {
    const std::uint64_t block = (std::uint64_t{1} << memory_.block_shift) - 1;
    const std::uint64_t length = request.length_bytes;
    const bool whole = length != 0 && ((request.offset_bytes | length) & block) == 0 &&
                       request.place % 4 == 0 && length <= memory_.transfer_bytes;
    const bool inside = request.offset_bytes <= memory_.drive_bytes &&
                        length <= memory_.drive_bytes - request.offset_bytes &&
                        request.place <= memory_.data_bytes &&
                        length <= memory_.data_bytes - request.place;
    const bool known =
        request.operation == Operation::read || request.operation == Operation::write;
    return whole && inside && known && request.token < memory_.tokens;
  }

  // --- Single steps, for callers that may not wait: claim, is_free, fill, publish, reap, poll.

  [[nodiscard]] NOBOUNCE_DEVICE Ticket claim(Ticket count = 1) { return tickets_.claim(count); }
  /// The drive has read what lay there before. It may still owe the answer to a command of nothing,
  /// whose id is its slot's: then it is not free, so that no more answers come than there is room.
  [[nodiscard]] NOBOUNCE_DEVICE bool is_free(Ticket ticket) {
    return tickets_.is_free(ticket) &&
           tickets_.platform().template load<Order::acquire, Scope::system>(
               memory_.sequences + memory_.tokens + memory_.tickets.slot_of(ticket)) == 0;
  }

  /// Writes the command of a claimed ticket whose slot is free. Of a `write` request, the bytes
  /// that this thread wrote are published with it.
  NOBOUNCE_DEVICE void fill(Ticket ticket, const Request& request) {
    Platform& platform = tickets_.platform();
    const std::uint32_t slot = memory_.tickets.slot_of(ticket);
    std::uint64_t word[words_per_command] = {};
    if (request.operation == Operation::nothing) {
      // A flush that nobody waits for: the slot must hold something that the drive answers.
      platform.template store<Order::relaxed, Scope::system>(
          memory_.sequences + memory_.tokens + slot, std::uint64_t{1});
      word[0] = std::uint64_t{nvme_id_of_nothing + slot} << 16 | std::uint64_t{memory_.name_space}
                                                                     << 32;
    } else {
      platform.template store<Order::relaxed, Scope::system>(memory_.sequences + request.token,
                                                             request.sequence << 1 | 1);
      platform.template store<Order::relaxed, Scope::system>(
          memory_.counts + count_words + request.token,
          request.length_bytes |
              (request.operation == Operation::write ? count_is_write : std::uint64_t{0}));
      const std::uint64_t opcode = request.operation == Operation::read ? 2 : 1;
      const std::uint64_t block =
          (memory_.first_byte + request.offset_bytes) >> memory_.block_shift;
      const std::uint64_t blocks = request.length_bytes >> memory_.block_shift;
      word[0] =
          opcode | std::uint64_t{request.token} << 16 | std::uint64_t{memory_.name_space} << 32;
      word[3] = memory_.data_iova + request.place;
      word[4] = second_entry(request);
      word[5] = block;
      word[6] = blocks - 1;
    }
    const auto entry = memory_.submission + slot * words_per_command;
    for (std::uint32_t i = 0; i + 1 < words_per_command; ++i) {
      platform.template store<Order::relaxed, Scope::system>(entry + i, word[i]);
    }
    platform.template store<Order::release, Scope::system>(entry + (words_per_command - 1),
                                                           word[words_per_command - 1]);
  }

  /// Rings for `count` filled slots in a row, if it is their turn; false: ask again. The turn, and
  /// not only the tail, is handed on after the register was written: two values can never arrive
  /// in the wrong order.
  [[nodiscard]] NOBOUNCE_DEVICE bool publish(Ticket first, Ticket count = 1) {
    Platform& platform = tickets_.platform();
    const Ticket turn = platform.template load<Order::acquire, Scope::gpu>(memory_.published);
    if (turn != first) return false;
    const Ticket next = static_cast<Ticket>(first + count);
    platform.store_register(memory_.submission_doorbell, memory_.tickets.slot_of(next));
    platform.template store<Order::release, Scope::gpu>(memory_.published, next);
    return true;
  }

  /// Consumes the completions that are there, unless somebody else does. Never waits.
  NOBOUNCE_DEVICE void reap() {
    Platform& platform = tickets_.platform();
    if (platform.template load<Order::relaxed, Scope::gpu>(memory_.reaping) != 0) return;
    const std::uint32_t before =
        platform.template compare_exchange<Order::acquire_release, Scope::gpu>(
            memory_.reaping, std::uint32_t{0}, std::uint32_t{1});
    if (before != 0) return;
    // What the drive still takes for unconsumed, and what is under way, fit into the queue
    // together: so a token is given back only after the register was written that often.
    const std::uint32_t most = (std::uint32_t{1} << memory_.completion_log2) - memory_.tokens -
                               static_cast<std::uint32_t>(memory_.tickets.size());
    std::uint32_t untold = 0;
    std::uint64_t word = 0;
    while (next_completion(word)) {
      if (++untold == most) {
        tell_consumed();
        untold = 0;
      }
      free_slots(static_cast<std::uint32_t>(word & 0xffff));
      finish(static_cast<std::uint32_t>(word >> 32 & 0xffff),
             static_cast<std::uint16_t>(word >> 49 & 0x7ff));
    }
    if (untold != 0) tell_consumed();
    platform.template store<Order::release, Scope::gpu>(memory_.reaping, std::uint32_t{0});
  }

  /// How the request with that sequence of that token stands. Acquires what the drive wrote.
  [[nodiscard]] NOBOUNCE_DEVICE Result poll(std::uint32_t token, std::uint64_t sequence,
                                            std::uint16_t& code) {
    const std::uint64_t word = tickets_.platform().template load<Order::acquire, Scope::system>(
        memory_.tickets.completions +
        static_cast<std::uint64_t>(token) * memory_.tickets.completion_stride);
    if (word >> 16 != (sequence & sequence_mask)) return Result::pending;
    code = static_cast<std::uint16_t>(word & 0xffff);
    return code == code_ok ? Result::ok : Result::error;
  }

  // --- Whole orders, for callers that may wait.

  /// `ok`: the drive has it. All others: it has not, and the slot holds nothing that anybody waits
  /// for.
  [[nodiscard]] NOBOUNCE_DEVICE Result submit(const Request& request, std::uint64_t deadline_ns) {
    if (!is_sound(request)) return Result::error;
    const Ticket ticket = claim();
    Result result = Result::ok;
    for (std::uint32_t looks = 1; !is_free(ticket); ++looks) {
      reap();
      if (looks % checks == 0 && tickets_.state() == State::failed) return Result::failed;
      if (tickets_.passed(deadline_ns, memory_.tickets.abandon_ns)) return abandon();
      tickets_.platform().pause();
    }
    if (tickets_.state() == State::stopping) result = Result::stopping;
    if (tickets_.passed(deadline_ns, 0)) result = Result::deadline;
    fill(ticket, result == Result::ok ? request : Request{});
    for (std::uint32_t looks = 1; !publish(ticket); ++looks) {
      if (looks % checks == 0 && tickets_.state() == State::failed) return Result::failed;
      tickets_.platform().pause();
    }
    return result;
  }

  /// Waits for it, and reaps meanwhile. After `deadline` the command is still under way.
  [[nodiscard]] NOBOUNCE_DEVICE Result wait(std::uint32_t token, std::uint64_t sequence,
                                            std::uint64_t deadline_ns, std::uint16_t& code) {
    for (std::uint32_t looks = 1;; ++looks) {
      const Result result = poll(token, sequence, code);
      if (result != Result::pending) return result;
      if (tickets_.passed(deadline_ns, 0)) return Result::deadline;
      if (looks % checks == 0 && tickets_.state() == State::failed) {
        const Result last = poll(token, sequence, code);
        return last == Result::pending ? Result::failed : last;
      }
      reap();
      tickets_.platform().pause();
    }
  }

  [[nodiscard]] NOBOUNCE_DEVICE Tickets<Platform, Ticket>& tickets() { return tickets_; }

 private:
  static constexpr std::uint32_t checks = Tickets<Platform, Ticket>::looks_between_checks;

  [[nodiscard]] NOBOUNCE_DEVICE std::uint32_t completion_slot(Ticket head) const {
    return static_cast<std::uint32_t>(head) & ((std::uint32_t{1} << memory_.completion_log2) - 1);
  }

  /// PRP2: nothing, the second page, or the token's list.
  [[nodiscard]] NOBOUNCE_DEVICE std::uint64_t second_entry(const Request& request) {
    Platform& platform = tickets_.platform();
    const std::uint64_t begin = memory_.data_iova + request.place;
    const std::uint64_t in_first = page_bytes - begin % page_bytes;
    if (request.length_bytes <= in_first) return 0;
    const std::uint64_t pages = (request.length_bytes - in_first + page_bytes - 1) / page_bytes;
    if (pages == 1) return begin + in_first;
    const auto list = memory_.lists + request.token * std::uint64_t{words_per_list};
    for (std::uint64_t i = 0; i < pages; ++i) {
      platform.template store<Order::relaxed, Scope::system>(list + i,
                                                             begin + in_first + i * page_bytes);
    }
    return memory_.lists_iova + request.token * std::uint64_t{words_per_list} * 8;
  }

  /// Consumes one completion, if it is there: its word with id, phase and status, which is read
  /// first. The phase follows from a count that never wraps.
  [[nodiscard]] NOBOUNCE_DEVICE bool next_completion(std::uint64_t& word) {
    Platform& platform = tickets_.platform();
    const Ticket head = platform.template load<Order::relaxed, Scope::gpu>(memory_.reaped);
    const auto entry = memory_.completion + completion_slot(head) * std::uint64_t{2};
    word = platform.template load<Order::acquire, Scope::system>(entry + std::uint64_t{1});
    const std::uint64_t lap = static_cast<std::uint64_t>(head) >> memory_.completion_log2;
    if (((word >> 48) & 1) != ((lap & 1) ^ 1)) return false;
    platform.template store<Order::relaxed, Scope::gpu>(memory_.reaped,
                                                        static_cast<Ticket>(head + 1));
    return true;
  }

  NOBOUNCE_DEVICE void tell_consumed() {
    Platform& platform = tickets_.platform();
    const Ticket head = platform.template load<Order::relaxed, Scope::gpu>(memory_.reaped);
    platform.store_register(memory_.completion_doorbell, completion_slot(head));
  }

  NOBOUNCE_DEVICE void free_slots(std::uint32_t head) {
    Platform& platform = tickets_.platform();
    const Ticket consumed = platform.template load<Order::relaxed, Scope::gpu>(memory_.consumed);
    const auto size = static_cast<std::uint32_t>(memory_.tickets.size());
    const std::uint32_t more = (head - memory_.tickets.slot_of(consumed)) & (size - 1);
    const Ticket now = static_cast<Ticket>(consumed + more);
    platform.template store<Order::relaxed, Scope::gpu>(memory_.consumed, now);
    platform.template store<Order::release, Scope::system>(memory_.tickets.tail,
                                                           static_cast<Ticket>(now - 1));
  }

  NOBOUNCE_DEVICE void finish(std::uint32_t token, std::uint16_t status) {
    Platform& platform = tickets_.platform();
    if (token >= memory_.tokens) {  // of a slot that was not needed
      const std::uint32_t slot = token - nvme_id_of_nothing;
      if (token >= nvme_id_of_nothing && slot < memory_.tickets.size()) {
        platform.template store<Order::release, Scope::system>(
            memory_.sequences + memory_.tokens + slot, std::uint64_t{0});
      }
      return;
    }
    const std::uint64_t under_way =
        platform.template load<Order::relaxed, Scope::system>(memory_.sequences + token);
    if ((under_way & 1) == 0) return;  // nobody asked
    platform.template store<Order::relaxed, Scope::system>(memory_.sequences + token,
                                                           std::uint64_t{0});
    const std::uint64_t asked =
        platform.template load<Order::relaxed, Scope::system>(memory_.counts + count_words + token);
    const bool writes = (asked & count_is_write) != 0;
    if (status == 0) {
      add(count_done, 1);
      add(writes ? count_bytes_written : count_bytes, asked & ~count_is_write);
    } else {
      add(count_failed, 1);
      if (writes) add(count_failed_writes, 1);
    }
    const std::uint16_t code =
        status == 0 ? std::uint16_t{code_ok} : static_cast<std::uint16_t>(code_nvme | status);
    platform.template store<Order::release, Scope::system>(
        memory_.tickets.completions +
            static_cast<std::uint64_t>(token) * memory_.tickets.completion_stride,
        completion_word(under_way >> 1, code));
  }

  /// Only the one reaper adds.
  NOBOUNCE_DEVICE void add(std::uint32_t which, std::uint64_t value) {
    Platform& platform = tickets_.platform();
    const std::uint64_t before =
        platform.template load<Order::relaxed, Scope::system>(memory_.counts + which);
    platform.template store<Order::relaxed, Scope::system>(memory_.counts + which, before + value);
  }

  NOBOUNCE_DEVICE Result abandon() {
    tickets_.platform().template store<Order::relaxed, Scope::gpu>(memory_.tickets.abandoned,
                                                                   std::uint32_t{1});
    return Result::failed;
  }

  Tickets<Platform, Ticket> tickets_;
  Memory memory_;
};

}  // namespace nobounce::device
