# What the system tests are told of a CUDA toolkit, where one is installed, and what they stand between.

find_path(NOBOUNCE_CUDA_INCLUDE cuda.h HINTS /usr/local/cuda/include /opt/cuda/include)
find_file(NOBOUNCE_CUDA_STUB libcuda.so
  PATHS /usr/local/cuda /opt/cuda /usr/lib/x86_64-linux-gnu /usr/lib/aarch64-linux-gnu
  PATH_SUFFIXES lib64/stubs lib/stubs stubs NO_DEFAULT_PATH)
find_path(NOBOUNCE_NVML_INCLUDE nvml.h HINTS /usr/local/cuda/include /opt/cuda/include)
find_path(NOBOUNCE_CUFILE_INCLUDE cufile.h HINTS /usr/local/cuda/include /opt/cuda/include)
mark_as_advanced(NOBOUNCE_CUDA_INCLUDE NOBOUNCE_CUDA_STUB NOBOUNCE_NVML_INCLUDE NOBOUNCE_CUFILE_INCLUDE)
if(TARGET system_tests)
  foreach(header CUDA NVML CUFILE)
    if(NOBOUNCE_${header}_INCLUDE)
      target_include_directories(system_tests SYSTEM PRIVATE "${NOBOUNCE_${header}_INCLUDE}")
      target_compile_definitions(system_tests PRIVATE NOBOUNCE_HAS_${header}_HEADER)
    endif()
  endforeach()
  if(NOBOUNCE_CUDA_STUB)
    target_compile_definitions(system_tests PRIVATE NOBOUNCE_CUDA_STUB="${NOBOUNCE_CUDA_STUB}")
  endif()
  # names_test.cpp stands between these and the system.
  target_link_options(system_tests PRIVATE "LINKER:--wrap=getaddrinfo" "LINKER:--wrap=getsockopt"
    "LINKER:--wrap=clock_gettime")
endif()
