// What transfers have done to a file that is being written: which of its bytes are whole.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include <nobounce/cause.hpp>
#include <nobounce/words.hpp>

namespace nobounce::session {

/// Bytes of a file, from one offset to before another.
struct FileSpan {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool operator==(const FileSpan&) const = default;
};

/// Thread-safe. Bytes that are written one after the other take no memory each.
class FileWrites {
 public:
  /// Bytes that a transfer may have written in part, and how it ended.
  struct Unfinished {
    FileSpan span;
    TransferState state = TransferState::failed;
    Cause cause = Cause::none;
  };

  /// A transfer that wrote to these bytes, or may have, ended.
  void note(FileSpan span, TransferState state, Cause cause);
  /// The first bytes that were left in part and have not been written whole since.
  [[nodiscard]] std::optional<Unfinished> unfinished() const;
  /// The first of the bytes before `length_bytes` that no transfer wrote whole.
  [[nodiscard]] std::optional<FileSpan> gap(std::uint64_t length_bytes) const;

  /// The file has its name: nothing may be written to it any more.
  void publish() { published_.store(true, std::memory_order_release); }
  [[nodiscard]] bool published() const { return published_.load(std::memory_order_acquire); }

 private:
  void add_whole(FileSpan span);
  void remove_whole(FileSpan span);
  void remove_unfinished(FileSpan span);

  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> whole_;  ///< begin -> end; neither touch nor overlap
  std::vector<Unfinished> unfinished_;            ///< do not overlap
  std::atomic<bool> published_{false};
};

}  // namespace nobounce::session
