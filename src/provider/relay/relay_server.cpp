// Serves pieces.
#include "provider/relay/relay_server.hpp"

#include <algorithm>
#include <utility>
#include <variant>

namespace nobounce::provider {

namespace {

constexpr std::size_t waiting_max = 64;  // an honest peer asks for as many as there are slots

std::uint64_t key_of(const wire::Message& request) {
  if (const auto* read = std::get_if<wire::StageRead>(&request)) return read->key;
  return std::get<wire::StageWrite>(request).key;
}

}  // namespace

RelayServer::RelayServer(system::Host& host, system::CudaContexts* contexts, wire::Link& link,
                         Resolve resolve)
    : link_(link), resolve_(std::move(resolve)), mover_(host, contexts) {}

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
    mover_.load(read->piece, *source);
    return;
  }
  const auto& write = std::get<wire::StageWrite>(request.message);
  if (open_.contains(write.piece)) return fail(write.piece, Error{.detail = "a piece twice"});
  const Result<Place> target =
      resolve_(write.key, write.offset_bytes, write.length_bytes, wire::Direction::write);
  if (!target.ok()) return fail(write.piece, target.error());
  open_[write.piece] = {write.key, false};
  mover_.store(write.piece, *target, std::move(request.payload));
}

bool RelayServer::step() {
  while (std::optional<relay::PieceMover::Ended> ended = mover_.look()) {
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
  while (!waiting_.empty() && mover_.room()) {
    wire::Link::Incoming request = std::move(waiting_.front());
    waiting_.pop_front();
    begin(std::move(request));
  }
  return !mover_.idle();
}

bool RelayServer::refuse_waiting(std::uint64_t key) {
  for (auto request = waiting_.begin(); request != waiting_.end();) {
    if (key_of(request->message) != key) {
      ++request;
      continue;
    }
    const auto* read = std::get_if<wire::StageRead>(&request->message);
    fail(read != nullptr ? read->piece : std::get<wire::StageWrite>(request->message).piece,
         Error{.cause = Cause::remote_revoked});
    request = waiting_.erase(request);
  }
  return std::any_of(open_.begin(), open_.end(),
                     [&](const auto& piece) { return piece.second.key == key; });
}

}  // namespace nobounce::provider
