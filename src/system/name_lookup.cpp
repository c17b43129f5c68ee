// Names by getaddrinfo: numbers at once, names on a thread that nobody joins.
#include "system/name_lookup.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>
#include <utility>

#include "system/live_host.hpp"
#include "system/signals_blocked.hpp"

namespace nobounce::system {
namespace {

std::atomic<int> lookups_under_way{0};

int ask_resolver(const SocketAddress& address, int flags, Addresses& addresses) {
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(address.port);
  const int code = ::getaddrinfo(address.host.c_str(), port.c_str(), &wanted, &found);
  if (code == 0) addresses.reset(found);
  return code;
}

Error lookup_error(int code, int system_code, const std::string& attempted) {
  if (code == EAI_SYSTEM) return os_error(system_code, attempted, Cause::remote_unreachable);
  return Error{.origin = ErrorOrigin::os,
               .code = EADDRNOTAVAIL,
               .attempted = attempted,
               .cause = Cause::remote_unreachable,
               .detail = ::gai_strerror(code)};
}

}  // namespace

Result<Addresses> numeric_addresses(const SocketAddress& address, int flags,
                                    const std::string& attempted) {
  Addresses addresses;
  const int code = ask_resolver(address, flags | AI_NUMERICHOST, addresses);
  if (code == 0 || code == EAI_NONAME) return addresses;
  return lookup_error(code, errno, attempted);
}

int NameLookup::under_way() {
  return lookups_under_way.load();
}

NameLookup::NameLookup(const SocketAddress& address, int flags, std::string attempted)
    : address_(address), flags_(flags), attempted_(std::move(attempted)) {}

Result<std::shared_ptr<NameLookup>> NameLookup::start(const SocketAddress& address, int flags,
                                                      const std::string& attempted) {
  std::shared_ptr<NameLookup> lookup(new NameLookup(address, flags, attempted));
  int ends[2];
  if (::pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0) return os_error(errno, attempted);
  lookup->bell_ = Descriptor(ends[0]);
  lookup->ringing_ = Descriptor(ends[1]);
  if (lookups_under_way.fetch_add(1) >= under_way_max) {
    --lookups_under_way;
    return Error{.origin = ErrorOrigin::os,
                 .code = EAGAIN,
                 .attempted = attempted,
                 .cause = Cause::remote_unreachable,
                 .detail = "the name " + address.host +
                           " was not looked up: " + std::to_string(under_way_max) +
                           " others wait for the resolver, which does not answer"};
  }
  try {
    const SignalsBlocked blocked;
    std::thread([lookup] { lookup->run(); }).detach();
  } catch (const std::system_error& error) {
    --lookups_under_way;
    return os_error(error.code().value(), attempted);
  }
  return lookup;
}

void NameLookup::run() {
  Addresses addresses;
  const int code = ask_resolver(address_, flags_, addresses);
  const int system_code = errno;
  --lookups_under_way;
  const std::lock_guard lock(mutex_);
  code_ = code;
  system_code_ = system_code;
  addresses_ = std::move(addresses);
  answered_ = true;
  (void)Descriptor(ringing_.release());
  changed_.notify_all();
}

Descriptor NameLookup::take_bell() {
  return std::move(bell_);
}

bool NameLookup::answered(std::uint64_t timeout_ns) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::nanoseconds(timeout_ns),
                           [this] { return answered_; });
}

Result<Addresses> NameLookup::take() {
  const std::lock_guard lock(mutex_);
  if (code_ != 0) return lookup_error(code_, system_code_, attempted_);
  return std::move(addresses_);
}

}  // namespace nobounce::system
