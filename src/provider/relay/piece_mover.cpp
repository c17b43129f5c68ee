// Pieces on their way between memory and frames.
#include "provider/relay/piece_mover.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "wire/messages.hpp"

namespace nobounce::provider::relay {

namespace {

constexpr std::uint64_t shortest_look_ns = 50'000;
constexpr std::uint64_t longest_look_ns = 10'000'000;

}  // namespace

PieceMover::PieceMover(system::Host& host, system::CudaContexts* contexts) : host_(host) {
  if (contexts != nullptr) streams_.emplace(*contexts);
}

PieceMover::~PieceMover() {
  // A slot that a hanging copy may still write cannot be freed.
  const bool released = !streams_.has_value() || streams_->release();
  for (const std::unique_ptr<Slot>& slot : slots_) {
    if (released || !slot->taken) host_.memory().free(slot->buffer);
  }
}

bool PieceMover::room() const {
  return pieces_.size() + strays_.size() < slots_max;
}

std::uint64_t PieceMover::look_again_ns(std::uint64_t now_ns) const {
  std::uint64_t begun_ns = 0;
  for (const Piece& piece : pieces_) begun_ns = std::max(begun_ns, piece.begun_ns);
  const std::uint64_t age_ns = now_ns - std::min(now_ns, begun_ns);
  return now_ns + std::clamp(age_ns / 16, shortest_look_ns, longest_look_ns);
}

void PieceMover::give_up_on(Piece& piece) {
  piece.copy.on->broken = true;
  using Places = std::vector<Place>;
  strays_.push_back({piece.slot, piece.copy,
                     piece.load ? streams_->strays().add(Places{piece.memory}, Places{})
                                : streams_->strays().add(Places{}, Places{piece.memory})});
  piece.slot = nullptr;  // it stays taken until the copy has landed
  piece.error = Error{.origin = ErrorOrigin::session,
                      .attempted = "copy between GPU memory and a slot",
                      .cause = Cause::session_deadline_passed,
                      .detail = "the copy hangs; it may still reach its target later"};
}

void PieceMover::give_up(std::uint64_t begun_before_ns) {
  for (Piece& piece : pieces_) {
    if (piece.slot != nullptr && piece.begun_ns < begun_before_ns) give_up_on(piece);
  }
}

void PieceMover::give_up_on(std::uint64_t number) {
  for (Piece& piece : pieces_) {
    if (piece.slot != nullptr && piece.number == number) give_up_on(piece);
  }
}

void PieceMover::look_at_strays() {
  std::erase_if(strays_, [this](Stray& stray) {
    std::optional<Error> error;
    if (streams_->look(stray.copy, error) == system::Landing::flying) return false;
    stray.slot->taken = false;
    stray.landed->store(true, std::memory_order_release);
    return true;
  });
}

void PieceMover::part_with(std::unique_ptr<PieceMover> mover) {
  if (!mover->streams_.has_value()) return;
  mover->look_at_strays();
  system::StrayCopies& strays = mover->streams_->strays();
  if (mover->strays_.empty() && strays.all_landed()) return;
  const std::shared_ptr<PieceMover> kept(std::move(mover));
  strays.keep(kept, [mover = kept.get()] {
    mover->look_at_strays();
    return mover->strays_.empty();
  });
}

std::uint64_t PieceMover::pinned_bytes() const {
  return slots_.size() * wire::piece_bytes_max;
}

Result<PieceMover::Slot*> PieceMover::take_slot() {
  for (const std::unique_ptr<Slot>& slot : slots_) {
    if (slot->taken) continue;
    slot->taken = true;
    return slot.get();
  }
  Result<system::HostBuffer> buffer =
      host_.memory().allocate_pinned(wire::piece_bytes_max, 0, system::MemoryUse::bounce);
  if (!buffer.ok()) return std::move(buffer).error();
  slots_.push_back(std::make_unique<Slot>(Slot{*buffer, true}));
  return slots_.back().get();
}

Status PieceMover::start(Piece& piece, const GpuMemory& memory) {
  if (!streams_.has_value()) {
    return Error{.origin = ErrorOrigin::input,
                 .attempted = "stage a piece",
                 .cause = Cause::machine_no_gpu,
                 .detail = "this machine has no GPU"};
  }
  Result<Slot*> slot = take_slot();
  if (!slot.ok()) return std::move(slot).error();
  piece.slot = *slot;
  std::byte* const buffer = piece.slot->buffer.address;
  if (!piece.load) host_.memory().copy(buffer, piece.payload.data(), piece.length_bytes);
  const system::CopyLane lane{
      .gpu = memory.gpu, .kind = piece.load ? system::CopyKind::to_host : system::CopyKind::to_gpu};
  const system::CopyEnds ends{
      .host = buffer, .gpu_source = memory.address, .gpu_target = memory.address};
  Result<system::CopyInFlight> copy = streams_->start(lane, ends, piece.length_bytes);
  if (!copy.ok()) {
    piece.slot->taken = false;
    piece.slot = nullptr;
    return std::move(copy).error();
  }
  piece.copy = *copy;
  piece.memory = memory;
  piece.begun_ns = host_.clock().now_ns();
  return {};
}

void PieceMover::load(std::uint64_t number, const Place& source) {
  Piece piece{.number = number, .length_bytes = length_bytes(source), .load = true};
  piece.payload.resize(piece.length_bytes);
  if (const auto* host = std::get_if<HostMemory>(&source)) {
    host_.memory().copy(piece.payload.data(), host->address, piece.length_bytes);
  } else if (const Status started = start(piece, std::get<GpuMemory>(source)); !started.ok()) {
    piece.error = started.error();
  }
  pieces_.push_back(std::move(piece));
}

void PieceMover::store(std::uint64_t number, const Place& target, std::vector<std::byte> payload) {
  Piece piece{.number = number, .length_bytes = length_bytes(target), .load = false};
  piece.payload = std::move(payload);
  if (const auto* host = std::get_if<HostMemory>(&target)) {
    host_.memory().copy(host->address, piece.payload.data(), piece.length_bytes);
  } else if (const Status started = start(piece, std::get<GpuMemory>(target)); !started.ok()) {
    piece.error = started.error();
  }
  pieces_.push_back(std::move(piece));
}

std::optional<PieceMover::Ended> PieceMover::look() {
  look_at_strays();
  for (auto piece = pieces_.begin(); piece != pieces_.end(); ++piece) {
    if (piece->slot != nullptr) {
      if (streams_->look(piece->copy, piece->error) == system::Landing::flying) continue;
      if (piece->load && !piece->error.has_value()) {
        host_.memory().copy(piece->payload.data(), piece->slot->buffer.address,
                            piece->length_bytes);
      }
      piece->slot->taken = false;
    }
    Ended ended{piece->number, {}, std::move(piece->error)};
    if (piece->load && !ended.error.has_value()) ended.payload = std::move(piece->payload);
    pieces_.erase(piece);
    return ended;
  }
  return std::nullopt;
}

}  // namespace nobounce::provider::relay
