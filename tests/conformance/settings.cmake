# The conformance program, and the test that asks the software machine with it.

file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_LIST_DIR}/*.cpp")
list(FILTER sources EXCLUDE REGEX "_test\\.cpp$")
add_executable(nobounce_conformance ${sources})
target_include_directories(nobounce_conformance PRIVATE "${PROJECT_SOURCE_DIR}/tests")
target_link_libraries(nobounce_conformance PRIVATE nobounce_library nobounce_settings)
set_target_properties(nobounce_conformance PROPERTIES UNITY_BUILD OFF)
nobounce_carry(nobounce_conformance)

# Live answers, once there are any: one file per driver version.
file(GLOB live_answers CONFIGURE_DEPENDS "${CMAKE_CURRENT_LIST_DIR}/answers/*.json")
set(against "")
if(live_answers)
  set(against --answers ${live_answers} --explained "${CMAKE_CURRENT_LIST_DIR}/explained.txt")
endif()
add_test(NAME conformance COMMAND nobounce_conformance
  --check "${CMAKE_CURRENT_LIST_DIR}/h200-guest.json" ${against})
set_tests_properties(conformance PROPERTIES TIMEOUT 300 LABELS conformance)

nobounce_add_tests(conformance_tests LABELS conformance LINK nobounce_library
  SOURCES "${CMAKE_CURRENT_LIST_DIR}/answers_test.cpp" "${CMAKE_CURRENT_LIST_DIR}/answers.cpp")
