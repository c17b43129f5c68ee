# Tests are found by folder; to add one, add the file.
#
#   tests/unit/<module>/*.cpp          unit_<module>, linked with what the module may include and no more
#   tests/<folder>/*.cpp               <folder>_tests (fabric, system, cli, device, ...), linked with the library
#   .../*_threads_test.cpp             <executable>_threads, labelled `threads`: also run under TSan
#   tests/system/doubles/<name>.cpp    shared library <name>.so in the folder NOBOUNCE_DOUBLE_DIR
#   tests/conformance/*.cpp            nobounce_conformance: the seam's tables, live and soft
#   tests/examples/*.cpp, examples/*.cpp   one program each, run as a test
#   tests/fuzz/<name>_fuzz.cpp         fuzz_<name>, only with NOBOUNCE_FUZZ; seeds in tests/fuzz/corpus/<name>/
#   tests/fuzz/links.cpp               fuzz_links, with any compiler: nothing that the fuzzers link is missing
#   tests/support/*.hpp                helpers, included as "support/..."

set(NOBOUNCE_TEST_BIN "" CACHE FILEPATH "Program that cli_tests run under ctest; empty: the one built here")
if(NOBOUNCE_TEST_BIN)
  set(bin_under_test "${NOBOUNCE_TEST_BIN}")
else()
  set(bin_under_test "${PROJECT_BINARY_DIR}/nobounce")
endif()
set(double_folder "${PROJECT_BINARY_DIR}/doubles")

include(GoogleTest)
add_custom_target(threads_tests)
# What bench/on_gpu.sh carries to a machine with a GPU, found in the build folder itself.
add_custom_target(device_kit)
function(nobounce_carry)
  foreach(name IN LISTS ARGN)
    add_dependencies(device_kit ${name})
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
    if(NOBOUNCE_STATIC_DEPENDENCIES)
      target_link_options(${name} PRIVATE -static-libstdc++ -static-libgcc)
    endif()
  endforeach()
endfunction()
if(TARGET nobounce)
  nobounce_carry(nobounce)
endif()

# One GoogleTest executable and its tests: nobounce_add_tests(<name> LABELS ... SOURCES ... LINK ...)
function(nobounce_add_tests name)
  cmake_parse_arguments(arg "" "" "LABELS;SOURCES;LINK" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  target_link_libraries(${name} PRIVATE ${arg_LINK} nobounce_settings GTest::gtest GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE
    NOBOUNCE_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
    NOBOUNCE_DOUBLE_DIR="${double_folder}"
    NOBOUNCE_DEFAULT_BIN="${bin_under_test}")
  set_target_properties(${name} PROPERTIES UNITY_BUILD OFF)
  gtest_discover_tests(${name}
    TEST_PREFIX "${name}."
    # Values print as bytes where a type has no printer, and not as the same bytes twice.
    NO_PRETTY_VALUES
    DISCOVERY_MODE PRE_TEST
    DISCOVERY_TIMEOUT 60
    PROPERTIES TIMEOUT 120 LABELS "${arg_LABELS}" ENVIRONMENT "NOBOUNCE_BIN=${bin_under_test}")
endfunction()

# All sources of a test folder: helpers go to both executables, *_threads_test.cpp to the labelled one.
function(nobounce_add_test_folder name folder label)
  cmake_parse_arguments(arg "" "" "LINK;EXCEPT" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${folder}/*.cpp")
  foreach(pattern IN LISTS arg_EXCEPT)
    list(FILTER sources EXCLUDE REGEX "${pattern}")
  endforeach()
  set(plain ${sources})
  list(FILTER plain INCLUDE REGEX "_test\\.cpp$")
  set(helpers ${sources})
  list(FILTER helpers EXCLUDE REGEX "_test\\.cpp$")
  set(threaded ${plain})
  list(FILTER threaded INCLUDE REGEX "_threads_test\\.cpp$")
  list(FILTER plain EXCLUDE REGEX "_threads_test\\.cpp$")
  if(plain)
    nobounce_add_tests(${name} LABELS ${label} SOURCES ${plain} ${helpers} LINK ${arg_LINK})
  endif()
  if(threaded)
    # gtest_discover_tests cannot pass a list of labels through, so `threads` stands alone.
    nobounce_add_tests(${name}_threads LABELS threads SOURCES ${threaded} ${helpers} LINK ${arg_LINK})
    add_dependencies(threads_tests ${name}_threads)
  endif()
endfunction()

foreach(module IN LISTS NOBOUNCE_MODULES)
  set(folder "${PROJECT_SOURCE_DIR}/tests/unit/${module}")
  string(REPLACE "/" "_" name "unit_${module}")
  nobounce_closure_of("${module}" targets)
  nobounce_add_test_folder(${name} "${folder}" unit LINK ${targets})
endforeach()

# Every other folder of tests/ that holds *_test.cpp.
file(GLOB folders CONFIGURE_DEPENDS LIST_DIRECTORIES true "${PROJECT_SOURCE_DIR}/tests/*")
foreach(folder IN LISTS folders)
  get_filename_component(name "${folder}" NAME)
  if(NOT IS_DIRECTORY "${folder}" OR name MATCHES "^(unit|support|examples|fuzz|conformance)$")
    continue()
  endif()
  nobounce_add_test_folder(${name}_tests "${folder}" ${name} LINK nobounce_library EXCEPT "/doubles/")
  if(EXISTS "${folder}/settings.cmake")
    include("${folder}/settings.cmake")  # what only this folder's tests need to know
  endif()
endforeach()
include("${PROJECT_SOURCE_DIR}/tests/conformance/settings.cmake")  # a program of its own
include("${PROJECT_SOURCE_DIR}/bench/settings.cmake")
include("${PROJECT_SOURCE_DIR}/lab/settings.cmake")
foreach(name cli_tests cli_tests_threads)
  if(TARGET ${name} AND TARGET nobounce)
    add_dependencies(${name} nobounce)
  endif()
endforeach()

file(GLOB doubles CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/system/doubles/*.cpp")
foreach(source IN LISTS doubles)
  get_filename_component(name "${source}" NAME_WLE)
  string(MAKE_C_IDENTIFIER "double_${name}" target)
  add_library(${target} SHARED "${source}")
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  target_link_libraries(${target} PRIVATE nobounce_language)
  if(name MATCHES "\\.so(\\.|$)")
    set(suffix "")
  else()
    set(suffix ".so")
  endif()
  set_target_properties(${target} PROPERTIES
    PREFIX "" SUFFIX "${suffix}" OUTPUT_NAME "${name}" UNITY_BUILD OFF
    LIBRARY_OUTPUT_DIRECTORY "${double_folder}")
  foreach(tests system_tests system_tests_threads)
    if(TARGET ${tests})
      add_dependencies(${tests} ${target})
    endif()
  endforeach()
endforeach()

# What an example is started with, and what it must print besides exiting with 0.
set(arguments_of_load_shards workstation "${PROJECT_SOURCE_DIR}/README.md" "${PROJECT_SOURCE_DIR}/LICENSE"
    "${PROJECT_SOURCE_DIR}/CHANGELOG.md")
set(output_of_load_shards "software machine.*LICENSE: direct [1-9].*, staged 0\n.*3 of 3 files")
set(arguments_of_require_direct workstation "${PROJECT_SOURCE_DIR}/LICENSE")
set(output_of_require_direct
    "refused, 0 bytes.*storage.nvidia_fs_absent.*try +sudo modprobe.*arrived: direct 0.*staged [1-9]")

foreach(kind "examples=example" "tests/examples=tests_example")
  string(REPLACE "=" ";" kind "${kind}")
  list(GET kind 0 folder)
  list(GET kind 1 prefix)
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${folder}/*.cpp")
  foreach(source IN LISTS sources)
    get_filename_component(name "${source}" NAME_WE)
    add_executable(${prefix}_${name} "${source}")
    target_link_libraries(${prefix}_${name} PRIVATE nobounce_library nobounce_settings)
    set_target_properties(${prefix}_${name} PROPERTIES UNITY_BUILD OFF)
    if(output_of_${name})
      # cmake compares the output, since ctest would then no longer look at the exit code.
      add_test(NAME ${prefix}_${name} COMMAND "${CMAKE_COMMAND}" "-DOUTPUT=${output_of_${name}}"
        "-DCOMMAND=$<TARGET_FILE:${prefix}_${name}>;${arguments_of_${name}}"
        -P "${PROJECT_SOURCE_DIR}/cmake/run_example.cmake")
    else()
      add_test(NAME ${prefix}_${name} COMMAND ${prefix}_${name})
    endif()
    set_tests_properties(${prefix}_${name} PROPERTIES
      TIMEOUT 120 LABELS example SKIP_RETURN_CODE 77 ENVIRONMENT "NOBOUNCE_BIN=${bin_under_test}")
  endforeach()
endforeach()

# Every header must compile alone. Built by its test only: one generated source per header.
file(GLOB_RECURSE headers CONFIGURE_DEPENDS
  "${PROJECT_SOURCE_DIR}/include/nobounce/*.hpp" "${PROJECT_SOURCE_DIR}/src/*.hpp")
set(sources "")
foreach(header IN LISTS headers)
  file(RELATIVE_PATH path "${PROJECT_SOURCE_DIR}" "${header}")
  string(REGEX REPLACE "^(include|src)/" "" spelling "${path}")
  set(source "${PROJECT_BINARY_DIR}/generated/headers/${path}.cpp")
  file(CONFIGURE OUTPUT "${source}" CONTENT "#include \"${spelling}\"\n" @ONLY)
  list(APPEND sources "${source}")
endforeach()
add_library(headers_compile_alone OBJECT EXCLUDE_FROM_ALL ${sources})
target_link_libraries(headers_compile_alone PRIVATE nobounce_language)
set_target_properties(headers_compile_alone PROPERTIES UNITY_BUILD OFF EXPORT_COMPILE_COMMANDS OFF)
add_test(NAME headers_compile_alone
  COMMAND "${CMAKE_COMMAND}" --build "${PROJECT_BINARY_DIR}" --target headers_compile_alone -- -k 0)
set_tests_properties(headers_compile_alone PROPERTIES TIMEOUT 1500 LABELS house PROCESSORS 2)

add_test(NAME layers COMMAND "${PROJECT_SOURCE_DIR}/tools/layers")
add_test(NAME layers_self_test COMMAND "${PROJECT_SOURCE_DIR}/tools/layers" --self-test)
set_tests_properties(layers layers_self_test PROPERTIES TIMEOUT 60 LABELS house)

# The committed PTX is what its sources make, and the device headers compile as CUDA, where nvcc is.
add_test(NAME kernels_are_current COMMAND "${PROJECT_SOURCE_DIR}/tools/kernels" --check)
set_tests_properties(kernels_are_current PROPERTIES TIMEOUT 120 LABELS house SKIP_RETURN_CODE 77)
