# The benchmarks: one program, built with the tests, so that it cannot rot; it measures only where
# it is run by hand or by on_gpu.sh.
file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_LIST_DIR}/*.cpp")
add_executable(nobounce_gpu_bench ${sources})
target_include_directories(nobounce_gpu_bench PRIVATE "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/tests")
target_link_libraries(nobounce_gpu_bench PRIVATE nobounce_library nobounce_settings)
set_target_properties(nobounce_gpu_bench PROPERTIES UNITY_BUILD OFF)
nobounce_carry(nobounce_gpu_bench)

# C entry points for bench/adopt_torch.py; carried, not installed.
add_library(nobounce_adopt SHARED EXCLUDE_FROM_ALL "${CMAKE_CURRENT_LIST_DIR}/adopt/entry_points.cpp")
target_include_directories(nobounce_adopt PRIVATE "${PROJECT_SOURCE_DIR}")
target_link_libraries(nobounce_adopt PRIVATE nobounce_library nobounce_settings)
set_target_properties(nobounce_adopt PROPERTIES UNITY_BUILD OFF
  LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
# Debian's static libsodium is made for programs: its names must be bound inside.
target_link_options(nobounce_adopt PRIVATE -Wl,-Bsymbolic)
nobounce_carry(nobounce_adopt)
