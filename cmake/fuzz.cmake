# libFuzzer programs: tests/fuzz/<name>_fuzz.cpp -> fuzz_<name>. ctest runs each for a few seconds.

set(NOBOUNCE_FUZZ_SECONDS 5 CACHE STRING "How long ctest runs each fuzzer")
file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/fuzz/*_fuzz.cpp")
foreach(source IN LISTS sources)
  get_filename_component(name "${source}" NAME_WE)
  string(REGEX REPLACE "_fuzz$" "" name "${name}")
  add_executable(fuzz_${name} "${source}")
  target_include_directories(fuzz_${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  target_link_libraries(fuzz_${name} PRIVATE nobounce_library nobounce_settings)
  target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  set_target_properties(fuzz_${name} PROPERTIES UNITY_BUILD OFF)
  # New inputs go to the first folder, so the committed seeds stay as they are.
  set(found "${PROJECT_BINARY_DIR}/corpus/${name}")
  file(MAKE_DIRECTORY "${found}")
  set(seeds "${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${name}")
  if(NOT EXISTS "${seeds}")
    set(seeds "")
  endif()
  add_test(NAME fuzz_${name} COMMAND fuzz_${name} -max_total_time=${NOBOUNCE_FUZZ_SECONDS} -rss_limit_mb=4096
    -timeout=20 -print_final_stats=1 "${found}" ${seeds})
  set_tests_properties(fuzz_${name} PROPERTIES TIMEOUT 120 LABELS fuzz)
endforeach()
