# What runs inside the lab's guests: one program of tests that need a kernel of their own. It is no
# test of ctest: `make lab` boots the guests and runs it there.
file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_LIST_DIR}/*.cpp")
add_executable(nobounce_lab ${sources})
target_include_directories(nobounce_lab PRIVATE "${PROJECT_SOURCE_DIR}/tests")
target_link_libraries(nobounce_lab PRIVATE nobounce_library nobounce_settings GTest::gtest GTest::gtest_main)
set_target_properties(nobounce_lab PROPERTIES UNITY_BUILD OFF)
