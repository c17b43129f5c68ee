# Flags that all our code shares: language, warnings, sanitizers.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
# Our asserts stay on in release. -O2, because g++ 12 warns falsely on string concatenation at -O3.
foreach(kind RELEASE RELWITHDEBINFO MINSIZEREL)
  string(REPLACE "-DNDEBUG" "" CMAKE_CXX_FLAGS_${kind} "${CMAKE_CXX_FLAGS_${kind}}")
  string(REPLACE "-O3" "-O2" CMAKE_CXX_FLAGS_${kind} "${CMAKE_CXX_FLAGS_${kind}}")
endforeach()

# Include folders and warnings; no code generation flags.
add_library(nobounce_language INTERFACE)
target_include_directories(nobounce_language INTERFACE "${PROJECT_SOURCE_DIR}/include"
                                                       "${PROJECT_SOURCE_DIR}/src")
target_include_directories(nobounce_language SYSTEM INTERFACE
  "${NOBOUNCE_CLI11_INCLUDE}" "${NOBOUNCE_JSON_INCLUDE}" "${NOBOUNCE_URING_INCLUDE}"
  "${NOBOUNCE_XXHASH_INCLUDE}" "${NOBOUNCE_SODIUM_INCLUDE}")
target_compile_definitions(nobounce_language INTERFACE NOBOUNCE_VERSION="${PROJECT_VERSION}" _GNU_SOURCE)
target_compile_options(nobounce_language INTERFACE
  -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wextra-semi -Wfloat-conversion -Wvla
  # Options structs are filled by designated initialisers; what is not named has its default.
  -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  if(CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 12 AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(nobounce_language INTERFACE -Wno-restrict)  # false on "a" + string
  endif()
endif()
if(NOBOUNCE_WERROR)
  target_compile_options(nobounce_language INTERFACE -Werror)
endif()
target_link_libraries(nobounce_language INTERFACE ${NOBOUNCE_FMT} Threads::Threads)

# What every object and every executable of ours is built with.
add_library(nobounce_settings INTERFACE)
target_link_libraries(nobounce_settings INTERFACE nobounce_language ${CMAKE_DL_LIBS}
  "${NOBOUNCE_URING_LIBRARY}" "${NOBOUNCE_XXHASH_LIBRARY}" "${NOBOUNCE_SODIUM_LIBRARY}")

if(NOBOUNCE_SANITIZE)
  string(REPLACE ";" "," sanitizers "${NOBOUNCE_SANITIZE}")
  target_compile_options(nobounce_settings INTERFACE
    -fsanitize=${sanitizers} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(nobounce_settings INTERFACE -fsanitize=${sanitizers})
  if(NOBOUNCE_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(nobounce_settings INTERFACE -Wno-tsan)  # it rejects atomic_thread_fence
  endif()
endif()

if(NOBOUNCE_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "nobounce: NOBOUNCE_FUZZ needs clang's libFuzzer: use the preset `fuzz`, or "
                        "-DCMAKE_CXX_COMPILER=clang++ (package clang).")
  endif()
  target_compile_options(nobounce_settings INTERFACE -fsanitize=fuzzer-no-link)
  target_link_options(nobounce_settings INTERFACE -fsanitize=fuzzer-no-link)
endif()
