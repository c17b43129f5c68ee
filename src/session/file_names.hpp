// How errors name files that are written: as the caller did, not by the temporary name.
#pragma once

#include <string>

#include <nobounce/error.hpp>
#include "system/storage.hpp"

namespace nobounce::session {

/// The error with `shown` wherever it says `temporary` (empty: there is none).
[[nodiscard]] Error shown_as(Error error, const std::string& temporary, const std::string& shown);

/// Makes the error of a file that could not be created say so where it is the directory that is
/// missing, or that takes no files.
[[nodiscard]] Error missing_directory(system::Storage& storage, Error error,
                                      const std::string& path);

}  // namespace nobounce::session
