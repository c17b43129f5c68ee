# fuzzed_objects: what the fuzzers link. What is fuzzed are parsers: linking only them keeps the whole
# library out of the build. tests/fuzz/links.cpp shows with any compiler that nothing is missing.

set(NOBOUNCE_FUZZED_MODULES core captures judge topology)
set(NOBOUNCE_FUZZED_SOURCES
  src/evidence/nvidia_fs_counts.cpp
  src/provider/storage/statistics_window.cpp
  src/system/cufile_absent.cpp
  src/system/host.cpp
  src/system/nvml_absent.cpp
  src/system/peer_status.cpp
  src/wire/frame.cpp
  src/wire/handshake.cpp
  src/wire/messages.cpp
  src/wire/token.cpp)
list(TRANSFORM NOBOUNCE_FUZZED_SOURCES PREPEND "${PROJECT_SOURCE_DIR}/")
add_library(nobounce_fuzzed OBJECT ${NOBOUNCE_FUZZED_SOURCES})
target_link_libraries(nobounce_fuzzed PRIVATE nobounce_settings)
set(fuzzed_objects nobounce_fuzzed)
foreach(module IN LISTS NOBOUNCE_FUZZED_MODULES)
  nobounce_target_of("${module}" target)
  if(TARGET ${target})
    list(APPEND fuzzed_objects ${target})
  endif()
endforeach()

if(NOBOUNCE_TESTS)
  add_executable(fuzz_links "${PROJECT_SOURCE_DIR}/tests/fuzz/links.cpp")
  target_link_libraries(fuzz_links PRIVATE ${fuzzed_objects} nobounce_settings)
  set_target_properties(fuzz_links PROPERTIES UNITY_BUILD OFF)
  add_test(NAME fuzz_links COMMAND fuzz_links)
endif()
