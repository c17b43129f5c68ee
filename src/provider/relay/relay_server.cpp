// Serves pieces.
#include "provider/relay/relay_server.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <variant>

namespace nobounce::provider {

namespace {

constexpr std::size_t waiting_max = 64;  // an honest peer asks for as many as there are slots

std::uint64_t key_of(const wire::Message& request) {
  if (const auto* read = std::get_if<wire::StageRead>(&request)) return read->key;
  return std::get<wire::StageWrite>(request).key;
}

std::uint64_t piece_of(const wire::Message& request) {
  if (const auto* read = std::get_if<wire::StageRead>(&request)) return read->piece;
  return std::get<wire::StageWrite>(request).piece;
}

}  // namespace

RelayServer::RelayServer(system::Host& host, system::CudaContexts* contexts, wire::Link& link,
                         Resolve resolve)
    : host_(host),
      link_(link),
      resolve_(std::move(resolve)),
      mover_(std::make_unique<relay::PieceMover>(host, contexts)) {}

RelayServer::~RelayServer() {
  mover_->give_up(UINT64_MAX);
  relay::PieceMover::part_with(std::move(mover_));
}

Status RelayServer::take(wire::Link::Incoming request) {
  if (waiting_.size() >= waiting_max) {
    return wire::remote_error(Cause::remote_handshake_invalid, "serve staged pieces",
                              "it asked for more than " + std::to_string(waiting_max) + " at once");
  }
  waiting_.push_back(std::move(request));
  return {};
}

void RelayServer::fail(std::uint64_t piece, const Error& error) {
  const wire::Refusal why = wire::refusal_of(0, error);
  (void)link_.send(wire::StageFailed{piece, why.cause, why.cause_id, why.detail});
}

void RelayServer::begin(wire::Link::Incoming request) {
  if (const auto* read = std::get_if<wire::StageRead>(&request.message)) {
    if (open_.contains(read->piece)) return fail(read->piece, Error{.detail = "a piece twice"});
    const Result<Place> source =
        resolve_(read->key, read->offset_bytes, read->length_bytes, wire::Direction::read);
    if (!source.ok()) return fail(read->piece, source.error());
    open_[read->piece] = {read->key, true};
    mover_->load(read->piece, *source);
    return;
  }
  const auto& write = std::get<wire::StageWrite>(request.message);
  if (open_.contains(write.piece)) return fail(write.piece, Error{.detail = "a piece twice"});
  const Result<Place> target =
      resolve_(write.key, write.offset_bytes, write.length_bytes, wire::Direction::write);
  if (!target.ok()) return fail(write.piece, target.error());
  open_[write.piece] = {write.key, false};
  mover_->store(write.piece, *target, std::move(request.payload));
}

/// Every slot is under a copy that hangs: whoever waits for one is told.
void RelayServer::refuse_clogged() {
  for (const wire::Link::Incoming& request : waiting_) {
    fail(piece_of(request.message),
         Error{.cause = Cause::session_deadline_passed,
               .detail = "the GPU's copies for this connection hang, and none can be begun"});
  }
  waiting_.clear();
}

bool RelayServer::step() {
  const std::uint64_t now_ns = host_.clock().now_ns();
  if (now_ns > copy_patience_ns) mover_->give_up(now_ns - copy_patience_ns);
  while (std::optional<relay::PieceMover::Ended> ended = mover_->look()) {
    const bool read = open_.at(ended->piece).read;
    open_.erase(ended->piece);
    if (ended->error.has_value()) {
      fail(ended->piece, *ended->error);
    } else if (read) {
      const auto length = static_cast<std::uint32_t>(ended->payload.size());
      (void)link_.send(wire::StageData{ended->piece, length}, std::move(ended->payload));
    } else {
      (void)link_.send(wire::StageDone{ended->piece});
    }
  }
  while (!waiting_.empty() && mover_->room()) {
    wire::Link::Incoming request = std::move(waiting_.front());
    waiting_.pop_front();
    begin(std::move(request));
  }
  if (mover_->clogged()) refuse_clogged();
  return !mover_->idle();
}

bool RelayServer::refuse_waiting(std::uint64_t key) {
  for (auto request = waiting_.begin(); request != waiting_.end();) {
    if (key_of(request->message) != key) {
      ++request;
      continue;
    }
    fail(piece_of(request->message), Error{.cause = Cause::remote_revoked});
    request = waiting_.erase(request);
  }
  return std::any_of(open_.begin(), open_.end(),
                     [&](const auto& piece) { return piece.second.key == key; });
}

}  // namespace nobounce::provider
