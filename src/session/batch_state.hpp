// The transfers of a batch: a bounded number under way, the others waiting for their turn.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <nobounce/batch.hpp>
#include "session/transfer_state.hpp"

namespace nobounce::session {

/// All members but `ended` and what `items` point to are guarded by the dispatcher's lock while
/// requests are still added; `items` itself does not change afterwards.
struct BatchState final : TransferOwner {
  struct Item {
    std::unique_ptr<TransferState_> transfer;  ///< null where it could not be planned
    std::optional<Outcome> never_started;
  };

  BatchState(SessionState& on, std::size_t requests, const BatchOptions& options);
  ~BatchState();
  BatchState(const BatchState&) = delete;
  BatchState& operator=(const BatchState&) = delete;

  void add(const TransferRequest& request);
  void on_end() override;
  void cancel();
  bool wait(std::uint64_t deadline_ns);
  /// Nobody waits for it any more. False: it has just ended.
  [[nodiscard]] bool give_up();
  [[nodiscard]] bool done() const { return ended == request_count; }
  [[nodiscard]] const Outcome* outcome(std::size_t index) const;
  [[nodiscard]] BatchReceipt receipt() const;

  SessionState& session;
  const std::size_t request_count;
  std::vector<Item> items;
  std::atomic<std::size_t> ended{0};

 private:
  void begin_more(std::size_t at_once);
  void end_one();

  std::uint64_t started_ns_;
  std::uint64_t ended_ns_;
  std::uint64_t deadline_ns_;
  std::size_t at_once_;
  std::size_t next_ = 0;
  std::size_t under_way_ = 0;
  bool beginning_ = false;
};

}  // namespace nobounce::session
