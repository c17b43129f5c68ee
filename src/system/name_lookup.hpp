// Looking names of hosts up. A resolver that does not answer holds up nobody who has a deadline.
#pragma once

#include <netdb.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include <nobounce/result.hpp>
#include "system/descriptor.hpp"
#include "system/network.hpp"

namespace nobounce::system {

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

/// The addresses of one that is written as a number; null where it is a name. Never waits.
[[nodiscard]] Result<Addresses> numeric_addresses(const SocketAddress& address, int flags,
                                                  const std::string& attempted);

/// One name that is being looked up, by a thread of its own: the resolver cannot be told to stop,
/// so whoever loses patience leaves it behind with all that it still touches.
class NameLookup {
 public:
  /// So many may be without an answer in this process; more are refused.
  static constexpr int under_way_max = 32;
  [[nodiscard]] static int under_way();

  [[nodiscard]] static Result<std::shared_ptr<NameLookup>> start(const SocketAddress& address,
                                                                 int flags,
                                                                 const std::string& attempted);

  [[nodiscard]] const std::string& host() const { return address_.host; }
  /// What hangs up when there is an answer, for poll; the caller's from then on.
  [[nodiscard]] Descriptor take_bell();
  /// Whether there is an answer, or one within that time.
  [[nodiscard]] bool answered(std::uint64_t timeout_ns = 0);
  /// The answer, once there is one.
  [[nodiscard]] Result<Addresses> take();

 private:
  NameLookup(const SocketAddress& address, int flags, std::string attempted);
  void run();

  const SocketAddress address_;
  const int flags_;
  const std::string attempted_;
  Descriptor bell_;
  std::mutex mutex_;  ///< of what follows
  std::condition_variable changed_;
  Descriptor ringing_;  ///< the other end of the bell
  bool answered_ = false;
  int code_ = 0;  ///< of getaddrinfo
  int system_code_ = 0;
  Addresses addresses_;
};

}  // namespace nobounce::system
