// Whether the libcufile model can move a file directly, and which code it answers where it cannot.
#pragma once

#include <string_view>

#include <nobounce/machine.hpp>

#include "fabric/soft_cufile_config.hpp"
#include "fabric/soft_cufile_module.hpp"
#include "fabric/soft_storage.hpp"
#include "system/files.hpp"

namespace nobounce::fabric {

/// What can be done with a file, in each direction. A code of 0 means yes.
struct CufileSupport {
  int refused = 0;  ///< no handle at all, compatibility mode or not (no udev record)
  int reading = 0;  ///< cuFile's code for why direct reads are impossible
  int writing = 0;  ///< the same for writes
  bool stages_writes_in_silence =
      false;  ///< a setting stages writes even without compatibility mode
};

/// The file systems the library knows how to read or write directly.
struct CufileFileSystem {
  std::string_view type;
  std::string_view option;  ///< must be among the mount options; empty: none
  bool writes = true;
  bool network = false;
};
[[nodiscard]] const CufileFileSystem* cufile_file_system(std::string_view type);

/// `file` is null for a regular file that lies on no mount of the machine (a memory file).
[[nodiscard]] CufileSupport judge_cufile_support(const Machine& machine, const SoftFile* file,
                                                 const CufileConfig& config,
                                                 const NvfsModule& module, system::Files& files);

}  // namespace nobounce::fabric
