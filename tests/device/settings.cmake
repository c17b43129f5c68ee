# The device tests go to a machine with a GPU.
nobounce_carry(device_tests)

# Their own kernels, as text.
file(GLOB kernels CONFIGURE_DEPENDS "${CMAKE_CURRENT_LIST_DIR}/kernels/*.ptx")
set(embedded_litmus "${PROJECT_BINARY_DIR}/generated/embedded_litmus.cpp")
add_custom_command(
  OUTPUT "${embedded_litmus}"
  COMMAND "${CMAKE_COMMAND}" "-DKERNELS=${CMAKE_CURRENT_LIST_DIR}/kernels" -DHEADER=device/embedded_litmus.hpp
          -DNAMESPACE=nobounce::device "-DOUTPUT=${embedded_litmus}"
          -P "${PROJECT_SOURCE_DIR}/cmake/embed_kernels.cmake" -- ${kernels}
  DEPENDS ${kernels} "${PROJECT_SOURCE_DIR}/cmake/embed_kernels.cmake"
  COMMENT "Embedding tests/device/kernels/*.ptx"
  VERBATIM)
target_sources(device_tests PRIVATE "${embedded_litmus}")
