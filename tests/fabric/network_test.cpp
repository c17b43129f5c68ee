// The network inside a deterministic software machine: bytes in order, in pieces that the seed
// chooses.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <vector>

#include "fabric/soft_network.hpp"

namespace nobounce::fabric {
namespace {

using system::Network;
using system::SocketAddress;
using system::SocketHandle;

struct Dialled {
  explicit Dialled(std::uint64_t seed) : network(make_in_process_network(seed)) {
    listener = network->listen({"127.0.0.1", 0}, 2).value();
    caller = network->connect(network->own_address(listener).value()).value();
    callee = *network->accept(listener).value();
  }
  std::unique_ptr<Network> network;
  SocketHandle listener;
  SocketHandle caller;
  SocketHandle callee;
};

/// How 1000 bytes arrive: the sizes of the pieces. Checks that they arrive in order.
std::vector<std::size_t> pieces_of(std::uint64_t seed) {
  Dialled dialled(seed);
  std::vector<std::byte> sent(1000);
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(i * 7);
  std::vector<std::byte> arrived;
  std::vector<std::size_t> pieces;
  std::size_t written = 0;
  while (arrived.size() < sent.size()) {
    written += dialled.network->write(dialled.caller, std::span(sent).subspan(written)).value();
    std::array<std::byte, 100> some{};
    const std::size_t got = dialled.network->read(dialled.callee, some).value().length_bytes;
    arrived.insert(arrived.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(got));
    pieces.push_back(got);
  }
  EXPECT_EQ(arrived, sent);
  return pieces;
}

TEST(InProcessNetwork, CutsTheSameWayForTheSameSeed) {
  EXPECT_EQ(pieces_of(1), pieces_of(1));
  EXPECT_NE(pieces_of(1), pieces_of(2));
}

TEST(InProcessNetwork, WhatCameBeforeTheEndIsReadBeforeIt) {
  Dialled dialled(3);
  const std::array<std::byte, 1> sent{std::byte{9}};
  ASSERT_EQ(dialled.network->write(dialled.caller, sent).value(), 1U);
  dialled.network->close(dialled.caller);
  std::array<std::byte, 4> got{};
  EXPECT_EQ(dialled.network->read(dialled.callee, got).value().length_bytes, 1U);
  EXPECT_TRUE(dialled.network->read(dialled.callee, got).value().ended);
  EXPECT_EQ(dialled.network->write(dialled.callee, sent).error().code, EPIPE);
}

TEST(InProcessNetwork, AListenerTakesAsManyAsItsBacklogAndHangsUpOnThemWhenClosed) {
  Dialled dialled(4);
  const SocketAddress there = dialled.network->own_address(dialled.listener).value();
  const SocketHandle second = dialled.network->connect(there).value();
  const SocketHandle third = dialled.network->connect(there).value();
  EXPECT_EQ(dialled.network->connect(there).error().code, ECONNREFUSED);
  dialled.network->close(dialled.listener);
  std::array<std::byte, 4> got{};
  EXPECT_TRUE(dialled.network->read(second, got).value().ended);
  EXPECT_TRUE(dialled.network->read(third, got).value().ended);
  EXPECT_EQ(dialled.network->connect(there).error().cause, Cause::remote_unreachable);
}

}  // namespace
}  // namespace nobounce::fabric
