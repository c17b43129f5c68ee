# The benchmarks: one program, built with the tests, so that it cannot rot; it measures only where
# it is run by hand or by on_gpu.sh.
file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_LIST_DIR}/*.cpp")
add_executable(nobounce_gpu_bench ${sources})
target_include_directories(nobounce_gpu_bench PRIVATE "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/tests")
target_link_libraries(nobounce_gpu_bench PRIVATE nobounce_library nobounce_settings)
set_target_properties(nobounce_gpu_bench PROPERTIES UNITY_BUILD OFF)
nobounce_carry(nobounce_gpu_bench)
