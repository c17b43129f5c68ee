# Installs from this build tree, moves the prefix elsewhere, and builds a separate project on it:
# once with find_package, once with pkg-config. Compiles two small programs and no library.

set(install_test_folder "${PROJECT_BINARY_DIR}/install_test")
set(install_test_flags "")
if(NOBOUNCE_SANITIZE)
  string(REPLACE ";" "," install_test_flags "-fsanitize=${NOBOUNCE_SANITIZE}")
endif()
foreach(step prefix cmake pkg_config)
  add_test(NAME install_${step} COMMAND "${CMAKE_COMMAND}"
    -DSTEP=${step}
    "-DSOURCE=${PROJECT_SOURCE_DIR}" "-DBUILD=${PROJECT_BINARY_DIR}" "-DFOLDER=${install_test_folder}"
    "-DCOMPILER=${CMAKE_CXX_COMPILER}" "-DFLAGS=${install_test_flags}" "-DGENERATOR=${CMAKE_GENERATOR}"
    "-DVERSION=${PROJECT_VERSION}" "-DLIBDIR=${CMAKE_INSTALL_LIBDIR}" "-DPROGRAM=$<TARGET_EXISTS:nobounce>"
    -P "${CMAKE_CURRENT_LIST_DIR}/run.cmake")
  set_tests_properties(install_${step} PROPERTIES TIMEOUT 300 LABELS install SKIP_REGULAR_EXPRESSION "^SKIPPED")
endforeach()
set_tests_properties(install_prefix PROPERTIES FIXTURES_SETUP installed)
set_tests_properties(install_cmake install_pkg_config PROPERTIES FIXTURES_REQUIRED installed)
