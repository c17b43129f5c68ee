# The conformance program, and the test that asks the software machine with it.

file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_LIST_DIR}/*.cpp")
list(FILTER sources EXCLUDE REGEX "_test\\.cpp$")
add_executable(nobounce_conformance ${sources})
target_include_directories(nobounce_conformance PRIVATE "${PROJECT_SOURCE_DIR}/tests")
target_link_libraries(nobounce_conformance PRIVATE nobounce_library nobounce_settings)
set_target_properties(nobounce_conformance PROPERTIES UNITY_BUILD OFF)
nobounce_carry(nobounce_conformance)

# Live answers: <driver version>-<machine>.json, one per machine and driver. The pair can be asked
# everything; one GPU is asked only where there are answers of one.
# More arguments choose sequences; explanations are those of the file named.
function(nobounce_check_conformance name machine answers_of explained)
  file(GLOB answers CONFIGURE_DEPENDS "${CMAKE_CURRENT_LIST_DIR}/answers/*-${answers_of}.json")
  set(against "")
  if(answers)
    set(against --answers ${answers} --explained "${CMAKE_CURRENT_LIST_DIR}/${explained}")
  elseif(NOT name STREQUAL conformance)
    return()
  endif()
  add_test(NAME ${name} COMMAND nobounce_conformance
    --check "${CMAKE_CURRENT_LIST_DIR}/${machine}.json" ${against} ${ARGN})
  set_tests_properties(${name} PROPERTIES TIMEOUT 300 LABELS conformance)
endfunction()
nobounce_check_conformance(conformance h200-pair 2xh200 explained.txt)
nobounce_check_conformance(conformance_one_gpu h200-guest 1xh200 explained.txt)
# The kernel's soft-RoCE, asked in a guest of `make lab`.
nobounce_check_conformance(conformance_verbs roce rxe explained_verbs.txt --only verbs.)

nobounce_add_tests(conformance_tests LABELS conformance LINK nobounce_library
  SOURCES "${CMAKE_CURRENT_LIST_DIR}/answers_test.cpp" "${CMAKE_CURRENT_LIST_DIR}/answers.cpp")
