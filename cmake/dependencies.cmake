# Finds what the build needs and says which Debian or Ubuntu package brings a missing piece.

function(nobounce_missing what package)
  message(FATAL_ERROR "nobounce: ${what} not found. Install the package ${package} "
                      "(apt-get install ${package}), or run `make setup`, which installs all of them.")
endfunction()

# Header <header> of package <package>, searched once; the folder is put in <variable>.
function(nobounce_need_header variable header package)
  find_path(${variable} "${header}")
  mark_as_advanced(${variable})
  if(NOT ${variable})
    nobounce_missing("header <${header}>" ${package})
  endif()
endfunction()

# Library <name> of package <package>; its file is put in <variable>.
function(nobounce_need_library variable name package)
  if(NOBOUNCE_STATIC_DEPENDENCIES)
    set(wanted lib${name}.a)
  else()
    set(wanted ${name})
  endif()
  find_library(${variable} NAMES ${wanted})
  mark_as_advanced(${variable})
  if(NOT ${variable})
    nobounce_missing("library ${wanted}" ${package})
  endif()
endfunction()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

find_package(fmt CONFIG QUIET)
if(NOT fmt_FOUND)
  nobounce_missing("the library fmt" libfmt-dev)
endif()
if(NOBOUNCE_HEADER_ONLY_FMT)
  set(NOBOUNCE_FMT fmt::fmt-header-only)
else()
  set(NOBOUNCE_FMT fmt::fmt)
endif()

nobounce_need_header(NOBOUNCE_CLI11_INCLUDE CLI/CLI.hpp libcli11-dev)
nobounce_need_header(NOBOUNCE_JSON_INCLUDE nlohmann/json.hpp nlohmann-json3-dev)
nobounce_need_header(NOBOUNCE_URING_INCLUDE liburing.h liburing-dev)
nobounce_need_library(NOBOUNCE_URING_LIBRARY uring liburing-dev)
nobounce_need_header(NOBOUNCE_XXHASH_INCLUDE xxhash.h libxxhash-dev)
nobounce_need_library(NOBOUNCE_XXHASH_LIBRARY xxhash libxxhash-dev)
nobounce_need_header(NOBOUNCE_SODIUM_INCLUDE sodium.h libsodium-dev)
nobounce_need_library(NOBOUNCE_SODIUM_LIBRARY sodium libsodium-dev)
# Declarations alone: the library is loaded at run time.
nobounce_need_header(NOBOUNCE_VERBS_INCLUDE infiniband/verbs.h libibverbs-dev)

if(NOBOUNCE_TESTS)
  find_package(GTest QUIET)
  if(NOT GTest_FOUND)
    nobounce_missing("GoogleTest" libgtest-dev)
  endif()
  nobounce_need_header(NOBOUNCE_RELACY_INCLUDE relacy/relacy.hpp relacy-dev)
endif()
