// One connection: what is to be written, what was read, and in which state it is.
#include "wire/link.hpp"

#include <array>
#include <cerrno>
#include <span>
#include <string>
#include <utility>

namespace nobounce::wire {

namespace {

constexpr std::size_t outbox_bytes_max = 64u << 20;
constexpr std::size_t inbox_length_max = 64;  // then reading pauses
constexpr std::size_t pump_bytes_max = 4u << 20;
constexpr std::size_t drained_at_once = 16u << 10;
constexpr std::uint64_t closing_ns = 1'000'000'000;

}  // namespace

Link::Link(system::Network& network, system::SocketHandle socket, const Token& token,
           const LinkOptions& options)
    : network_(network),
      socket_(socket),
      server_(options.role == Role::server),
      connected_(server_),
      handshake_(options.role, token, options.name, options.nonce),
      deadline_ns_(options.deadline_ns) {
  if (std::vector<std::byte> hello = handshake_.begin(); !hello.empty()) queue(std::move(hello));
}

Link::~Link() {
  network_.close(socket_);
}

LinkState Link::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

std::optional<Error> Link::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

std::string Link::peer_name() const {
  const std::lock_guard lock(mutex_);
  return peer_name_;
}

system::Network::Watch Link::watch() const {
  const std::lock_guard lock(mutex_);
  return {.socket = socket_, .writing = !connected_ || !outbox_.empty()};
}

std::uint64_t Link::wait_until_ns() const {
  const std::lock_guard lock(mutex_);
  return deadline_ns_;
}

Error Link::lost(const std::string& detail) const {
  return remote_error(
      state_ == LinkState::greeting ? Cause::remote_unreachable : Cause::remote_peer_lost,
      "talk to the far side", detail);
}

void Link::queue(std::vector<std::byte> bytes) {
  if (bytes.empty() || write_failed_) return;
  outbox_bytes_ += bytes.size();
  outbox_.push_back(std::move(bytes));
}

void Link::end(std::optional<Error> error) {
  if (state_ == LinkState::ended) return;
  state_ = LinkState::ended;
  deadline_ns_ = 0;
  outbox_.clear();
  outbox_bytes_ = 0;
  if (!error_.has_value()) error_ = std::move(error);
}

void Link::hang_up(const Error& error) {
  const std::lock_guard lock(mutex_);
  end(error);
}

void Link::refuse(const Error& error, std::uint64_t now_ns) {
  const std::lock_guard lock(mutex_);
  refuse_locked(error, now_ns);
}

void Link::refuse_locked(const Error& error, std::uint64_t now_ns) {
  if (state_ == LinkState::closing || state_ == LinkState::ended) return;
  queue(make_frame(refusal_of(0, error), sealing_.has_value() ? &*sealing_ : nullptr));
  error_ = error;
  state_ = LinkState::closing;
  inbox_.clear();  // who is refused is not answered
  // Closing now, with bytes unread, would reset the connection and take the refusal with it.
  deadline_ns_ = now_ns + closing_ns;
}

Status Link::send(const Message& message, std::vector<std::byte> payload) {
  const std::lock_guard lock(mutex_);
  if (state_ != LinkState::standing) {
    return error_.has_value() ? *error_ : lost("the connection does not stand");
  }
  if (write_failed_) return lost("it could not be written to");
  if (outbox_bytes_ > outbox_bytes_max) {
    end(lost("it has not read what was sent to it"));
    return *error_;
  }
  queue(make_frame(message, &*sealing_));
  queue(std::move(payload));
  if (std::holds_alternative<Bye>(message)) said_bye_ = true;
  (void)write_some();  // mostly there is room, and nobody else need be woken
  if (write_failed_ && !said_bye_) return lost("it could not be written to");
  return {};
}

std::optional<Link::Incoming> Link::take() {
  const std::lock_guard lock(mutex_);
  if (inbox_.empty()) return std::nullopt;
  Incoming first = std::move(inbox_.front());
  inbox_.pop_front();
  return first;
}

bool Link::pump(std::uint64_t now_ns) {
  const std::lock_guard lock(mutex_);
  if (state_ == LinkState::ended) return false;
  if (!connected_) {
    const Result<bool> connected = network_.connected(socket_);
    if (!connected.ok()) {
      end(connected.error());
      return true;
    }
    connected_ = *connected;
  }
  bool moved = connected_ && write_some();
  if (connected_ && state_ != LinkState::ended) moved = read_some(now_ns) || moved;
  // Who cannot be written to is listened to a little longer.
  if (write_failed_ && state_ == LinkState::standing && deadline_ns_ == 0)
    deadline_ns_ = now_ns + closing_ns;
  if (deadline_ns_ != 0 && now_ns >= deadline_ns_ && state_ != LinkState::ended) {
    if (state_ != LinkState::closing && write_failed_) {
      end(lost("it could not be written to"));
    } else if (state_ == LinkState::greeting) {
      const std::string name = network_.looked_up_for(socket_);
      end(Error{.origin = ErrorOrigin::remote,
                .attempted = "shake hands with the far side",
                .cause = connected_ ? Cause::remote_handshake_invalid : Cause::remote_unreachable,
                .detail = connected_     ? "the handshake was not over at its deadline"
                          : name.empty() ? "nobody answered until the deadline"
                                         : "the name " + name +
                                               " had not been looked up at the deadline: the "
                                               "resolver did not answer"});
    } else {
      end(std::nullopt);
    }
    moved = true;
  }
  return moved;
}

bool Link::write_some() {
  bool moved = false;
  std::size_t total = 0;
  while (!outbox_.empty() && total < pump_bytes_max) {
    const std::span<const std::byte> rest = std::span(outbox_.front()).subspan(sent_of_first_);
    const Result<std::size_t> put = network_.write(socket_, rest);
    if (!put.ok()) {
      // A frame may have been cut off: nothing that followed would be understood. What the other
      // end had said before it went may still be read: its refusal, perhaps.
      write_failed_ = true;
      if (state_ != LinkState::closing && said_bye_) {
        end(std::nullopt);
      } else {
        outbox_.clear();
        outbox_bytes_ = 0;
        sent_of_first_ = 0;
      }
      return true;
    }
    if (*put == 0) break;
    moved = true;
    total += *put;
    outbox_bytes_ -= *put;
    sent_of_first_ += *put;
    if (sent_of_first_ < outbox_.front().size()) continue;
    outbox_.pop_front();
    sent_of_first_ = 0;
  }
  return moved;
}

bool Link::read_some(std::uint64_t now_ns) {
  bool moved = false;
  std::size_t total = 0;
  // Who proved nothing yet, or is refused, gets no more of this thread's time than it needs.
  const auto most = [this] {
    return state_ == LinkState::standing ? pump_bytes_max : drained_at_once;
  };
  while (total < most() && inbox_.size() < inbox_length_max) {
    // Who is no longer listened to is read all the same: see refuse_locked. The reader has no room
    // any more.
    const bool ignored = state_ == LinkState::closing;
    std::array<std::byte, drained_at_once> drained;
    const Result<system::Received> got =
        network_.read(socket_, ignored ? std::span<std::byte>(drained) : reader_.room());
    if (!got.ok()) {
      end(lost(got.error().detail));
      return true;
    }
    if (got->ended) {
      if (said_bye_ || state_ == LinkState::closing) {
        end(std::nullopt);
      } else {
        end(lost("it hung up"));
      }
      return true;
    }
    if (got->length_bytes == 0) break;
    moved = true;
    total += got->length_bytes;
    if (ignored) continue;
    Result<std::optional<Frame>> frame = reader_.filled(got->length_bytes);
    if (!frame.ok()) {
      refuse_locked(frame.error(), now_ns);
      (void)write_some();
      return true;
    }
    if (frame->has_value()) take_frame(std::move(**frame), now_ns);
    if (state_ == LinkState::ended) return true;
  }
  return moved;
}

void Link::take_frame(Frame frame, std::uint64_t now_ns) {
  if (state_ == LinkState::greeting) {
    greet(frame, now_ns);
    return;
  }
  if (std::holds_alternative<Bye>(frame.message)) {
    end(std::nullopt);
    return;
  }
  if (const auto* refusal = std::get_if<Refusal>(&frame.message);
      refusal != nullptr && refusal->request == 0) {
    end(error_of(*refusal, "talk to the far side"));
    return;
  }
  inbox_.push_back(Incoming{std::move(frame.message), std::move(frame.payload)});
}

void Link::greet(const Frame& frame, std::uint64_t now_ns) {
  Result<std::vector<std::byte>> answer = handshake_.take(frame);
  if (!answer.ok()) {
    if (std::holds_alternative<Refusal>(frame.message)) {
      end(answer.error());
    } else {
      refuse_locked(answer.error(), now_ns);
      (void)write_some();
    }
    return;
  }
  queue(std::move(*answer));
  (void)write_some();
  if (!handshake_.done()) return;
  peer_name_ = handshake_.peer_name();  // before that anybody could say it
  sealing_.emplace(handshake_.sending());
  reader_.expect_seal(handshake_.receiving());
  deadline_ns_ = 0;
  state_ = LinkState::standing;
}

}  // namespace nobounce::wire
