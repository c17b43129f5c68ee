// The open files of a session, as providers see them: descriptors and what is known of each.
#pragma once

#include <cstdint>
#include <string>

#include "system/storage.hpp"

namespace nobounce::system {

struct OpenFile {
  std::uint32_t id = 0;
  std::string path;     ///< as shown to the user
  FileHandle buffered;  ///< without O_DIRECT; always valid
  FileHandle direct;    ///< with O_DIRECT; invalid where refused
  FileAccess access = FileAccess::read;
  std::uint32_t direct_io_alignment = 4096;  ///< of offset, length and memory for `direct`
};

/// Looks files up by the id in FileRange. The pointer stays valid until the file is closed.
class OpenFiles {
 public:
  virtual ~OpenFiles() = default;
  [[nodiscard]] virtual const OpenFile* find(std::uint32_t id) const = 0;
};

}  // namespace nobounce::system
