// The network of a FaultyHost.
#pragma once

#include <string>

#include "system/fault_counter.hpp"
#include "system/network.hpp"

namespace nobounce::system {

/// Calls that cannot fail (looked_up_for, close, wake, wait) are passed through.
class FaultyNetwork final : public Network {
 public:
  FaultyNetwork(FaultCounter& counter, Network& inner) : counter_(counter), inner_(inner) {}

  Result<SocketHandle> listen(const SocketAddress& at, int backlog) override {
    if (counter_.fails("network.listen")) return counter_.error("network.listen");
    return inner_.listen(at, backlog);
  }
  Result<SocketHandle> connect(const SocketAddress& to) override {
    if (counter_.fails("network.connect")) return counter_.error("network.connect");
    return inner_.connect(to);
  }
  Result<bool> connected(SocketHandle socket) override {
    if (counter_.fails("network.connected")) return counter_.error("network.connected");
    return inner_.connected(socket);
  }
  std::string looked_up_for(SocketHandle socket) override { return inner_.looked_up_for(socket); }
  Result<std::optional<SocketHandle>> accept(SocketHandle listener) override {
    if (counter_.fails("network.accept")) return counter_.error("network.accept");
    return inner_.accept(listener);
  }
  Result<SocketAddress> own_address(SocketHandle socket) override {
    if (counter_.fails("network.own_address")) return counter_.error("network.own_address");
    return inner_.own_address(socket);
  }
  Result<SocketAddress> peer_address(SocketHandle socket) override {
    if (counter_.fails("network.peer_address")) return counter_.error("network.peer_address");
    return inner_.peer_address(socket);
  }
  Result<Received> read(SocketHandle socket, std::span<std::byte> target) override {
    if (counter_.fails("network.read")) return counter_.error("network.read");
    return inner_.read(socket, target);
  }
  Result<std::size_t> write(SocketHandle socket, std::span<const std::byte> source) override {
    if (counter_.fails("network.write")) return counter_.error("network.write");
    return inner_.write(socket, source);
  }
  void close(SocketHandle socket) override { inner_.close(socket); }
  Result<SocketHandle> make_waker() override {
    if (counter_.fails("network.make_waker")) return counter_.error("network.make_waker");
    return inner_.make_waker();
  }
  void wake(SocketHandle waker) override { inner_.wake(waker); }
  bool wait(std::span<const Watch> watched, std::uint64_t timeout_ns) override {
    return inner_.wait(watched, timeout_ns);
  }

 private:
  FaultCounter& counter_;
  Network& inner_;
};

}  // namespace nobounce::system
