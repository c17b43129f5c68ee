// The user's real files as a software machine sees them: under its mounts, on its drives, moved by
// its bus.
#pragma once

#include <memory>
#include <string>

#include <nobounce/machine.hpp>

#include "fabric/bus.hpp"
#include "fabric/soft_host.hpp"
#include "fabric/soft_random.hpp"
#include "system/storage.hpp"

namespace nobounce::fabric {

/// What the machine knows of an open descriptor.
struct SoftFile {
  Medium medium;
  std::string path;  ///< symbolic links resolved
  Mount mount;
  system::FileAccess access = system::FileAccess::read;
  bool direct = false;  ///< opened with O_DIRECT
};

/// Names, attributes, space and errors are the real file system's; bytes go over the bus. The real
/// descriptor is always opened buffered: O_DIRECT is the machine's (refused where its mount says
/// so, 4096-byte alignment enforced).
class SoftStorage : public system::Storage {
 public:
  static constexpr std::uint32_t direct_io_alignment = 4096;
  /// An open regular file that lies under the machine's mounts, by descriptor; null for others.
  [[nodiscard]] virtual std::shared_ptr<const SoftFile> find(int descriptor) const = 0;
};

/// `live` does what the machine has no part in: names, attributes, memory files, segments. All
/// references must outlive the storage.
[[nodiscard]] std::unique_ptr<SoftStorage> make_soft_storage(Bus& bus, const Machine& machine,
                                                             const SoftFaults& faults,
                                                             SoftRandom& random,
                                                             std::unique_ptr<system::Storage> live);

}  // namespace nobounce::fabric
