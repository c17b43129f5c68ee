// An NVMe queue pair in ordinary memory and a model of the drive behind it, for tests: it reads
// slots late, completes in any order and is asked to err.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <deque>
#include <random>
#include <vector>

#include <nobounce/device/nvme_queue.hpp>

namespace nobounce::support {

using namespace device;

inline constexpr std::uint64_t data_iova = 0x100000;

/// Memory of a queue pair, and the drive behind it. The drive's part is one thread's.
template <typename Ticket, typename Platform = NativePlatform>
class NvmeQueueRig {
 public:
  using Memory = NvmeQueueMemory<Platform, Ticket>;
  using Producer = NvmeProducer<Platform, Ticket>;

  NvmeQueueRig(std::uint32_t size_log2, std::uint32_t tokens, std::uint32_t completion_log2,
               unsigned seed)
      : submission_(std::size_t{8} << size_log2),
        completion_(std::size_t{2} << completion_log2),
        completions_(tokens * std::size_t{8}),
        sequences_(tokens + (std::size_t{1} << size_log2)),
        lists_(tokens * std::size_t{512}),
        counts_(count_words + tokens),
        random_(seed) {
    memory_.tickets.head = &head_;
    memory_.tickets.tail_seen = &tail_seen_;
    memory_.tickets.tail = &tail_;
    memory_.tickets.abandoned = &abandoned_;
    memory_.tickets.state = &state_;
    memory_.tickets.completions = completions_.data();
    memory_.tickets.size_log2 = size_log2;
    memory_.submission = submission_.data();
    memory_.completion = completion_.data();
    memory_.completion_log2 = completion_log2;
    memory_.submission_doorbell = &submission_doorbell_;
    memory_.completion_doorbell = &completion_doorbell_;
    memory_.published = &published_;
    memory_.reaped = &reaped_;
    memory_.consumed = &consumed_;
    memory_.reaping = &reaping_;
    memory_.sequences = sequences_.data();
    memory_.lists = lists_.data();
    memory_.lists_iova = 0x900000;
    memory_.counts = counts_.data();
    memory_.tokens = tokens;
    memory_.data_iova = data_iova;
    memory_.data_bytes = 1u << 20;
    memory_.drive_bytes = 1u << 20;
    memory_.transfer_bytes = 128u << 10;
  }

  struct Fetched {
    std::uint64_t word[8];
  };

  /// The drive fetches all that was rung for.
  void fetch() {
    const std::uint32_t entries = 1u << memory_.tickets.size_log2;
    const std::uint32_t rung = std::atomic_ref(submission_doorbell_).load();
    ASSERT_LT(rung, entries);
    while (head_of_drive_ != rung) {
      Fetched fetched{};
      std::memcpy(fetched.word, submission_.data() + head_of_drive_ * 8, 64);
      fetched_.push_back(fetched);
      head_of_drive_ = (head_of_drive_ + 1) % entries;
    }
  }
  /// Completes any one of what it has: body first, the word with the phase last.
  bool complete(std::uint16_t status = 0) {
    return complete_by([status](std::uint64_t) { return status; });
  }
  template <typename StatusOf>
  bool complete_by(StatusOf status_of) {
    if (fetched_.empty()) return false;
    return complete_at(random_() % fetched_.size(), status_of);
  }
  /// Completes the one with that id.
  bool complete_id(std::uint64_t id, std::uint16_t status = 0) {
    for (std::size_t index = 0; index < fetched_.size(); ++index) {
      if ((fetched_[index].word[0] >> 16 & 0xffff) != id) continue;
      return complete_at(index, [status](std::uint64_t) { return status; });
    }
    return false;
  }
  template <typename StatusOf>
  bool complete_at(std::size_t index, StatusOf status_of) {
    const Fetched fetched = fetched_[index];
    fetched_.erase(fetched_.begin() + static_cast<std::ptrdiff_t>(index));
    done_.push_back(fetched);
    const std::uint64_t id = fetched.word[0] >> 16 & 0xffff;
    const std::uint32_t entries = 1u << memory_.completion_log2;
    // It never writes over what was not consumed. Asked before: afterwards all may be consumed.
    EXPECT_NE((tail_of_drive_ + 1) % entries, std::atomic_ref(completion_doorbell_).load());
    std::atomic_ref(completion_[tail_of_drive_ * 2]).store(0);
    std::atomic_ref(completion_[tail_of_drive_ * 2 + 1])
        .store(head_of_drive_ | std::uint64_t{1} << 16 | id << 32 |
               std::uint64_t{phase_of_drive_} << 48 | std::uint64_t{status_of(id)} << 49);
    tail_of_drive_ = (tail_of_drive_ + 1) % entries;
    if (tail_of_drive_ == 0) phase_of_drive_ ^= 1u;
    return true;
  }

  Producer producer() { return {Platform{}, memory_}; }
  Memory& memory() { return memory_; }
  void set_state(State state) { std::atomic_ref(state_).store(state_word(state)); }
  [[nodiscard]] std::size_t fetched() const { return fetched_.size(); }
  [[nodiscard]] const std::vector<Fetched>& done() const { return done_; }
  [[nodiscard]] std::uint64_t count(NvmeCount which) const { return counts_[which]; }
  [[nodiscard]] const std::vector<std::uint64_t>& lists() const { return lists_; }

 private:
  Memory memory_;
  Ticket head_ = 0;
  Ticket tail_seen_ = static_cast<Ticket>(-1);
  Ticket tail_ = static_cast<Ticket>(-1);
  std::uint32_t abandoned_ = 0;
  std::uint32_t state_ = 0;
  Ticket published_ = 0;
  Ticket reaped_ = 0;
  Ticket consumed_ = 0;
  std::uint32_t reaping_ = 0;
  std::uint32_t submission_doorbell_ = 0;
  std::uint32_t completion_doorbell_ = 0;
  std::vector<std::uint64_t> submission_;
  std::vector<std::uint64_t> completion_;
  std::vector<std::uint64_t> completions_;
  std::vector<std::uint64_t> sequences_;
  std::vector<std::uint64_t> lists_;
  std::vector<std::uint64_t> counts_;
  std::uint32_t head_of_drive_ = 0;
  std::uint32_t tail_of_drive_ = 0;
  std::uint32_t phase_of_drive_ = 1;
  std::deque<Fetched> fetched_;
  std::vector<Fetched> done_;
  std::mt19937 random_;
};

inline Request block_read_of(std::uint32_t token, std::uint64_t sequence, std::uint64_t offset = 0,
                             std::uint32_t length = 4096) {
  Request request;
  request.operation = Operation::read;
  request.token = token;
  request.sequence = sequence;
  request.offset_bytes = offset;
  request.place = offset;
  request.length_bytes = length;
  return request;
}

}  // namespace nobounce::support
