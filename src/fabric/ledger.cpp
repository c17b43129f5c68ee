// The byte ledger: totals for ever, merged requests, and for every byte where it last came from.
#include "fabric/ledger.hpp"

#include <algorithm>
#include <iterator>

namespace nobounce::fabric {

namespace {

/// How many requests back a new one may be merged into: a few flows run interleaved, seldom more.
constexpr std::size_t merge_depth = 8;

bool overlap(const Extent& a, std::uint64_t a_length, const Extent& b, std::uint64_t b_length) {
  return a.space == b.space && a.file == b.file && a.address < b.address + b_length &&
         b.address < a.address + a_length;
}

bool follows(const Extent& first, std::uint64_t length, const Extent& second) {
  return first.space == second.space && first.file == second.file &&
         first.internal == second.internal && first.address + length == second.address;
}

bool same_place(const Extent& a, const Extent& b) {
  return a.space == b.space && a.address == b.address && a.file == b.file &&
         a.internal == b.internal;
}

bool joins(const Request& first, const Request& second) {
  return first.initiator == second.initiator && first.link == second.link &&
         first.redirected == second.redirected &&
         follows(first.source, first.length_bytes, second.source) &&
         follows(first.target, first.length_bytes, second.target);
}

/// True if moving `late` in front of `early` could change what lies where afterwards.
bool depends(const Request& late, const Request& early) {
  return overlap(late.target, late.length_bytes, early.target, early.length_bytes) ||
         overlap(late.source, late.length_bytes, early.target, early.length_bytes) ||
         overlap(late.target, late.length_bytes, early.source, early.length_bytes);
}

/// The carriage of bytes that came from `source`; DRAM that is the transfer's own source is told by
/// `own`.
Carriage carriage_of(const Initiator& initiator, const Extent& source, const Space& target,
                     bool own) {
  const bool by_cpu = initiator.kind == Initiator::Kind::cpu;
  const bool crosses_window =
      (source.space.kind == Space::Kind::vram) != (target.kind == Space::Kind::vram);
  if (by_cpu && crosses_window) return Carriage::cpu_mapped;
  switch (source.space.kind) {
    case Space::Kind::media:
    case Space::Kind::wire:
      return Carriage::direct;
    case Space::Kind::vram:
      return source.internal ? Carriage::device_bounced : Carriage::direct;
    case Space::Kind::dram:
      break;
  }
  if (own) return Carriage::direct;
  // A GPU that reads pages of the page cache where they lie: the bytes were never copied into a
  // bounce buffer.
  const bool by_gpu =
      initiator.kind == Initiator::Kind::copy_engine || initiator.kind == Initiator::Kind::kernel;
  if (by_gpu && source.file != 0) return Carriage::in_place;
  return Carriage::staged;
}

/// Bytes of [begin, begin + length) that lie in the transfer's own source.
std::uint64_t own_bytes(const Extent& source, std::uint64_t length, const Extent* user_source,
                        std::uint64_t user_length) {
  if (user_source == nullptr || source.space != user_source->space ||
      source.file != user_source->file) {
    return 0;
  }
  const std::uint64_t begin = std::max(source.address, user_source->address);
  const std::uint64_t end = std::min(source.address + length, user_source->address + user_length);
  return begin < end ? end - begin : 0;
}

}  // namespace

Ledger::Origin Ledger::advanced(const Origin& origin, std::uint64_t by) {
  Origin result = origin;
  result.source.address += by;
  if (result.has_hop) result.hop_source.address += by;
  return result;
}

bool Ledger::continues(const Run& left, std::uint64_t left_begin, const Piece& right) {
  if (left.end != right.begin) return false;
  const Origin expected = advanced(left.origin, left.end - left_begin);
  const Origin& actual = right.origin;
  if (!(expected.initiator == actual.initiator) || expected.redirected != actual.redirected ||
      expected.has_hop != actual.has_hop || !same_place(expected.source, actual.source)) {
    return false;
  }
  return !expected.has_hop || (expected.hop_initiator == actual.hop_initiator &&
                               same_place(expected.hop_source, actual.hop_source));
}

std::vector<Ledger::Piece> Ledger::pieces_of(const Request& request) const {
  const std::uint64_t target = request.target.address;
  const Origin origin{request.initiator, request.source, request.redirected, false, {}, {}};
  std::vector<Piece> pieces;
  const auto area = arrived_.find(Area{request.source.space, request.source.file});
  const Space::Kind from = request.source.space.kind;
  const bool bounced =
      (from == Space::Kind::vram && request.source.internal) || from == Space::Kind::wire;
  if (!bounced || area == arrived_.end()) {
    pieces.push_back({target, target + request.length_bytes, origin});
    return pieces;
  }
  const std::uint64_t source_begin = request.source.address;
  const std::uint64_t source_end = source_begin + request.length_bytes;
  const Runs& runs = area->second;
  std::uint64_t at = source_begin;
  auto run = runs.upper_bound(at);
  if (run != runs.begin() && std::prev(run)->second.end > at) --run;
  while (at < source_end) {
    Piece piece{target + (at - source_begin), 0, advanced(origin, at - source_begin)};
    std::uint64_t next = source_end;
    if (run != runs.end() && run->first <= at) {
      next = std::min(source_end, run->second.end);
      const Origin before = advanced(run->second.origin, at - run->first);
      piece.origin.has_hop = true;
      // A hop inside internal memory is seen through: what counts is how the bytes reached the GPU.
      piece.origin.hop_initiator = before.has_hop ? before.hop_initiator : before.initiator;
      piece.origin.hop_source = before.has_hop ? before.hop_source : before.source;
      piece.origin.redirected = piece.origin.redirected || before.redirected;
      ++run;
    } else if (run != runs.end()) {
      next = std::min(source_end, run->first);
    }
    piece.end = target + (next - source_begin);
    pieces.push_back(piece);
    at = next;
  }
  return pieces;
}

void Ledger::place(Runs& runs, const Piece& piece) {
  auto run = runs.lower_bound(piece.begin);
  if (run != runs.begin()) {
    const auto before = std::prev(run);
    if (before->second.end > piece.begin) {
      const Run old = before->second;
      before->second.end = piece.begin;
      if (old.end > piece.end) {
        runs.emplace(piece.end, Run{old.end, advanced(old.origin, piece.end - before->first)});
      }
    }
  }
  run = runs.lower_bound(piece.begin);
  while (run != runs.end() && run->first < piece.end) {
    if (run->second.end > piece.end) {
      const Run rest{run->second.end, advanced(run->second.origin, piece.end - run->first)};
      runs.erase(run);
      runs.emplace(piece.end, rest);
      break;
    }
    run = runs.erase(run);
  }
  run = runs.lower_bound(piece.begin);
  if (run != runs.begin()) {
    const auto before = std::prev(run);
    if (continues(before->second, before->first, piece)) {
      before->second.end = piece.end;
      return;
    }
  }
  runs.emplace(piece.begin, Run{piece.end, piece.origin});
}

void Ledger::remember(const Request& request) {
  const std::size_t count = requests_.size();
  for (std::size_t back = 1; back <= std::min(count, merge_depth); ++back) {
    Request& earlier = requests_[count - back];
    if (joins(earlier, request)) {
      earlier.length_bytes += request.length_bytes;
      return;
    }
    if (depends(request, earlier)) break;
  }
  requests_.push_back(request);
}

void Ledger::record_request(const Request& carried) {
  Request request = carried;
  if (mutant_ == Mutant::ledger_off_by_one && request.length_bytes > 0) --request.length_bytes;
  if (request.length_bytes == 0) return;
  const std::lock_guard lock(mutex_);
  const std::uint64_t length = request.length_bytes;
  const Flow flow{request.initiator, request.source.space, request.target.space,
                  request.source.internal, request.target.internal};
  flows_[flow] += length;
  const bool reads = mutant_ != Mutant::ledger_dram_reads_missing;
  const bool writes = mutant_ != Mutant::ledger_dram_writes_missing;
  if (request.source.space.kind == Space::Kind::dram && reads) {
    dram_read_[request.source.space.index] += length;
  }
  if (request.target.space.kind == Space::Kind::dram && writes) {
    dram_written_[request.target.space.index] += length;
  }
  if (request.initiator.kind == Initiator::Kind::cpu) cpu_touched_ += length;
  const std::vector<Piece> pieces = pieces_of(request);
  Runs& runs = arrived_[Area{request.target.space, request.target.file}];
  for (const Piece& piece : pieces) place(runs, piece);
  remember(request);
}

void Ledger::record_lost(const Request& request) {
  const std::lock_guard lock(mutex_);
  lost_ += request.length_bytes;
}

void Ledger::record_link(const std::string& link, std::uint64_t towards_device,
                         std::uint64_t towards_root) {
  const std::lock_guard lock(mutex_);
  LinkBytes& bytes = links_[link];
  const std::uint64_t times = mutant_ == Mutant::ledger_links_doubled ? 2 : 1;
  bytes.towards_device += times * towards_device;
  bytes.towards_root += times * towards_root;
}

std::uint64_t Ledger::dram_read_bytes(std::uint32_t node) const {
  const std::lock_guard lock(mutex_);
  const auto found = dram_read_.find(node);
  return found == dram_read_.end() ? 0 : found->second;
}

std::uint64_t Ledger::dram_written_bytes(std::uint32_t node) const {
  const std::lock_guard lock(mutex_);
  const auto found = dram_written_.find(node);
  return found == dram_written_.end() ? 0 : found->second;
}

std::uint64_t Ledger::dram_bytes() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t sum = 0;
  for (const auto& [node, bytes] : dram_read_) sum += bytes;
  for (const auto& [node, bytes] : dram_written_) sum += bytes;
  return sum;
}

std::uint64_t Ledger::cpu_touched_bytes() const {
  const std::lock_guard lock(mutex_);
  return cpu_touched_;
}

std::uint64_t Ledger::lost_bytes() const {
  const std::lock_guard lock(mutex_);
  return lost_;
}

std::map<std::string, Ledger::LinkBytes> Ledger::links() const {
  const std::lock_guard lock(mutex_);
  return links_;
}

std::map<Ledger::Flow, std::uint64_t> Ledger::flows() const {
  const std::lock_guard lock(mutex_);
  return flows_;
}

std::vector<Request> Ledger::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

void Ledger::clear_requests() {
  const std::lock_guard lock(mutex_);
  requests_.clear();
  arrived_.clear();
}

Arrivals Ledger::arrivals(const Extent& target, std::uint64_t length_bytes) const {
  return arrivals(target, length_bytes, Extent{}, 0);
}

Arrivals Ledger::arrivals(const Extent& target, std::uint64_t length_bytes,
                          const Extent& user_source, std::uint64_t source_length_bytes) const {
  const std::lock_guard lock(mutex_);
  Arrivals result;
  const auto area = arrived_.find(Area{target.space, target.file});
  if (area == arrived_.end()) return result;
  const Runs& runs = area->second;
  const std::uint64_t end = target.address + length_bytes;
  const Extent* own_source = source_length_bytes == 0 ? nullptr : &user_source;
  auto run = runs.upper_bound(target.address);
  if (run != runs.begin()) --run;
  for (; run != runs.end() && run->first < end; ++run) {
    const std::uint64_t from = std::max(run->first, target.address);
    const std::uint64_t to = std::min(run->second.end, end);
    if (from >= to) continue;
    const Origin origin = advanced(run->second.origin, from - run->first);
    const Extent& first = origin.has_hop ? origin.hop_source : origin.source;
    const Initiator& by = origin.has_hop ? origin.hop_initiator : origin.initiator;
    const Space via = origin.has_hop ? origin.source.space : target.space;
    const std::uint64_t own = own_bytes(first, to - from, own_source, source_length_bytes);
    for (const bool is_own : {true, false}) {
      const std::uint64_t bytes = is_own ? own : to - from - own;
      if (bytes == 0) continue;
      Carriage carriage = carriage_of(by, first, via, is_own);
      const bool inside_gpu = origin.has_hop && via.kind == Space::Kind::vram;
      if (inside_gpu && carriage == Carriage::direct) carriage = Carriage::device_bounced;
      result.bytes[carriage] += bytes;
    }
    result.redirected = result.redirected || origin.redirected;
  }
  return result;
}

}  // namespace nobounce::fabric
