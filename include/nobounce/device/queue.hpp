// The device queue: requests of running kernels on their way to whoever carries them out. One
// header for CUDA and for host compilers.
//
// Many producers, one consumer. A producer claims a ticket, waits until the slot of that ticket is
// free, and writes a request into it. Every word of a request carries the parity of its lap, so a
// slot needs no clearing, zero is a legal request, and words may arrive in any order. Each word in
// memory has one side that writes it: GPUs and CPUs never update the same word.
//
//   word          lies in       written by
//   head          GPU memory    producers (atomically)      tickets that were given out
//   tail_seen     GPU memory    producers                   the tail as one of them last saw it
//   abandoned     GPU memory    producers                   a claimed slot that will never be
//   filled slots         host memory   producers                   the requests tail          host
//   memory   the consumer                tickets whose slots are free again state         host
//   memory   the queue's owner           running, stopping, failed completions   host memory   the
//   consumer                how the last request of a token ended
#pragma once

#include <cstdint>

#include <nobounce/device/platform.hpp>

namespace nobounce::device {

enum class Operation : std::uint8_t {
  nothing = 0,  ///< a slot that was claimed and then not needed; completes nothing
  read = 1,
  write = 2,
};

/// How an order to the queue ended. An error is never `pending`.
enum class Result : std::uint8_t {
  ok,
  pending,   ///< not yet
  error,     ///< the request itself failed: see the completion's code
  stopping,  ///< the owner is closing the queue: nothing was asked
  failed,    ///< the consumer is gone: nothing more will come
  deadline,  ///< the time is over
};

/// Why a request failed, as completions carry it: one of these, or `code_os` and an errno.
enum Code : std::uint16_t {
  code_ok = 0,
  code_bad_operation = 1,
  code_bad_token = 2,
  code_bad_range =
      3,              ///< outside of the file or the buffer, empty, or unaligned where that matters
  code_short = 4,     ///< fewer bytes were there than asked for
  code_stopped = 5,   ///< the queue was being closed
  code_device = 6,    ///< the device reported an error
  code_deadline = 7,  ///< the consumer gave it up
  code_os = 0x1000,
};

/// What a kernel asks for. At most one request of a token is under way at any time, and all of a
/// token go to one queue.
struct Request {
  std::uint64_t offset_bytes = 0;  ///< in the file; below 2^63
  std::uint64_t place = 0;  ///< where in the caller's memory, as the consumer reads it; < 2^63
  std::uint32_t length_bytes = 0;
  std::uint32_t token = 0;     ///< whose completion it is; below 2^24
  std::uint64_t sequence = 0;  ///< of the token, modulo 2^48: from 1, no two in a row alike
  Operation operation = Operation::nothing;

  constexpr bool operator==(const Request&) const = default;
};

inline constexpr std::uint64_t sequence_mask = (std::uint64_t{1} << 48) - 1;
inline constexpr std::uint32_t token_limit = 1U << 24;
inline constexpr std::uint32_t words_per_slot = 4;

/// A completion is one word: the sequence of the request and its code.
NOBOUNCE_DEVICE constexpr std::uint64_t completion_word(std::uint64_t sequence,
                                                        std::uint16_t code) {
  return (sequence & sequence_mask) << 16 | code;
}

/// The state word: what it is in the lowest byte, and of a failure its code above.
enum class State : std::uint8_t { running = 0, stopping = 1, failed = 2 };
NOBOUNCE_DEVICE constexpr std::uint32_t state_word(State state, std::uint16_t code = 0) {
  return static_cast<std::uint32_t>(state) | static_cast<std::uint32_t>(code) << 8;
}
NOBOUNCE_DEVICE constexpr State state_of(std::uint32_t word) {
  return static_cast<State>(word & 0xff);
}

/// Where a queue lies. All words are zero when it is opened. `Ticket` is 64 bits wide, so that it
/// never wraps; tests use 8 bits, which needs size + producers < 128.
template <typename Platform, typename Ticket = std::uint64_t>
struct QueueMemory {
  template <typename T>
  using Pointer = typename Platform::template Pointer<T>;

  Pointer<Ticket> head{};
  Pointer<Ticket> tail_seen{};
  Pointer<std::uint32_t> abandoned{};
  Pointer<std::uint64_t> slots{};  ///< words_per_slot for each; aligned to 16 bytes
  Pointer<Ticket> tail{};
  Pointer<std::uint32_t> state{};
  Pointer<std::uint64_t> completions{};   ///< by token
  std::uint32_t completion_stride = 8;    ///< words from one to the next: a cache line for each
  std::uint32_t size_log2 = 0;            ///< slots: a power of two
  std::uint64_t abandon_ns = 1000000000;  ///< after a deadline, until a claimed slot is given up

  [[nodiscard]] NOBOUNCE_DEVICE Ticket size() const {
    return static_cast<Ticket>(Ticket{1} << size_log2);
  }
  [[nodiscard]] NOBOUNCE_DEVICE std::uint32_t slot_of(Ticket ticket) const {
    return static_cast<std::uint32_t>(ticket & static_cast<Ticket>(size() - 1));
  }
  /// The bit that a request of this ticket carries in each word: set in even laps, so that memory
  /// of zeros holds none.
  [[nodiscard]] NOBOUNCE_DEVICE std::uint64_t parity_of(Ticket ticket) const {
    const auto lap = static_cast<std::uint64_t>(ticket) >> size_log2;
    return ((lap & 1) ^ 1) << 63;
  }
};

/// A request as the words of its slot, without the parity.
struct Slot {
  std::uint64_t word[words_per_slot];

  NOBOUNCE_DEVICE static constexpr Slot of(const Request& request) {
    return {
        {request.offset_bytes, request.place,
         static_cast<std::uint64_t>(request.token) << 32 | request.length_bytes,
         (request.sequence & sequence_mask) << 8 | static_cast<std::uint64_t>(request.operation)}};
  }
  [[nodiscard]] NOBOUNCE_DEVICE constexpr Request request() const {
    Request request;
    request.offset_bytes = word[0];
    request.place = word[1];
    request.length_bytes = static_cast<std::uint32_t>(word[2]);
    request.token = static_cast<std::uint32_t>(word[2] >> 32);
    request.sequence = word[3] >> 8 & sequence_mask;
    request.operation = static_cast<Operation>(word[3] & 0xff);
    return request;
  }
};

/// Tickets and free slots: what every queue needs whatever its slots look like. `tail` is written
/// by whoever frees slots. The single steps never wait, for callers that may not.
template <typename Platform, typename Ticket = std::uint64_t>
class Tickets {
 public:
  using Memory = QueueMemory<Platform, Ticket>;
  static constexpr std::uint32_t looks_between_checks = 16;

  NOBOUNCE_DEVICE Tickets(const Platform& platform, const Memory& memory)
      : platform_(platform), memory_(memory) {}

  /// Takes `count` tickets in a row. Each must be filled, whatever happens: with a request, or with
  /// nothing. Relaxed: it orders nothing, the slot's own words do.
  [[nodiscard]] NOBOUNCE_DEVICE Ticket claim(Ticket count = 1) {
    return platform_.template fetch_add<Order::relaxed, Scope::gpu>(memory_.head, count);
  }

  /// Whether the slot of a claimed ticket may be written. Acquires, so that the write cannot
  /// overtake the consumer's reading of the lap before.
  [[nodiscard]] NOBOUNCE_DEVICE bool is_free(Ticket ticket) {
    const Ticket seen = platform_.template load<Order::acquire, Scope::gpu>(memory_.tail_seen);
    if (static_cast<Ticket>(ticket - seen) < memory_.size()) return true;
    const Ticket tail = platform_.template load<Order::acquire, Scope::system>(memory_.tail);
    // May go back, where another producer was faster: the next one then looks again.
    platform_.template store<Order::release, Scope::gpu>(memory_.tail_seen, tail);
    return static_cast<Ticket>(ticket - tail) < memory_.size();
  }

  [[nodiscard]] NOBOUNCE_DEVICE State state() {
    const std::uint32_t word =
        platform_.template load<Order::acquire, Scope::system>(memory_.state);
    if (state_of(word) == State::failed) return State::failed;
    const bool lost = platform_.template load<Order::relaxed, Scope::gpu>(memory_.abandoned) != 0;
    return lost ? State::failed : state_of(word);
  }

  /// Waits for the slot of a claimed ticket. Afterwards the slot is free and must be filled, unless
  /// the answer is `failed`. `deadline` and `stopping` mean: fill it with nothing.
  [[nodiscard]] NOBOUNCE_DEVICE Result await_slot(Ticket ticket, std::uint64_t deadline_ns) {
    bool stopping = false;
    for (std::uint32_t looks = 1; !is_free(ticket); ++looks) {
      if (looks % looks_between_checks == 0) {
        const State now = state();
        if (now == State::failed) return Result::failed;
        stopping = now == State::stopping;
        if (passed(deadline_ns, memory_.abandon_ns)) return abandon();
      }
      platform_.pause();
    }
    if (stopping) return Result::stopping;
    return passed(deadline_ns, 0) ? Result::deadline : Result::ok;
  }

  /// 0: no deadline.
  [[nodiscard]] NOBOUNCE_DEVICE bool passed(std::uint64_t deadline_ns, std::uint64_t grace_ns) {
    return deadline_ns != 0 && platform_.now_ns() >= deadline_ns + grace_ns;
  }

  [[nodiscard]] NOBOUNCE_DEVICE Platform& platform() { return platform_; }
  [[nodiscard]] NOBOUNCE_DEVICE const Memory& memory() const { return memory_; }

 private:
  /// Nobody frees slots any more, and nobody says so: the hole this leaves ends the queue for all.
  NOBOUNCE_DEVICE Result abandon() {
    platform_.template store<Order::relaxed, Scope::gpu>(memory_.abandoned, std::uint32_t{1});
    return Result::failed;
  }

  Platform platform_;
  Memory memory_;
};

/// What kernels use.
template <typename Platform, typename Ticket = std::uint64_t>
class Producer {
 public:
  using Memory = QueueMemory<Platform, Ticket>;

  NOBOUNCE_DEVICE Producer(const Platform& platform, const Memory& memory)
      : tickets_(platform, memory) {}

  /// Writes the slot of a claimed ticket, which is free. The bytes of a `write` request, if this
  /// thread wrote them, are published with it.
  NOBOUNCE_DEVICE void fill(Ticket ticket, const Request& request) {
    const Memory& memory = tickets_.memory();
    Platform& platform = tickets_.platform();
    const std::uint64_t parity = memory.parity_of(ticket);
    const Slot slot = Slot::of(request);
    const auto words = memory.slots + memory.slot_of(ticket) * words_per_slot;
    static_assert(words_per_slot == 4);
    platform.template store_pair<Scope::system>(words, slot.word[0] | parity,
                                                slot.word[1] | parity);
    if (request.operation == Operation::write) {
      platform.template store<Order::relaxed, Scope::system>(words + 2, slot.word[2] | parity);
      platform.template store<Order::release, Scope::system>(words + 3, slot.word[3] | parity);
    } else {
      platform.template store_pair<Scope::system>(words + 2, slot.word[2] | parity,
                                                  slot.word[3] | parity);
    }
  }

  /// Claims, waits for the slot, fills it. `ok`: the consumer will get it, and complete it. All
  /// others: it will not, and the slot holds nothing, so that those behind it are served.
  [[nodiscard]] NOBOUNCE_DEVICE Result submit(const Request& request, std::uint64_t deadline_ns) {
    if (!is_sound(request)) return Result::error;
    return finish(tickets_.claim(), request, deadline_ns);
  }

  /// The same for all lanes of a warp that are here, with one update of `head` for each queue.
  /// Lanes in lock-step never wait for one another: at most as many as there are slots claim at
  /// once.
  [[nodiscard]] NOBOUNCE_DEVICE Result submit_together(const Request& request,
                                                       std::uint64_t deadline_ns) {
    Platform& platform = tickets_.platform();
    const std::uint32_t here = platform.lanes_here();
    // An unsound request takes no ticket, but its lane takes part in what all lanes must do.
    const bool sound = is_sound(request);
    const std::uint32_t alike = platform.lanes_alike(here, key(sound));
    if (!sound) {
      platform.join_lanes(here);
      return Result::error;
    }
    const std::uint32_t rank = count_lanes(alike & ((std::uint32_t{1} << platform.lane()) - 1));
    const std::uint32_t total = count_lanes(alike);
    const auto size = static_cast<std::uint32_t>(tickets_.memory().size());
    Result result = Result::ok;
    for (std::uint32_t begin = 0; begin < total; begin += size) {
      const std::uint32_t count = total - begin < size ? total - begin : size;
      std::uint64_t first = 0;
      if (rank == 0) first = tickets_.claim(static_cast<Ticket>(count));
      first = platform.from_lane(alike, first, first_lane(alike));
      if (rank >= begin && rank < begin + count) {
        result = finish(static_cast<Ticket>(first + (rank - begin)), request, deadline_ns);
      }
      platform.join_lanes(alike);
    }
    platform.join_lanes(here);
    return result;
  }

  /// How the request with that sequence of that token stands; never waits. Acquires what the
  /// consumer wrote before it completed the request.
  [[nodiscard]] NOBOUNCE_DEVICE Result poll(std::uint32_t token, std::uint64_t sequence,
                                            std::uint16_t& code) {
    const Memory& memory = tickets_.memory();
    const std::uint64_t word = tickets_.platform().template load<Order::acquire, Scope::system>(
        memory.completions + static_cast<std::uint64_t>(token) * memory.completion_stride);
    if (word >> 16 != (sequence & sequence_mask)) return Result::pending;
    code = static_cast<std::uint16_t>(word & 0xffff);
    return code == code_ok ? Result::ok : Result::error;
  }

  /// Waits for it. After `deadline` the request is still under way: wait again before its token is
  /// used for another one.
  [[nodiscard]] NOBOUNCE_DEVICE Result wait(std::uint32_t token, std::uint64_t sequence,
                                            std::uint64_t deadline_ns, std::uint16_t& code) {
    for (std::uint32_t looks = 1;; ++looks) {
      const Result result = poll(token, sequence, code);
      if (result != Result::pending) return result;
      if (tickets_.passed(deadline_ns, 0)) return Result::deadline;
      if (looks % Tickets<Platform, Ticket>::looks_between_checks == 0 &&
          tickets_.state() == State::failed) {
        // It may have been completed just before.
        const Result last = poll(token, sequence, code);
        return last == Result::pending ? Result::failed : last;
      }
    }
  }

  /// What no slot can hold.
  [[nodiscard]] NOBOUNCE_DEVICE static bool is_sound(const Request& request) {
    return request.offset_bytes >> 63 == 0 && request.place >> 63 == 0 &&
           request.token < token_limit;
  }

  [[nodiscard]] NOBOUNCE_DEVICE Tickets<Platform, Ticket>& tickets() { return tickets_; }

 private:
  NOBOUNCE_DEVICE Result finish(Ticket ticket, const Request& request, std::uint64_t deadline_ns) {
    const Result result = tickets_.await_slot(ticket, deadline_ns);
    if (result == Result::ok) {
      fill(ticket, request);
    } else if (result != Result::failed) {
      fill(ticket, Request{});
    }
    return result;
  }
  [[nodiscard]] NOBOUNCE_DEVICE std::uint64_t key(bool sound) const {
    return (address_of(tickets_.memory().head) << 1) | (sound ? 1U : 0U);
  }
  template <typename T>
  [[nodiscard]] NOBOUNCE_DEVICE static std::uint64_t address_of(T* pointer) {
    return reinterpret_cast<std::uint64_t>(pointer);
  }
  template <typename P>
  [[nodiscard]] NOBOUNCE_DEVICE static std::uint64_t address_of(const P& pointer) {
    return pointer.address();
  }

  Tickets<Platform, Ticket> tickets_;
};

/// What carries requests out uses this; one thread at a time.
template <typename Platform, typename Ticket = std::uint64_t>
class Consumer {
 public:
  using Memory = QueueMemory<Platform, Ticket>;

  /// `tail` is what the tail word holds.
  Consumer(const Platform& platform, const Memory& memory, Ticket tail = 0)
      : platform_(platform), memory_(memory), tail_(tail) {}

  /// Copies the request at the front out, if it is there as a whole. Its slot stays taken until
  /// `release_front`: whoever cannot carry it out now asks for it again later.
  [[nodiscard]] bool front(Request& request) {
    const std::uint64_t parity = memory_.parity_of(tail_);
    const auto words = memory_.slots + memory_.slot_of(tail_) * words_per_slot;
    Slot slot{};
    // The last word first: it alone may publish bytes.
    for (std::uint32_t i = words_per_slot; i-- > 0;) {
      const std::uint64_t word = platform_.template load<Order::acquire, Scope::system>(words + i);
      if ((word & parity_bit) != parity) return false;
      slot.word[i] = word & ~parity_bit;
    }
    request = slot.request();
    return true;
  }

  /// The request at the front has been handed on, or completed: its slot may be written again.
  void release_front() {
    ++tail_;
    platform_.template store<Order::release, Scope::system>(memory_.tail, tail_);
  }

  /// Publishes how a request ended, and all that this thread wrote before, its bytes among them.
  void complete(std::uint32_t token, std::uint64_t sequence, std::uint16_t code) {
    platform_.template store<Order::release, Scope::system>(
        memory_.completions + static_cast<std::uint64_t>(token) * memory_.completion_stride,
        completion_word(sequence, code));
  }

  [[nodiscard]] Ticket tail() const { return tail_; }

 private:
  static constexpr std::uint64_t parity_bit = std::uint64_t{1} << 63;

  Platform platform_;
  Memory memory_;
  Ticket tail_;
};

}  // namespace nobounce::device
