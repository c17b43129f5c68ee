// Which bytes of a file are whole, as transfers to it end.
#include "session/file_writes.hpp"

#include <algorithm>
#include <iterator>

namespace nobounce::session {

void FileWrites::note(FileSpan span, TransferState state, Cause cause) {
  if (span.begin >= span.end) return;
  const std::scoped_lock lock(mutex_);
  remove_unfinished(span);
  if (state == TransferState::done) {
    add_whole(span);
    return;
  }
  remove_whole(span);
  unfinished_.push_back({span, state, cause});
}

std::optional<FileWrites::Unfinished> FileWrites::unfinished() const {
  const std::scoped_lock lock(mutex_);
  const auto first = std::min_element(
      unfinished_.begin(), unfinished_.end(),
      [](const Unfinished& a, const Unfinished& b) { return a.span.begin < b.span.begin; });
  if (first == unfinished_.end()) return std::nullopt;
  return *first;
}

std::optional<FileSpan> FileWrites::gap(std::uint64_t length_bytes) const {
  const std::scoped_lock lock(mutex_);
  const auto first = whole_.begin();
  std::uint64_t begin = 0;
  auto next = first;
  if (first != whole_.end() && first->first == 0) {
    begin = first->second;
    ++next;
  }
  if (begin >= length_bytes) return std::nullopt;
  return FileSpan{begin, next == whole_.end() ? length_bytes : std::min(next->first, length_bytes)};
}

void FileWrites::add_whole(FileSpan span) {
  auto next = whole_.upper_bound(span.begin);
  auto into = whole_.end();
  if (next != whole_.begin() && std::prev(next)->second >= span.begin) {
    into = std::prev(next);
    into->second = std::max(into->second, span.end);
  } else {
    into = whole_.emplace_hint(next, span.begin, span.end);
  }
  while (next != whole_.end() && next->first <= into->second) {
    into->second = std::max(into->second, next->second);
    next = whole_.erase(next);
  }
}

void FileWrites::remove_whole(FileSpan span) {
  auto at = whole_.upper_bound(span.begin);
  if (at != whole_.begin()) --at;
  while (at != whole_.end() && at->first < span.end) {
    const FileSpan had{at->first, at->second};
    if (had.end <= span.begin) {
      ++at;
      continue;
    }
    at = whole_.erase(at);
    if (had.begin < span.begin) whole_.emplace_hint(at, had.begin, span.begin);
    if (had.end > span.end) whole_.emplace_hint(at, span.end, had.end);
  }
}

void FileWrites::remove_unfinished(FileSpan span) {
  std::vector<Unfinished> ends;
  const auto touched = [&](const Unfinished& left) {
    if (left.span.end <= span.begin || span.end <= left.span.begin) return false;
    for (const FileSpan part :
         {FileSpan{left.span.begin, span.begin}, FileSpan{span.end, left.span.end}}) {
      if (part.begin < part.end) ends.push_back({part, left.state, left.cause});
    }
    return true;
  };
  unfinished_.erase(std::remove_if(unfinished_.begin(), unfinished_.end(), touched),
                    unfinished_.end());
  unfinished_.insert(unfinished_.end(), ends.begin(), ends.end());
}

}  // namespace nobounce::session
