# libFuzzer programs: tests/fuzz/<name>_fuzz.cpp -> fuzz_<name>. ctest runs each for a few seconds.

set(NOBOUNCE_FUZZ_SECONDS 5 CACHE STRING "How long ctest runs each fuzzer")
add_custom_target(fuzzers)
# What is fuzzed are parsers: linking only them keeps the whole library out of the build.
set(NOBOUNCE_FUZZED_MODULES core captures judge topology)
set(NOBOUNCE_FUZZED_SOURCES
  src/evidence/nvidia_fs_counts.cpp
  src/provider/storage/statistics_window.cpp
  src/system/cufile_absent.cpp
  src/system/host.cpp
  src/system/nvml_absent.cpp
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
file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/fuzz/*_fuzz.cpp")
foreach(source IN LISTS sources)
  get_filename_component(name "${source}" NAME_WE)
  string(REGEX REPLACE "_fuzz$" "" name "${name}")
  add_executable(fuzz_${name} "${source}")
  add_dependencies(fuzzers fuzz_${name})
  target_include_directories(fuzz_${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  target_link_libraries(fuzz_${name} PRIVATE ${fuzzed_objects} nobounce_settings)
  target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  set_target_properties(fuzz_${name} PROPERTIES UNITY_BUILD OFF)
  # New inputs go to the first folder, so the committed seeds stay as they are.
  set(found "${PROJECT_BINARY_DIR}/corpus/${name}")
  file(MAKE_DIRECTORY "${found}")
  set(seeds "${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${name}")
  if(NOT EXISTS "${seeds}")
    set(seeds "")
  endif()
  # One small parser each, of many: together they take as long as a few others.
  set(seconds "${NOBOUNCE_FUZZ_SECONDS}")
  if(name MATCHES "^capture_" AND seconds GREATER 2 AND seconds LESS 30)
    set(seconds 2)
  endif()
  add_test(NAME fuzz_${name} COMMAND fuzz_${name} -max_total_time=${seconds} -rss_limit_mb=4096
    -timeout=20 -print_final_stats=1 "${found}" ${seeds})
  set_tests_properties(fuzz_${name} PROPERTIES TIMEOUT 120 LABELS fuzz)
endforeach()
